// test_limits.c: the ends of ranges: biases of -FLT_MAX, a billion keys, more batch items than a
// GPU's grid, offsets past 2^31, positions past 2^24. Also keys past a length in the score taps,
// and tuned rows that contradict the data.
#include "support/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 16 };

static cl_mem filled(size_t count, float (*value)(size_t)) {
    float *x = malloc(count * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < count; i++) x[i] = value(i);
    cl_int code;
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   count * sizeof *x, x, &code);
    harness_expect(code, "clCreateBuffer");
    free(x);
    return buffer;
}
static float one(size_t i) {
    return i < SIZE_MAX ? 1.0f : 0.0f;
}
static float counted(size_t i) {
    return (float)(i % 64);
}
static float lowest(size_t i) {
    return i < SIZE_MAX ? -FLT_MAX : 0.0f;
}
static float nothing(size_t i) {
    return i < SIZE_MAX ? (float)NAN : 0.0f;
}

static void run(const clattn_attention_params *p) {
    char why[256];
    const clattn_status status =
        clattn_attention_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == CLATTN_OK, "%s", why);
}
static void read_back(cl_mem buffer, float *x, size_t count) {
    harness_expect(
        clEnqueueReadBuffer(harness()->queue, buffer, CL_TRUE, 0, count * sizeof *x, x, 0, NULL, NULL),
        "read");
}

// Rows whose keys all have the lowest finite bias are uniform, not empty. Padding is often masked
// in this way.
START_TEST(lowest_bias) {
    enum { N = 8 };
    cl_mem k = filled(N * D, one), v = filled(N * D, counted), bias = filled(N, lowest);
    for (int n = 0; n < 8; n++) {
        const int rows = n % 2 ? 20 : 1;
        const clattn_kernel kernel = (clattn_kernel)(n / 2);
        if (kernel == CLATTN_KERNEL_DECODE && rows > 16) continue;
        float out[20 * D], lse[20];
        cl_mem q = filled((size_t)rows * D, one), o = filled((size_t)rows * D, nothing),
               l = filled((size_t)rows, nothing);
        clattn_attention_params p = {
            .q = clattn_tensor_bhsd(q, CLATTN_TYPE_F32, 1, 1, rows, D),
            .kv.k = clattn_tensor_bhsd(k, CLATTN_TYPE_F32, 1, 1, N, D),
            .kv.v = clattn_tensor_bhsd(v, CLATTN_TYPE_F32, 1, 1, N, D),
            .out = clattn_tensor_bhsd(o, CLATTN_TYPE_F32, 1, 1, rows, D),
            .score.bias = clattn_tensor_dense(bias, CLATTN_TYPE_F32, 1, (const int64_t[]){N}),
            .lse = clattn_tensor_dense(l, CLATTN_TYPE_F32, 3, (const int64_t[]){1, 1, rows}),
            .kernel = kernel};
        run(&p);
        read_back(o, out, (size_t)rows * D);
        read_back(l, lse, (size_t)rows);
        for (int i = 0; i < rows * D; i++) { // the mean of the keys' values: 16 j + d modulo 64
            double mean = 0.0;
            for (int j = 0; j < N; j++) mean += (double)((j * D + i % D) % 64) / N;
            ck_assert_double_eq_tol((double)out[i], mean, 1e-4);
        }
        for (int i = 0; i < rows; i++) ck_assert_float_eq(lse[i], -FLT_MAX);
        clReleaseMemObject(q), clReleaseMemObject(o), clReleaseMemObject(l);
    }
    clReleaseMemObject(k), clReleaseMemObject(v), clReleaseMemObject(bias);
}
END_TEST

// One key repeated more than a billion times by a stride of 0. A window keeps the work small.
START_TEST(a_billion_keys) {
    cl_mem x = filled(D, one), o = filled(D, nothing);
    static const int64_t sizes[] = {536870913, 1073741825, 1500000000};
    for (int n = 0; n < 6; n++) {
        float out[D];
        clattn_attention_params p = {.q = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .kv.k = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .out = clattn_tensor_bhsd(o, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .score.window = true,
                                     .score.window_left = 9,
                                     .score.alignment = CLATTN_ALIGN_OFFSET,
                                     .score.offset = (int32_t)sizes[n / 2] - 1,
                                     .kernel = n % 2 ? CLATTN_KERNEL_DECODE : CLATTN_KERNEL_FLASH};
        p.kv.k.shape[2] = sizes[n / 2], p.kv.k.stride[2] = p.kv.k.stride[0] = p.kv.k.stride[1] = 0;
        p.kv.v = p.kv.k;
        run(&p);
        read_back(o, out, D);
        for (int d = 0; d < D; d++) ck_assert_double_eq_tol((double)out[d], 1.0, 1e-6);
        const float none = NAN;
        harness_expect(clEnqueueFillBuffer(harness()->queue, o, &none, 4, 0, sizeof out, 0, NULL, NULL),
                       "fill");
    }
    clReleaseMemObject(x), clReleaseMemObject(o);
}
END_TEST

// 70,000 batch items of one row: the launch is split into several grids.
START_TEST(more_items_than_a_grid) {
    enum { B = 70000 };
    const size_t count = (size_t)B * D;
    float *out = malloc(count * sizeof *out);
    for (int n = CLATTN_KERNEL_UNFUSED; n < CLATTN_KERNEL_COUNT; n++) {
        cl_mem x = filled(count, counted), o = filled(count, nothing);
        clattn_attention_params p = {.q = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, B, 1, 1, D),
                                     .kernel = (clattn_kernel)n,
                                     .rope = {.layout = CLATTN_ROPE_HALF}};
        p.kv.k = p.kv.v = p.q;
        p.out = clattn_tensor_bhsd(o, CLATTN_TYPE_F32, B, 1, 1, D);
        run(&p);
        read_back(o, out, count);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(out[i] == counted(i), "kernel %d, element %zu: %g", n, i, (double)out[i]);
        clReleaseMemObject(x), clReleaseMemObject(o);
    }
    free(out);
}
END_TEST

// A mask that starts past 2^31 elements; only its last page is touched.
START_TEST(offset_past_32_bits) {
    const size_t start = ((size_t)1 << 31) + 5;
    const unsigned char keep[2] = {0, 1};
    cl_int code;
    cl_mem mask = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, start + 2, NULL, &code);
    if (code != CL_SUCCESS) return; // the device has no buffer of this size
    cl_mem x = filled(2 * D, counted), o = filled(D, nothing);
    harness_expect(clEnqueueWriteBuffer(harness()->queue, mask, CL_TRUE, start, 2, keep, 0, NULL, NULL),
                   "write");
    for (int n = CLATTN_KERNEL_UNFUSED; n < CLATTN_KERNEL_COUNT; n++) {
        float out[D];
        clattn_attention_params p = {.q = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .kv.k = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, 1, 1, 2, D),
                                     .out = clattn_tensor_bhsd(o, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .score.mask =
                                         clattn_tensor_dense(mask, CLATTN_TYPE_BOOL, 1, (const int64_t[]){2}),
                                     .kernel = (clattn_kernel)n};
        p.kv.v = p.kv.k;
        p.score.mask.offset = (int64_t)start;
        run(&p);
        read_back(o, out, D);
        // the mask leaves key 1 only
        for (int d = 0; d < D; d++) ck_assert_float_eq(out[d], counted((size_t)(D + d)));
    }
    clReleaseMemObject(mask), clReleaseMemObject(x), clReleaseMemObject(o);
}
END_TEST

START_TEST(taps_past_a_length) {
    float scores[4];
    float k_values[4 * D];
    for (int i = 0; i < 4 * D; i++) k_values[i] = i < 3 * D ? 1.0f : NAN;
    cl_mem x = filled(D, one), o = filled(D, nothing), s = filled(4, one), k = filled(4 * D, one);
    harness_expect(
        clEnqueueWriteBuffer(harness()->queue, k, CL_TRUE, 0, sizeof k_values, k_values, 0, NULL, NULL),
        "write");
    for (int tap = 0; tap < CLATTN_TAP_SOFTMAX; tap++) {
        clattn_attention_params p = {.q = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .kv.k = clattn_tensor_bhsd(k, CLATTN_TYPE_F32, 1, 1, 4, D),
                                     .out = clattn_tensor_bhsd(o, CLATTN_TYPE_F32, 1, 1, 1, D),
                                     .scores = clattn_tensor_bhsd(s, CLATTN_TYPE_F32, 1, 1, 1, 4),
                                     .scores_at = (clattn_tap)tap,
                                     .score.kv_lengths = (const int32_t[]){3}};
        p.kv.v = p.kv.k;
        run(&p);
        read_back(s, scores, 4);
        ck_assert_float_eq(scores[2], 4.0f); // 16 / sqrt(16)
        ck_assert_float_eq(scores[3], -INFINITY);
    }
    clReleaseMemObject(x), clReleaseMemObject(o), clReleaseMemObject(s), clReleaseMemObject(k);
}
END_TEST

// CLBlast counts elements in 32 bits: larger projections use the native kernel or are refused.
START_TEST(projection_past_32_bits) {
    const int64_t x[] = {1 << 20, 32, 64}, w[] = {64, 64};
    clattn_linear_params p = {.projection = CLATTN_PROJECTION_CLBLAST};
    clattn_layer_params l = {.heads = 1, .projection = CLATTN_PROJECTION_CLBLAST};
    clattn_linear_choice choice;
    clattn_plan plan;
    if (!harness_has_clblast()) return;
    l.x = l.out = p.x = p.out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x);
    l.wq = l.wk = l.wv = l.wo = p.w = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, w);
    harness_log_clear();
    harness_assert_refused("linear", clattn_linear_plan(harness()->context, &p, &choice), CLATTN_UNSUPPORTED,
                           "2^31");
    harness_log_clear();
    harness_assert_refused("layer", clattn_layer_plan(harness()->context, &l, &plan), CLATTN_UNSUPPORTED,
                           "2^31");
    p.projection = l.projection = CLATTN_PROJECTION_NATIVE;
    ck_assert_int_eq(clattn_linear_plan(harness()->context, &p, &choice), CLATTN_OK);
    // The layer's workspace is 32 GiB. If no buffer is that large, the plan says so.
    const clattn_status planned = clattn_layer_plan(harness()->context, &l, &plan);
    ck_assert(planned == CLATTN_OK || planned == CLATTN_OUT_OF_MEMORY);
    p.x.shape[0] = p.out.shape[0] = (1 << 20) - 1; // the last element is below 2^31
    p.projection = CLATTN_PROJECTION_CLBLAST;
    ck_assert_int_eq(clattn_linear_plan(harness()->context, &p, &choice), CLATTN_OK);
    // Kernels advance past the last column by a tile.
    p.x.shape[0] = p.x.shape[1] = p.out.shape[0] = p.out.shape[1] = 1;
    p.w.shape[0] = p.out.shape[2] = INT32_MAX - 10;
    p.projection = CLATTN_PROJECTION_NATIVE;
    harness_log_clear();
    harness_assert_refused("columns", clattn_linear_plan(harness()->context, &p, &choice),
                           CLATTN_INVALID_ARGUMENT, "w: ");
}
END_TEST

// The layer's own q, k and v have more elements than x and the matrices.
START_TEST(layer_past_64_bits) {
    const int64_t x[] = {1 << 30, 1 << 28, 1}, w[] = {1 << 30, 1}, wo[] = {1, 1 << 30};
    clattn_layer_params l = {.heads = 1, .projection = CLATTN_PROJECTION_NATIVE};
    clattn_plan plan;
    l.x = l.out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x);
    l.wq = l.wk = l.wv = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, w);
    l.wo = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, wo);
    harness_log_clear();
    harness_assert_refused("layer", clattn_layer_plan(harness()->context, &l, &plan), CLATTN_INVALID_ARGUMENT,
                           "layer: q would have more elements");
}
END_TEST

START_TEST(rope_position) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 1, 4, D),
                                 .rope = {.layout = CLATTN_ROPE_HALF, .position = INT64_MAX}};
    p.kv.k = p.kv.v = p.out = p.q;
    size_t bytes;
    harness_log_clear();
    harness_assert_refused("position", clattn_attention_workspace(harness()->context, &p, &bytes),
                           CLATTN_INVALID_ARGUMENT, "rope.position");
    p.rope.position = (1 << 24) - 4;
    ck_assert_int_eq(clattn_attention_workspace(harness()->context, &p, &bytes), CLATTN_OK);
}
END_TEST

START_TEST(tuned_rows) {
    static const char *const bad[][2] = {
        {"flash_lanes : HEAD_DIM=128", "line 1"},
        {"flash_lanes : TYPE_KV=1", "line 1"},
        {"flash_lanes : LANES=5", "LANES"},
        {"flash_lanes : KEY_BLOCK=8 TILE_KV=60", "TILE_KV"},
        {"flash_lanes LANES=16", "line 1"},
        {"nonesuch :", "line 1"},
        {"flash : d=1", "line 1"},
        {"flash d=9..2 :", "line 1"},
        {"# none\n\ndecode_lanes cpu=1 : KEY_BLOCK=3\nflash :", "line 3 asks for a KEY_BLOCK"},
        {"flash :\nlinear_lanes : ROW_PANELS=2 COLUMN_BLOCK=5", "line 2 asks for a COLUMN_BLOCK"},
        {"flash :\nlinear_few_lanes : COLUMN_TILE=6 COLUMN_BLOCK=4", "line 2 asks for a COLUMN_TILE"},
        {"flash_lanes : TILE_KV=65536 ROW_VECTORS=8", "line 1 asks for a tile"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const clattn_context_params params = {
            .device = harness()->device, .log = harness_log(), .tuned_rows = bad[i][0]};
        clattn_context *context = NULL;
        harness_log_clear();
        ck_assert_msg(clattn_context_create(&params, &context) == CLATTN_INVALID_ARGUMENT, "accepted: %s",
                      bad[i][0]);
        ck_assert_ptr_null(context);
        ck_assert_msg(strstr(harness_log_text(), bad[i][1]), "%s", harness_log_text());
    }
    const clattn_context_params good = {.device = harness()->device,
                                        .tuned_rows = "# nothing\n\nflash cpu=0..1 d=..64 : # portable\n"};
    clattn_context *context = NULL;
    ck_assert_int_eq(clattn_context_create(&good, &context), CLATTN_OK);
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 1, 64, 64)};
    clattn_plan plan;
    p.kv.k = p.kv.v = p.out = p.q;
    ck_assert_int_eq(clattn_attention_plan(context, &p, &plan), CLATTN_OK);
    ck_assert_str_eq(plan.kernel_name, "flash");
    clattn_context_destroy(context);
}
END_TEST

int main(void) {
    const TTest *const sizes[] = {lowest_bias, a_billion_keys, more_items_than_a_grid, offset_past_32_bits,
                                  NULL};
    const TTest *const values[] = {taps_past_a_length,      rope_position, layer_past_64_bits,
                                   projection_past_32_bits, tuned_rows,    NULL};
    Suite *suite = suite_create("limits");
    harness_add(suite, "sizes", sizes);
    harness_add(suite, "values", values);
    return harness_run(suite);
}
