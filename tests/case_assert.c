// case_assert.c: see case_assert.h.
#include "case_assert.h"

#include <stdio.h>

static int decode_skipped;

int case_decode_skipped(void) {
    return decode_skipped;
}

clattn_kernel case_kernel(int n) {
    static const clattn_kernel kernels[] = {CLATTN_KERNEL_FLASH, CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_AUTO};
    return kernels[n];
}

struct case_result case_run(const struct case_data *data, cl_command_queue queue) {
    struct place place = *harness_place();
    place.queue = queue;
    harness_log_clear();
    return case_execute(data, &place);
}

bool case_holds(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                char *why, size_t size) {
    struct case_result got = case_collect(arrays, queue, NULL);
    const bool good = case_agrees(data, &got, why, size);
    case_result_free(&got);
    return good;
}

void case_assert_data(const struct case_data *data) {
    const struct test_case *t = &data->test;
    char why[512] = "", name[CASE_NAME_SIZE];
    struct case_result got = case_run(data, harness()->queue);
    bool skip = t->kernel == CLATTN_KERNEL_DECODE && got.status == CLATTN_UNSUPPORTED;
    bool good = skip || case_agrees(data, &got, why, sizeof why);
    decode_skipped += skip;
    case_result_free(&got);
    ck_assert_msg(good, "%s: %s: %s", t->name, case_name(t, name), why);
}

// The case can be run again by its name.
static void assert_named(const struct test_case *test) {
    struct test_case again;
    char name[CASE_NAME_SIZE], why[256] = "";
    case_name(test, name);
    ck_assert_msg(case_parse(name, &again, why), "%s: its name %s: %s", test->name, name, why);
}

void case_assert(const struct test_case *test) {
    assert_named(test);
    struct case_data *data = case_make(test);
    case_assert_data(data);
    case_free(data);
}

void case_assert_data_kernels(struct case_data *data) {
    const struct test_case *t = &data->test;
    bool scores = t->weights || t->scores;
    for (int n = 0; n < 3; n++) {
        data->test.kernel = case_kernel(n);
        if (case_kernel(n) != CLATTN_KERNEL_FLASH || !scores) case_assert_data(data);
    }
    data->test.kernel = CLATTN_KERNEL_DECODE;
    if (t->n_q <= 16 && !scores) case_assert_data(data);
}

void case_assert_kernels(const struct test_case *test) {
    assert_named(test);
    struct case_data *data = case_make(test);
    case_assert_data_kernels(data);
    case_free(data);
}
