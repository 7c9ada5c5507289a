// options.c: option tables: build getopt_long's tables, store values, and compare the files that
// options name. options_text.c makes the help from the same tables, so that parser and help always
// agree.
#include <float.h>
#include <getopt.h>

#include "verification/words/words.h"
#include "cli/common/options.h"
#include "cli/files/formats.h"

#define CODE_HELP 100000
#define CODE_ROWS 256 // a row's code is this plus its index; smaller codes are letters

// Make getopt's tables of the options. Options of one letter are added to `letters`.
static void make_tables(const command_line *line, struct option *rows, char *letters) {
    int count = 0;
    // Getopt then returns different codes for a missing value and an unknown option.
    *letters++ = ':';
    EACH_OPTION(line, group, row, n) {
        const int code = CODE_ROWS + n, has = row->value ? required_argument : no_argument;
        if (row->name[0] != '-') {
            if (count < OPTIONS_MOST - 2) rows[count++] = (struct option){row->name, has, NULL, code};
            continue;
        }
        *letters++ = row->name[1];
        if (row->value) *letters++ = ':';
    }
    rows[count++] = (struct option){"help", no_argument, NULL, CODE_HELP};
    rows[count] = (struct option){NULL, 0, NULL, 0};
    *letters++ = 'h';
    *letters = '\0';
}

static bool store_integer(const option_row *row, const char *value, char *field, char why[256]) {
    int64_t n = 0;
    if (!option_integer(value, row->least, row->most, &n, why)) return false;
    if (row->kind == OPTION_INTEGER) memcpy(field, &n, sizeof n);
    if (row->kind == OPTION_INT32) memcpy(field, &(int32_t){(int32_t)n}, sizeof(int32_t));
    return true;
}

static bool store_choice(const option_row *row, const char *value, char *field, char why[256]) {
    int index = 0;
    if (!option_choice(value, row->names, &index, why)) return false;
    if (row->kind == OPTION_CHOICE) memcpy(field, &index, sizeof index);
    if (row->kind == OPTION_WORD) memcpy(field, &row->names[index], sizeof value);
    if (row->kind == OPTION_YES) memcpy(field, &(bool){index != 0}, sizeof(bool));
    return true;
}

#define LIST_NUMBER_MOST 16777216

// Parse a number with an optional k, and advance *text past it.
static bool take_count(const char **text, int64_t *value) {
    int64_t x = 0;
    if (!number_whole_at(text, &x)) return false;
    const bool kilo = **text == 'k' || **text == 'K';
    *text += kilo;
    if (x < 1 || x > LIST_NUMBER_MOST || (kilo && x > LIST_NUMBER_MOST / 1024)) return false;
    *value = kilo ? x * 1024 : x;
    return true;
}

static bool add_item(option_list *list, int64_t x) {
    if (list->count == OPTION_LIST_MOST) return false;
    list->x[list->count++] = x;
    return true;
}

// Parse the rest of A..B, A..B*F or A..B+S after A.
static bool take_range(const char **text, int64_t first, option_list *list) {
    int64_t last = 0, step = 2;
    *text += 2;
    if (!take_count(text, &last) || last < first) return false;
    const char how = **text == '+' ? '+' : '*';
    if (**text == '*' || **text == '+') {
        (*text)++;
        if (!take_count(text, &step)) return false;
    }
    if (how == '*' && step < 2) return false;
    for (int64_t x = first; x <= last; x = how == '*' ? x * step : x + step)
        if (!add_item(list, x)) return false;
    return true;
}

static bool store_numbers(const char *text, option_list *list, char why[256]) {
    list->count = 0;
    for (const char *p = text;; p++) {
        int64_t x = 0;
        bool ok = take_count(&p, &x);
        if (ok) ok = strncmp(p, "..", 2) ? add_item(list, x) : take_range(&p, x, list);
        if (ok && *p == '\0') return true;
        if (ok && *p == ',') continue;
        snprintf(why, 256, "a list such as 512,1k..16k*2 is needed: at most %d numbers from 1 to %d",
                 OPTION_LIST_MOST, LIST_NUMBER_MOST);
        return false;
    }
}

// Find a word in `names`. Types have other spellings as well: fp16 and half are f16.
static int find_name(const char *text, size_t length, const char *const *names) {
    const int index = names_find(names, text, length);
    const char *type = index < 0 ? names_type_short(text, length) : NULL;
    return type ? names_find(names, type, strlen(type)) : index;
}

// Write the accepted names to `why`, and the name that the word probably meant.
static void tell_names(const char *begin, const char *text, size_t length, const char *const *names,
                       char why[256]) {
    char meant[128];
    const char *hint = options_value_meant(text, length, names, meant);
    const size_t room = 256 - (hint ? strlen(hint) + 3 : 0);
    size_t used = (size_t)snprintf(why, room, "%s", begin);
    for (int i = 0; names[i] && used < room; i++)
        used += (size_t)snprintf(why + used, room - used, "%s %s", i ? "," : "", names[i]);
    if (hint) snprintf(why + strlen(why), 256 - strlen(why), " (%s)", hint);
}

static bool store_names(const char *text, const char *const *names, option_list *list, char why[256]) {
    list->count = 0;
    for (const char *p = text;; p++) {
        const size_t length = strcspn(p, ",");
        const int index = find_name(p, length, names);
        if (index < 0 || !add_item(list, index)) {
            tell_names("a list is needed of", p, length, names, why);
            return false;
        }
        p += length;
        if (*p == '\0') return true;
    }
}

// Store a value as its row's kind says. False: `why` says which input is accepted.
static bool store(const option_row *row, void *target, const char *value, char why[256]) {
    char *field = (char *)target + row->field;
    switch (row->kind) {
    case OPTION_TEXT:
    case OPTION_OUTPUT:
        memcpy(field, &value, sizeof value);
        return !row->take || row->take(target, value, why);
    case OPTION_SWITCH:
        memcpy(field, &(bool){true}, sizeof(bool));
        return true;
    case OPTION_INTEGER:
    case OPTION_INT32:
        return store_integer(row, value, field, why);
    case OPTION_REAL:
        return option_number(value, (double *)(void *)field, why);
    case OPTION_FLOAT:
        return option_float(value, (float *)(void *)field, why);
    case OPTION_NUMBERS:
        return store_numbers(value, (option_list *)(void *)field, why);
    case OPTION_NAMES:
        return store_names(value, row->names, (option_list *)(void *)field, why);
    case OPTION_CALL:
        return row->take(target, value, why);
    default:
        return store_choice(row, value, field, why);
    }
}

static bool is_number(const option_row *row) {
    return row->kind == OPTION_INTEGER || row->kind == OPTION_INT32 || row->kind == OPTION_REAL ||
           row->kind == OPTION_FLOAT || row->kind == OPTION_NUMBERS;
}

static bool means_default(const char *value) {
    static const char *const words[] = {"None", "none", "null", "auto", "default"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(value, words[i])) return true;
    return false;
}

// Store one option. A second value for the same option is an error, because one of the two would
// have no effect.
static int take_row(const option_group *group, const option_row *row, const char *value, const char **taken) {
    char why[256] = "";
    const char *dashes = option_dashes(row);
    if (value && !*value) return tool_wrong("%s%s: its value is empty", dashes, row->name);
    if (value && *taken && !strstr(row->value, "..."))
        return tool_wrong("%s%s %s: is given twice: one value is accepted", dashes, row->name, value);
    *taken = value ? value : "";
    if (!strcmp(row->name, "json")) tool_errors_json(); // also for an abbreviated --json
    if (store(row, group->target, value, why)) return -1;
    return tool_wrong("%s%s%s%s: %s%s", dashes, row->name, value ? " " : "", value ? value : "", why,
                      is_number(row) && means_default(value) ? "; without the option its default holds" : "");
}

// Find the row that has the option's help: later rows with the same field are only other names of
// the option.
static const option_row *first_name(const option_group *group, const option_row *row) {
    const option_row *first = group->rows;
    while (first->kind != row->kind || first->field != row->field || first->take != row->take ||
           (first->name[0] == '-') != (row->name[0] == '-'))
        first++;
    return first;
}

static int take(command_line *line, int code, const char *value) {
    EACH_OPTION(line, group, row, n) {
        const char **given = &line->given[group - line->groups];
        if (row->name[0] == '-' ? row->name[1] != code : CODE_ROWS + n != code) continue;
        const option_row *first = first_name(group, row);
        if (!*given) *given = first->name + strspn(first->name, "-");
        return take_row(group, first, value, &line->values[n - (row - first)]);
    }
    return tool_wrong("unknown option; see clattn %s --help", line->command);
}

// List the option names that begin with the word, separated by commas. Returns their number, or 1
// for an exact match.
static int count_begun(const command_line *line, const char *word, char text[256]) {
    const size_t length = strcspn(word, "=");
    int count = 0;
    size_t used = 0;
    text[0] = '\0';
    EACH_OPTION(line, group, row, n) {
        if (row->name[0] == '-' || strncmp(row->name, word, length) != 0) continue;
        if (!row->name[length]) return 1;
        if (used < 256)
            used += (size_t)snprintf(text + used, 256 - used, "%s--%s", count ? ", " : "", row->name);
        count++;
    }
    return count;
}

// Reject what getopt did not accept: an unknown name, an ambiguous abbreviation, or a switch with a
// value.
static int refuse_unknown(const command_line *line, const char *given) {
    char text[256], begun[256];
    const bool is_long = given[0] == '-' && given[1] == '-' && given[2];
    const int count = is_long && given[2] != '=' ? count_begun(line, given + 2, begun) : 0;
    if (count == 1 && strchr(given, '='))
        return tool_wrong("%s: is a switch, which takes no value; see clattn %s --help", given,
                          line->command);
    if (count > 1)
        return tool_wrong("%s: is ambiguous: %s: one must be written in full; see clattn %s --help", given,
                          begun, line->command);
    const char *meant = options_meant(line, given, text);
    const bool asks = meant && strchr(meant, '?');
    return tool_wrong("%s: no such option%s%s%s clattn %s --help", given,
                      !meant ? ""
                      : asks ? "; "
                             : ": ",
                      meant ? meant : "", asks ? " See" : "; see", line->command);
}

// The argument that getopt rejected. For a letter inside a group such as -abc, optind still points
// to that argument.
static const char *unknown_of(char **argv, int argc) {
    const char *before = argv[optind - 1];
    const bool here = optopt && optopt < CODE_ROWS && optind < argc && argv[optind][0] == '-' &&
                      argv[optind][1] != '-' && strchr(argv[optind], optopt) &&
                      !(before[0] == '-' && before[1] != '-' && strchr(before, optopt));
    return here ? argv[optind] : before;
}

// Names and help of the last command line's options. The texts are static.
static struct { const char *name, *help; } parsed[OPTIONS_MOST];
static int parsed_count;

static void keep_help(const command_line *line) {
    parsed_count = 0;
    EACH_OPTION(line, group, row, n) {
        if (parsed_count == OPTIONS_MOST || !row->help) continue;
        parsed[parsed_count].name = row->name;
        parsed[parsed_count++].help = row->help;
    }
}

static void add_axes(const char *help, int rank, char text[128]) {
    for (const char *at = strchr(help, '['); at; at = strchr(at + 1, '[')) {
        const char *end = strchr(at, ']');
        int commas = 0;
        for (const char *c = at; end && c < end; c++) commas += *c == ',';
        if (!end || commas + 1 != rank || (at > help && at[-1] != ' ')) continue;
        const size_t used = strlen(text);
        snprintf(text + used, 128 - used, "%s%.*s", used ? " or " : "", (int)(end - at) + 1, at);
    }
}

const char *options_axes(const char *option, int rank, char text[128]) {
    text[0] = '\0';
    for (int n = 0; n < parsed_count; n++)
        if (!strcmp(parsed[n].name, option)) add_axes(parsed[n].help, rank, text);
    return text;
}

int options_parse(command_line *line, int argc, char **argv) {
    struct option rows[OPTIONS_MOST];
    char letters[2 * OPTIONS_MOST];
    make_tables(line, rows, letters);
    keep_help(line);
    tool_begin(line->command);
    opterr = 0;
    optind = 1;
    for (;;) {
        const int code = getopt_long(argc, argv, letters, rows, NULL);
        if (code == -1) break;
        if (code == CODE_HELP || code == 'h') {
            options_text_print(line);
            return EXIT_DONE;
        }
        if (code == ':') return tool_wrong("%s: needs a value", argv[optind - 1]);
        if (code == '?') return refuse_unknown(line, unknown_of(argv, argc));
        const int status = take(line, code, optarg);
        if (status >= 0) return status;
    }
    line->positional_count = argc - optind;
    if (line->positional_count > line->positional_max)
        return tool_wrong("%s: is one argument too many; see clattn %s --help",
                          argv[optind + line->positional_max], line->command);
    for (int i = 0; i < line->positional_count; i++) line->positional[i] = argv[optind + i];
    return -1;
}

bool option_integer(const char *text, int64_t least, int64_t most, int64_t *value, char why[256]) {
    int64_t x = 0;
    if (number_whole(text, &x) && x >= least && x <= most) {
        *value = x;
        return true;
    }
    snprintf(why, 256, "a whole number from %lld to %lld is needed", (long long)least, (long long)most);
    return false;
}

bool option_number(const char *text, double *value, char why[256]) {
    if (number_real(text, value)) return true;
    snprintf(why, 256, "a finite number such as 0.5 or 1e-3 is needed");
    return false;
}

bool option_float(const char *text, float *value, char why[256]) {
    if (number_float(text, value)) return true;
    snprintf(why, 256, "a number such as 0.5 or 1e-3 is needed: 0, or in size from %.3g to %.3g",
             (double)FLT_MIN, (double)FLT_MAX);
    return false;
}

bool option_choice(const char *text, const char *const *names, int *index, char why[256]) {
    const int found = find_name(text, strlen(text), names);
    if (found < 0) tell_names("must be one of", text, strlen(text), names, why);
    if (found >= 0) *index = found;
    return found >= 0;
}

option_group common_group(common_options *o) {
    static const option_row rows[] = {
        {"device", "SPEC",
         "a number from clattn devices, gpu, cpu, or part of a device's or platform's name; default: "
         "$CLATTN_DEVICE, else the first GPU, else the first CPU",
         AS_TEXT(common_options, device)},
        {"cache-dir", "DIR|off",
         "folder that keeps compiled kernels, or off for none; default: the user's cache folder",
         AS_TEXT(common_options, cache_dir)},
        {"tuned", "FILE|off",
         "file of tuned rows, which choose kernels, as clattn tune --out writes it; default: the rows that "
         "clattn tune has kept in the cache folder for this device, driver and version",
         AS_TEXT(common_options, tuned)},
        {"json", NULL, "print the report as JSON, and an error as one object on stderr",
         AS_SWITCH(common_options, json)},
        {"quiet", NULL, "print no report", AS_SWITCH(common_options, quiet)},
        {"verbose", NULL, "print compiled kernels and build logs on stderr",
         AS_SWITCH(common_options, verbose)},
    };
    return (option_group){"common options", OPTION_ROWS(rows), o};
}

static bool ends_in(const char *text, const char *end) {
    const size_t all = strlen(text), length = strlen(end);
    return all >= length && !strcmp(text + all - length, end);
}

// True if the path is a file that a command reads from the model's folder.
static bool is_of_model(const char *path, const char *folder) {
    char name[4096];
    const char *slash = strrchr(path, '/');
    if (!ends_in(path, ".safetensors") && !ends_in(path, ".json")) return false;
    const int length = snprintf(name, sizeof name, "%s/%s", folder, slash ? slash + 1 : path);
    return length > 0 && (size_t)length < sizeof name && file_same_target(path, name);
}

static bool is_input(const char *path, const char *value, const char *input) {
    char file[4096];
    if (value && !strcmp(value, "DIR")) return is_of_model(path, input);
    if (value && !strstr(value, "FILE") && !strstr(value, "TENSOR")) return false;
    const int length = snprintf(file, sizeof file, "%.*s", (int)load_file_length(input), input);
    return length > 0 && (size_t)length < sizeof file && file_same_target(path, file);
}

static int check_output(const command_line *line, const option_row *output, const char *path) {
    static const char wrong[] = "--%s %s: is the file of %s%s: an output does not replace an input";
    EACH_OPTION(line, group, row, n) {
        const char *value = line->values[n];
        if (value && row->value && row->kind != OPTION_OUTPUT && is_input(path, row->value, value))
            return tool_wrong(wrong, output->name, path, option_dashes(row), row->name);
    }
    for (int i = 0; i < line->positional_count; i++)
        if (is_input(path, NULL, line->positional[i]))
            return tool_wrong(wrong, output->name, path, "", line->positional[i]);
    return -1;
}

// The output file that a row names, or NULL. Rows that are only another name of an option with --
// are skipped.
static const char *output_of(const option_group *group, const option_row *row) {
    const char *path = NULL;
    if (row->kind != OPTION_OUTPUT || row->name[0] == '-') return NULL;
    memcpy(&path, (const char *)group->target + row->field, sizeof path);
    return path && strcmp(path, "-") ? path : NULL;
}

int options_check_outputs(const command_line *line) {
    reason why;
    EACH_OPTION(line, group, row, n) {
        const char *path = output_of(group, row);
        if (!path) continue;
        if (!file_can_write(path, why)) return tool_wrong("--%s: %s", row->name, why);
        EACH_OPTION(line, other_group, other, m) {
            const char *before = m < n ? output_of(other_group, other) : NULL;
            if (before && file_same_target(path, before))
                return tool_wrong("--%s %s: is the file of --%s: each output needs its own", row->name, path,
                                  other->name);
        }
        const int status = check_output(line, row, path);
        if (status >= 0) return status;
    }
    return -1;
}
