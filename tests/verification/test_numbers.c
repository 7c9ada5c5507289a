// test_numbers.c: numbers in options, lists and names of cases. Text that is not a complete number,
// or would become another number, is refused. Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <float.h>
#include <stdlib.h>

#include "verification/words/words.h"

static const char *const not_whole[] = {"",
                                        "-",
                                        " 1",
                                        "1 ",
                                        "+1",
                                        "1.0",
                                        "1e3",
                                        "0x10",
                                        "1k",
                                        "--1",
                                        "- 1",
                                        "one",
                                        "1,",
                                        "\t1",
                                        "inf",
                                        "nan",
                                        "1\n",
                                        "1-",
                                        "1_000",
                                        "1\xc2",
                                        "99999999999999999999",
                                        "9223372036854775808",
                                        "-9223372036854775809"};

START_TEST(whole_numbers) {
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"007", 7},
                {"-12", -12},
                {"4294967296", 4294967296},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof not_whole / sizeof not_whole[0]; i++) {
        int64_t x = 5;
        ck_assert_msg(!number_whole(not_whole[i], &x), "'%s' was taken as %lld", not_whole[i], (long long)x);
        ck_assert_int_eq(x, 5);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t x = 5;
        ck_assert_msg(number_whole(good[i].text, &x) && x == good[i].value, "'%s': %lld", good[i].text,
                      (long long)x);
    }
    const char *text = "12,x";
    int64_t x = 0;
    ck_assert(number_whole_at(&text, &x) && x == 12);
    ck_assert_str_eq(text, ",x");
}
END_TEST

START_TEST(real_numbers) {
    static const char *const bad[] = {"",       ".",      "-",      " 1",      "1 ",
                                      "+1",     "1x",     "1e",     "1e+",     "e5",
                                      "inf",    "-inf",   "nan",    "NAN",     "0x1p3",
                                      "0x10",   "1,5",    "1.2.3",  "1f",      "1e400",
                                      "-1e400", "1e-400", "1e-320", "-1e-400", "0.0000001e-400",
                                      "1e5e5",  "1e5.0"};
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},  {"-0.0", 0},       {"0e-999", 0},   {"0.000", 0},       {".5", 0.5},
                {"5.", 5}, {"-1e-3", -0.001}, {"1E+2", 100.0}, {"1e-300", 1e-300}, {"100000", 1e5}};
    double x = 5;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!number_real(bad[i], &x) && x == 5.0, "'%s' was taken as %g", bad[i], x);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(number_real(good[i].text, &x) && x == good[i].value, "'%s': %g", good[i].text, x);
}
END_TEST

// A float32 has fewer numbers. A number that would become infinity or 0, or that a device may flush
// to 0, is refused.
START_TEST(floats) {
    static const char *const bad[] = {"1e39", "-1e39", "1e-46", "1e-300", "-1e-39", "1e-38"};
    float x = 5.0f;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!number_float(bad[i], &x) && x == 5.0f, "'%s' was taken as %g", bad[i], (double)x);
    ck_assert(number_float("1.18e-38", &x) && x >= FLT_MIN);
    ck_assert(number_float("3.4e38", &x) && x <= FLT_MAX);
    ck_assert(number_float("0", &x) && x == 0.0f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("numbers");
    TCase *group = tcase_create("numbers");
    tcase_add_test(group, whole_numbers);
    tcase_add_test(group, real_numbers);
    tcase_add_test(group, floats);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
