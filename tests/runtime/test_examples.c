// test_examples.c: the worked examples of worked_examples.json, number by number, through every
// kernel and through the reference. Larger cases are in tests/cases/attention.txt.
#include "support/case_assert.h"
#include "support/harness.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The numbers have 6 decimals; results are float32.
static bool near(double got, double figure) {
    return got == figure || fabs(got - figure) <= 1e-6 + 1.2e-7 * fabs(figure);
}

// Row-major numbers of a nested array; null is -inf. Returns their count.
static int64_t flatten(const json_t *value, double *to) {
    if (json_is_null(value)) to[0] = -(double)INFINITY;
    if (json_is_number(value)) to[0] = json_number_value(value);
    if (!json_is_array(value)) return 1;
    int64_t count = 0;
    for (size_t n = 0; n < json_array_size(value); n++)
        count += flatten(json_array_get(value, n), to + count);
    return count;
}

static int64_t rows_of(const json_t *example, const char *key) {
    return (int64_t)json_array_size(json_object_get(example, key));
}

static int64_t columns_of(const json_t *example, const char *key) {
    return (int64_t)json_array_size(json_array_get(json_object_get(example, key), 0));
}

static struct case_data *load(const json_t *example, const char *name) {
    struct test_case test = {.name = name, .weights = true, .scores = true};
    test.n_q = rows_of(example, "Q");
    test.n_kv = rows_of(example, "K");
    test.head_dim = columns_of(example, "Q");
    test.head_dim_v = columns_of(example, "V");
    test.score.scale = (float)json_number_value(json_object_get(example, "scale"));
    test.score.causal = strcmp(json_string_value(json_object_get(example, "mask")), "causal") == 0;
    test.scores_at = CLATTN_TAP_MASKED;
    struct case_data *data = case_make(&test);
    flatten(json_object_get(example, "Q"), data->q);
    flatten(json_object_get(example, "K"), data->k);
    flatten(json_object_get(example, "V"), data->v);
    return data;
}

static void compare(const json_t *example, const char *key, const double *got, const char *name) {
    double figures[64];
    int64_t count = flatten(json_object_get(example, key), figures);
    for (int64_t n = 0; got != NULL && n < count; n++)
        ck_assert_msg(near(got[n], figures[n]), "%s: %s[%d] is %.9g, worked out %.6f", name, key, (int)n,
                      got[n], figures[n]);
}

static void compare_all(const json_t *example, const struct case_result *got, const char *name) {
    ck_assert_msg(got->status == CLATTN_OK, "%s: %s", name, harness_log_text());
    ck_assert_msg(got->intact, "%s: bytes around an output changed", name);
    compare(example, "output", got->out, name);
    compare(example, "lse", got->lse, name);
    compare(example, "weights", got->weights, name);
    compare(example, "scores", got->scores, name);
}

static void check_example(const json_t *example, const char *name) {
    struct case_data *data = load(example, name);
    struct case_result exact = case_reference(data, CLATTN_TYPE_F32, NULL);
    compare_all(example, &exact, name);
    case_result_free(&exact);
    for (int n = 0; n < 3; n++) {
        data->test.kernel = case_kernel(n);
        data->test.weights = data->test.scores = case_kernel(n) != CLATTN_KERNEL_FLASH;
        struct case_result got = case_run(data, harness()->queue);
        compare_all(example, &got, name);
        case_result_free(&got);
    }
    case_free(data);
}

START_TEST(worked_examples) {
    char path[1024];
    const char *name;
    json_t *example;
    ck_assert_msg(harness_data_folder() != NULL, "CLATTN_TEST_DATA is not set");
    json_t *root = json_load_file(harness_data_path("worked_examples.json", path, sizeof path), 0, NULL);
    ck_assert_msg(root != NULL, "cannot read %s", path);
    ck_assert_uint_ge(json_object_size(json_object_get(root, "examples")), 5);
    json_object_foreach(json_object_get(root, "examples"), name, example) check_example(example, name);
    json_decref(root);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {worked_examples, NULL};
    Suite *suite = suite_create("examples");
    harness_add(suite, "worked examples", tests);
    return harness_run(suite);
}
