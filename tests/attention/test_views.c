// test_views.c: views: strides, offsets, BSHD, packed QKV, repeating strides, and the view helpers
// of the header. Refused views are in test_errors.c. Cases: tests/cases/views.txt.
#include "support/case_list.h"
#include "support/harness.h"

#include <string.h>

static void repeat_first(double *data, int64_t items, int64_t size) {
    for (int64_t n = 1; n < items; n++) memcpy(data + n * size, data, (size_t)size * sizeof *data);
}

// A stride of 0 on an input repeats it: one K and V for all batch items, one query row for all
// rows.
START_TEST(repeating_strides) {
    struct test_case test = {
        .name = "stride 0", .batch = 3, .heads = 2, .n_q = 9, .n_kv = 17, .head_dim = 32};
    for (int n = 0; n < 3; n++) {
        char why[512];
        struct case_arrays arrays;
        test.kernel = case_kernel(n);
        struct case_data *data = case_make(&test);
        repeat_first(data->k, 3, 2 * 17 * 32);
        repeat_first(data->v, 3, 2 * 17 * 32);
        for (int64_t bh = 0; bh < 6; bh++) repeat_first(data->q + bh * 9 * 32, 9, 32);
        case_bind(data, harness_place(), &arrays);
        arrays.params.kv.k.stride[0] = arrays.params.kv.v.stride[0] = arrays.params.q.stride[2] = 0;
        clattn_status status =
            clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL);
        struct case_result got = case_collect(&arrays, harness()->queue, NULL);
        got.status = status;
        ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s: %s", names_kernels[test.kernel], why);
        case_result_free(&got);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

START_TEST(dense_helper) {
    int64_t shape[] = {2, 3, 5, 7};
    cl_mem buffer = (cl_mem)(void *)shape; // any pointer: a view does not use it
    clattn_tensor view = clattn_tensor_dense(buffer, CLATTN_TYPE_BF16, 4, shape);
    ck_assert(view.buffer == buffer && view.offset == 0 && view.type == CLATTN_TYPE_BF16 && view.rank == 4);
    ck_assert_mem_eq(view.shape, shape, sizeof shape);
    ck_assert(view.stride[0] == 105 && view.stride[1] == 35 && view.stride[2] == 7 && view.stride[3] == 1);
    view = clattn_tensor_dense(buffer, CLATTN_TYPE_F32, 1, shape);
    ck_assert(view.rank == 1 && view.shape[0] == 2 && view.stride[0] == 1);
}
END_TEST

START_TEST(head_helpers) {
    int64_t shape[] = {2, 3, 5, 7};
    cl_mem buffer = (cl_mem)(void *)shape;
    clattn_tensor a = clattn_tensor_bhsd(buffer, CLATTN_TYPE_F16, 2, 3, 5, 7);
    clattn_tensor b = clattn_tensor_bshd(buffer, CLATTN_TYPE_F16, 2, 3, 5, 7);
    ck_assert_mem_eq(a.shape, shape, sizeof shape);
    ck_assert_mem_eq(b.shape, shape, sizeof shape);
    ck_assert(a.stride[0] == 105 && a.stride[1] == 35 && a.stride[2] == 7 && a.stride[3] == 1);
    ck_assert(b.stride[0] == 105 && b.stride[1] == 7 && b.stride[2] == 21 && b.stride[3] == 1);
    ck_assert(a.rank == 4 && b.rank == 4 && b.type == CLATTN_TYPE_F16 && b.buffer == buffer);
}
END_TEST

START_TEST(type_sizes) {
    ck_assert_uint_eq(clattn_type_size(CLATTN_TYPE_F32), 4);
    ck_assert_uint_eq(clattn_type_size(CLATTN_TYPE_F16), 2);
    ck_assert_uint_eq(clattn_type_size(CLATTN_TYPE_BF16), 2);
    ck_assert_uint_eq(clattn_type_size(CLATTN_TYPE_BOOL), 1);
    ck_assert_uint_eq(clattn_type_size(CLATTN_TYPE_COUNT), 0);
    ck_assert_uint_eq(clattn_type_size((clattn_type)99), 0);
}
END_TEST

int main(void) {
    const TTest *const views[] = {repeating_strides, NULL};
    const TTest *const made[] = {dense_helper, head_helpers, type_sizes, NULL};
    Suite *suite = suite_create("views");
    harness_add(suite, "attention", views);
    harness_add(suite, "constructors", made);
    case_list_add(suite, "views", "cases");
    return harness_run(suite);
}
