// test_silent.c: the library never prints and never reads the environment, whatever a call does.
// CLBlast does both, as clattn_projection documents. Standard output and error go to files, and the
// program's own getenv and OpenCL functions replace the system's. Imported symbols are in
// check_exports.sh. POSIX only.
//
// Environment:
//   CLATTN_TEST_NO_CLBLAST  1: the library has no CLBlast; its prints are not tested
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/next_function.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    cl_int build, launch, buffer; // results of these functions; 0: the driver's
    bool watching;
    int by_clattn, by_others;  // variables that were read
    int unknown_to_the_header; // variables that CLBlast reads, and that its header does not name
    int build_options;
    char name[128];
} seen;

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                               const char *options,
                                               void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
    cl_int (*real)(cl_program, cl_uint, const cl_device_id *, const char *,
                   void(CL_CALLBACK *)(cl_program, void *), void *);
    *(void **)&real = next("clBuildProgram");
    return seen.build ? seen.build : real(program, count, devices, options, notify, user);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                       const size_t *offset, const size_t *global,
                                                       const size_t *local, cl_uint count,
                                                       const cl_event *list, cl_event *event) {
    cl_int (*real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,
                   cl_uint, const cl_event *, cl_event *);
    *(void **)&real = next("clEnqueueNDRangeKernel");
    return seen.launch ? seen.launch : real(queue, kernel, dims, offset, global, local, count, list, event);
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size,
                                               void *host, cl_int *code) {
    cl_mem (*real)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    *(void **)&real = next("clCreateBuffer");
    if (!seen.buffer) return real(context, flags, size, host, code);
    if (code) *code = seen.buffer;
    return NULL;
}

// The address of the caller shows which library reads a variable.
static void note_variable(const char *name, const void *caller) {
    Dl_info of = {0};
    if (!seen.watching || !dladdr(caller, &of) || !of.dli_fname) return;
    if (strstr(of.dli_fname, "libclattn")) {
        seen.by_clattn++;
        snprintf(seen.name, sizeof seen.name, "%s", name);
    } else {
        seen.by_others++;
        if (!strstr(of.dli_fname, "libclblast")) return;
        const bool known = strcmp(name, "CLBLAST_BUILD_OPTIONS") == 0;
        seen.build_options += known;
        seen.unknown_to_the_header += !known;
    }
}
char *getenv(const char *name) {
    char *(*real)(const char *);
    *(void **)&real = next("getenv");
    note_variable(name, __builtin_return_address(0));
    return real(name);
}
char *secure_getenv(const char *name) {
    char *(*real)(const char *);
    *(void **)&real = next("secure_getenv");
    note_variable(name, __builtin_return_address(0));
    return real(name);
}

// Meanwhile standard output and error go to files.
static struct {
    int kept[2], file[2];
    char text[4096]; // of both
} caught;

static void catch_output(void) {
    fflush(NULL);
    for (int n = 0; n < 2; n++) {
        char path[] = "/tmp/clattn-silent-XXXXXX";
        caught.kept[n] = dup(n + 1);
        caught.file[n] = mkstemp(path);
        ck_assert(caught.kept[n] >= 0 && caught.file[n] >= 0);
        unlink(path);
        ck_assert_int_ge(dup2(caught.file[n], n + 1), 0);
    }
    seen.watching = true;
}

// Returns the number of bytes.
static size_t let_go(void) {
    size_t bytes = 0;
    seen.watching = false;
    fflush(NULL);
    for (int n = 0; n < 2; n++) {
        ck_assert_int_ge(dup2(caught.kept[n], n + 1), 0);
        ck_assert_int_ge(lseek(caught.file[n], 0, SEEK_SET), 0);
        const ssize_t got = read(caught.file[n], caught.text + bytes, sizeof caught.text - 1 - bytes);
        bytes += got > 0 ? (size_t)got : 0;
        close(caught.kept[n]), close(caught.file[n]);
    }
    caught.text[bytes] = '\0';
    return bytes;
}

static int lines; // for the log of all levels
static void count_line(void *user, clattn_log_level level, const char *message) {
    (void)user, (void)level, (void)message;
    lines++;
}

static clattn_context *open_context(const char *rows, const char *cache) {
    clattn_context *c = NULL;
    const clattn_context_params params = {.device = harness()->device,
                                          .context = harness()->opencl,
                                          .tuned_rows = rows,
                                          .cache_dir = cache,
                                          .log = {.fn = count_line, .level = CLATTN_LOG_DEBUG}};
    (void)clattn_context_create(&params, &c);
    return c;
}

static bool cancel(void *user, double done) {
    (void)user, (void)done;
    return false;
}
// progress of the next calls; NULL: none
static const clattn_progress cancelling = {.fn = cancel}, *progress;

// Run one case with all functions of its operation. Returns the status of the enqueue.
static clattn_status call(clattn_context *c, const char *name) {
    struct test_case test;
    struct case_arrays a;
    char why[256];
    clattn_plan plan;
    clattn_linear_choice choice;
    clattn_family families[4];
    size_t bytes, count;
    if (!case_parse(name, &test, why)) return CLATTN_STATUS_COUNT;
    struct case_data *data = case_make(&test);
    const cl_int buffer = seen.buffer;
    seen.buffer = 0;
    case_bind(data, harness_place(), &a);
    seen.buffer = buffer;
    if (a.op == CASE_LAYER) {
        (void)clattn_layer_plan(c, &a.layer, &plan), (void)clattn_layer_workspace(c, &a.layer, &bytes);
        (void)clattn_layer_prepare(c, &a.layer);
    } else if (a.op == CASE_LINEAR) {
        (void)clattn_linear_plan(c, &a.linear, &choice), (void)clattn_linear_workspace(c, &a.linear, &bytes);
        (void)clattn_linear_prepare(c, &a.linear);
    } else {
        (void)clattn_attention_plan(c, &a.params, &plan);
        (void)clattn_attention_workspace(c, &a.params, &bytes);
        (void)clattn_attention_families(c, &a.params, families, 4, &count);
        (void)clattn_attention_prepare(c, &a.params);
    }
    a.params.progress = progress;
    const clattn_status status = case_enqueue(c, harness()->queue, &a, NULL);
    harness_finish(harness()->queue);
    case_unbind(&a);
    case_free(data);
    return status;
}

static const char *const names[] = {"attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-unfused-lse-weights",
                                    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-ropehalf",
                                    "attend-bf16-b1-h2-n20-nkv33-d32-full",
                                    "decode-f32-b1-h4-hkv2-n1-nkv300-d32-full-decode-splits3",
                                    "layer-f32-b1-h2-n20-d32-m64-full-native",
                                    "linear-f32-b1-h2-n20-d32-m64-full-native"};
#define NAMES (sizeof names / sizeof names[0])

// Every status that a call can have.
static unsigned make_calls(const char *folder) {
    unsigned statuses = 0;
    clattn_context *c = open_context(NULL, folder);
    for (size_t n = 0; n < NAMES; n++) statuses |= 1u << call(c, names[n]);
    statuses |= 1u << clattn_attention_enqueue(c, NULL, NULL, 1, NULL, NULL);
    statuses |= 1u << clattn_merge_enqueue(c, harness()->queue, &(clattn_merge_params){0}, 0, NULL, NULL);
    statuses |= 1u << call(c, "attend-f32-b1-h2-n9-d32-full-flash-scoresraw");
    progress = &cancelling;
    statuses |= 1u << call(c, names[0]);
    progress = NULL;
    clattn_context_save_kernels(c);
    clattn_context_destroy(c);
    clattn_context_destroy(open_context(NULL, folder));
    clattn_context_destroy(open_context("no row : at all\n", "/nonexistent/folder/cache"));
    clattn_context_destroy(open_context(NULL, "/nonexistent/folder/cache"));
    cl_int *const fail[] = {&seen.build, &seen.launch, &seen.buffer, &seen.launch};
    const cl_int codes[] = {CL_BUILD_PROGRAM_FAILURE, CL_INVALID_KERNEL_ARGS,
                            CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_DEVICE_NOT_AVAILABLE};
    for (int i = 0; i < 4; i++) {
        c = open_context(NULL, NULL);
        if (i == 3) (void)call(c, names[1]); // a device is lost only after it worked
        *fail[i] = codes[i];
        for (size_t n = 0; n < NAMES; n++) statuses |= 1u << call(c, names[n]);
        *fail[i] = 0;
        clattn_context_destroy(c);
    }
    return statuses;
}

START_TEST(nothing_is_printed_or_asked) {
    char folder[] = "/tmp/clattn-silent-cache-XXXXXX", command[128];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    seen.by_clattn = 0, lines = 0;
    catch_output();
    const unsigned statuses = make_calls(folder);
    const size_t bytes = let_go();
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(statuses == (1u << CLATTN_STATUS_COUNT) - 1, "statuses %x", statuses);
    ck_assert_int_gt(lines, 10);
    ck_assert_msg(bytes == 0, "printed: %s", caught.text);
    ck_assert_msg(seen.by_clattn == 0, "libclattn asked %d times for variables, last %s", seen.by_clattn,
                  seen.name);
}
END_TEST

// Without this test, the others would prove nothing.
START_TEST(what_is_written_is_caught) {
    catch_output();
    printf("out"), fprintf(stderr, "error");
    ck_assert_int_eq(let_go(), 8);
    ck_assert_str_eq(caught.text, "outerror");
    seen.by_others = 0, seen.watching = true;
    (void)!getenv("HOME");
    seen.watching = false;
    ck_assert_int_eq(seen.by_others, 1);
}
END_TEST

// CLBlast reads one environment variable when it compiles, and prints lines when one of its calls
// fails.
START_TEST(what_clblast_does) {
    if (!harness_has_clblast()) return;
    clattn_context *c = open_context(NULL, NULL);
    seen.by_clattn = seen.build_options = seen.unknown_to_the_header = 0;
    catch_output();
    const clattn_status good = call(c, "linear-f32-b1-h2-n20-d32-m64-full-clblast");
    const size_t bytes = let_go();
    ck_assert_int_eq(good, CLATTN_OK);
    ck_assert_msg(bytes == 0, "printed: %s", caught.text);
    ck_assert_int_gt(seen.build_options, 0);
    ck_assert_int_eq(seen.unknown_to_the_header, 0);
    seen.launch = CL_INVALID_KERNEL_ARGS;
    catch_output();
    const clattn_status bad = call(c, "linear-f32-b1-h2-n20-d32-m64-full-clblast");
    (void)let_go();
    seen.launch = 0;
    ck_assert_int_eq(bad, CLATTN_DRIVER);
    for (char *line = strtok(caught.text, "\n"); line; line = strtok(NULL, "\n"))
        ck_assert_msg(strncmp(line, "CLBlast", 7) == 0, "a line of somebody else's: %s", line);
    ck_assert_int_eq(seen.by_clattn, 0);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {what_is_written_is_caught, nothing_is_printed_or_asked, what_clblast_does,
                                  NULL};
    Suite *suite = suite_create("silent");
    harness_add(suite, "silent", tests);
    return harness_run(suite);
}
