// test_no_platform.c: on a machine without OpenCL platform the status is UNSUPPORTED, with a
// message that says so. The program sets the loader's own variable before the library searches.
#include <clattn/clattn.h>

#include "support/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char message[512];

static void on_log(void *user, clattn_log_level level, const char *text) {
    (void)user;
    (void)level;
    snprintf(message, sizeof message, "%s", text);
}

START_TEST(no_platform) {
    clattn_device device;
    size_t count = 99;
    clattn_log log = {.fn = on_log};
    ck_assert_int_eq(clattn_device_list(&device, 1, &count, &log), CLATTN_UNSUPPORTED);
    ck_assert_uint_eq(count, 0);
    ck_assert_msg(strstr(message, "no OpenCL platform") != NULL, "message: %s", message);
    ck_assert_msg(strchr(message, '\n') == NULL, "more than one line: %s", message);
}
END_TEST

START_TEST(no_platform_and_no_log) {
    size_t count = 99;
    ck_assert_int_eq(clattn_device_list(NULL, 0, &count, NULL), CLATTN_UNSUPPORTED);
    ck_assert_uint_eq(count, 0);
}
END_TEST

int main(void) {
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    Suite *suite = suite_create("no platform");
    TCase *group = tcase_create("devices");
    tcase_add_test(group, no_platform);
    tcase_add_test(group, no_platform_and_no_log);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_NOFORK);
}
