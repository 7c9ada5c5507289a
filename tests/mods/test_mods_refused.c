// test_mods_refused.c: a driver whose compiler rejects the vector forms of the caller's
// expressions. The library rebuilds the kernel with the expressions lane by lane, logs it, and
// caches that kernel. Errors in the caller's text and device failures are reported as usual. A
// context keeps only the most recently used texts and their programs. The program's own OpenCL
// functions shadow the loader's. POSIX only.
//
//   build/tests/test_mods_refused all     with every kernel that has lanes, not only the first
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/next_function.h"

#include "verification/reference/random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    cl_int code;          // result of builds of sources with vector forms; 0: the driver's own
    int vectors, refused; // builds with vector forms; number of them that failed here
    int plain;            // builds with vector forms switched off
} driver;

// A program from a binary has no source.
static bool has_vectors(cl_program program) {
    size_t size = 0;
    bool is = false;
    if (clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size < 2) return false;
    char *source = calloc(size + 1, 1);
    if (source != NULL && clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS)
        is = strstr(source, "#define MOD_SCORE_LANES 1\n") || strstr(source, "#define MOD_MASK_LANES 1\n");
    free(source);
    return is;
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                               const char *options,
                                               void(CL_CALLBACK *done)(cl_program, void *), void *user) {
    cl_int (*real)(cl_program, cl_uint, const cl_device_id *, const char *,
                   void(CL_CALLBACK *)(cl_program, void *), void *);
    *(void **)&real = next("clBuildProgram");
    if (has_vectors(program) && options != NULL && strstr(options, "-DCLATTN_PLAIN=1")) {
        driver.plain++;
    } else if (has_vectors(program)) {
        driver.vectors++, driver.refused += driver.code != 0;
        if (driver.code) return driver.code;
    }
    return real(program, count, devices, options, done, user);
}

// Number of live programs, and number of programs created. `hollow`: replace each kernel by an
// empty one, which compiles quickly.
static atomic_int live, created;
static bool hollow;

// The name of a source's kernel. "": none.
static void name_kernel(cl_uint count, const char **texts, const size_t *lengths, char name[64]) {
    for (cl_uint i = 0; i < count; i++) {
        char *text = calloc(lengths && lengths[i] ? lengths[i] + 1 : strlen(texts[i]) + 1, 1);
        memcpy(text, texts[i], lengths && lengths[i] ? lengths[i] : strlen(texts[i]));
        for (char *at = strstr(text, "__kernel"); at; at = strstr(at + 1, "__kernel")) {
            const char *word = strstr(at, "void ");
            if (word && strcspn(word + 5, "( \n") < 64)
                snprintf(name, 64, "%.*s", (int)strcspn(word + 5, "( \n"), word + 5);
        }
        free(text);
    }
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                              const char **texts, const size_t *lengths,
                                                              cl_int *code) {
    cl_program (*real)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
    char name[64] = "", source[128];
    const char *const only[] = {source};
    *(void **)&real = next("clCreateProgramWithSource");
    live++;
    created++;
    if (!hollow) return real(context, count, texts, lengths, code);
    name_kernel(count, texts, lengths, name);
    snprintf(source, sizeof source, "__kernel void %s(__global int *x) { x[0] = 0; }", name);
    return real(context, 1, (const char **)only, NULL, code);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseProgram(cl_program program) {
    cl_int (*real)(cl_program);
    *(void **)&real = next("clReleaseProgram");
    live--;
    return real(program);
}

static int told;
static void count_lines(void *user, clattn_log_level level, const char *text) {
    (void)user, (void)level;
    told += strstr(text, "refuses vectors of an expression: lane by lane") != NULL;
}

static clattn_context *open_context(const char *rows, const char *folder) {
    memset(&driver, 0, sizeof driver), told = 0;
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .tuned_rows = rows,
                                                .cache_dir = folder,
                                                .log = {.fn = count_lines, .level = CLATTN_LOG_INFO}});
}

// Kernels whose vectors hold rows, heads or keys, and an expression with buffers.
static const struct {
    const char *row, *name;
} kernels[] = {
    {"flash_lanes :", "attend-f32-b2-h4-hkv2-n19-nkv70-d16-causal-flash-lse-maskqk-alibi-mods"},
    {"flash_matrix :", "attend-bf16-b2-h4-hkv2-n19-nkv70-d16-causal-flash-lse-softcap1.5-maskqk-alibi-mods"},
    {"decode_lanes :",
     "attend-f32-b2-h4-hkv2-n3-nkv70-d16-causal-decode-lse-softcap1.5-maskqk-bias1hqk-alibi-mods"},
    {"decode_rows :", "attend-f32-b2-h4-hkv2-n3-nkv70-d16-causal-decode-lse-softcap1.5-mods"}};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

// Run and compare a case. Returns true if the plan has its expressions as vectors.
static bool assert_case(clattn_context *c, const char *name) {
    struct test_case test;
    struct case_arrays a;
    clattn_plan plan;
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &a);
    ck_assert_int_eq(clattn_attention_plan(c, &a.params, &plan), CLATTN_OK);
    ck_assert_int_eq(case_enqueue(c, harness()->queue, &a, NULL), CLATTN_OK);
    ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s: %s", name, why);
    case_unbind(&a);
    case_free(data);
    return strstr(plan.why, " in vectors") != NULL;
}

// The kernel is rebuilt once, and later calls use it directly.
START_TEST(built_lane_by_lane) {
    const char *const name = kernels[_i].name;
    char folder[] = "/tmp/clattn-refused-XXXXXX", command[128];
    clattn_context_stats stats;
    ck_assert(mkdtemp(folder) != NULL);
    clattn_context *c = open_context(kernels[_i].row, folder);
    driver.code = CL_BUILD_PROGRAM_FAILURE;
    const bool vectors = assert_case(c, name);
    assert_case(c, name);
    ck_assert_int_ge(driver.plain, vectors);
    // a build error without a message is repeated once
    ck_assert_int_eq(driver.refused, 2 * driver.plain);
    ck_assert_int_eq(told, driver.plain);
    clattn_context_destroy(c);
    c = open_context(kernels[_i].row, folder); // the cache has the rebuilt kernel
    driver.code = CL_BUILD_PROGRAM_FAILURE;
    assert_case(c, name);
    clattn_context_get_stats(c, &stats);
    printf("%s in vectors: %s, loaded: %d\n", kernels[_i].row, vectors ? "yes" : "no",
           (int)stats.programs_cached);
    if (stats.programs_cached > 0) ck_assert_int_eq(driver.vectors + driver.plain + told, 0);
    clattn_context_destroy(c);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static clattn_status try_text(clattn_context *c, const char *score_mod, char line[1024]) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_FLASH};
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 19, 16);
    p.score.score_mod = score_mod, p.score.mask_mod = "j <= i"; // has a vector form
    const clattn_status status = clattn_attention_prepare(c, &p);
    clattn_context_last_error(c, line, 1024);
    return status;
}

// If both builds fail, the message refers to the caller's text, not to the vector form. A lost
// device is not called again.
START_TEST(told_as_ever) {
    char line[1024];
    clattn_context *c = open_context("flash_lanes :", NULL);
    driver.code = CL_BUILD_PROGRAM_FAILURE;
    ck_assert_int_eq(try_text(c, "score *\n  fmin(score, (int2)(1, 2))", line), CLATTN_BUILD_FAILED);
    ck_assert_msg(strncmp(line, "score_mod:2:3", 13) == 0, "%s", line);
    ck_assert_int_ge(driver.plain, 1);
    ck_assert_int_eq(driver.refused, 2 * driver.plain);
    driver.code = CL_OUT_OF_HOST_MEMORY, driver.plain = 0;
    ck_assert_int_ne(try_text(c, "score * 2", line), CLATTN_OK);
    ck_assert_int_eq(driver.plain, 0);
    driver.code = 0;
    ck_assert_msg(try_text(c, "score * 2", line) == CLATTN_OK, "%s", line);
    clattn_context_destroy(c);
}
END_TEST

// runtime.h has the number of texts that a context keeps
enum { KEPT = 64, TEXTS = 90, THREADS = 4 };

static void *prepare_many(void *context) {
    char line[1024], text[32];
    struct random r = {(uint64_t)(uintptr_t)&r};
    for (int n = 0; n < 200; n++) {
        snprintf(text, sizeof text, "score * %d", (int)random_uniform(&r, 0, TEXTS));
        if (try_text(context, text, line) != CLATTN_OK) return context;
    }
    return NULL;
}

// Many texts in sequence, and from several threads. The most recently used texts keep their
// programs, and other programs are soon released.
START_TEST(texts_that_go) {
    char line[1024], text[32];
    pthread_t threads[THREADS];
    clattn_context *c = open_context("flash :", NULL);
    hollow = true;
    ck_assert_int_eq(try_text(c, "score * -1", line), CLATTN_OK);
    const int before = live;
    for (int n = 0; n < TEXTS; n++) {
        snprintf(text, sizeof text, "score * %d", n);
        ck_assert_msg(try_text(c, text, line) == CLATTN_OK, "%s", line);
        ck_assert_int_eq(try_text(c, "score * -1", line), CLATTN_OK); // stays cached
        ck_assert_int_le(live - before, KEPT + 2);
    }
    ck_assert_int_ge(live - before, KEPT - 1);
    const int built = created;
    ck_assert_int_eq(try_text(c, "score * -1", line), CLATTN_OK);
    for (int n = TEXTS - KEPT + 1; n < TEXTS; n++) {
        snprintf(text, sizeof text, "score * %d", n);
        ck_assert_int_eq(try_text(c, text, line), CLATTN_OK);
    }
    ck_assert_int_eq(created, built);
    ck_assert_int_eq(try_text(c, "score * 0", line), CLATTN_OK);
    ck_assert_int_gt(created, built);
    for (int n = 0; n < THREADS; n++) ck_assert_int_eq(pthread_create(&threads[n], NULL, prepare_many, c), 0);
    for (int n = 0; n < THREADS; n++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[n], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    for (int n = 0; n < 3; n++) { // no thread's text is in use any more
        snprintf(text, sizeof text, "score * %d", TEXTS + n);
        ck_assert_int_eq(try_text(c, text, line), CLATTN_OK);
    }
    ck_assert_int_le(live - before, KEPT + 2 + THREADS);
    clattn_context_destroy(c);
    hollow = false;
}
END_TEST

int main(int argc, char **argv) {
    const bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    Suite *suite = suite_create("mods that a compiler refuses");
    TCase *group = harness_add(suite, "fallback", (const TTest *const[]){told_as_ever, texts_that_go, NULL});
    tcase_add_loop_test(group, built_lane_by_lane, 0, all ? KERNELS : 1);
    return harness_run(suite);
}
