// test_faults.c: every OpenCL call of the library fails once. The program starts itself anew for each (fork
// and exec before any OpenCL, which does not survive a fork) with the fault layer switched on. Leaves out
// what the child does and how it judges (fault_child.c).
//
// Environment: CLATTN_TEST_LAYER  the built fault layer (fault_layer.c); skipped without it
#include "fault_child.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program, *layer_path;

// Calls that only the library makes: one that fails must not go unnoticed. Of the others some are the test's
// own, and a compiled kernel that the driver does not take is built anew.
static const char *const library_calls[] = {"clCreateKernel", "clSetKernelArg", "clEnqueueNDRangeKernel"};
static const char *const shared_calls[] = {
    "clGetPlatformIDs", "clCreateContext",      "clCreateProgramWithBinary", "clBuildProgram",
    "clCreateBuffer",   "clEnqueueWriteBuffer", "clEnqueueReadBuffer",       "clFlush",
    "clWaitForEvents",  "clEnqueueMapBuffer"};
#define LENGTH(names) ((int)(sizeof(names) / sizeof(names)[0]))

// How the child ended and what it said.
struct ending {
    int status; // exit status, or -signal
    char text[8192];
};

static void become_child(const char *faults, const char *code, FILE *said) {
    setenv("OPENCL_LAYERS", layer_path, 1);
    setenv("CLFAULT_STATS", "1", 1);
    setenv("CLFAULT", faults, 1);
    dup2(fileno(said), STDERR_FILENO);
    dup2(fileno(said), STDOUT_FILENO);
    execl(program, program, "--child", code, (char *)NULL);
    _Exit(127);
}

static struct ending run_child(const char *call, int nth, int code) {
    struct ending ending = {0};
    char faults[128] = "", number[16];
    int status = 0;
    FILE *said = tmpfile();
    harness_expect(said != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "tmpfile");
    if (call != NULL) snprintf(faults, sizeof faults, "%s:%d:%d", call, nth, code);
    snprintf(number, sizeof number, "%d", code);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) become_child(faults, number, said);
    harness_expect(pid > 0 && waitpid(pid, &status, 0) == pid ? 0 : -1, "fork");
    rewind(said);
    ending.text[fread(ending.text, 1, sizeof ending.text - 1, said)] = '\0';
    fclose(said);
    ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return ending;
}

// How often the child of a run without faults made a call; 0 when the layer was not there.
static int count_of(const struct ending *ending, const char *call) {
    char line[80];
    snprintf(line, sizeof line, "CLFAULT %s ", call);
    const char *at = strstr(ending->text, line);
    return at != NULL ? atoi(at + strlen(line)) : 0;
}

static void check(const char *call, int nth, int code, bool library_only) {
    struct ending ending = run_child(call, nth, code);
    bool good = ending.status == FAULT_REPORTED || ending.status == FAULT_LOST;
    good = good || (!library_only && (ending.status == FAULT_UNNOTICED || ending.status == HARNESS_BROKEN));
    ck_assert_msg(good, "%s number %d returns %d: child ended with %d\n%s", call, nth, code, ending.status,
                  ending.text);
}

// The first few calls one by one, the rest in some steps; the codes take turns.
static void fail_in_turn(const char *call, int count, const int *codes, bool library_only) {
    int step = count > 16 ? (count - 4) / 16 : 1, turn = 0;
    for (int nth = 1; nth <= count; nth += nth < 4 ? 1 : step)
        check(call, nth, codes[turn++ % 4], library_only);
}

static struct ending count_calls(void) {
    struct ending ending = run_child(NULL, 0, 0);
    ck_assert_msg(ending.status == FAULT_UNNOTICED, "without faults: %d\n%s", ending.status, ending.text);
    return ending;
}

START_TEST(library_calls_fail) {
    static const int codes[] = {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
                                CL_BUILD_PROGRAM_FAILURE};
    struct ending counts = count_calls();
    for (int n = 0; n < LENGTH(library_calls); n++)
        fail_in_turn(library_calls[n], count_of(&counts, library_calls[n]), codes, true);
}
END_TEST

START_TEST(shared_calls_fail) {
    static const int codes[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_MEM_OBJECT_ALLOCATION_FAILURE,
                                -5};
    struct ending counts = count_calls();
    for (int n = 0; n < LENGTH(shared_calls); n++)
        fail_in_turn(shared_calls[n], count_of(&counts, shared_calls[n]), codes, false);
}
END_TEST

// With every kernel compiled from source: no folder of compiled kernels.
START_TEST(first_builds_fail) {
    static const int codes[] = {CL_BUILD_PROGRAM_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, -11};
    char *cache = getenv("CLATTN_TEST_CACHE");
    char *kept = cache != NULL ? strdup(cache) : NULL;
    unsetenv("CLATTN_TEST_CACHE");
    for (int n = 0; n < 4; n++) {
        check("clCreateProgramWithSource", 1 + n, codes[(n + 1) % 4], true);
        check("clBuildProgram", 1 + n, codes[n], true);
    }
    if (kept != NULL) setenv("CLATTN_TEST_CACHE", kept, 1);
    free(kept);
}
END_TEST

// After a good run these codes say that the device is gone: the child accepts DEVICE_LOST alone.
START_TEST(device_is_lost) {
    struct ending counts = count_calls();
    int last = count_of(&counts, "clEnqueueNDRangeKernel");
    for (int nth = 2; nth <= last; nth += 2) {
        int code = nth % 4 ? -36 : -9999;
        struct ending ending = run_child("clEnqueueNDRangeKernel", nth, code);
        ck_assert_msg(ending.status == FAULT_LOST, "launch %d returns %d: child ended with %d\n%s", nth, code,
                      ending.status, ending.text);
    }
}
END_TEST

static bool layer_works(void) {
    struct ending ending = run_child(NULL, 0, 0);
    return count_of(&ending, "clCreateContext") > 0;
}

// Out of resources from making a buffer or a kernel is no lost device, even after a good run.
START_TEST(resources_are_not_the_device) {
    static const char *const calls[] = {"clCreateBuffer", "clCreateKernel"};
    struct ending counts = count_calls();
    int reported = 0;
    for (int n = 0; n < LENGTH(calls); n++)
        for (int nth = count_of(&counts, calls[n]); nth > 0; nth -= 3) {
            struct ending ending = run_child(calls[n], nth, CL_OUT_OF_RESOURCES);
            ck_assert_msg(ending.status != FAULT_LOST && ending.status != FAULT_WRONG,
                          "%s number %d: child ended with %d\n%s", calls[n], nth, ending.status, ending.text);
            reported += ending.status == FAULT_REPORTED;
        }
    ck_assert_int_gt(reported, 4);
}
END_TEST

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "--child") == 0) return fault_child(atoi(arguments[2]));
    program = arguments[0];
    layer_path = getenv("CLATTN_TEST_LAYER");
    if (layer_path == NULL || !layer_works()) {
        printf("skipped: %s\n",
               layer_path == NULL ? "CLATTN_TEST_LAYER is not set" : "no device, or a loader without layers");
        return HARNESS_SKIP;
    }
    const TTest *const tests[] = {library_calls_fail,
                                  shared_calls_fail,
                                  first_builds_fail,
                                  device_is_lost,
                                  resources_are_not_the_device,
                                  NULL};
    Suite *suite = suite_create("faults");
    harness_add(suite, "faults", tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
