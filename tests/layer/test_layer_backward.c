// test_layer_backward.c: gradients of a layer on the device, compared with central differences of
// the layer's double-precision reference. Checks identical bits in a second run and from the state
// that a forward call kept, whose own result must equal the reference. Also a workspace of the
// caller, and sizes of zero. Rejected calls are in test_errors_layer_backward.c.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/storage.h"
#include "support/case_assert.h"

// Sizes are small, because each difference computes two layers. Norm cases with many rows have more
// than one partial sum.
static const char *const cases[] = {
    "layer-f32-b2-h2-n5-d4-m6",
    "layer-f32-b2-h4-hkv2-n5-d4-dv3-m6-mo7-biases",
    "layer-f32-b2-h4-hkv2-n4-nkv7-d4-m6-my5-biases",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-causal-biases-ropehalf",
    "layer-f32-b2-h4-hkv2-n5-nkv6-d6-m6-my6-causal-biases-ropeinterleaved-rotary4",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-normheads",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-normheads-normplain-ropehalf",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-normheads-normplus-normeps0.5-ropeinterleaved",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-normwidth-ropehalf",
    "layer-f32-b2-h4-hkv2-n5-nkv3-d4-m6-my5-biases-normwidth-normplain",
    "layer-f32-b1-h2-n5-d4-m6-normwidth-normplus-gateall",
    "layer-f32-b2-h4-hkv2-n5-d4-dv3-m6-biases-gateheads-gatebias",
    "layer-f32-b2-h4-hkv2-n5-nkv6-d4-m6-my5-biases-gateall-gatebias-normheads",
    "layer-f32-b1-h1-hkv1-n1-d1-m1-biases-gateall",
    "layer-f32-b1-h2-hkv1-n520-nkv2-d2-m2-my2-normheads",
    "layer-f32-b3-h4-hkv2-n5-d4-m6-causal-biases-qlen5:2:0-kvlen5:3:4-ropehalf",
    "layer-f32-b3-h4-hkv2-n5-d4-m6-biases-normheads-gateall-gatebias-qlen3:5:1-kvlen2:4:0",
    "layer-f32-b3-h4-hkv2-n4-nkv6-d4-m6-my5-biases-normwidth-gateheads-qlen4:0:2-kvlen6:3:0",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-softcap2-maskqk-biashqk-alibi-sinks",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-headscales-window1:2-padded",
    "layer-f32-b2-h4-hkv2-n6-d4-m6-biases-causal-ropehalf-normheads-gateall-spaced",
    "layer-f32-b2-h4-hkv2-n6-d4-m6-biases-dropout0.3:7",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-biases-causal-softcap2-mods",
    "layer-f32-b2-h4-hkv2-n20-d32-m64-split",
    "layer-f16-b2-h4-hkv2-n5-d4-m6-causal-biases-ropehalf-normheads-gateall",
    "layer-bf16-b2-h4-hkv2-n5-nkv7-d4-m6-my5-biases-normwidth-gateheads-gatebias",
    "layer-f32-b2-h4-hkv2-n5-d4-m6-matrixbf16-vectorf16-biases-normheads",
    "layer-bf16-b2-h4-hkv2-n5-d4-m6-matrixf32-vectorf32-biases-qlen5:3-kvlen3:5",
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

// The inputs that have gradients: a tensor of the case, or one of its arrays with one number per
// head.
#define FIELD(name) offsetof(clattn_layer_backward_params, name)
static const struct {
    int tensor, host; // host: used if tensor is negative
    size_t field;
} results[] = {{CASE_X, 0, FIELD(dx)},
               {CASE_Y, 0, FIELD(dy)},
               {CASE_MATRIX + LAYER_Q, 0, FIELD(dwq)},
               {CASE_MATRIX + LAYER_K, 0, FIELD(dwk)},
               {CASE_MATRIX + LAYER_V, 0, FIELD(dwv)},
               {CASE_MATRIX + LAYER_O, 0, FIELD(dwo)},
               {CASE_MATRIX_BIAS + LAYER_Q, 0, FIELD(dbq)},
               {CASE_MATRIX_BIAS + LAYER_K, 0, FIELD(dbk)},
               {CASE_MATRIX_BIAS + LAYER_V, 0, FIELD(dbv)},
               {CASE_MATRIX_BIAS + LAYER_O, 0, FIELD(dbo)},
               {CASE_NORM, 0, FIELD(dq_norm)},
               {CASE_NORM + 1, 0, FIELD(dk_norm)},
               {CASE_GATE, 0, FIELD(dw_gate)},
               {CASE_GATE_BIAS, 0, FIELD(db_gate)},
               {CASE_BIAS, 0, FIELD(dbias)},
               {-1, CASE_SINKS, FIELD(dsinks)},
               {-1, CASE_ALIBI, FIELD(dalibi_slopes)},
               {-1, CASE_HEAD_SCALES, FIELD(dhead_scales)}};
#define RESULTS ((int)(sizeof results / sizeof results[0]))

struct gradients {
    struct case_data *data;
    struct case_arrays arrays;
    struct guarded dout_array, got[RESULTS];
    double *dout, *want[RESULTS]; // want: NULL if the case has no such gradient
    clattn_layer_backward_params params;
};

static struct guarded_shape shape_of(const struct test_case *t, int n) {
    struct guarded_shape shape = {CLATTN_TYPE_F32, 1, {t->heads}, layout_loose(t->layout)};
    if (results[n].tensor < 0) {
        shape.rank = (t->hosts & CASE_HOST_BIT(results[n].host)) != 0;
        return shape;
    }
    shape = case_shape(t, results[n].tensor);
    if (results[n].tensor == CASE_BIAS) shape.type = CLATTN_TYPE_F32;
    return shape;
}

static int length(const int32_t *lengths, int64_t b, int64_t all) {
    return lengths ? lengths[b] : (int)all;
}

static void poison(double *x, int64_t rows, int64_t width, int64_t b, int from) {
    for (int64_t n = (b * rows + from) * width; n < (b + 1) * rows * width; n++) x[n] = NAN;
}

// Write NaN to rows past the lengths in dout and x, or in x and y. In self-attention, rows of x
// that are keys but no query rows keep their numbers.
static void hide(struct gradients *g) {
    const struct test_case *t = &g->data->test;
    for (int64_t b = 0; b < t->batch; b++) {
        const int q = length(t->score.q_lengths, b, t->n_q), k = length(t->score.kv_lengths, b, t->n_kv);
        poison(g->dout, t->n_q, t->width_out, b, q);
        poison(g->data->x, t->n_q, t->width, b, case_is_self(t) && k > q ? k : q);
        if (!case_is_self(t)) poison(g->data->y, t->n_kv, t->width_y, b, k);
    }
}

static void open_case(struct gradients *g, const char *name, clattn_projection projection) {
    struct test_case test;
    char why[512];
    *g = (struct gradients){0};
    ck_assert_msg(case_read(name, &test, why), "%s: %s", name, why);
    test.projection = projection;
    g->data = case_make(&test);
    const struct test_case *t = &g->data->test;
    struct random random = {99};
    const struct guarded_shape out = case_shape(t, CASE_OUT);
    g->dout = case_random(&random, guarded_shape_count(&out), t->q_type, 1.0);
    hide(g);
    case_bind(g->data, harness_place(), &g->arrays);
    g->dout_array = guarded_input(harness_place(), &out, g->dout);
    g->params.forward = g->arrays.layer;
    g->params.dout = g->dout_array.view;
    for (int n = 0; n < RESULTS; n++) {
        const struct guarded_shape shape = shape_of(t, n);
        if (shape.rank == 0) continue;
        g->got[n] = guarded_output(harness_place(), &shape);
        *(clattn_tensor *)((char *)&g->params + results[n].field) = g->got[n].view;
    }
}

static void close_case(struct gradients *g) {
    for (int n = 0; n < RESULTS; n++) {
        guarded_release(&g->got[n]);
        free(g->want[n]);
    }
    guarded_release(&g->dout_array);
    case_unbind(&g->arrays);
    case_free(g->data);
    free(g->dout);
}

// Loss whose gradient with respect to the result is dout. Rows past the lengths do not contribute.
static double loss(const struct gradients *g) {
    const struct guarded_shape shape = case_shape(&g->data->test, CASE_OUT);
    struct case_result r = case_reference(g->data, CLATTN_TYPE_F32, NULL);
    double sum = 0.0;
    for (int64_t n = 0; n < guarded_shape_count(&shape); n++)
        if (r.out[n] < REFERENCE_UNTOUCHED) sum += g->dout[n] * r.out[n];
    case_result_free(&r);
    return sum;
}

static double difference_of(const struct gradients *g, double *x) {
    const double step = 1e-4, middle = *x;
    *x = middle + step;
    const double above = loss(g);
    *x = middle - step;
    const double below = loss(g);
    *x = middle;
    return (above - below) / (2 * step);
}

// Central difference for a number that the case stores as float.
static double difference_of_float(const struct gradients *g, float *x) {
    const float step = 0x1p-14f, middle = *x, high = middle + step, low = middle - step;
    *x = high;
    const double above = loss(g);
    *x = low;
    const double below = loss(g);
    *x = middle;
    return (above - below) / ((double)high - (double)low);
}

// Step between the checked elements of a tensor, at most about 150.
static int64_t every(int64_t count) {
    return count / 150 + 1;
}

static void make_wanted(struct gradients *g) {
    for (int n = 0; n < RESULTS; n++) {
        const int64_t count = g->got[n].view.rank ? guarded_count(&g->got[n].view) : 0;
        if (count == 0) continue;
        g->want[n] = calloc((size_t)count, sizeof *g->want[n]);
        for (int64_t i = 0; i < count; i += every(count))
            g->want[n][i] = results[n].tensor < 0
                                ? difference_of_float(g, &g->data->floats[results[n].host][i])
                                : difference_of(g, &g->data->input[results[n].tensor][i]);
    }
}

static bool is_finite_input(const struct gradients *g, int n, int64_t i) {
    return results[n].tensor < 0 || isfinite(g->data->input[results[n].tensor][i]);
}

// The bound covers the rounding of the result and of float32 sums. Gradients of hidden rows are
// exactly 0.
static void assert_result(const struct gradients *g, const char *name, int n) {
    const int64_t count = guarded_count(&g->got[n].view);
    double *got = calloc((size_t)count, sizeof *got), size = 1.0;
    ck_assert_msg(guarded_read(&g->got[n], harness()->queue, got), "%s: around result %d", name, n);
    for (int64_t i = 0; i < count; i++) size = fmax(size, fabs(g->want[n][i]));
    for (int64_t i = 0; i < count; i += every(count)) {
        const double want = g->want[n][i],
                     most = 1e-5 * size + 1.01 * storage_roundoff(g->got[n].view.type) * fabs(want);
        ck_assert_msg(fabs(got[i] - want) <= most, "%s: element %lld of result %d is %.9g, not %.9g", name,
                      (long long)i, n, got[i], want);
        ck_assert_msg(is_finite_input(g, n, i) || got[i] == 0.0, "%s: element %lld of result %d is hidden",
                      name, (long long)i, n);
    }
    free(got);
}

static void enqueue(const struct gradients *g, const char *name, cl_command_queue queue) {
    const clattn_status status =
        clattn_layer_backward_enqueue(harness()->context, queue, &g->params, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", name, harness_log_text());
    harness_finish(queue);
}

static void give_workspace(struct gradients *g) {
    size_t bytes = 0;
    cl_int code;
    ck_assert_int_eq(clattn_layer_backward_workspace(harness()->context, &g->params, &bytes), CLATTN_OK);
    g->params.workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    harness_expect(code, "clCreateBuffer");
}

static void assert_bits(const struct gradients *g, const char *name, uint8_t *const first[RESULTS]) {
    for (int n = 0; n < RESULTS; n++) {
        uint8_t *again = first[n] ? guarded_bytes(&g->got[n], harness()->queue) : NULL;
        if (again)
            ck_assert_msg(memcmp(again, first[n], g->got[n].bytes) == 0, "%s: bits of result %d", name, n);
        free(again);
    }
}

// Run the forward call. `kept` has exactly the required size and starts at an odd offset. Uses the
// workspace of the gradients.
static struct guarded forward_call(struct gradients *g, const char *name) {
    struct guarded_shape shape = {CLATTN_TYPE_F32, 1, {0}, LAYOUT_PADDED};
    clattn_layer_backward_params sizes = g->params;
    sizes.forward.out = (clattn_tensor){0};
    ck_assert_int_eq(clattn_layer_kept(harness()->context, &sizes, &shape.shape[0]), CLATTN_OK);
    struct guarded kept = guarded_output(harness_place(), &shape);
    g->params.kept = kept.view;
    give_workspace(g);
    const clattn_status status =
        clattn_layer_forward_enqueue(harness()->context, harness()->queue, &g->params, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", name, harness_log_text());
    char why[512] = "";
    ck_assert_msg(case_holds(g->data, &g->arrays, harness()->queue, why, sizeof why), "%s: %s", name, why);
    return kept;
}

static void assert_case(const char *name, clattn_projection projection) {
    struct gradients g;
    open_case(&g, name, projection);
    enqueue(&g, name, harness()->queue);
    make_wanted(&g);
    for (int n = 0; n < RESULTS; n++)
        if (g.want[n]) assert_result(&g, name, n);
    for (int n = 0; n < CASE_INPUTS; n++)
        ck_assert_msg(!guarded_given(&g.arrays.all[n].view) ||
                          guarded_intact(&g.arrays.all[n], harness()->queue),
                      "%s: input %d changed", name, n);
    ck_assert_msg(guarded_intact(&g.arrays.out, harness()->queue), "%s: out was written", name);
    // Fail unless gradients have the same bits on the other queue, with a workspace of exactly the
    // required size, and from the kept state.
    uint8_t *first[RESULTS];
    for (int n = 0; n < RESULTS; n++)
        first[n] = g.want[n] ? guarded_bytes(&g.got[n], harness()->queue) : NULL;
    give_workspace(&g);
    enqueue(&g, name, harness()->out_of_order ? harness()->out_of_order : harness()->queue);
    assert_bits(&g, name, first);
    clReleaseMemObject(g.params.workspace), g.params.workspace = NULL;
    struct guarded kept = forward_call(&g, name);
    double *numbers = calloc((size_t)kept.view.shape[0], sizeof *numbers);
    ck_assert_msg(guarded_read(&kept, harness()->queue, numbers), "%s: around what was kept", name);
    uint8_t *before = guarded_bytes(&kept, harness()->queue);
    enqueue(&g, name, harness()->queue);
    assert_bits(&g, name, first);
    uint8_t *after = guarded_bytes(&kept, harness()->queue);
    ck_assert_msg(memcmp(before, after, kept.bytes) == 0, "%s: what was kept changed", name);
    free(numbers), free(before), free(after);
    clReleaseMemObject(g.params.workspace);
    guarded_release(&kept);
    for (int n = 0; n < RESULTS; n++) free(first[n]);
    close_case(&g);
}

START_TEST(agrees_with_differences) {
    assert_case(cases[_i], CLATTN_PROJECTION_NATIVE);
}
END_TEST

START_TEST(clblast_agrees) {
    if (harness_has_clblast()) assert_case(cases[_i], CLATTN_PROJECTION_CLBLAST);
}
END_TEST

// Without rows the gradients of weights are 0, and empty tensors are not touched. Buffers hold 77
// beforehand.
enum { ROOM = 1 << 8, WIDTH = 4, HEADS = 2 };
static cl_mem floats(float value) {
    float values[ROOM];
    cl_int code;
    for (int n = 0; n < ROOM; n++) values[n] = value;
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_COPY_HOST_PTR, sizeof values, values, &code);
    harness_expect(code, "clCreateBuffer");
    return buffer;
}

static void assert_floats(cl_mem buffer, int64_t count, const char *name) {
    float got[ROOM];
    harness_expect(clEnqueueReadBuffer(harness()->queue, buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
    for (int n = 0; n < ROOM; n++)
        ck_assert_msg(got[n] == (n < count ? 0.0f : 77.0f), "%s: element %d is %g", name, n, (double)got[n]);
}

// Without rows nothing is written. Without keys and biases the result is 0.
static void assert_forward_of_zero(clattn_layer_backward_params *p) {
    const int64_t count = p->dout.shape[0] * p->dout.shape[1] * WIDTH;
    int64_t numbers;
    cl_mem out = floats(77.0f);
    cl_int code;
    p->forward.out = clattn_tensor_dense(out, CLATTN_TYPE_F32, 3, p->dout.shape);
    ck_assert_int_eq(clattn_layer_kept(harness()->context, p, &numbers), CLATTN_OK);
    cl_mem kept = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, sizeof(float) * (size_t)(numbers + 1),
                                 NULL, &code);
    harness_expect(code, "clCreateBuffer");
    p->kept = clattn_tensor_dense(kept, CLATTN_TYPE_F32, 1, &numbers);
    const clattn_status status =
        clattn_layer_forward_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    assert_floats(out, count, "sizes of zero, forward");
    clReleaseMemObject(kept);
    clReleaseMemObject(out);
}

static const int64_t zeros[][3] = {{0, 3, 5}, {2, 0, 5}, {2, 3, 0}}; // B, Nq, Nkv
START_TEST(sizes_of_zero) {
    const int64_t *n = zeros[_i], x[3] = {n[0], n[1], WIDTH}, y[3] = {n[0], n[2], WIDTH},
                  w[2] = {2 * HEADS, WIDTH}, norm[1] = {2};
    cl_mem in = floats(0.5f), to[6];
    for (int i = 0; i < 6; i++) to[i] = floats(77.0f);
    const clattn_tensor matrix = clattn_tensor_dense(in, CLATTN_TYPE_F32, 2, w);
    clattn_layer_backward_params p = {
        .forward = {.x = clattn_tensor_dense(in, CLATTN_TYPE_F32, 3, x),
                    .y = clattn_tensor_dense(in, CLATTN_TYPE_F32, 3, y),
                    .wq = matrix,
                    .wk = matrix,
                    .wv = matrix,
                    .wo = matrix,
                    .w_gate = matrix,
                    .heads = HEADS,
                    .norm = CLATTN_NORM_HEADS,
                    .q_norm = clattn_tensor_dense(in, CLATTN_TYPE_F32, 1, norm)},
        .dout = clattn_tensor_dense(in, CLATTN_TYPE_F32, 3, x),
        .dx = clattn_tensor_dense(to[0], CLATTN_TYPE_F32, 3, x),
        .dy = clattn_tensor_dense(to[1], CLATTN_TYPE_F32, 3, y),
        .dwq = clattn_tensor_dense(to[2], CLATTN_TYPE_F32, 2, w),
        .dwv = clattn_tensor_dense(to[3], CLATTN_TYPE_F32, 2, w),
        .dw_gate = clattn_tensor_dense(to[4], CLATTN_TYPE_F32, 2, w),
        .dq_norm = clattn_tensor_dense(to[5], CLATTN_TYPE_F32, 1, norm)};
    const int64_t counts[6] = {n[0] * n[1] * WIDTH, n[0] * n[2] * WIDTH, 16, 16, 16, 2};
    const clattn_status status =
        clattn_layer_backward_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    // Without keys or rows every gradient is 0.
    for (int i = 0; i < 6; i++) assert_floats(to[i], counts[i], "sizes of zero");
    assert_forward_of_zero(&p);
    for (int i = 0; i < 6; i++) clReleaseMemObject(to[i]);
    clReleaseMemObject(in);
}
END_TEST

START_TEST(waits_for_its_list) {
    struct gradients g;
    open_case(&g, cases[5], CLATTN_PROJECTION_AUTO);
    cl_command_queue queue = _i && harness()->out_of_order ? harness()->out_of_order : harness()->queue;
    cl_event gate = harness_gate(), done = NULL;
    const clattn_status status =
        clattn_layer_backward_enqueue(harness()->context, queue, &g.params, 1, &gate, &done);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    harness_open_gate(gate, done, queue);
    make_wanted(&g);
    for (int n = 0; n < RESULTS; n++)
        if (g.want[n]) assert_result(&g, cases[5], n);
    close_case(&g);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_backward");
    TCase *group = harness_add(suite, "gradients", (const TTest *const[]){NULL});
    harness_add_loop(group, agrees_with_differences, CASES);
    harness_add_loop(group, clblast_agrees, CASES);
    tcase_add_loop_test(group, sizes_of_zero, 0, 3);
    tcase_add_loop_test(group, waits_for_its_list, 0, 2);
    return harness_run(suite);
}
