// test_opencl_load.c: where the library finds OpenCL: a path, the caller's own functions, or the
// process; its message without OpenCL; and threads that load at once. Each check has a process of
// its own, because a result stays. The program is not linked with OpenCL. A machine without a
// loader is in check_no_loader.sh. POSIX only.
#include <clattn/clattn.h>

#include "support/run_suite.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[1100];
static _Thread_local int lines;

static void on_log(void *user, clattn_log_level level, const char *text) {
    (void)user;
    (void)level;
    snprintf(message, sizeof message, "%s", text);
    lines++;
}

static const clattn_log the_log = {.fn = on_log};

static clattn_status load(clattn_opencl_params params) {
    message[0] = '\0', lines = 0;
    params.log = the_log;
    return clattn_opencl_load(&params);
}

static void assert_line(const char *word) {
    ck_assert_int_eq(lines, 1);
    ck_assert_msg(strstr(message, word) && !strchr(message, '\n'), "%s", message);
}

// True also on a machine without a driver. PoCL 3.1 has no device for a second thread while the
// first thread starts it.
static bool finds_devices(void) {
    size_t count = 0;
    message[0] = '\0';
    const clattn_status status = clattn_device_list(NULL, 0, &count, &the_log);
    return status == CLATTN_OK || (status == CLATTN_UNSUPPORTED && (strstr(message, "no OpenCL platform") ||
                                                                    strstr(message, "no OpenCL device")));
}

START_TEST(by_its_name) {
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *want = loader ? dlsym(loader, "clCreateBuffer") : NULL;
    ck_assert_ptr_nonnull(want);
    const clattn_function got = clattn_opencl_function("clCreateBuffer");
    ck_assert(memcmp(&got, &want, sizeof got) == 0);
    ck_assert(clattn_opencl_function("clNobodyHasThis") == NULL);
    ck_assert(clattn_opencl_function(NULL) == NULL);
    ck_assert_int_eq(clattn_opencl_load(NULL), CLATTN_OK);
    ck_assert(finds_devices());
}
END_TEST

START_TEST(by_a_path) {
    ck_assert_int_eq(load((clattn_opencl_params){.path = "libOpenCL.so.1"}), CLATTN_OK);
    ck_assert(finds_devices());
    ck_assert_int_eq(load((clattn_opencl_params){.path = "libOpenCL.so.1"}), CLATTN_INVALID_ARGUMENT);
    assert_line("found before");
    ck_assert_int_eq(load((clattn_opencl_params){.path = NULL}), CLATTN_OK);
}
END_TEST

START_TEST(by_a_path_of_nothing) {
    ck_assert_int_eq(load((clattn_opencl_params){.path = "/nonexistent/libOpenCL.so.1"}), CLATTN_UNSUPPORTED);
    assert_line("no OpenCL: looked for /nonexistent/libOpenCL.so.1 (not there)");
    ck_assert_int_eq(load((clattn_opencl_params){.path = "libm.so.6"}), CLATTN_UNSUPPORTED);
    assert_line("libm.so.6 (has no cl");
    ck_assert(finds_devices()); // nothing was found, so the next call searches everywhere again
}
END_TEST

// The caller's own functions. They count requests, and call the loader's functions.
static struct own {
    int asked, platforms;
    const char *without;
    cl_int (*get_platforms)(cl_uint, cl_platform_id *, cl_uint *);
} own;

static cl_int CL_API_CALL own_platforms(cl_uint room, cl_platform_id *platforms, cl_uint *count) {
    own.platforms++;
    return own.get_platforms(room, platforms, count);
}

static clattn_function find(void *user, const char *name) {
    static void *loader;
    struct own *o = user;
    clattn_function function = NULL;
    if (!loader) loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = dlsym(loader, name);
    memcpy(&function, &symbol, sizeof function);
    o->asked++;
    if (o->without && !strcmp(name, o->without)) return NULL;
    if (strcmp(name, "clGetPlatformIDs") != 0) return function;
    memcpy(&o->get_platforms, &function, sizeof function);
    return (clattn_function)own_platforms;
}

START_TEST(by_own_functions) {
    own.without = "clEnqueueFillBuffer"; // a function that OpenCL 1.1 lacks
    ck_assert_int_eq(load((clattn_opencl_params){.find = find, .user = &own}), CLATTN_UNSUPPORTED);
    assert_line("has no clEnqueueFillBuffer");
    own.without = NULL;
    ck_assert_int_eq(load((clattn_opencl_params){.find = find, .user = &own, .path = "x"}),
                     CLATTN_INVALID_ARGUMENT);
    assert_line("one of them");
    ck_assert_int_eq(load((clattn_opencl_params){.find = find, .user = &own}), CLATTN_OK);
    ck_assert_int_eq(own.platforms, 0);
    ck_assert(finds_devices());
    ck_assert_int_eq(own.platforms, 1);
    const int before = own.asked;
    ck_assert(clattn_opencl_function("clFinish") != NULL);
    ck_assert_int_eq(own.asked, before + 1);
    ck_assert_int_eq(load((clattn_opencl_params){.find = find, .user = &own}), CLATTN_INVALID_ARGUMENT);
}
END_TEST

enum { THREADS = 8 };
static pthread_barrier_t together;

static void *come(void *found) {
    pthread_barrier_wait(&together);
    *(bool *)found = finds_devices() && clattn_opencl_function("clFinish") != NULL;
    return NULL;
}

START_TEST(threads_at_once) {
    pthread_t threads[THREADS];
    bool found[THREADS] = {false};
    ck_assert_int_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int n = 0; n < THREADS; n++) ck_assert_int_eq(pthread_create(&threads[n], NULL, come, &found[n]), 0);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    for (int n = 0; n < THREADS; n++) ck_assert_msg(found[n], "thread %d", n);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {by_its_name, by_a_path, by_a_path_of_nothing, by_own_functions,
                                  threads_at_once};
    Suite *suite = suite_create("where OpenCL is found");
    TCase *group = tcase_create("load");
    tcase_set_timeout(group, 60);
    for (size_t n = 0; n < sizeof tests / sizeof tests[0]; n++) tcase_add_test(group, tests[n]);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK);
}
