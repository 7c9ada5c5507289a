// onnx_cases.c: ONNX's own cases of attention, written by onnx_cases.py, with every kernel family
// of the device. Run by check_onnx.sh.
//
//   onnx_cases FOLDER [quick]     quick: each compiled kernel with two families instead of all
//
// A case passes if at least one family supports it, and every supporting family agrees with ONNX's
// numbers within ONNX's tolerance. The last lines begin with "counted:" and have the counts for
// each operator. Exit status 1 if a case failed, or none ran.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "onnx/onnx_case.h"

// A path, and the tuned row that selects one of its families.
static const struct {
    const char *name;
    clattn_kernel kernel;
    const char *rows;
} variants[] = {
    {"unfused", CLATTN_KERNEL_UNFUSED, NULL},
    {"flash of this device", CLATTN_KERNEL_FLASH, NULL},
    {"flash", CLATTN_KERNEL_FLASH, "flash :"},
    {"flash_tiles", CLATTN_KERNEL_FLASH, "flash_tiles :"},
    {"flash_matrix", CLATTN_KERNEL_FLASH, "flash_matrix :"},
    {"decode of this device", CLATTN_KERNEL_DECODE, NULL},
    {"decode", CLATTN_KERNEL_DECODE, "flash :"},
    {"decode_groups", CLATTN_KERNEL_DECODE, "decode_groups :"},
};
#define VARIANTS ((int)(sizeof variants / sizeof variants[0]))
#define QUICK_STEP 4 // a quick run uses every fourth variant

// The operators and the functions that run their cases. NULL: not supported, with the reason.
typedef enum onnx_result run_case(const struct onnx_file *file, const json_t *words, struct place *place,
                                  clattn_kernel kernel, char family[32], char why[256]);
static const struct {
    const char *name;
    run_case *run;
    const char *waits;
} operators[] = {
    {"Attention", onnx_attend, NULL},       {"FlexAttention", onnx_attend, NULL},
    {"RotaryEmbedding", onnx_rotate, NULL}, {"TensorScatter", onnx_scatter, NULL},
    {"LinearAttention", onnx_recur, NULL},
};
#define OPERATORS ((int)(sizeof operators / sizeof operators[0]))

enum { MOST_FAMILIES = 32, MOST_SIGNATURES = 256 };
static struct {
    char name[32];
    int passed, failed;
} families[MOST_FAMILIES];
static char signatures[MOST_SIGNATURES][256];
static struct { int cases, passed, failed, out, past, float64; } counts[OPERATORS];

static struct place places[VARIANTS];

static bool open_variants(void) {
    for (int v = 0; v < VARIANTS; v++) {
        clattn_context_params params = {
            .device = harness()->device, .log = harness_log(), .tuned_rows = variants[v].rows};
        params.cache_dir = getenv("CLATTN_TEST_CACHE");
        params.engines = CLATTN_ENGINES_ALL;
        struct place *p = &places[v];
        *p = (struct place){.guard = PLACE_GUARD, .device = params.device};
        if (clattn_context_create(&params, &p->context) != CLATTN_OK) return false;
        p->opencl = clattn_context_opencl(p->context);
        p->queue = clCreateCommandQueue(p->opencl, p->device, 0, NULL);
        if (p->queue == NULL) return false;
    }
    return true;
}

static void close_variants(void) {
    for (int v = 0; v < VARIANTS; v++) {
        if (places[v].queue) clReleaseCommandQueue(places[v].queue);
        clattn_context_destroy(places[v].context);
    }
}

static void count_family(const char *name, bool passed) {
    int n = 0;
    while (n < MOST_FAMILIES - 1 && families[n].name[0] && strcmp(families[n].name, name) != 0) n++;
    snprintf(families[n].name, sizeof families[n].name, "%s", name);
    families[n].passed += passed;
    families[n].failed += !passed;
}

static int signature_number(const json_t *words) {
    char text[256];
    int n = 0;
    onnx_signature(words, text);
    while (n < MOST_SIGNATURES - 1 && signatures[n][0] && strcmp(signatures[n], text) != 0) n++;
    memcpy(signatures[n], text, sizeof text);
    return n;
}

// Run one case with one variant. Returns false for a wrong result.
static bool run_one(const struct onnx_file *file, const json_t *words, run_case *run, int v, int *ran) {
    char family[32], why[256];
    const char *rows = variants[v].rows;
    if (rows && !harness_compiles_right(places[v].context, rows)) return true;
    const char *name = json_string_value(json_object_get(words, "name"));
    const enum onnx_result result = run(file, words, &places[v], variants[v].kernel, family, why);
    if (result == ONNX_UNSUPPORTED) return true;
    count_family(family[0] ? family : variants[v].name, result == ONNX_PASSED);
    *ran += 1;
    if (result == ONNX_FAILED)
        printf("FAIL  %s by %s: %s\n", name, family[0] ? family : variants[v].name, why);
    return result == ONNX_PASSED;
}

// If no variant of a quick run's share supports the case, unfused runs it.
static void run(const struct onnx_file *file, const json_t *words, int op, bool quick) {
    const json_t *past = json_object_get(words, "past_k"), *out = json_object_get(words, "out_of_reach");
    const int share = signature_number(words) % QUICK_STEP;
    bool good = true;
    int ran = 0;
    counts[op].cases++;
    if (out || !operators[op].run) {
        counts[op].out++;
        printf("out   %s: %s\n", json_string_value(json_object_get(words, "name")),
               out ? json_string_value(out) : operators[op].waits);
        return;
    }
    for (int v = 0; v < VARIANTS; v++)
        if (!quick || v % QUICK_STEP == share)
            good = run_one(file, words, operators[op].run, v, &ran) && good;
    if (ran == 0) good = run_one(file, words, operators[op].run, 0, &ran) && ran > 0;
    counts[op].passed += good;
    counts[op].failed += !good;
    counts[op].past += past != NULL;
    counts[op].float64 += json_is_true(json_object_get(words, "float64"));
}

static int operator_of(const json_t *words) {
    const char *name = json_string_value(json_object_get(words, "op"));
    for (int n = 0; n < OPERATORS; n++)
        if (strcmp(operators[n].name, name) == 0) return n;
    return -1;
}

// Print the counts. Returns false if something failed, or nothing ran.
static bool tell(void) {
    int passed = 0, failed = 0;
    for (int n = 0; n < OPERATORS; n++) {
        printf("counted: ONNX %s: %d cases, %d passed, %d failed, %d out", operators[n].name, counts[n].cases,
               counts[n].passed, counts[n].failed, counts[n].out);
        if (counts[n].past) printf("; past rows in views of their own in %d", counts[n].past);
        if (counts[n].float64) printf("; float64 rounded to float32 in %d", counts[n].float64);
        printf("\n");
        passed += counts[n].passed, failed += counts[n].failed;
    }
    printf("counted: by family:");
    for (int n = 0; n < MOST_FAMILIES && families[n].name[0]; n++)
        printf(" %s %d", families[n].name, families[n].passed + families[n].failed);
    printf("\n");
    return failed == 0 && passed > 0;
}

int main(int argc, char **argv) {
    struct onnx_file file;
    size_t n;
    json_t *words;
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "quick") != 0)) {
        fprintf(stderr, "onnx_cases FOLDER [quick]\n");
        return 2;
    }
    if (!onnx_open(argv[1], &file)) return 2;
    harness_start();
    bool good = open_variants();
    json_array_foreach(json_object_get(file.manifest, "cases"), n, words) {
        const int op = operator_of(words);
        if (good && op >= 0) run(&file, words, op, argc == 3);
        good = good && op >= 0;
    }
    good = tell() && good;
    close_variants();
    harness_stop();
    onnx_close(&file);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
