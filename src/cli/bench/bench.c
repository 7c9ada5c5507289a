// bench.c: the command `clattn bench`: parse what to measure and where, run it, and write the
// table.
#include "verification/words/words.h"
#include "cli/bench/bench.h"
#include "cli/ranks/ranks.h"

// The table's format by the file name's ending. No ending: JSON. An unknown ending: -1.
static int format_of(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (int i = 0; dot && bench_formats[i]; i++)
        if (!strcmp(dot + 1, bench_formats[i])) return i;
    return dot ? -1 : BENCH_JSON;
}

static bool take_max_ms(void *target, const char *value, char why[256]) {
    double *max_ms = &((bench *)target)->settings.measure.max_ms;
    if (option_number(value, max_ms, why) && *max_ms > 0.0) return true;
    snprintf(why, 256, "a number of milliseconds above 0 is needed");
    return false;
}

static bool check_submit(void *target, const char *value, char why[256]) {
    (void)target;
    snprintf(why, 256, "a name in .json is needed, or one without an ending");
    return format_of(value) == BENCH_JSON;
}

static bool check_save(void *target, const char *value, char why[256]) {
    (void)target;
    snprintf(why, 256, "a name in .json, .md, .csv, .jsonl or .sql is needed; without an ending it is JSON");
    return format_of(value) >= 0;
}

// An error here: tool_bench handles --mpi before it parses the other options.
static bool refuse_mpi(void *target, const char *value, char why[256]) {
    (void)target, (void)value;
    snprintf(why, 256,
             "must be written in full on the program's own command line: see clattn bench --mpi --help");
    return false;
}

static const char *const no_yes_both[] = {"no", "yes", "both", NULL}, *const off_on[] = {"off", "on", NULL};
// names_ops, and attend-backward as a second name for backward.
static const char *const bench_ops[] = {"attend",   "decode",          "layer", "linear",
                                        "backward", "attend-backward", NULL};
#define AS_AXIS(axis) AS_NUMBERS(bench, lists[BENCH_AXIS_##axis])
#define AS_WORDS(axis, names) AS_NAMES(bench, lists[BENCH_AXIS_##axis], names)
static const option_row bench_rows[] = {
    {"-b", "LIST",
     "batch sizes; a list is 1,4 or 1k..16k*2 (k is 1024); every combination of the lists is a case",
     AS_AXIS(B)},
    {"-n", "LIST", "query rows", AS_AXIS(N)},
    {"n-kv", "LIST", "key rows; default: the same as -n", AS_AXIS(N_KV)},
    {"-d", "LIST", "head size", AS_AXIS(D)},
    {"dv", "LIST", "head size of V; default: the same as -d", AS_AXIS(DV)},
    {"heads", "LIST", "query heads", AS_AXIS(HEADS)},
    {"kv-heads", "LIST", "key/value heads; default: the same as --heads", AS_AXIS(KV_HEADS)},
    {"d-model", "LIST", "model width of a layer, inner size of a linear; default: heads * head size",
     AS_AXIS(MODEL)},
    {"causal", "LIST", "causal mask: no, yes or both; it is aligned bottom-right",
     AS_WORDS(CAUSAL, no_yes_both)},
    {"dtype", "LIST", "types of the tensors: f32, f16, bf16", AS_WORDS(DTYPE, names_types)},
    {"kernel", "LIST", "kernels: auto, unfused, flash, decode", AS_WORDS(KERNEL, names_kernels)},
    {"projection", "LIST", "matrix multiplication of layer and linear: auto, clblast, native",
     AS_WORDS(PROJECTION, names_projections)},
    {"precision", "LIST", "how layer and linear multiply float32: exact, or split in terms of bfloat16",
     AS_WORDS(PRECISION, names_precisions)},
    {"packed", "LIST", "whether the weights of layer and linear are packed beforehand: no, yes or both",
     AS_WORDS(PACKED, no_yes_both)},
    {"op", "LIST",
     "attend, decode, layer, linear (the query projection of a layer alone), backward or attend-backward "
     "(the gradients of attend, counted as 2.5 times its operations: five products for two)",
     AS_WORDS(OP, bench_ops)},
    {"baselines", "LIST",
     "baselines that are measured beside each case: none, unfused, or clblast (float32, Q K^T and P V by "
     "CLBlast); default: none; without any list, both for one case",
     AS_NAMES(bench, baselines, bench_baselines)},
    {"preset", "LIST",
     "sizes of bert-base, gpt2, gpt3, llama3-8b, decode or mla-decode, which the options above override; or "
     "the attention of a published model with its RoPE, masks and (--op layer) norms: clattn layer "
     "--list-presets names them",
     AS_WORDS(PRESET, bench_presets)},
    {"case", "NAME[,NAME]",
     "hard cases of verify, or OP-TYPE-bN-hN[-hkvN]-nN[-nkvN]-dN-full|causal and options, as tests, verify "
     "and tune name them: attend-f32-b1-h2-n9-nkv33-d64-causal-window5:3-alibi (all of them: "
     "src/verification/case/case.h)",
     AS_TEXT(bench, named)},
    {"batch", "FILE", "a file of case names as for --case, one on each line; # begins a comment",
     AS_TEXT(bench, batch)},
    {"against", "OPTIONS",
     "measure each case interleaved with the same case under these options, and print the ratio of their "
     "times: lists of one value, --case, --tuned: clattn bench -n 1k --against '--dtype bf16'",
     AS_TEXT(bench, against)},
    {"mpi", NULL, "under mpirun: scaling over ranks, with options of its own: clattn bench --mpi --help",
     AS_CALL(refuse_mpi)},
    {"warmup", "N", "runs before the timed ones; default 1, which is verified",
     AS_INTEGER(bench, settings.warmup, 1, 1000)},
    {"repeat", "N", "timed runs; default: as many as --max-ms allows",
     AS_INTEGER(bench, settings.measure.repeat, 1, 1000)},
    {"max-ms", "X",
     "time in milliseconds for the runs of one case, and for each limit of a device; default 1000, or up to "
     "ten times that if it is not enough for 5 runs; a case with a run longer than ten times that (and two "
     "seconds) is stopped and reported as unsupported",
     AS_CALL(take_max_ms)},
    {"options", NULL,
     "measure what each option of an attention call costs, interleaved with the plain call: for a prefill "
     "and a decode shape, or for the shapes of --case",
     AS_SWITCH(bench, options)},
    {"check", "on|off", "verify each case before it is timed; default on",
     AS_YES(bench, settings.check, off_on)},
    {"limits", "on|off",
     "measure each device's peak rates before and after its cases; each row then shows its share of the "
     "limit; default on; off saves seconds",
     AS_YES(bench, limits, off_on)},
    {"-o", "FORMAT", "md, csv, json, jsonl or sql on stdout; default md",
     AS_CHOICE(bench, format, bench_formats)},
    {"save", "FILE", "also write a file: JSON for clattn compare, or by its ending .md, .csv, .jsonl or .sql",
     AS_OUTPUT_IF(bench, save, check_save)},
    {"submit", "FILE",
     "measure a fixed set of cases and write a file to share, which clattn report compares with other "
     "machines': every sample, the devices with their limits, version, date in UTC, --max-ms, and a SHA-256 "
     "that shows later edits; some minutes on a CPU",
     AS_OUTPUT_IF(bench, submit, check_submit)},
};

static int save_table(const bench *b) {
    reason error;
    size_t bytes = 0;
    if (!b->save) return -1;
    char *text = bench_table_text(b->table, (bench_format)format_of(b->save), &bytes);
    const bool ok = text && file_write_whole(b->save, text, bytes, error);
    const int status = ok ? -1 : tool_failed("--save: %s", text ? error : "no memory");
    free(text);
    return status;
}

static int save_submission(const bench *b) {
    reason error;
    size_t bytes = 0;
    if (!b->submit || b->rows == 0) return -1;
    // An interrupted run has measured only part of the set, which is no submission.
    if (interrupt_asked()) return -1;
    const double max_ms = b->settings.measure.max_ms > 0.0 ? b->settings.measure.max_ms : 1000.0;
    char *text = bench_submit_text(b->table, max_ms, &bytes);
    const bool ok = text && file_write_whole(b->submit, text, bytes, error);
    const int status = ok ? -1 : tool_failed("--submit: %s", text ? error : "no memory");
    free(text);
    return status;
}

static int print_table(const bench *b) {
    size_t bytes = 0;
    if (b->common.quiet) return -1;
    const bench_format format = b->common.json  ? BENCH_JSON
                                : b->format < 0 ? BENCH_MD
                                                : (bench_format)b->format;
    char *text = bench_table_text(b->table, format, &bytes);
    if (!text) return tool_failed("no memory to print the table");
    fwrite(text, 1, bytes, stdout);
    free(text);
    return -1;
}

// Make the cases whose options are measured. They must be calls of attention without any option.
static bool make_option_cases(bench *b, bool listed, char why[256]) {
    char standard[256] = "";
    for (int n = 0; bench_option_cases[n]; n++) {
        const size_t used = strlen(standard);
        snprintf(standard + used, sizeof standard - used, "%s%s", n ? "," : "", bench_option_cases[n]);
    }
    snprintf(why, 256,
             "--options: measures its own cases or those of --case: no list or baseline is accepted with it");
    if (listed || !bench_cases_named(b->named ? b->named : standard, &b->cases, &b->case_count, why))
        return false;
    for (int i = 0; i < b->case_count; i++) {
        const struct test_case *t = &b->cases[i].test;
        snprintf(why, 256, "--options: measures only attend and decode");
        if (case_attends(t) && !t->composed) continue;
        return false;
    }
    return true;
}

// Read case names from a file, one a line, and join them with commas as --case expects.
static int read_batch(bench *b, char **names) {
    unsigned char *text = NULL;
    size_t bytes = 0, used = 0;
    reason why;
    bool remark = false, word = false;
    if (!b->batch) return -1;
    if (b->named) return tool_wrong("--batch: names cases, and so does --case: one is accepted");
    if (!file_read_whole(b->batch, &text, &bytes, why)) return tool_wrong("--batch %s", why);
    for (size_t i = 0; i < bytes; i++) {
        const char c = (char)text[i];
        remark = (remark || c == '#') && c != '\n';
        const bool part = !remark && c > ' ';
        if (part && !word && used) text[used++] = ',';
        if (part) text[used++] = text[i];
        word = part;
    }
    text[used] = '\0';
    b->named = *names = (char *)text;
    return used ? -1 : tool_wrong("--batch %s: names no case", b->batch);
}

static bool make_cases(bench *b, char why[256]) {
    bool listed = b->baselines.count > 0;
    for (int a = 0; a < BENCH_AXES; a++) listed = listed || b->lists[a].count > 0;
    if (b->options) return make_option_cases(b, listed, why);
    if (!b->named) return bench_cases_make(b->lists, &b->baselines, &b->cases, &b->case_count, why);
    if (!listed) return bench_cases_named(b->named, &b->cases, &b->case_count, why);
    snprintf(why, 256, "--case: names complete cases: no list or baseline is accepted with it");
    return false;
}

// Replace the words no, yes and both by the values 0 and 1, each at most once.
static void expand_both(option_list *list) {
    bool wanted[2] = {false, false};
    for (int i = 0; i < list->count; i++)
        for (int c = 0; c < 2; c++) wanted[c] = wanted[c] || list->x[i] == c || list->x[i] == 2;
    list->count = 0;
    for (int c = 0; c < 2; c++)
        if (wanted[c]) list->x[list->count++] = c;
}

static int parse(bench *b, int argc, char **argv) {
    const option_group groups[] = {
        {"what is measured; without options, a minute of standard cases on every device",
         OPTION_ROWS(bench_rows), b},
        several_group(&b->several),
        common_group(&b->common)};
    command_line line = {.command = "bench",
                         .summary = "verify and measure attention, and compare with the device's limits",
                         .example =
                             "clattn bench -n 512,1k..4k*2 -d 64 --heads 12 --causal both --dtype f32,bf16\n"
                             "clattn bench --submit my-machine.json",
                         .groups = groups,
                         .group_count = 3};
    int status = options_parse(&line, argc, argv);
    if (status < 0 && b->submit) status = bench_submit_check(&line);
    if (b->submit) b->named = bench_submit_cases;
    expand_both(&b->lists[BENCH_AXIS_CAUSAL]), expand_both(&b->lists[BENCH_AXIS_PACKED]);
    return status < 0 ? options_check_outputs(&line) : status;
}

// Parse the options in --against, separated by spaces, as a second request. Options that are not
// named there are the command's.
static int parse_against(bench *b, bench *other, char words[512]) {
    char *argv[64] = {(char[]){"bench"}};
    int argc = 1;
    if (!b->against) return -1;
    if (strlen(b->against) >= 512) return tool_wrong("--against: more than 511 letters");
    strcpy(words, b->against);
    for (char *word = strtok(words, " \t"); word && argc < 63; word = strtok(NULL, " \t"))
        argv[argc++] = word;
    const int status = parse(other, argc, argv);
    if (status >= 0) return status;
    b->other = other;
    return bench_against_complete(b, other);
}

static int make_all(bench *b) {
    char why[256];
    if (!make_cases(b, why)) return tool_wrong("%s", why);
    if (!b->other) return -1;
    if (!make_cases(b->other, why)) return tool_wrong("--against: %s", why);
    if (b->other->case_count != b->case_count)
        return tool_wrong("--against: makes %d cases, and the command itself %d: lists or --case of the "
                          "command, and lists of one value in --against, are accepted",
                          b->other->case_count, b->case_count);
    return -1;
}

static int measure_all(bench *b) {
    b->table = bench_table_new();
    interrupt_catch();
    const bool together = b->several.devices || b->several.deal_given;
    int status = together ? bench_run_group(b) : bench_run_devices(b);
    if (status < 0) status = print_table(b);
    if (status < 0) status = save_submission(b);
    // Last, so that a table that cannot be saved has been printed.
    if (status < 0) status = save_table(b);
    json_decref(b->table);
    if (status >= 0) return status;
    if (interrupt_asked())
        return tool_interrupted("interrupted: the table holds %d rows that were measured%s", b->measured,
                                b->submit ? "; --submit writes the whole set or nothing" : "");
    if (b->measured + b->failures == 0)
        return tool_failed(
            "nothing was measured: no device supports any of the %d cases; --verbose shows why",
            b->case_count);
    return b->failures ? EXIT_FAILED : EXIT_DONE;
}

int tool_bench(int argc, char **argv) {
    bench b = {.format = -1, .limits = true, .settings = {.check = true}},
          other = {.format = -1, .limits = true, .settings = {.check = true}};
    char words[512], *names = NULL;
    for (int n = 1; n < argc; n++)
        if (!strcmp(argv[n], "--mpi")) return ranks_bench_run(argc, argv);
    int status = parse(&b, argc, argv);
    if (status >= 0) return status;
    if (b.format >= 0 && b.common.json)
        return tool_wrong("--json: sets the format, and so does -o: one is accepted");
    status = read_batch(&b, &names);
    if (status < 0) status = parse_against(&b, &other, words);
    if (status < 0) status = make_all(&b);
    if (status < 0) status = measure_all(&b);
    free(b.cases);
    free(other.cases);
    free(names);
    return status;
}
