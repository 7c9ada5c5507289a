// windows_cases.c: runs cases of src/verification by name, each compared with the double-precision
// reference. The program needs neither Check nor OpenCL's import library, for systems that lack
// them (check_windows.sh). The last lines have the number of right cases, of compiled kernels, and
// of kernels loaded from the folder.
//
//   windows_cases FOLDER NAME...     FOLDER of compiled kernels
#include <stdio.h>
#include <stdlib.h>

#include "verification/case/case_check.h"
#include "verification/case/case_run.h"
#include "verification/device/opencl.h"

enum { NO_DEVICE = 77 };

static void on_log(void *user, clattn_log_level level, const char *line) {
    (void)user;
    if (level == CLATTN_LOG_ERROR) printf("clattn: %s\n", line);
}

static bool is_right(const char *name, struct place *place) {
    struct test_case test;
    char why[512] = "";
    if (!case_parse(name, &test, why)) {
        printf("%s: %s\n", name, why);
        return false;
    }
    struct case_data *data = case_make(&test);
    struct case_result got = case_execute(data, place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    if (!good) printf("%s: %s\n", name, why);
    return good;
}

int main(int argc, char **argv) {
    clattn_device device;
    clattn_context_stats stats;
    size_t count = 0;
    int right = 0;
    cl_int code;
    const clattn_log log = {.fn = on_log, .level = CLATTN_LOG_INFO};
    if (clattn_device_list(&device, 1, &count, &log) != CLATTN_OK) return NO_DEVICE;
    const clattn_context_params params = {
        .device = device.device, .log = log, .cache_dir = argc > 1 ? argv[1] : NULL};
    struct place place = {.guard = PLACE_GUARD, .device = device.device};
    if (clattn_context_create(&params, &place.context) != CLATTN_OK) return EXIT_FAILURE;
    place.opencl = clattn_context_opencl(place.context);
    place.queue = clCreateCommandQueue(place.opencl, place.device, 0, &code);
    for (int i = 2; i < argc; i++) right += is_right(argv[i], &place);
    clFinish(place.queue);
    clattn_context_get_stats(place.context, &stats);
    clReleaseCommandQueue(place.queue);
    clattn_context_destroy(place.context);
    printf("%d of %d cases are right\n", right, argc - 2);
    printf("%d compiled, %d from the folder\n", (int)stats.programs_built, (int)stats.programs_cached);
    return argc > 2 && right == argc - 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
