// options.c: option tables become getopt_long's, and help text. One table serves both, so neither can drift.
#include <float.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/words/words.h"
#include "tool/cli/nearest.h"
#include "tool/cli/options_text.h"

#define ID_HELP 100000

// getopt's tables: one-letter names go to `letters`, with their row's id as `val` of a hidden long option.
static void make_tables(const command_line *line, struct option *rows, char *letters) {
    int n = 0;
    *letters++ = ':'; // a missing value is told apart from an unknown option
    for (int g = 0; g < line->group_count; g++)
        for (int i = 0; i < line->groups[g].count && n < OPTIONS_MOST - 2; i++) {
            const option_row *row = &line->groups[g].rows[i];
            if (row->name[0] == '-') {
                *letters++ = row->name[1];
                if (row->value) *letters++ = ':';
                continue;
            }
            rows[n++] =
                (struct option){row->name, row->value ? required_argument : no_argument, NULL, row->id + 256};
        }
    rows[n++] = (struct option){"help", no_argument, NULL, ID_HELP};
    rows[n] = (struct option){NULL, 0, NULL, 0};
    *letters++ = 'h';
    *letters = '\0';
}

// One option. Of two values for it one would be without effect.
static int take_row(const option_group *group, const option_row *row, const char *value, const char **taken) {
    char why[256] = "";
    const char *dash = row->name[0] == '-' ? "" : "--";
    if (value && !*value) return tool_wrong("%s%s: its value is empty", dash, row->name);
    if (value && *taken && !strstr(row->value, "..."))
        return tool_wrong("%s%s %s: is given twice: one value is accepted", dash, row->name, value);
    *taken = value ? value : "";
    if (group->take(group->target, row->id, value, why)) return -1;
    return tool_wrong("%s%s%s%s: %s", dash, row->name, value ? " " : "", value ? value : "", why);
}

static int take(command_line *line, int code, const char *value) {
    for (int g = 0, number = 0; g < line->group_count; g++) {
        const option_group *group = &line->groups[g];
        for (int i = 0; i < group->count; i++, number++) {
            const option_row *row = &group->rows[i];
            const bool found = row->name[0] == '-' ? row->name[1] == code : row->id + 256 == code;
            if (!found) continue;
            if (!line->given[g]) line->given[g] = row->name + strspn(row->name, "-");
            return take_row(group, row, value, &line->values[number]);
        }
    }
    return tool_wrong("unknown option; see clattn %s --help", line->command);
}

// `rows` end with a name of NULL.
static int refuse_unknown(const command_line *line, const struct option *rows, const char *given) {
    const char *names[OPTIONS_MOST], *name = given + strspn(given, "-");
    char wanted[128];
    size_t count = 0;
    while (rows[count].name) names[count] = rows[count].name, count++;
    snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(name, "="), name);
    const char *near = given[0] == '-' && given[1] == '-' ? nearest_name(wanted, names, count) : NULL;
    return tool_wrong("%s: no such option (or not written out, or given a value it does not take)%s%s%s; "
                      "see clattn %s --help",
                      given, near ? "; did you mean --" : "", near ? near : "", near ? "?" : "",
                      line->command);
}

int options_parse(command_line *line, int argc, char **argv) {
    struct option rows[OPTIONS_MOST];
    char letters[2 * OPTIONS_MOST];
    make_tables(line, rows, letters);
    tool_begin(line->command);
    opterr = 0;
    optind = 1;
    for (;;) {
        const int code = getopt_long(argc, argv, letters, rows, NULL);
        if (code == -1) break;
        if (code == ID_HELP || code == 'h') {
            options_text_print(line);
            return EXIT_DONE;
        }
        if (code == ':') return tool_wrong("%s: needs a value", argv[optind - 1]);
        if (code == '?') return refuse_unknown(line, rows, argv[optind - 1]);
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
    size_t used = (size_t)snprintf(why, 256, "must be one of");
    for (int i = 0; names[i]; i++) {
        if (!strcmp(text, names[i])) {
            *index = i;
            return true;
        }
        if (used < 256) used += (size_t)snprintf(why + used, 256 - used, "%s %s", i ? "," : "", names[i]);
    }
    return false;
}

enum { COMMON_DEVICE = 1, COMMON_TUNED, COMMON_CACHE, COMMON_JSON, COMMON_QUIET, COMMON_VERBOSE };

static bool take_common(void *target, int id, const char *value, char why[256]) {
    common_options *o = target;
    (void)why;
    switch (id) {
    case COMMON_DEVICE:
        o->device = value;
        break;
    case COMMON_TUNED:
        o->tuned = value;
        break;
    case COMMON_CACHE:
        o->cache_dir = value;
        break;
    case COMMON_JSON:
        o->json = true;
        tool_errors_json(); // also where it was not written out
        break;
    case COMMON_QUIET:
        o->quiet = true;
        break;
    default:
        o->verbose = true;
        break;
    }
    return true;
}

option_group common_group(common_options *o) {
    static const option_row rows[] = {
        {"device", "SPEC", COMMON_DEVICE,
         "a number from clattn devices, gpu, cpu, or part of a name; default $CLATTN_DEVICE,"
         " else the first GPU, else the first CPU"},
        {"cache-dir", "DIR|off", COMMON_CACHE,
         "where compiled kernels are kept, or off: nowhere; default the user's cache folder"},
        {"tuned", "FILE|off", COMMON_TUNED,
         "tuned rows for the planner, as clattn tune --out writes them; default those that clattn tune has "
         "kept in the cache "
         "folder for this device, driver and version"},
        {"json", NULL, COMMON_JSON, "print the report as JSON, and an error as one object on stderr"},
        {"quiet", NULL, COMMON_QUIET, "print no report"},
        {"verbose", NULL, COMMON_VERBOSE, "tell on stderr what is compiled, and build logs"},
    };
    return (option_group){"common options", rows, sizeof rows / sizeof rows[0], take_common, o};
}
