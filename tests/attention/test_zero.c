// test_zero.c: a size of zero for every letter in every call: the call does nothing, has empty
// rows, or is refused. Plan and call must agree. Sizes of zero with random options are in
// test_promises.c.
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The result of a call with a zero size. NOTHING: it writes nothing, and its event completes.
// EMPTY_ROWS: every row sees no key. REFUSED: it is refused with the word of its line.
enum outcome { NOTHING, EMPTY_ROWS, REFUSED };

enum { B, H, HKV, NQ, NKV, D, DV, LETTERS };
enum { ROOM = 1 << 12 }; // floats of every buffer
static const char *const letters[LETTERS] = {"B", "H", "Hkv", "Nq", "Nkv", "D", "Dv"};

static cl_mem input, output, more_output, like_output;

static cl_mem make_buffer(float value) {
    cl_int code;
    float values[ROOM];
    for (int i = 0; i < ROOM; i++) values[i] = value;
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_COPY_HOST_PTR, sizeof values, values, &code);
    harness_expect(code, "clCreateBuffer");
    return buffer;
}

static void setup(void) {
    input = make_buffer(0.5f);
    output = make_buffer(77.0f);
    more_output = make_buffer(77.0f);
    like_output = make_buffer(77.0f);
}

static void teardown(void) {
    clReleaseMemObject(input), clReleaseMemObject(output);
    clReleaseMemObject(more_output), clReleaseMemObject(like_output);
}

// Fail unless the first `count` floats have one value, and the rest of the buffer is unchanged.
static void assert_floats(cl_mem buffer, int count, double value, const char *name) {
    static float got[ROOM];
    harness_finish(harness()->queue);
    harness_expect(clEnqueueReadBuffer(harness()->queue, buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
    for (int i = 0; i < ROOM; i++) {
        const double want = i < count ? value : 77.0;
        const bool right = (double)got[i] == want || fabs((double)got[i] - want) < 1e-5;
        ck_assert_msg(right, "%s: element %d is %g instead of %g", name, i, (double)got[i], want);
    }
}

static clattn_tensor view(cl_mem buffer, int rank, const int64_t *shape) {
    return clattn_tensor_dense(buffer, CLATTN_TYPE_F32, rank, shape);
}

static void assert_status(const char *name, clattn_status status, enum outcome outcome, const char *word) {
    char why[256] = "";
    if (outcome != REFUSED) {
        ck_assert_msg(status == CLATTN_OK, "%s: %s (%s)", name, clattn_status_name(status),
                      harness_log_text());
        return;
    }
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == CLATTN_INVALID_ARGUMENT, "%s: %s", name, clattn_status_name(status));
    ck_assert_msg(strstr(why, word), "%s: no '%s' in: %s", name, word, why);
}

// The event of a call completes in every case.
static void assert_event(const char *name, cl_event event, enum outcome outcome) {
    ck_assert_msg((event == NULL) == (outcome == REFUSED), "%s: %s", name, event ? "an event" : "no event");
    if (!event) return;
    harness_expect(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
}

static clattn_attention_params attention_of(const int64_t n[LETTERS]) {
    const int64_t q[] = {n[B], n[H], n[NQ], n[D]}, k[] = {n[B], n[HKV], n[NKV], n[D]},
                  v[] = {n[B], n[HKV], n[NKV], n[DV]}, out[] = {n[B], n[H], n[NQ], n[DV]};
    clattn_attention_params p = {.q = view(input, 4, q), .out = view(output, 4, out)};
    p.kv.k = view(input, 4, k), p.kv.v = view(input, 4, v);
    p.lse = view(more_output, 3, out);
    return p;
}

static const struct {
    unsigned zeros; // one bit for each letter that is 0
    enum outcome outcome;
    const char *word;
} attentions[] = {{1u << B, NOTHING, ""},
                  {1u << NQ, NOTHING, ""},
                  {1u << H, NOTHING, ""},
                  {1u << H | 1u << HKV, NOTHING, ""},
                  {1u << HKV, REFUSED, "heads: "},
                  {1u << NKV, EMPTY_ROWS, ""},
                  {1u << NQ | 1u << NKV, NOTHING, ""},
                  {1u << D, REFUSED, "q: head size 0"},
                  {1u << DV, REFUSED, "v: head size 0"},
                  {1u << B | 1u << D, REFUSED, "q: head size 0"}};
#define ATTENTIONS ((int)(sizeof attentions / sizeof attentions[0]))

// Sizes of zero with each kernel, and with RoPE, whose copies of q and k are then empty.
START_TEST(attention) {
    const int row = _i % ATTENTIONS, rope = _i / ATTENTIONS % 2;
    int64_t n[LETTERS] = {2, 4, 2, 3, 5, 8, 8};
    char name[64] = "";
    cl_event event = NULL;
    clattn_plan plan;
    for (int l = 0; l < LETTERS; l++) {
        if (!(attentions[row].zeros >> l & 1)) continue;
        n[l] = 0;
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s 0 ", letters[l]);
    }
    clattn_attention_params p = attention_of(n);
    p.kernel = case_kernel(_i / ATTENTIONS / 2);
    if (rope) p.rope.layout = CLATTN_ROPE_HALF;
    const enum outcome outcome = attentions[row].outcome;
    assert_status(name, clattn_attention_plan(harness()->context, &p, &plan), outcome, attentions[row].word);
    assert_status(name, clattn_attention_prepare(harness()->context, &p), outcome, attentions[row].word);
    assert_status(name, clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event),
                  outcome, attentions[row].word);
    assert_event(name, event, outcome);
    assert_floats(output, outcome == EMPTY_ROWS ? 2 * 4 * 3 * 8 : 0, 0, name);
    assert_floats(more_output, outcome == EMPTY_ROWS ? 2 * 4 * 3 : 0, -(double)INFINITY, name);
    if (outcome == REFUSED) return;
    clattn_tensor *views[] = {&p.q, &p.kv.k, &p.kv.v, &p.out};
    for (int i = 0; i < 4; i++)
        if (guarded_count(views[i]) == 0) views[i]->buffer = NULL;
    ck_assert(!p.q.buffer || !p.kv.k.buffer);
    assert_status(name, clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                  outcome, "");
    assert_floats(output, outcome == EMPTY_ROWS ? 2 * 4 * 3 * 8 : 0, 0, name);
}
END_TEST

enum { LAYER_B, LAYER_NQ, LAYER_NKV, LAYER_M, LAYER_MY, LAYER_MO, LAYER_D, LAYER_DV, LAYER_H, LAYER_HKV };
static const struct {
    const char *name;
    int letter;
    enum outcome outcome;
    const char *word;
} layers[] = {{"B", LAYER_B, NOTHING, ""},
              {"Nq", LAYER_NQ, NOTHING, ""},
              {"Nkv", LAYER_NKV, EMPTY_ROWS, ""},
              {"M", LAYER_M, REFUSED, "model width"},
              {"My", LAYER_MY, REFUSED, "model width"},
              {"Mo", LAYER_MO, REFUSED, "model width"},
              {"D", LAYER_D, REFUSED, "wq: 0 rows"},
              {"Dv", LAYER_DV, REFUSED, "wv: 0 rows"},
              {"H", LAYER_H, REFUSED, "heads: 0"},
              {"Hkv", LAYER_HKV, NOTHING, ""}}; // the default: the number of heads
#define LAYERS ((int)(sizeof layers / sizeof layers[0]))

static clattn_layer_params layer_of(const int64_t n[10]) {
    const int64_t x[] = {n[LAYER_B], n[LAYER_NQ], n[LAYER_M]}, y[] = {n[LAYER_B], n[LAYER_NKV], n[LAYER_MY]},
                  out[] = {n[LAYER_B], n[LAYER_NQ], n[LAYER_MO]}, wq[] = {4 * n[LAYER_D], n[LAYER_M]},
                  wk[] = {4 * n[LAYER_D], n[LAYER_MY]}, wv[] = {4 * n[LAYER_DV], n[LAYER_MY]},
                  wo[] = {n[LAYER_MO], 4 * n[LAYER_DV]}, bo[] = {n[LAYER_MO]};
    return (clattn_layer_params){.x = view(input, 3, x),
                                 .y = view(input, 3, y),
                                 .out = view(output, 3, out),
                                 .wq = view(input, 2, wq),
                                 .wk = view(input, 2, wk),
                                 .wv = view(input, 2, wv),
                                 .wo = view(input, 2, wo),
                                 .bo = view(input, 1, bo),
                                 .heads = (int32_t)n[LAYER_H],
                                 .kv_heads = (int32_t)n[LAYER_HKV]};
}

// Heads that see no key are 0. The layer's result is then the bias of its last projection, here
// 0.5.
START_TEST(layer) {
    const int row = _i % LAYERS;
    int64_t n[10] = {2, 3, 5, 16, 16, 16, 8, 8, 4, 4};
    cl_event event = NULL;
    clattn_plan plan;
    n[layers[row].letter] = 0;
    clattn_layer_params p = layer_of(n);
    p.projection = (clattn_projection)(_i / LAYERS);
    if (p.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) return;
    const enum outcome outcome = layers[row].outcome;
    const bool works = layers[row].letter == LAYER_HKV;
    assert_status(layers[row].name, clattn_layer_plan(harness()->context, &p, &plan), outcome,
                  layers[row].word);
    assert_status(layers[row].name,
                  clattn_layer_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event), outcome,
                  layers[row].word);
    assert_event(layers[row].name, event, outcome);
    if (works) return;
    assert_floats(output, outcome == EMPTY_ROWS ? 2 * 3 * 16 : 0, 0.5, layers[row].name);
    if (outcome != EMPTY_ROWS) return;
    p.bo = (clattn_tensor){0};
    ck_assert_int_eq(clattn_layer_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                     CLATTN_OK);
    assert_floats(output, 2 * 3 * 16, 0, "Nkv, no bias");
}
END_TEST

static const struct {
    const char *name;
    int letter; // index in "BNKM" of the size that is 0
    enum outcome outcome;
    const char *word;
} linears[] = {{"B", 0, NOTHING, ""},
               {"N", 1, NOTHING, ""},
               {"K", 2, REFUSED, "x: its last size is 0"},
               {"M", 3, REFUSED, "out: its last size is 0"}};

START_TEST(linear) {
    int64_t n[4] = {2, 3, 16, 8};
    cl_event event = NULL;
    clattn_linear_choice choice;
    n[linears[_i % 4].letter] = 0;
    clattn_linear_params p = {.x = view(input, 3, (const int64_t[]){n[0], n[1], n[2]}),
                              .out = view(output, 3, (const int64_t[]){n[0], n[1], n[3]}),
                              .w = view(input, 2, (const int64_t[]){n[3], n[2]}),
                              .projection = (clattn_projection)(_i / 4)};
    if (p.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) return;
    const char *name = linears[_i % 4].name, *word = linears[_i % 4].word;
    const enum outcome outcome = linears[_i % 4].outcome;
    assert_status(name, clattn_linear_plan(harness()->context, &p, &choice), outcome, word);
    assert_status(name, clattn_linear_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event),
                  outcome, word);
    assert_event(name, event, outcome);
    assert_floats(output, 0, 0, name);
}
END_TEST

// With B, H or Nq of 0 nothing happens. With Dv of 0 there are no numbers except lse, which is
// merged.
START_TEST(merge) {
    int64_t n[4] = {2, 4, 3, 8};
    cl_event event = NULL;
    n[_i] = 0;
    clattn_merge_params p = {.out_a = view(output, 4, n), .out_b = view(input, 4, n)};
    p.lse_a = view(more_output, 3, n), p.lse_b = view(like_output, 3, n);
    const clattn_status status =
        clattn_merge_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event);
    assert_status(letters[_i], status, NOTHING, "");
    assert_event(letters[_i], event, NOTHING);
    assert_floats(output, 0, 0, "out");
    assert_floats(more_output, _i == 3 ? 2 * 4 * 3 : 0, 77 + log(2), "lse");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("zero");
    TCase *group = tcase_create("sizes of zero");
    tcase_set_timeout(group, 0);
    tcase_add_checked_fixture(group, setup, teardown);
    tcase_add_loop_test(group, attention, 0, ATTENTIONS * 2 * 3);
    tcase_add_loop_test(group, layer, 0, LAYERS * CLATTN_PROJECTION_COUNT);
    tcase_add_loop_test(group, linear, 0, 4 * CLATTN_PROJECTION_COUNT);
    tcase_add_loop_test(group, merge, 0, 4);
    suite_add_tcase(suite, group);
    return harness_run(suite);
}
