// verify.c: the command `clattn verify`: run every kernel variant on hard cases and compare with
// the double-precision reference. A tuned row forces each variant, so that the planner could choose
// each one on some device.
#include <jansson.h>

#include "verification/sets/hard_cases.h"
#include "verification/words/words.h"
#include "verification/sets/pairs.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"
#include "cli/verify/verify_case.h"

// The kernel variants and the cases that they support, from families.def.
typedef enum takes { TAKES_ANY, TAKES_BF16, TAKES_I8, TAKES_HALVES, TAKES_TERMS, TAKES_INTEGERS } takes;

static const struct {
    const char *name;
    clattn_kernel kernel;
    const char *pairs; // name of the covering array that it runs
    takes takes;
    const char *rows;
} variants[] = {
#define VARIANT(name, path, pairs, takes, row) {name, CLATTN_KERNEL_##path, pairs, TAKES_##takes, row},
#include "tables/families.def"
    {"planner", CLATTN_KERNEL_AUTO, "planner", TAKES_ANY, ""},
};
#define VARIANTS ((int)(sizeof variants / sizeof variants[0]))

#define PAIRS_SEED 1

typedef struct verify {
    const char *only;   // VARIANT or VARIANT/CASE
    const char *named;  // this case replaces the hard cases
    const char *family; // skip the cases that another family runs
    // Backward: only gradients. pairs: a covering array replaces the hard cases.
    bool backward, pairs;
    // Run part `share` of `shares` of the array's configurations; shares 0: all.
    int64_t share, shares;
    char seen[512];        // families that ran at least one case
    struct test_case test; // the case `named`
    common_options common;
    several_options several;
    int counts[3];
    json_t *rows;
    progress progress; // in cases, or in variants if each variant generates its cases
} verify;

// Parse K/N with 0 <= K < N.
static bool take_share(void *target, const char *value, char why[256]) {
    verify *v = target;
    if (number_whole_at(&value, &v->share) && *value++ == '/' && number_whole_at(&value, &v->shares) &&
        *value == '\0' && v->share >= 0 && v->share < v->shares)
        return true;
    snprintf(why, 256, "K/N is needed, K from 0 to N - 1, such as 0/8");
    return false;
}

static bool take_case(void *target, const char *value, char why[256]) {
    verify *v = target;
    const int hard = hard_case_find(value);
    v->named = value;
    if (hard >= 0) v->test = hard_case(hard);
    return hard >= 0 || case_parse(value, &v->test, why);
}

static bool wanted(const verify *v, const char *variant, const char *name) {
    const size_t n = v->only ? strcspn(v->only, "/") : 0;
    if (!v->only) return true;
    if (strlen(variant) != n || strncmp(v->only, variant, n) != 0) return false;
    if (!name || v->only[n] == '\0' || !strcmp(v->only + n + 1, name)) return true;
    const int hard = hard_case_find(v->only + n + 1);
    return hard >= 0 && !strcmp(hard_cases[hard].alias, name);
}

// Record each family's name once, for the error when --family ran no case.
static void remember(verify *v, const char *family) {
    char word[40];
    const size_t n = strlen(v->seen);
    snprintf(word, sizeof word, "%s,", family);
    if (family[0] && !strstr(v->seen, word) && n + strlen(word) < sizeof v->seen)
        snprintf(v->seen + n, sizeof v->seen - n, "%s", word);
}

// JSON has no number for an infinity or NaN.
static json_t *error_json(double nmse) {
    json_t *number = nmse >= 0.0 ? json_real(nmse) : NULL;
    return number ? number : json_null();
}

static void say(verify *v, const session *s, const char *variant, const struct test_case *test,
                const verify_family *ran, verify_result result, const char *why) {
    static const char *const words[] = {"pass", "fail", "unsupported"};
    char text[CASE_NAME_SIZE];
    const char *full = case_name(test, text), *name = test->name ? test->name : full;
    v->counts[result]++;
    if (v->common.json)
        json_array_append_new(v->rows,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "variant", variant, "case",
                                        name, "name", full, "family", ran->name, "status", words[result],
                                        "why", why, "error_nmse", error_json(ran->nmse)));
    else if (!v->common.quiet && result == VERIFY_PASS && ran->nmse >= 0.0)
        printable_printf(stdout, "  %-11s %s/%s  NMSE %.1e\n", words[result], variant, name, ran->nmse);
    else if (!v->common.quiet)
        printable_printf(stdout, "  %-11s %s/%s%s%s\n", words[result], variant, name, why[0] ? ": " : "",
                         why);
    if (result == VERIFY_FAIL && !v->common.json && v->several.devices)
        printable_printf(stdout, "              again: clattn verify --devices '%s' --deal %s --case %s\n",
                         v->several.devices, clattn_partition_name((clattn_partition)v->several.partition),
                         full);
    else if (result == VERIFY_FAIL && !v->common.json)
        printable_printf(stdout, "              again: clattn verify --device '%s' --only %s --case %s\n",
                         s->capabilities->name, variant, full);
}

// Run a case. `part` is its share of the progress.
static void run_case(verify *v, session *s, int i, const struct test_case *test, double part) {
    char why[256], what[128];
    snprintf(what, sizeof what, "%.30s/%.90s", variants[i].name,
             test->name ? test->name
             : v->named ? v->named
                        : "pairs");
    progress_more(&v->progress, 0.0, what);
    verify_family ran;
    const verify_result result = verify_run(s, test, variants[i].kernel, v->family, &ran, why);
    progress_more(&v->progress, part, what);
    progress_wipe(&v->progress);
    remember(v, ran.name);
    if (!v->family || !strcmp(v->family, ran.name)) say(v, s, variants[i].name, test, &ran, result, why);
}

static bool is_integers(clattn_type type) {
    // Also blocks of more than two numbers.
    return type == CLATTN_TYPE_I8 || clattn_type_numbers(type) > 2;
}

// True if variant i should run the case. Projections and gradients have variants of their own, and
// a layer runs both.
static bool suits(int i, const struct test_case *test) {
    const clattn_kernel own = test->kernel, kernel = variants[i].kernel;
    const bool linear = !strcmp(variants[i].pairs, "layer");
    if ((test->op == CASE_BACKWARD) != !strcmp(variants[i].pairs, "backward")) return false;
    // Skip other types: the variants of those types already run them.
    const bool bf16 =
        test->kv_type == CLATTN_TYPE_BF16 && !test->values &&
        (test->op != CASE_BACKWARD || (test->q_type == test->kv_type && test->out_type == test->kv_type));
    if (variants[i].takes == TAKES_BF16 && !bf16) return false;
    const bool plain = !test->scale_group && !test->scale_type && !test->zeros;
    if (variants[i].takes == TAKES_I8 && !(test->kv_type == CLATTN_TYPE_I8 && !test->values && plain))
        return false;
    const clattn_type other = linear ? test->matrix_type : test->kv_type;
    const bool scaled = !linear && (CLATTN_TYPE_IS_SCALED(other) || clattn_type_numbers(other) > 1);
    const bool split = linear && test->precision == CLATTN_PRECISION_SPLIT;
    const bool halves = split || (test->q_type != CLATTN_TYPE_F32 && (test->q_type == other || scaled));
    if (variants[i].takes == TAKES_HALVES && !halves) return false;
    const bool terms = test->precision == CLATTN_PRECISION_SPLIT ||
                       (test->q_type == CLATTN_TYPE_BF16 && test->matrix_type == CLATTN_TYPE_BF16);
    if (variants[i].takes == TAKES_TERMS && !terms) return false;
    const bool integers = (kernel == CLATTN_KERNEL_FLASH ||
                           (test->q_type != CLATTN_TYPE_F32 && test->out_type != CLATTN_TYPE_F32)) &&
                          is_integers(test->kv_type) && is_integers(case_v_type(test)) &&
                          test->scale_group <= 1 && !test->scale_type && !test->zeros;
    if (variants[i].takes == TAKES_INTEGERS && !integers) return false;
    if (linear || test->op == CASE_LINEAR)
        return case_projects(test) && (linear || !variants[i].rows[0]) && kernel == CLATTN_KERNEL_AUTO;
    return own == CLATTN_KERNEL_AUTO || kernel == CLATTN_KERNEL_AUTO || own == kernel;
}

static void run_pairs(verify *v, session *s, int i, const char *family) {
    struct pairs all;
    if (!pairs_make(family, PAIRS_SEED, &all)) return;
    for (int n = 0; n < all.count; n++) {
        if (v->shares && all.rows[n].configuration % v->shares != v->share) continue;
        const struct test_case test = pairs_case(&all, n);
        run_case(v, s, i, &test, (double)(v->shares ? v->shares : 1) / all.count);
    }
    pairs_free(&all);
}

static int run_variant(verify *v, session *s, int i) {
    v->common.tuned = "off"; // a variant without rows of its own runs as shipped
    const int status = session_open_rows(s, &v->common, variants[i].rows[0] ? variants[i].rows : NULL);
    if (status >= 0) return status;
    if (v->pairs) run_pairs(v, s, i, variants[i].pairs);
    if (v->pairs && !strcmp(variants[i].pairs, "planner")) run_pairs(v, s, i, "layer");
    for (int c = 0; !v->pairs && c < (v->named ? 1 : hard_case_count); c++) {
        const struct test_case test = v->named ? v->test : hard_case(c);
        if (!suits(i, &test)) continue;
        if (v->named || wanted(v, variants[i].name, test.name)) run_case(v, s, i, &test, 1.0);
    }
    session_close(s);
    return -1;
}

// The number of cases to run, or of variants.
static int count_work(const verify *v, bool together) {
    int count = 0;
    if (together) return v->named ? 1 : v->pairs ? pairs_of_attention.least : hard_case_count;
    for (int i = 0; i < VARIANTS; i++) {
        if (!wanted(v, variants[i].name, NULL)) continue;
        count += v->pairs ? 1 + !strcmp(variants[i].pairs, "planner") : 0;
        for (int c = 0; !v->pairs && c < (v->named ? 1 : hard_case_count); c++) {
            const struct test_case test = v->named ? v->test : hard_case(c);
            count += suits(i, &test) && (v->named || wanted(v, variants[i].name, test.name));
        }
    }
    return count;
}

// Run on a group of devices, where each device uses the planner's choice.
static int run_several(verify *v) {
    static several all; // static: sessions must not move
    struct pairs pairs = {.count = 0};
    v->common.tuned = "off";
    const int status = several_open(&all, &v->several, &v->common, false);
    if (status >= 0) return status;
    if (v->pairs && !pairs_make("planner", PAIRS_SEED, &pairs)) v->pairs = false;
    const int count = v->named ? 1 : v->pairs ? pairs.count : hard_case_count;
    for (int n = 0; n < count; n++) {
        const struct test_case test = v->named ? v->test : v->pairs ? pairs_case(&pairs, n) : hard_case(n);
        const bool in_share = !v->pairs || !v->shares || pairs.rows[n].configuration % v->shares == v->share;
        char why[256];
        verify_family ran;
        const bool dealt = case_attends(&test) || test.op == CASE_BACKWARD;
        if (!in_share || !dealt || test.composed) continue;
        const verify_result result = verify_run_several(&all, &test, &ran, why);
        say(v, &all.sessions[0], "devices", &test, &ran, result, why);
    }
    if (v->pairs) pairs_free(&pairs);
    several_close(&all);
    return -1;
}

// Print the totals. A run in which no kernel ran a case is an error, because nothing was verified.
static int finish(const verify *v) {
    const int *n = v->counts;
    int status = n[VERIFY_FAIL] ? EXIT_FAILED : EXIT_DONE;
    if (v->family && n[VERIFY_PASS] + n[VERIFY_FAIL] + n[VERIFY_UNSUPPORTED] == 0)
        return tool_wrong("--family %s: ran no case: one of %.*s is accepted", v->family,
                          v->seen[0] ? (int)strlen(v->seen) - 1 : 0, v->seen);
    if (v->common.json) {
        const int told =
            report_json(json_pack("{s:i, s:i, s:i, s:O}", "pass", n[VERIFY_PASS], "fail", n[VERIFY_FAIL],
                                  "unsupported", n[VERIFY_UNSUPPORTED], "results", v->rows));
        if (status == EXIT_DONE) status = told;
    } else
        printf("%d pass, %d fail, %d unsupported\n", n[VERIFY_PASS], n[VERIFY_FAIL], n[VERIFY_UNSUPPORTED]);
    if (n[VERIFY_PASS] + n[VERIFY_FAIL] > 0) return status;
    return tool_failed("nothing was verified: no selected kernel supports the %d cases",
                       n[VERIFY_UNSUPPORTED]);
}

// Reject combinations of options that name cases twice. Returns -1, else the exit status.
static int refuse_together(verify *v) {
    if (v->backward && v->only)
        return tool_wrong("--backward: is the same as --only backward: one of both is accepted");
    if (v->backward) v->only = "backward";
    if (v->common.tuned) return tool_wrong("--tuned: has no effect: each variant has rows of its own");
    const bool names_case = v->only && strchr(v->only, '/');
    if (v->named && names_case)
        return tool_wrong("--only %s: names a case, and so does --case %s: one is accepted", v->only,
                          v->named);
    if (v->pairs && (v->named || names_case))
        return tool_wrong(
            "--pairs: makes its own cases: no --case or --only VARIANT/CASE is accepted with it");
    if ((v->several.devices || v->several.deal_given) && (v->only || v->family))
        return tool_wrong(
            "--devices: runs what the planner chooses: no --only or --family is accepted with it");
    if (v->shares && !v->pairs) return tool_wrong("--share: has no effect without --pairs");
    return -1;
}

static const option_row rows[] = {
    {"only", "VARIANT[/CASE]", "run only this variant, or this variant on this case", AS_TEXT(verify, only)},
    {"backward", NULL, "verify only gradients, as --only backward", AS_SWITCH(verify, backward)},
    {"family", "NAME", "run only the cases for which a variant selects this kernel family",
     AS_TEXT(verify, family)},
    {"pairs", NULL,
     "instead of the hard cases, run about 500 cases for each variant that combine every two values of every "
     "two options; some minutes with --only, hours without",
     AS_SWITCH(verify, pairs)},
    {"share", "K/N",
     "run a part of --pairs: the cases of every Nth configuration of kernels, from the Kth on",
     AS_CALL(take_share)},
    {"case", "NAME",
     "a hard case, or OP-TYPE-bN-hN[-hkvN]-nN[-nkvN]-dN-full|causal and options, as tests, bench and tune "
     "name it: attend-f32-b1-h2-n9-nkv33-d64-causal-window5:3-alibi (all of them: "
     "src/verification/case/case.h)",
     AS_CALL(take_case)}};

int tool_verify(int argc, char **argv) {
    verify v = {0};
    const option_group groups[] = {
        {"verify", OPTION_ROWS(rows), &v}, several_group(&v.several), common_group(&v.common)};
    command_line line = {.command = "verify",
                         .summary = "verify a device: every kernel variant on hard cases",
                         .example = "clattn verify --device cpu",
                         .groups = groups,
                         .group_count = 3};
    session s = {0};
    int status = options_parse(&line, argc, argv), ran = 0;
    if (status >= 0) return status;
    status = refuse_together(&v);
    if (status >= 0) return status;
    v.rows = json_array();
    const bool together = v.several.devices || v.several.deal_given;
    progress_begin(&v.progress, v.common.quiet, count_work(&v, together), 0.0);
    if (together) status = run_several(&v), ran = 1;
    for (int i = 0; i < VARIANTS && !together; i++) {
        if (!wanted(&v, variants[i].name, NULL)) continue;
        ran++;
        status = run_variant(&v, &s, i);
        if (status >= 0) break;
    }
    if (status < 0 && ran == 0)
        status = tool_wrong("--only %s: no such variant: unfused, flash, flash-lanes-16, ...", v.only);
    if (status < 0 && !v.family && v.counts[0] + v.counts[1] + v.counts[2] == 0)
        status = tool_wrong("--only %s: no such case (--only %s lists them), or one with another kernel",
                            v.only, variants[0].name);
    if (status < 0) status = finish(&v);
    json_decref(v.rows);
    return status;
}
