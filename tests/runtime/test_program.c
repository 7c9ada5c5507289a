// test_program.c: the name of a compiled kernel: kernel, knobs, compiler options and inserted text.
// Each difference makes a program of its own, in memory and in the cache folder.
#include "support/harness.h"

#include "args/args.h"
#include "base/host.h"
#include "program/binary.h"
#include "device/driver_quirks.h"
#include "program/program.h"
#include "support/layer_client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static clattn_context *open_context(const char *cache_dir) {
    return harness_open((clattn_context_params){.cache_dir = cache_dir});
}

static clattn_context_stats stats_of(clattn_context *c) {
    clattn_context_stats s;
    clattn_context_get_stats(c, &s);
    return s;
}

static const program_spec plain = {.id = KERNEL_CONVERT};

// Variants of one kernel that differ in one part of the name each.
static program_spec variant_of(int n) {
    program_spec s = plain;
    if (n == 1) s.knobs.type_q = CLATTN_TYPE_F16;
    if (n == 2) s.options = "-cl-std=CL1.2 -DUNUSED=1";
    if (n == 3) s.inserted = "#define UNUSED 2\n";
    if (n == 4) s.inserted = "#define UNUSED 3\n";
    return s;
}
#define VARIANTS 5

// Kernels of rows have one work-item on a CPU, whose drivers may not launch assembly in larger
// groups. Elsewhere they have the requested number, if device and kernel allow it.
START_TEST(groups_of_rows) {
    clattn_context *c = open_context(NULL);
    for (int cpu = 0; cpu < 2; cpu++) {
        knobs k = {.lanes = 4};
        program *p;
        c->capabilities.is_cpu = cpu;
        ck_assert_int_eq(cla_program_get_group(c, KERNEL_ARGMAX, &k, 32, &p), CLATTN_OK);
        ck_assert_int_eq(k.work_group, cpu ? 1 : 32);
        c->capabilities.max_work_group = 16;
        ck_assert_int_eq(cla_program_get_group(c, KERNEL_ARGMAX, &k, 32, &p), CLATTN_OK);
        ck_assert_int_eq(k.work_group, cpu ? 1 : 16);
    }
    clattn_context_destroy(c);
}
END_TEST

// The texts have inline assembly if the compiler's target is a CPU with AVX-512. The compiler of an
// unknown CPU driver receives none.
START_TEST(assembly_where_it_is_known) {
    static const struct {
        bool is_cpu;
        const char *platform;
        bool told;
    } cases[] = {{true, "Portable Computing Language, OpenCL 3.0 PoCL 3.1", false},
                 {true, "Oclgrind, OpenCL 1.2 (Oclgrind 21.10)", true},
                 {false, "Oclgrind, OpenCL 1.2 (Oclgrind 21.10)", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clattn_context *c = open_context(NULL);
        program *p;
        c->capabilities.is_cpu = cases[i].is_cpu;
        bool known;
        snprintf(c->capabilities.platform, sizeof c->capabilities.platform, "%s", cases[i].platform);
        c->capabilities.assembly = cla_known_assembly(&c->capabilities, &known);
        ck_assert_int_eq(cla_program_get_spec(c, &plain, &p), CLATTN_OK);
        ck_assert_msg(!strstr(p->options, "-DNO_ASSEMBLY") == !cases[i].told, "%s: %s", cases[i].platform,
                      p->options);
        clattn_context_destroy(c);
    }
}
END_TEST

// PTX text gets another target and loses the markers. Other text is not changed.
START_TEST(hidden_instructions) {
    static const struct {
        const char *in, *out; // NULL: it is no PTX
        size_t bytes;         // 0: all
    } texts[] = {{".version 8.5\n.target sm_90\n.address_size 64\n\t" FRAGMENT_HIDDEN
                  "a;\n\tb; // c\n" FRAGMENT_HIDDEN "d;",
                  ".version 8.5\n.target sm_90a\n.address_size 64\n\t    a;\n\tb; // c\n    d;", 0},
                 {".target sm_90, debug\n", ".target sm_90a, debug\n", 0},
                 {".target sm_90", ".target sm_90a", 0},
                 {".target sm_", NULL, 0},
                 {"\177ELF .target", NULL, 0},
                 {"\177ELF\0.target sm_90", NULL, 19},
                 {"", NULL, 0}};
    clattn_context *c = open_context(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const size_t bytes = texts[i].bytes ? texts[i].bytes : strlen(texts[i].in);
        char *got = cla_ptx_patch_target(c, (const unsigned char *)texts[i].in, bytes);
        ck_assert_msg((got == NULL) == (texts[i].out == NULL), "%zu", i);
        if (got) ck_assert_str_eq(got, texts[i].out);
        cla_host_release(&c->host, got);
    }
    clattn_context_destroy(c);
}
END_TEST

START_TEST(every_part_counts) {
    clattn_context *c = open_context(NULL);
    program *all[VARIANTS], *again;
    for (int n = 0; n < VARIANTS; n++) {
        const program_spec s = variant_of(n);
        ck_assert_int_eq(cla_program_get_spec(c, &s, &all[n]), CLATTN_OK);
        for (int i = 0; i < n; i++) {
            ck_assert_ptr_ne(all[i], all[n]);
            ck_assert_mem_ne(all[i]->key, all[n]->key, sizeof all[i]->key);
        }
    }
    ck_assert_uint_eq(stats_of(c).programs_built, VARIANTS);
    // Texts are compared, not pointers. The library keeps its own copies.
    char text[64];
    strcpy(text, "#define UNUSED 3\n");
    program_spec s = plain;
    s.inserted = text;
    ck_assert_int_eq(cla_program_get_spec(c, &s, &again), CLATTN_OK);
    ck_assert_ptr_eq(again, all[4]);
    memset(text, 'x', sizeof text - 1);
    s.inserted = "#define UNUSED 3\n";
    ck_assert_int_eq(cla_program_get_spec(c, &s, &again), CLATTN_OK);
    ck_assert_ptr_eq(again, all[4]);
    ck_assert_uint_eq(stats_of(c).programs_built, VARIANTS);
    clattn_context_destroy(c);
}
END_TEST

START_TEST(cache_keeps_them_apart) {
    char folder[] = "/tmp/clattn-program-XXXXXX", command[128];
    program *p;
    if (!harness_keeps_kernels("cache_keeps_them_apart")) return;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int round = 0; round < 2; round++) {
        clattn_context *c = open_context(folder);
        for (int n = 0; n < VARIANTS; n++) {
            const program_spec s = variant_of(n);
            ck_assert_int_eq(cla_program_get_spec(c, &s, &p), CLATTN_OK);
        }
        ck_assert_uint_eq(stats_of(c).programs_built, round ? 0 : VARIANTS);
        ck_assert_uint_eq(stats_of(c).programs_cached, round ? VARIANTS : 0);
        clattn_context_destroy(c);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static void count_not_kept(void *user, clattn_log_level level, const char *message) {
    (void)level;
    *(int *)user += strstr(message, "not kept: PoCL ") != NULL;
}

// Number of queries for a program's binary, from a driver that reports this version, while two
// kernels are saved and the context is destroyed.
static int questions_to(const char *version, const char *folder, int *told) {
    const struct layer_control *layer = layer_client();
    program *p;
    *told = 0;
    layer->pretend(CL_PLATFORM_VERSION, version, version ? strlen(version) + 1 : 0);
    if (!version) layer->pretend(0, NULL, 0);
    clattn_context *c = harness_open((clattn_context_params){
        .cache_dir = folder, .log = {.fn = count_not_kept, .user = told, .level = CLATTN_LOG_INFO}});
    layer->pretend(0, NULL, 0);
    layer->arm(0, 0);
    for (int n = 0; n < 2; n++) {
        const program_spec s = variant_of(n);
        ck_assert_int_eq(cla_program_get_spec(c, &s, &p), CLATTN_OK);
        clattn_context_save_kernels(c);
    }
    clattn_context_destroy(c);
    return layer_client_count("clGetProgramInfo");
}

// PoCL's binaries are never queried: 4.0 to 6.0 may end the process, and other versions compile the
// kernel again. The log says so once. Binaries of other drivers are kept.
START_TEST(drivers_that_must_not_be_asked) {
    static const char *const versions[] = {
        "OpenCL 3.0 PoCL 3.1+debian  Linux", "OpenCL 3.0 PoCL 4.0  Linux", "OpenCL 3.0 PoCL 5.0  Linux",
        "OpenCL 3.0 PoCL 6.0  Linux, Debian, RELOC, LLVM 18.1.8", "OpenCL 3.0 PoCL 7.0  Linux, Debian"};
    char folder[] = "/tmp/clattn-program-XXXXXX", command[128];
    int told;
    if (!layer_client()) {
        printf("drivers_that_must_not_be_asked: skipped: the loader takes no layers\n");
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        ck_assert_int_eq(questions_to(versions[i], folder, &told), 0);
        ck_assert_int_eq(told, 1);
    }
    if (harness_keeps_kernels("drivers_that_must_not_be_asked")) {
        ck_assert_int_gt(questions_to(NULL, folder, &told), 0);
        ck_assert_int_eq(told, 0);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

// Inserted text precedes the kernel. Text that does not compile leaves the context unchanged.
START_TEST(inserted_text_is_compiled) {
    clattn_context *c = open_context(NULL);
    program *p;
    program_spec s = plain;
    s.inserted = "#error from the inserted text\n";
    ck_assert_int_eq(cla_program_get_spec(c, &s, &p), CLATTN_BUILD_FAILED);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(cla_program_get_spec(c, &plain, &p), CLATTN_OK);
    clattn_context_destroy(c);
}
END_TEST

static void *ask_for_refused(void *context) {
    program *p;
    program_spec s = plain;
    s.inserted = "#error from the inserted text\n";
    for (int n = 0; n < 3; n++)
        if (cla_program_get_spec(context, &s, &p) != CLATTN_BUILD_FAILED || p) return NULL;
    return context;
}

// Threads that wait for a failing build receive the failure, too, and nothing of it remains.
START_TEST(refused_for_all) {
    clattn_context *c = open_context(NULL);
    pthread_t threads[4];
    program *p;
    for (int n = 0; n < 4; n++) ck_assert_int_eq(pthread_create(&threads[n], NULL, ask_for_refused, c), 0);
    for (int n = 0; n < 4; n++) {
        void *result = NULL;
        pthread_join(threads[n], &result);
        ck_assert_ptr_nonnull(result);
    }
    ck_assert_ptr_null(c->programs);
    ck_assert_int_eq(cla_program_get_spec(c, &plain, &p), CLATTN_OK);
    ck_assert_uint_eq(stats_of(c).programs_built, 1);
    clattn_context_destroy(c);
}
END_TEST

static void count_large(void *user, clattn_log_level level, const char *message) {
    (void)level;
    *(int *)user += strstr(message, "kernel convert built") && strstr(message, "greater-than-4GB");
}

// For buffers above the device's limit: a compiler option if the compiler accepts it, and else
// nothing.
START_TEST(large_buffers) {
    int large = 0;
    program *p, *again;
    clattn_context *c = harness_open(
        (clattn_context_params){.log = {.fn = count_large, .user = &large, .level = CLATTN_LOG_INFO}});
    ck_assert_int_eq(cla_program_get_spec(c, &plain, &p), CLATTN_OK);
    ck_assert_int_eq(large, 0);
    atomic_store(&c->large_buffers, true);
    for (int n = 0; n < 3; n++) {
        ck_assert_int_eq(cla_program_get_spec(c, &plain, &again), CLATTN_OK);
        ck_assert_int_eq(large, !atomic_load(&c->large_refused));
        ck_assert(again == p ? atomic_load(&c->large_refused) : again->spec.large);
    }
    clattn_context_destroy(c);
}
END_TEST

// The size of a buffer triggers it, on a device that reports a smaller limit.
START_TEST(large_by_its_size) {
    const uint64_t bytes = ((uint64_t)1 << 32) + 4096;
    cl_int code;
    if (bytes > SIZE_MAX) return; // on a 32-bit host no buffer has this size
    clattn_context *c = open_context(NULL);
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(c), CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    for (int n = 0; buffer && n < 2; n++) {
        const int64_t shape[3] = {1, 1, 1}, w[2] = {1, 1};
        const clattn_tensor x = clattn_tensor_dense(buffer, CLATTN_TYPE_F32, 3, shape);
        clattn_linear_params call = {
            .x = x, .out = x, .w = clattn_tensor_dense(buffer, CLATTN_TYPE_F32, 2, w)};
        clattn_linear_choice choice;
        call.out.offset = 1, call.w.offset = 2, call.projection = CLATTN_PROJECTION_NATIVE;
        if (n) c->capabilities.max_allocation_bytes = (uint64_t)1 << 31;
        ck_assert_int_eq(clattn_linear_plan(c, &call, &choice), CLATTN_OK);
        ck_assert_int_eq(atomic_load(&c->large_buffers), n);
    }
    if (buffer) clReleaseMemObject(buffer);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {every_part_counts,
                                  hidden_instructions,
                                  groups_of_rows,
                                  assembly_where_it_is_known,
                                  cache_keeps_them_apart,
                                  drivers_that_must_not_be_asked,
                                  inserted_text_is_compiled,
                                  refused_for_all,
                                  large_buffers,
                                  large_by_its_size,
                                  NULL};
    Suite *suite = suite_create("program");
    harness_add(suite, "names", tests);
    return harness_run(suite);
}
