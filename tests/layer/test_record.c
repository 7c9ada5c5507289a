// test_record.c: recorded and replayed calls (record.h). Nothing runs while calls are recorded. A
// replay returns the bits of the call with the present inputs and lengths, also when fused. The
// suites pairs_recorded and layers_recorded test all options.
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/layer_client.h"
#include "support/small_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One case for each source of memory and launches, from tables of rows to projections by CLBlast.
static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-lse-alibi-sinks-qlen-kvlen-ropehalf",
    "attend-f32-b2-h4-hkv2-n9-nkv33-d32-causal-unfused-lse-qlen",
    "decode-f16-b2-h4-hkv2-n1-nkv300-d32-full-decode-splits3",
    "attend-f32-b2-h2-n9-nkv33-d32-full-flash-kvi8-lse-kvlen33:20-append4",
    "attend-f32-b2-h2-n9-nkv33-d32-full-flash-lse-qlen9:2-kvlen20:33-dropout0.3:7-raggeddevice",
    "attend-f32-b1-h2-n9-nkv33-d32-causal-flash-lse-mods-blocks",
    "layer-bf16-b1-h4-hkv2-n9-d16-m48-causal-native-biases-normheads-gateall-ropehalf",
    "layer-f32-b2-h2-n20-d32-m64-full-qlen-ropehalf",
    "linear-f32-b1-h2-n9-d32-m64-full",
};
enum { NAMES = sizeof names / sizeof names[0] };

static void expect(clattn_status status, const char *what) {
    ck_assert_msg(status == CLATTN_OK, "%s: %s", what, harness_log_text());
}

static clattn_recording *begin(cl_command_queue queue) {
    clattn_recording *r = NULL;
    harness_log_clear();
    expect(clattn_recording_begin(harness()->context, queue, &r), "clattn_recording_begin");
    return r;
}

static void replay(clattn_recording *r, cl_command_queue queue, const char *what) {
    expect(clattn_recording_enqueue(r, queue, 0, NULL, NULL), what);
    harness_finish(queue);
}

static bool is_pocl(void) {
    return strstr(clattn_context_capabilities(harness()->context)->platform, "Portable Computing Language");
}

// On PoCL a fused case has one launch. On other drivers the log may say why nothing changed.
static void fuse(clattn_recording *r, const char *name) {
    const size_t before = clattn_recording_launches(r);
    expect(clattn_recording_fuse(r), name);
    const size_t after = clattn_recording_launches(r);
    ck_assert_msg(after == (strstr(name, "mods") ? before : 1) ||
                      (!is_pocl() && strstr(harness_log_text(), "stay apart")),
                  "%s: %zu of %zu launches: %s", name, after, before, harness_log_text());
    ck_assert(clattn_recording_fuse(r) == CLATTN_OK && clattn_recording_launches(r) == after);
}

// Compare `out` of a call with two replays, on either kind of queue. Intel fuses to other code.
static void same_bits(const char *name, cl_command_queue recorded, cl_command_queue queue, bool fuses) {
    struct case_arrays called, kept;
    char why[512] = "";
    struct case_data *data = case_open(name, &called);
    case_bind(data, harness_place(), &kept);
    clattn_recording *r = begin(recorded);
    expect(case_enqueue(harness()->context, recorded, &kept, NULL), name);
    expect(clattn_recording_end(r), "clattn_recording_end");
    ck_assert_uint_gt(clattn_recording_launches(r), 0);
    if (fuses) fuse(r, name);
    harness_finish(recorded);
    ck_assert_msg(!case_holds(data, &kept, queue, why, sizeof why), "%s: ran while it was recorded", name);
    expect(case_enqueue(harness()->context, queue, &called, NULL), name);
    const int64_t count = guarded_count(&called.out.view);
    double *want = calloc((size_t)count, sizeof *want), *got = calloc((size_t)count, sizeof *got);
    ck_assert(guarded_read(&called.out, queue, want));
    for (int n = 0; n < 2; n++) {
        replay(r, queue, name);
        ck_assert_msg(case_holds(data, &kept, queue, why, sizeof why), "%s: %s", name, why);
        ck_assert(guarded_read(&kept.out, queue, got));
        ck_assert_msg((fuses && !is_pocl()) || memcmp(want, got, (size_t)count * sizeof *got) == 0,
                      "%s: other bits, replay %d", name, n);
    }
    clattn_recording_destroy(r);
    free(want), free(got), case_unbind(&called), case_unbind(&kept);
    case_free(data);
}

START_TEST(cases_give_the_same_bits) {
    cl_command_queue queue = harness()->queue, other = harness()->out_of_order;
    same_bits(names[_i], queue, queue, false);
    const bool fuses = _i == 1 || _i == 3 || _i == 5 || _i == 6; // each needs a second to compile
    if (fuses) same_bits(names[_i], queue, queue, true);
    if (other == NULL) return;
    same_bits(names[_i], other, other, false);
    same_bits(names[_i], queue, other, fuses);
}
END_TEST

START_TEST(small_calls_give_the_same_bits) {
    cl_command_queue queue = harness()->queue;
    struct small_call called, kept;
    double want, before, got;
    small_open(&called, _i, harness_place());
    small_open(&kept, _i, harness_place());
    clattn_recording *r = begin(queue);
    expect(small_enqueue(&kept, harness()->context, queue, 0, NULL, NULL), small_names[_i]);
    expect(clattn_recording_end(r), "clattn_recording_end");
    ck_assert(small_intact(&kept, queue, &before));
    expect(small_enqueue(&called, harness()->context, queue, 0, NULL, NULL), small_names[_i]);
    ck_assert(small_intact(&called, queue, &want) && !(before == want));
    replay(r, queue, small_names[_i]);
    ck_assert(small_intact(&kept, queue, &got));
    ck_assert_msg(got == want, "%s: %g, not %g", small_names[_i], got, want);
    clattn_recording_destroy(r);
    small_close(&called), small_close(&kept);
}
END_TEST

// Two sequences append to caches of different lengths. The layer in `steps[0]` is called each time,
// that in `steps[1]` was recorded once. Only buffers change: x and kv_lengths_device.
enum { SEQUENCES = 2, STEPS = 5, WIDTH = 48, CAPACITY = 24, HEADS = 4, SIZE = 16 };

struct step {
    struct guarded x, out, k, v, cu, lengths;
    clattn_layer_params params;
};

static struct guarded filled(clattn_type type, int rank, const int64_t shape[4], const double *values) {
    const struct guarded_shape s = {
        .type = type, .rank = rank, .shape = {shape[0], shape[1], shape[2], shape[3]}};
    return values ? guarded_in_out(harness_place(), &s, values) : guarded_output(harness_place(), &s);
}

static struct step step_open(const struct guarded *matrices, const double *zeros) {
    const double first[SEQUENCES + 1] = {0, 1, 2}, lengths[SEQUENCES] = {1, 1};
    const int64_t rows[4] = {1, SEQUENCES, WIDTH}, cache[4] = {SEQUENCES, HEADS / 2, CAPACITY, SIZE};
    struct step s = {.x = filled(CLATTN_TYPE_F32, 3, rows, zeros),
                     .out = filled(CLATTN_TYPE_F32, 3, rows, NULL),
                     .k = filled(CLATTN_TYPE_F32, 4, cache, zeros),
                     .v = filled(CLATTN_TYPE_F32, 4, cache, zeros),
                     .cu = filled(CLATTN_TYPE_I32, 1, (const int64_t[4]){SEQUENCES + 1}, first),
                     .lengths = filled(CLATTN_TYPE_I32, 1, (const int64_t[4]){SEQUENCES}, lengths)};
    s.params =
        (clattn_layer_params){.x = s.x.view,
                              .out = s.out.view,
                              .wq = matrices[0].view,
                              .wk = matrices[1].view,
                              .wv = matrices[2].view,
                              .wo = matrices[3].view,
                              .heads = HEADS,
                              .kv_heads = HEADS / 2,
                              .score.causal = true,
                              .score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT,
                              .rope.layout = CLATTN_ROPE_HALF,
                              .kv = {.k = s.k.view, .v = s.v.view, .kv_lengths_device = s.lengths.view},
                              .append = true,
                              .sequences = SEQUENCES,
                              .cu_seqlens_q_device = s.cu.view,
                              .max_q = 1};
    return s;
}

static void step_close(struct step *s) {
    guarded_release(&s->x), guarded_release(&s->out), guarded_release(&s->k);
    guarded_release(&s->v), guarded_release(&s->cu), guarded_release(&s->lengths);
}

static void write(const struct guarded *to, const void *from, size_t bytes) {
    const size_t at = (size_t)to->view.offset * 4; // elements are float32 or i32
    harness_expect(
        clEnqueueWriteBuffer(harness()->queue, to->view.buffer, CL_TRUE, at, bytes, from, 0, NULL, NULL),
        "clEnqueueWriteBuffer");
}

static void make_matrices(struct guarded matrices[4]) {
    static const int64_t sides[4][2] = {
        {HEADS * SIZE, WIDTH}, {HEADS / 2 * SIZE, WIDTH}, {HEADS / 2 * SIZE, WIDTH}, {WIDTH, HEADS * SIZE}};
    struct random random = {.state = 7};
    for (int m = 0; m < 4; m++) {
        double *values = case_random(&random, sides[m][0] * sides[m][1], CLATTN_TYPE_F32, 0.2);
        matrices[m] = filled(CLATTN_TYPE_F32, 2, (const int64_t[4]){sides[m][0], sides[m][1]}, values);
        free(values);
    }
}

// The second iteration uses a fused recording.
START_TEST(steps_of_a_decoder) {
    double *zeros = calloc(SEQUENCES * HEADS * CAPACITY * SIZE, sizeof *zeros);
    struct guarded matrices[4];
    make_matrices(matrices);
    struct step steps[2] = {step_open(matrices, zeros), step_open(matrices, zeros)};
    clattn_recording *r = begin(harness()->queue);
    expect(clattn_layer_enqueue(harness()->context, harness()->queue, &steps[1].params, 0, NULL, NULL),
           "recorded");
    expect(clattn_recording_end(r), "clattn_recording_end");
    if (_i == 1) fuse(r, "a decoder's step");
    double out[2][SEQUENCES * WIDTH], last = 0.0;
    for (int step = 0; step < STEPS; step++) {
        float x[SEQUENCES * WIDTH];
        const int32_t lengths[SEQUENCES] = {1 + step, 7 + 2 * step};
        for (int n = 0; n < SEQUENCES * WIDTH; n++) x[n] = (float)sin(1.0 + n + 31.0 * step);
        for (int n = 0; n < 2; n++)
            write(&steps[n].x, x, sizeof x), write(&steps[n].lengths, lengths, sizeof lengths);
        expect(clattn_layer_enqueue(harness()->context, harness()->queue, &steps[0].params, 0, NULL, NULL),
               "called");
        replay(r, harness()->queue, "replayed");
        for (int n = 0; n < 2; n++) ck_assert(guarded_read(&steps[n].out, harness()->queue, out[n]));
        ck_assert_msg(memcmp(out[0], out[1], sizeof out[0]) == 0, "step %d: other bits", step);
        ck_assert_msg(!(out[1][0] == last), "step %d: as the one before", step);
        last = out[1][0];
    }
    clattn_recording_destroy(r);
    for (int m = 0; m < 4; m++) guarded_release(&matrices[m]);
    step_close(&steps[0]), step_close(&steps[1]);
    free(zeros);
}
END_TEST

// Each projection has a matrix of its own: together more buffers than one launch can have.
START_TEST(more_buffers_than_a_launch_takes) {
    enum { PROJECTIONS = 60, SIDE = 8 };
    struct guarded x[PROJECTIONS + 1], w[PROJECTIONS];
    struct random random = {.state = 11};
    double called[SIDE], got[SIDE];
    clattn_recording *r = NULL;
    for (int n = 0; n <= PROJECTIONS; n++) {
        double *values = case_random(&random, SIDE * SIDE, CLATTN_TYPE_F32, 0.5);
        x[n] = filled(CLATTN_TYPE_F32, 3, (const int64_t[4]){1, 1, SIDE}, n == 0 ? values : NULL);
        if (n < PROJECTIONS) w[n] = filled(CLATTN_TYPE_F32, 2, (const int64_t[4]){SIDE, SIDE}, values);
        free(values);
    }
    for (int recorded = 0; recorded < 2; recorded++) {
        if (recorded) r = begin(harness()->queue);
        for (int n = 0; n < PROJECTIONS; n++) {
            const clattn_linear_params p = {
                .x = x[n].view, .w = w[n].view, .out = x[n + 1].view, .projection = CLATTN_PROJECTION_NATIVE};
            expect(clattn_linear_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL), "linear");
        }
        if (!recorded) ck_assert(guarded_read(&x[PROJECTIONS], harness()->queue, called));
    }
    expect(clattn_recording_end(r), "clattn_recording_end");
    expect(clattn_recording_fuse(r), "clattn_recording_fuse");
    ck_assert(clattn_recording_launches(r) == 2 || clattn_recording_launches(r) == PROJECTIONS);
    write(&x[PROJECTIONS], (const float[SIDE]){0}, SIDE * sizeof(float));
    replay(r, harness()->queue, "projections");
    ck_assert(guarded_read(&x[PROJECTIONS], harness()->queue, got) && memcmp(called, got, sizeof got) == 0);
    clattn_recording_destroy(r);
    for (int n = 0; n < PROJECTIONS; n++) guarded_release(&x[n]), guarded_release(&w[n]);
    guarded_release(&x[PROJECTIONS]);
}
END_TEST

// With any arrays, neighbours of the caches and unused rows stay. A row without keys sees nothing.
START_TEST(wild_places) {
    static const int32_t wild[][2][SEQUENCES + 1] = {
        {{0, 1, 2}, {-5, 1 << 30}}, {{7, -2, 1 << 30}, {3, 3}},
        {{1, 1, 1}, {0, 9}},        {{0, 0, 2}, {CAPACITY, CAPACITY + 1}},
        {{0, 1, 1}, {4, 4}},        {{0, 1, 2}, {3, 0}}};
    double *zeros = calloc(SEQUENCES * HEADS * CAPACITY * SIZE, sizeof *zeros),
           *cache = calloc(SEQUENCES * HEADS * CAPACITY * SIZE, sizeof *cache), out[SEQUENCES * WIDTH];
    struct guarded matrices[4];
    make_matrices(matrices);
    struct step step = step_open(matrices, zeros);
    float x[SEQUENCES * WIDTH];
    for (int n = 0; n < SEQUENCES * WIDTH; n++) x[n] = (float)cos(n);
    write(&step.x, x, sizeof x);
    for (size_t n = 0; n < sizeof wild / sizeof wild[0]; n++) {
        write(&step.cu, wild[n][0], sizeof wild[n][0]);
        write(&step.lengths, wild[n][1], SEQUENCES * sizeof wild[n][1][0]);
        harness_log_clear();
        expect(clattn_layer_enqueue(harness()->context, harness()->queue, &step.params, 0, NULL, NULL),
               "wild");
        ck_assert_msg(guarded_read(&step.k, harness()->queue, cache) &&
                          guarded_read(&step.v, harness()->queue, cache) &&
                          guarded_read(&step.out, harness()->queue, out),
                      "arrays %zu: something beside a tensor changed", n);
        int64_t written = 0;
        for (int64_t at = 0; at < SEQUENCES * HEADS / 2 * CAPACITY * SIZE; at += SIZE)
            written += cache[at] != 0.0;
        // Rows written after each array so far, counted by hand: key 23 of item 2, its key 2, none,
        // key 23 again, keys 3 and 2 of item 1.
        static const int64_t rows[] = {1, 2, 2, 2, 3, 4};
        ck_assert_msg(written == rows[n] * HEADS / 2, "arrays %zu: %d rows are in the cache", n,
                      (int)written);
    }
    for (int m = 0; m < 4; m++) guarded_release(&matrices[m]);
    step_close(&step);
    free(zeros), free(cache);
}
END_TEST

static void enqueue_layer(const struct step *s) {
    expect(clattn_layer_enqueue(harness()->context, harness()->queue, &s->params, 0, NULL, NULL), "layer");
}

// Layers that read the same arrays share their table, unless a call between them writes an array.
// Here argmax, whose largest numbers are at 5 and 3, writes the lengths. PART: by a sub-buffer.
enum { NOTHING_BETWEEN, ARGMAX_BETWEEN, PART_BETWEEN, LAYER_BETWEEN };
static size_t two_layers(const struct guarded *matrices, int between, bool recorded,
                         double out[SEQUENCES * WIDTH]) {
    const double logits[SEQUENCES * 8] = {[5] = 2.0, [8 + 3] = 2.0};
    const int32_t lengths[SEQUENCES] = {2, 4};
    double *zeros = calloc(SEQUENCES * HEADS * CAPACITY * SIZE, sizeof *zeros);
    struct step steps[3] = {step_open(matrices, zeros), step_open(matrices, zeros),
                            step_open(matrices, zeros)};
    struct guarded x = filled(CLATTN_TYPE_F32, 3, (const int64_t[4]){1, SEQUENCES, 8}, logits);
    clattn_argmax_params argmax = {.x = x.view, .out = steps[0].lengths.view};
    clattn_recording *r = NULL;
    float rows[SEQUENCES * WIDTH];
    for (int n = 0; n < SEQUENCES * WIDTH; n++) rows[n] = (float)sin(n);
    argmax.out.rank = 2, argmax.out.shape[0] = 1, argmax.out.shape[1] = SEQUENCES;
    argmax.out.stride[0] = SEQUENCES, argmax.out.stride[1] = 1;
    write(&steps[0].lengths, lengths, sizeof lengths);
    const cl_buffer_region whole = {0, steps[0].lengths.bytes};
    cl_int code = CL_SUCCESS;
    cl_mem part = clCreateSubBuffer(steps[0].lengths.view.buffer, CL_MEM_READ_WRITE,
                                    CL_BUFFER_CREATE_TYPE_REGION, &whole, &code);
    harness_expect(code, "clCreateSubBuffer");
    if (between == PART_BETWEEN) argmax.out.buffer = part, between = ARGMAX_BETWEEN;
    for (int n = 0; n < 3; n++) write(&steps[n].x, rows, sizeof rows);
    steps[1].params.kv.kv_lengths_device = steps[0].lengths.view;
    steps[1].params.cu_seqlens_q_device = steps[0].cu.view;
    if (recorded) r = begin(harness()->queue);
    for (int n = 0; n < 2; n++) {
        enqueue_layer(&steps[n]);
        if (n == 0 && between == ARGMAX_BETWEEN)
            expect(clattn_argmax_enqueue(harness()->context, harness()->queue, &argmax, 0, NULL, NULL),
                   "argmax");
        if (n == 0 && between == LAYER_BETWEEN) enqueue_layer(&steps[2]);
    }
    if (recorded) expect(clattn_recording_end(r), "clattn_recording_end");
    if (recorded) replay(r, harness()->queue, "two layers");
    const size_t launches = clattn_recording_launches(r);
    ck_assert(guarded_read(&steps[1].out, harness()->queue, out));
    clattn_recording_destroy(r);
    clReleaseMemObject(part);
    guarded_release(&x);
    for (int n = 0; n < 3; n++) step_close(&steps[n]);
    free(zeros);
    return launches;
}

START_TEST(tables_that_are_shared) {
    struct guarded matrices[4];
    double called[SEQUENCES * WIDTH], replayed[SEQUENCES * WIDTH];
    make_matrices(matrices);
    two_layers(matrices, ARGMAX_BETWEEN, false, called);
    const size_t apart = two_layers(matrices, ARGMAX_BETWEEN, true, replayed);
    ck_assert_msg(memcmp(called, replayed, sizeof called) == 0,
                  "other bits behind a call that writes the lengths");
    two_layers(matrices, PART_BETWEEN, true, replayed);
    ck_assert_msg(memcmp(called, replayed, sizeof called) == 0,
                  "other bits behind one that writes a part of their buffer");
    const size_t shared = two_layers(matrices, NOTHING_BETWEEN, true, replayed);
    ck_assert_msg(memcmp(called, replayed, sizeof called) != 0, "the lengths do not matter");
    two_layers(matrices, NOTHING_BETWEEN, false, called);
    ck_assert_msg(memcmp(called, replayed, sizeof called) == 0, "other bits from a table that is shared");
    two_layers(matrices, LAYER_BETWEEN, true, replayed);
    ck_assert_msg(memcmp(called, replayed, sizeof called) == 0, "other bits behind a layer of other lengths");
    ck_assert_msg(apart == shared + 2, "%zu launches with argmax and two tables, %zu with one table", apart,
                  shared);
    for (int m = 0; m < 4; m++) guarded_release(&matrices[m]);
}
END_TEST

// A refused call, and one that fails after some launches were recorded, leave nothing.
START_TEST(what_fails_leaves_nothing) {
    struct case_arrays a;
    struct case_data *data = case_open(names[7], &a);
    char why[512] = "";
    clattn_layer_params wrong = a.layer, clblast = a.layer;
    clattn_recording *r = begin(harness()->queue);
    expect(clattn_layer_enqueue(harness()->context, harness()->queue, &a.layer, 0, NULL, NULL), names[7]);
    const size_t launches = clattn_recording_launches(r);
    wrong.heads = 0;
    ck_assert_int_eq(clattn_layer_enqueue(harness()->context, harness()->queue, &wrong, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    clblast.projection = CLATTN_PROJECTION_CLBLAST;
    harness_log_clear();
    ck_assert_int_eq(clattn_layer_enqueue(harness()->context, harness()->queue, &clblast, 0, NULL, NULL),
                     CLATTN_UNSUPPORTED);
    if (harness_has_clblast())
        ck_assert_msg(strstr(harness_log_text(), "recorded") != NULL, "%s", harness_log_text());
    ck_assert_uint_eq(clattn_recording_launches(r), launches);
    expect(clattn_recording_end(r), "clattn_recording_end");
    replay(r, harness()->queue, names[7]);
    ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s", why);
    clattn_recording_destroy(r);
    case_unbind(&a);
    case_free(data);
}
END_TEST

static bool nobody_hears(void *user, double done) {
    (void)done;
    *(int *)user = 1;
    return true;
}

#define REFUSED(call, word)                                                                                  \
    do {                                                                                                     \
        harness_log_clear();                                                                                 \
        harness_assert_refused(#call, call, CLATTN_INVALID_ARGUMENT, word);                                  \
    } while (0)

START_TEST(handles) {
    clattn_context *context = harness()->context;
    cl_command_queue queue = harness()->queue;
    clattn_recording *r = NULL;
    ck_assert_int_eq(clattn_recording_begin(NULL, queue, &r), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_recording_end(NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_recording_enqueue(NULL, queue, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert(clattn_recording_fuse(NULL) == CLATTN_INVALID_ARGUMENT && clattn_recording_launches(NULL) == 0);
    clattn_recording_destroy(NULL);
    REFUSED(clattn_recording_begin(context, queue, NULL), "recording: is NULL");
    REFUSED(clattn_recording_begin(context, NULL, &r), "queue: is NULL");
    cl_context foreign = clCreateContext(NULL, 1, &harness()->device, NULL, NULL, NULL);
    cl_command_queue of_foreign = clCreateCommandQueue(foreign, harness()->device, 0, NULL);
    REFUSED(clattn_recording_begin(context, of_foreign, &r), "another context");
    clReleaseCommandQueue(of_foreign), clReleaseContext(foreign);
    ck_assert_ptr_null(r);
}
END_TEST

START_TEST(refusals) {
    clattn_context *context = harness()->context;
    cl_command_queue queue = harness()->queue;
    struct case_arrays a;
    struct case_data *data = case_open(names[0], &a);
    clattn_recording *r = begin(queue), *other = NULL;
    cl_event event = NULL, gate = harness_gate();
    int heard = 0;
    const clattn_progress progress = {.fn = nobody_hears, .user = &heard};
    REFUSED(clattn_recording_begin(context, queue, &other), "another one");
    ck_assert_ptr_null(other);
    REFUSED(clattn_recording_enqueue(r, queue, 0, NULL, NULL), "is not ended");
    REFUSED(clattn_recording_fuse(r), "is not ended");
    REFUSED(clattn_attention_enqueue(context, queue, &a.params, 0, NULL, &event), "event: ");
    ck_assert_ptr_null(event);
    REFUSED(clattn_attention_enqueue(context, queue, &a.params, 1, &gate, NULL), "wait_list: ");
    a.params.progress = &progress;
    REFUSED(clattn_attention_enqueue(context, queue, &a.params, 0, NULL, NULL), "progress: ");
    a.params.progress = NULL;
    ck_assert(!heard && clattn_recording_launches(r) == 0);
    expect(clattn_recording_end(r), "clattn_recording_end");
    REFUSED(clattn_recording_end(r), "was ended before");
    other = begin(queue);
    REFUSED(clattn_recording_enqueue(r, queue, 0, NULL, NULL), "no recording becomes part");
    clattn_recording_destroy(other); // this also ends the recording
    REFUSED(clattn_recording_enqueue(r, queue, 1, NULL, NULL), "wait_list: ");
    REFUSED(clattn_recording_enqueue(r, NULL, 0, NULL, NULL), "queue: is NULL");
    // A recording without launches waits, and has an event.
    expect(clattn_recording_enqueue(r, queue, 1, &gate, &event), "nothing");
    harness_open_gate(gate, event, queue);
    clattn_recording_destroy(r);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// The replay waits for the gate, and the event is that of the last launch, on both queues.
START_TEST(events) {
    cl_command_queue queue = _i == 0 ? harness()->queue : harness()->out_of_order;
    if (queue == NULL) return;
    struct case_arrays a;
    struct case_data *data = case_open(names[6], &a);
    char why[512] = "";
    clattn_recording *r = begin(queue);
    expect(case_enqueue(harness()->context, queue, &a, NULL), names[6]);
    expect(clattn_recording_end(r), "clattn_recording_end");
    ck_assert_uint_gt(clattn_recording_launches(r), 1);
    cl_event gate = harness_gate(), event = NULL;
    expect(clattn_recording_enqueue(r, queue, 1, &gate, &event), names[6]);
    harness_open_gate(gate, event, queue);
    ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s", why);
    clattn_recording_destroy(r);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// If the library may choose, its own kernels project, also with a tuned row for CLBlast.
START_TEST(clattns_own_projection) {
    if (!harness_has_clblast()) return;
    struct case_arrays a;
    struct case_data *data = case_open(names[8], &a);
    char why[512] = "";
    clattn_linear_choice choice;
    clattn_context *context = harness_open((clattn_context_params){
        .tuned_rows = "clblast :", .context = harness()->opencl, .log = harness_log()});
    clattn_recording *r = NULL;
    expect(clattn_linear_plan(context, &a.linear, &choice), "clattn_linear_plan");
    ck_assert_int_eq(choice.projection, CLATTN_PROJECTION_CLBLAST);
    expect(clattn_recording_begin(context, harness()->queue, &r), "clattn_recording_begin");
    expect(clattn_linear_plan(context, &a.linear, &choice), "clattn_linear_plan");
    ck_assert_int_eq(choice.projection, CLATTN_PROJECTION_NATIVE);
    expect(case_enqueue(context, harness()->queue, &a, NULL), names[8]);
    expect(clattn_recording_end(r), "clattn_recording_end");
    replay(r, harness()->queue, names[8]);
    ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s", why);
    clattn_recording_destroy(r);
    clattn_context_destroy(context);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// While one queue is recorded, calls and replays on another queue run.
START_TEST(other_queues_run) {
    struct case_arrays a, b;
    struct case_data *data = case_open(names[8], &a), *again = case_open(names[8], &b);
    char why[512] = "";
    cl_int code;
    cl_command_queue other = clCreateCommandQueue(harness()->opencl, harness()->device, 0, &code);
    harness_expect(code, "clCreateCommandQueue");
    clattn_recording *first = begin(other);
    expect(case_enqueue(harness()->context, other, &a, NULL), names[8]);
    expect(clattn_recording_end(first), "clattn_recording_end");
    clattn_recording *second = begin(harness()->queue);
    replay(first, other, names[8]);
    ck_assert_msg(case_holds(data, &a, other, why, sizeof why), "%s", why);
    expect(case_enqueue(harness()->context, other, &b, NULL), names[8]);
    ck_assert_msg(case_holds(again, &b, other, why, sizeof why), "%s", why);
    ck_assert_uint_eq(clattn_recording_launches(second), 0);
    clattn_recording_destroy(first), clattn_recording_destroy(second);
    clReleaseCommandQueue(other);
    case_unbind(&a), case_unbind(&b);
    case_free(data), case_free(again);
}
END_TEST

static long live_buffers(void) {
    struct layer_counts counts = {.misused = 0};
    if (layer_client() != NULL) layer_client()->count(&counts);
    return counts.live[LAYER_BUFFER];
}

// Thirty calls share the scratch memory and tables of one. Destroying the recording releases all.
START_TEST(memory) {
    struct case_arrays a;
    struct case_data *data = case_open(names[0], &a);
    const long before = live_buffers();
    long of_one = 0;
    clattn_recording *r = begin(harness()->queue);
    for (int n = 0; n < 30; n++) {
        expect(case_enqueue(harness()->context, harness()->queue, &a, NULL), names[0]);
        if (n == 0) of_one = live_buffers();
    }
    ck_assert_int_eq(live_buffers(), of_one);
    ck_assert(of_one > before || layer_client() == NULL);
    expect(clattn_recording_end(r), "clattn_recording_end");
    case_unbind(&a);
    replay(r, harness()->queue, names[0]);
    clattn_recording_destroy(r);
    ck_assert_int_le(live_buffers(), before);
    case_free(data);
}
END_TEST

// The context's limit of memory includes the memory of recordings.
START_TEST(no_more_than_max_bytes) {
    const struct clattn_memory little = {.max_bytes = 64};
    struct case_arrays a;
    struct place place = *harness_place();
    place.context = harness_open(
        (clattn_context_params){.memory = little, .context = place.opencl, .log = harness_log()});
    struct case_data *data = case_open(names[1], &a);
    clattn_recording *r = NULL;
    expect(clattn_recording_begin(place.context, place.queue, &r), "clattn_recording_begin");
    ck_assert_int_eq(case_enqueue(place.context, place.queue, &a, NULL), CLATTN_OUT_OF_MEMORY);
    ck_assert_uint_eq(clattn_recording_launches(r), 0);
    clattn_recording_destroy(r);
    clattn_context_destroy(place.context);
    case_unbind(&a);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {more_buffers_than_a_launch_takes,
                                  wild_places,
                                  tables_that_are_shared,
                                  what_fails_leaves_nothing,
                                  handles,
                                  refusals,
                                  other_queues_run,
                                  clattns_own_projection,
                                  memory,
                                  no_more_than_max_bytes,
                                  NULL};
    Suite *suite = suite_create("record");
    TCase *group = harness_add(suite, "record", tests);
    harness_add_loop(group, cases_give_the_same_bits, NAMES);
    harness_add_loop(group, small_calls_give_the_same_bits, SMALL_CALLS);
    tcase_add_loop_test(group, steps_of_a_decoder, 0, 2);
    tcase_add_loop_test(group, events, 0, 2);
    return harness_run(suite);
}
