// test_backward.c: gradients of attention on the device: the hard cases, equal bits in repeated
// calls, the plan compared with the call, the caller's workspace, a wait list, sizes of zero.
// Refusals are in test_errors_backward.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_assert.h"
#include "verification/sets/hard_cases.h"

#define MOST_HARD 200

static int hard[MOST_HARD], hard_count; // the hard cases of gradients

START_TEST(hard_cases_agree) {
    const struct test_case test = hard_case(hard[_i]);
    case_assert(&test);
}
END_TEST

// Options that kernels implement in their own ways.
static const char *const again[] = {
    "backward-f32-b2-h4-hkv2-n65-nkv127-d64-causal-dlse-alibi-sinks-headscales",
    "backward-bf16-b2-h6-hkv2-n40-nkv300-d80-full-dlse-biasqk-dropout0.3:7",
    "backward-f32-b3-h4-hkv2-n33-nkv130-d32-causal-biask-qlen33:0:7-kvlen130:9:0-ropehalf-raggeddevice",
};
#define AGAIN ((int)(sizeof again / sizeof again[0]))

static size_t bytes_of(const struct case_data *data, int gradient) {
    const struct guarded_shape shape = case_shape(&data->test, CASE_GRADIENT + gradient);
    return (size_t)guarded_shape_count(&shape) * sizeof(double);
}

// Every fourth time uses the out-of-order queue. A shortened run repeats six times.
START_TEST(same_bits_many_times) {
    struct case_arrays arrays;
    const int times = harness_every() > 1 ? 6 : 20;
    struct case_data *data = case_open(again[_i], &arrays);
    struct case_result first = case_run(data, harness()->queue);
    ck_assert_msg(first.status == CLATTN_OK, "%s: %s", again[_i], first.message);
    for (int n = 1; n < times; n++) {
        const bool other = n % 4 == 3 && harness()->out_of_order;
        struct case_result got = case_run(data, other ? harness()->out_of_order : harness()->queue);
        for (int g = 0; g < GRADIENTS; g++) {
            ck_assert_msg((got.gradient[g] == NULL) == (first.gradient[g] == NULL), "%s", again[_i]);
            if (got.gradient[g]) ck_assert_mem_eq(got.gradient[g], first.gradient[g], bytes_of(data, g));
        }
        case_result_free(&got);
    }
    case_result_free(&first);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// Plan, prepare and workspace accept the call without buffers, and a workspace of exactly the
// planned size is enough.
START_TEST(plans_and_scratch_memory) {
    struct case_arrays arrays;
    clattn_context *context = harness()->context;
    struct case_data *data = case_open(again[_i], &arrays);
    clattn_attention_backward_params *p = &arrays.backward, bare = *p;
    clattn_tensor *const views[] = {&bare.forward.q,   &bare.forward.kv.k, &bare.forward.kv.v,
                                    &bare.forward.out, &bare.forward.lse,  &bare.dout,
                                    &bare.dq,          &bare.dk,           &bare.dv};
    clattn_plan plan;
    size_t bytes = 1;
    char why[512] = "";
    cl_int code;
    for (size_t n = 0; n < sizeof views / sizeof views[0]; n++) views[n]->buffer = NULL;
    ck_assert_msg(clattn_attention_backward_plan(context, &bare, &plan) == CLATTN_OK, "%s",
                  harness_log_text());
    ck_assert(plan.kernel_name[0] != '\0' && plan.why[0] != '\0' && plan.splits >= 1);
    ck_assert_msg(clattn_attention_backward_prepare(context, &bare) == CLATTN_OK, "%s", harness_log_text());
    ck_assert_int_eq(clattn_attention_backward_workspace(context, &bare, &bytes), CLATTN_OK);
    ck_assert_uint_eq(bytes, plan.workspace_bytes);
    if (bytes > 0) {
        p->workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
        harness_expect(code, "clCreateBuffer");
    }
    const clattn_status status = case_enqueue(context, harness()->queue, &arrays, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", again[_i], harness_log_text());
    ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s: %s", again[_i], why);
    if (p->workspace) clReleaseMemObject(p->workspace);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// The expression changes no score of an existing row, and returns NaN for the row behind the last.
// A kernel that multiplies whole vectors or tiles of rows must not add it.
START_TEST(rows_that_are_not_there) {
    struct case_arrays arrays;
    char why[512] = "";
    struct case_data *data = case_open("backward-bf16-b1-h2-n33-nkv40-d64-full-dlse", &arrays);
    arrays.backward.forward.score.score_mod = "score + 0.0f * (1.0f / (33.0f - (float)i))";
    arrays.backward.score_mod_gradient = "1.0f";
    const clattn_status status = case_enqueue(harness()->context, harness()->queue, &arrays, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s", why);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

START_TEST(waits_for_its_list) {
    struct case_arrays arrays;
    char why[512] = "";
    struct case_data *data = case_open(again[0], &arrays);
    cl_command_queue queue = _i && harness()->out_of_order ? harness()->out_of_order : harness()->queue;
    cl_event gate = harness_gate(), done = NULL;
    const clattn_status status =
        clattn_attention_backward_enqueue(harness()->context, queue, &arrays.backward, 1, &gate, &done);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    harness_open_gate(gate, done, queue);
    ck_assert_msg(case_holds(data, &arrays, queue, why, sizeof why), "%s", why);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// Sizes of zero: the expected results for each letter.
enum { B, H, NQ, NKV, D, DV, LETTERS };
enum zero { NOTHING, NO_ROWS, NO_KEYS, REFUSED };
static const struct {
    const char *name, *word;
    enum zero becomes;
} zeros[LETTERS] = {{"B", "", NOTHING},
                    {"H", "", NOTHING},
                    {"Nq", "", NO_ROWS},
                    {"Nkv", "", NO_KEYS},
                    {"D", "head size 0", REFUSED},
                    {"Dv", "head size 0", REFUSED}};
enum { ROOM = 1 << 10, BUFFERS = 8 };

static cl_mem floats(float value) {
    float values[ROOM];
    cl_int code;
    for (int n = 0; n < ROOM; n++) values[n] = value;
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_COPY_HOST_PTR, sizeof values, values, &code);
    harness_expect(code, "clCreateBuffer");
    return buffer;
}

// The first `count` floats have this value, and the rest is unchanged.
static void assert_floats(cl_mem buffer, int64_t count, double value, const char *name, int result) {
    float got[ROOM];
    harness_finish(harness()->queue);
    harness_expect(clEnqueueReadBuffer(harness()->queue, buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
    for (int n = 0; n < ROOM; n++)
        ck_assert_msg(fabs((double)got[n] - (n < count ? value : 77.0)) < 1e-5,
                      "%s of 0: element %d of result %d is %g", name, n, result, (double)got[n]);
}

static clattn_tensor dense(cl_mem buffer, int rank, const int64_t *shape) {
    return clattn_tensor_dense(buffer, CLATTN_TYPE_F32, rank, shape);
}

// The results are in `to`, in the order of GRADIENT_Q. A row without keys has an out of 0, and its
// lse is its sink.
struct values {
    cl_mem halves, zeros, ones, to[GRADIENTS];
};

static clattn_attention_backward_params call_of(const int64_t n[LETTERS], const struct values *x) {
    static const float slopes[] = {0.5f, 0.25f}, sinks[] = {1, 1}, scales[] = {0.1f, 0.2f};
    const int64_t q[] = {n[B], n[H], n[NQ], n[D]}, k[] = {n[B], n[H], n[NKV], n[D]},
                  v[] = {n[B], n[H], n[NKV], n[DV]}, out[] = {n[B], n[H], n[NQ], n[DV]},
                  bias[] = {n[NQ], n[NKV]}, heads[] = {n[H]};
    clattn_attention_backward_params p = {
        .forward = {.q = dense(x->halves, 4, q), .out = dense(x->zeros, 4, out)}};
    const cl_mem in = x->halves, *to = x->to;
    p.forward.kv.k = dense(in, 4, k), p.forward.kv.v = dense(in, 4, v);
    p.forward.lse = dense(x->ones, 3, out), p.forward.score.bias = dense(in, 2, bias);
    p.forward.score.alibi_slopes = slopes, p.forward.score.sinks = sinks,
    p.forward.score.head_scales = scales;
    p.dout = dense(in, 4, out), p.dlse = dense(in, 3, out);
    p.dq = dense(to[GRADIENT_Q], 4, q), p.dk = dense(to[GRADIENT_K], 4, k),
    p.dv = dense(to[GRADIENT_V], 4, v);
    p.dbias = dense(to[GRADIENT_BIAS], 2, bias), p.dsinks = dense(to[GRADIENT_SINKS], 1, heads);
    p.dalibi_slopes = dense(to[GRADIENT_SLOPES], 1, heads);
    p.dhead_scales = dense(to[GRADIENT_SCALES], 1, heads);
    return p;
}

START_TEST(sizes_of_zero) {
    int64_t n[LETTERS] = {2, 2, 3, 5, 8, 4};
    const enum zero becomes = zeros[_i].becomes;
    struct values x = {floats(0.5f), floats(0.0f), floats(1.0f), {NULL}};
    cl_event event = NULL;
    char why[256] = "";
    n[_i] = 0;
    for (int g = 0; g < GRADIENTS; g++) x.to[g] = floats(77.0f);
    clattn_attention_backward_params p = call_of(n, &x);
    const clattn_status status =
        clattn_attention_backward_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == (becomes == REFUSED ? CLATTN_INVALID_ARGUMENT : CLATTN_OK), "%s of 0: %s",
                  zeros[_i].name, why);
    ck_assert_msg(becomes != REFUSED || strstr(why, zeros[_i].word), "%s of 0: %s", zeros[_i].name, why);
    ck_assert((event == NULL) == (becomes == REFUSED));
    if (event) harness_expect(clWaitForEvents(1, &event), "clWaitForEvents"), clReleaseEvent(event);
    const clattn_tensor *const results[GRADIENTS] = {
        &p.dq, &p.dk, &p.dv, &p.dbias, &p.dsinks, &p.dalibi_slopes, &p.dhead_scales};
    for (int g = 0; g < GRADIENTS; g++) {
        const bool made = becomes == NO_ROWS || becomes == NO_KEYS;
        // The gradient of a sink that has the whole weight is dlse.
        const double value = becomes == NO_KEYS && g == GRADIENT_SINKS ? 0.5 * (double)(n[B] * n[NQ]) : 0;
        assert_floats(x.to[g], made ? guarded_count(results[g]) : 0, value, zeros[_i].name, g);
        clReleaseMemObject(x.to[g]);
    }
    clReleaseMemObject(x.halves), clReleaseMemObject(x.zeros), clReleaseMemObject(x.ones);
}
END_TEST

int main(void) {
    const TTest *const none[] = {NULL};
    for (int n = 0; n < hard_case_count && hard_count < MOST_HARD; n++)
        if (hard_case(n).op == CASE_BACKWARD) hard[hard_count++] = n;
    Suite *suite = suite_create("backward");
    harness_add_loop(harness_add(suite, "hard", none), hard_cases_agree, hard_count);
    TCase *group = harness_add(suite, "calls", none);
    tcase_add_loop_test(group, same_bits_many_times, 0, AGAIN);
    tcase_add_loop_test(group, plans_and_scratch_memory, 0, AGAIN);
    tcase_add_test(group, rows_that_are_not_there);
    tcase_add_loop_test(group, waits_for_its_list, 0, 2);
    tcase_add_loop_test(group, sizes_of_zero, 0, LETTERS);
    return harness_run(suite);
}
