// test_unfit.c: devices without a context: without a compiler, unavailable, of another byte order,
// or unknown to their driver. The program's own clGetDeviceInfo replaces the loader's. POSIX only.
#define _GNU_SOURCE
#include "support/harness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static cl_device_info denied;  // answered with CL_FALSE
static cl_device_info failing; // has no answer

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size,
                                                void *value, size_t *size_ret) {
    static cl_int (*real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clGetDeviceInfo");
    if (!real) abort();
    if (failing && what == failing) return CL_INVALID_DEVICE;
    const cl_int code = real(device, what, size, value, size_ret);
    if (code == CL_SUCCESS && denied && what == denied && value) memset(value, 0, sizeof(cl_bool));
    return code;
}

static clattn_status create(clattn_context **context) {
    const clattn_context_params params = {.device = harness()->device, .log = harness_log()};
    harness_log_clear();
    return clattn_context_create(&params, context);
}

static const struct {
    cl_device_info what;
    const char *word;
    size_t flag; // of clattn_capabilities
} facts[] = {{CL_DEVICE_AVAILABLE, "not available", offsetof(clattn_capabilities, available)},
             {CL_DEVICE_COMPILER_AVAILABLE, "no compiler", offsetof(clattn_capabilities, available)},
             {CL_DEVICE_ENDIAN_LITTLE, "little-endian", offsetof(clattn_capabilities, little_endian)}};

START_TEST(unfit) {
    clattn_context *none = (clattn_context *)(void *)&denied;
    clattn_capabilities c;
    bool flag;
    denied = facts[_i].what;
    const clattn_status described = clattn_device_describe(harness()->device, &c);
    const clattn_status created = create(&none);
    denied = 0;
    ck_assert_int_eq(described, CLATTN_OK);
    memcpy(&flag, (const char *)&c + facts[_i].flag, sizeof flag);
    ck_assert(!flag);
    ck_assert_int_eq(created, CLATTN_UNSUPPORTED);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(harness_log_count(), 1);
    ck_assert_msg(strstr(harness_log_text(), facts[_i].word), "%s", harness_log_text());
}
END_TEST

START_TEST(unknown) {
    clattn_context *none = (clattn_context *)(void *)&denied;
    clattn_capabilities c;
    failing = CL_DEVICE_TYPE;
    const clattn_status described = clattn_device_describe(harness()->device, &c);
    const clattn_status created = create(&none);
    failing = 0;
    ck_assert_int_eq(described, CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(created, CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(harness_log_count(), 1);
}
END_TEST

START_TEST(fit) {
    clattn_context *c = NULL;
    ck_assert_int_eq(create(&c), CLATTN_OK);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {fit, unknown, NULL};
    Suite *suite = suite_create("unfit");
    TCase *group = harness_add(suite, "unfit", tests);
    tcase_add_loop_test(group, unfit, 0, 3);
    return harness_run(suite);
}
