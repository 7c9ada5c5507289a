// test_layer_cache.c: a layer with keys that were computed earlier. A causal layer over all rows
// must equal clattn_layer_kv_enqueue of the first rows, followed by a layer on the other rows. The
// first rows are a past, or the layer appends to their cache, which is dense, paged or packed. Also
// tests keys that are ready with explicit positions. The layer over all rows is checked by other
// suites.
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, ROWS = 23, PAST = 14, REST = ROWS - PAST, HEADS = 4, KV_HEADS = 2, SIZE = 16, PAGE = 5 };

static struct test_case base(const char *name, clattn_type type) {
    struct test_case test = {
        .name = name, .op = CASE_LAYER, .batch = BATCH, .n_q = ROWS, .heads = HEADS, .kv_heads = KV_HEADS};
    test.head_dim = SIZE, test.width = 48, test.biases = LAYER_ALL_BIASES;
    test.q_type = test.kv_type = test.out_type = test.matrix_type = test.bias_type = type;
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    test.rope.layout = CLATTN_ROPE_HALF;
    test.rope.position = 7;
    test.hosts |= CASE_HOST_BIT(CASE_SINKS); // sinks are a host array beside the layer's own tables
    test.device_sinks = true;
    return test;
}

static struct guarded memory(clattn_type type, int64_t a, int64_t b, int64_t c, int64_t d) {
    const struct guarded_shape shape = {.type = type, .rank = d ? 4 : 3, .shape = {a, b, c, d}};
    return guarded_output(harness_place(), &shape);
}

// Rows [first, first + count) of an axis.
static clattn_tensor rows_of(clattn_tensor t, int axis, int64_t first, int64_t count) {
    t.offset += first * t.stride[axis];
    t.shape[axis] = count;
    return t;
}

static double *read_all(const struct guarded *from, const char *name) {
    double *x = calloc((size_t)guarded_count(&from->view), sizeof *x);
    ck_assert_ptr_nonnull(x);
    ck_assert_msg(guarded_read(from, harness()->queue, x), "bytes around %s changed", name);
    return x;
}

static void run_layer(const clattn_layer_params *p) {
    harness_log_clear();
    const clattn_status status = clattn_layer_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
}

// Compute the keys and values of rows [0, count) of the layer's x. They become the first rows of k
// and v, [B, Hkv, ...].
static void make_keys(const clattn_layer_params *p, int64_t count, clattn_tensor k, clattn_tensor v) {
    const clattn_layer_kv_params made = {.y = rows_of(p->x, 1, 0, count),
                                         .wk = p->wk,
                                         .wv = p->wv,
                                         .bk = p->bk,
                                         .bv = p->bv,
                                         .k = rows_of(k, 2, 0, count),
                                         .v = rows_of(v, 2, 0, count),
                                         .norm = p->norm,
                                         .k_norm = p->k_norm,
                                         .rope = p->rope};
    const clattn_status status =
        clattn_layer_kv_enqueue(harness()->context, harness()->queue, &made, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
}

// Compare the last rows of the complete result, [B, ROWS, M], with `rest`, [.., REST, M].
static void assert_rest(const struct case_arrays *a, const struct guarded *rest, double most) {
    double *whole = read_all(&a->out, "out"), *got = read_all(rest, "the rest");
    const int64_t m = a->out.view.shape[2];
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t x = 0; x < REST * m; x++) {
            const double want = whole[(b * ROWS + PAST) * m + x], is = got[b * REST * m + x];
            ck_assert_msg(fabs(want - is) <= most, "item %d, number %d: %g instead of %g", (int)b, (int)x, is,
                          want);
        }
    free(whole);
    free(got);
}

// Run the layer over all rows, as the reference for the other runs.
static struct case_data *run_whole(const struct test_case *test, struct case_arrays *a) {
    struct case_data *data = case_make(test);
    case_bind(data, harness_place(), a);
    run_layer(&a->layer);
    return data;
}

static double limit_of(clattn_type type) {
    return type == CLATTN_TYPE_F32 ? 1e-5 : type == CLATTN_TYPE_F16 ? 1e-2 : 8e-2;
}

// The past has its own tensors. The projections apply RoPE (0, 3), a norm comes first (1), or
// lengths are set (2).
START_TEST(past_before_made_keys) {
    struct test_case test = base("past", _i == 3 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F32);
    if (_i == 1) test.norm = CLATTN_NORM_HEADS;
    struct case_arrays a;
    struct case_data *data = run_whole(&test, &a);
    struct guarded k = memory(test.q_type, BATCH, KV_HEADS, PAST, SIZE),
                   v = memory(test.q_type, BATCH, KV_HEADS, PAST, SIZE),
                   out = memory(test.q_type, BATCH, REST, 48, 0);
    make_keys(&a.layer, PAST, k.view, v.view);
    clattn_layer_params p = a.layer;
    p.x = rows_of(p.x, 1, PAST, REST), p.out = out.view;
    p.kv.past_k = k.view, p.kv.past_v = v.view;
    const int32_t lengths[] = {PAST, PAST};
    if (_i == 2) p.kv.past_lengths = lengths;
    run_layer(&p);
    assert_rest(&a, &out, limit_of(test.q_type));
    guarded_release(&k), guarded_release(&v), guarded_release(&out);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// The first rows are stored in a past. The others follow in a cache, to which the layer appends.
START_TEST(appends_behind_a_past) {
    struct test_case test = base("append behind a past", CLATTN_TYPE_F32);
    const int64_t first = PAST - 5;
    struct case_arrays a;
    struct case_data *data = run_whole(&test, &a);
    struct guarded k = memory(test.q_type, BATCH, KV_HEADS, PAST, SIZE),
                   v = memory(test.q_type, BATCH, KV_HEADS, PAST, SIZE),
                   k_cache = memory(test.q_type, BATCH, KV_HEADS, ROWS - first, SIZE),
                   v_cache = memory(test.q_type, BATCH, KV_HEADS, ROWS - first, SIZE),
                   out = memory(test.q_type, BATCH, REST, 48, 0);
    clattn_layer_params of_cache = a.layer;
    make_keys(&a.layer, PAST, k.view, v.view);
    of_cache.x = rows_of(of_cache.x, 1, first, PAST - first), of_cache.rope.position += first;
    make_keys(&of_cache, PAST - first, k_cache.view, v_cache.view);
    clattn_layer_params p = a.layer;
    p.x = rows_of(p.x, 1, PAST, REST), p.out = out.view;
    p.kv.past_k = k.view, p.kv.past_v = v.view;
    p.kv.past_k.shape[2] = p.kv.past_v.shape[2] = first;
    p.kv.k = k_cache.view, p.kv.v = v_cache.view, p.append = true;
    run_layer(&p);
    assert_rest(&a, &out, limit_of(test.q_type));
    guarded_release(&k), guarded_release(&v), guarded_release(&k_cache), guarded_release(&v_cache);
    guarded_release(&out);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Write the keys and values of the first rows to a cache of any type.
static void fill_cache(const clattn_layer_params *whole, clattn_tensor k, clattn_tensor v) {
    static const int32_t first[] = {PAST, PAST};
    clattn_layer_params p = *whole;
    if (k.type == whole->x.type) {
        make_keys(whole, PAST, k, v);
        return;
    }
    struct guarded start = memory(whole->x.type, BATCH, PAST, 48, 0);
    p.x = rows_of(p.x, 1, 0, PAST), p.out = start.view;
    p.kv.k = k, p.kv.v = v, p.append = true, p.score.kv_lengths = first;
    run_layer(&p);
    guarded_release(&start);
}

// Repeat the last row, whose keys are already in the cache.
static void assert_ready(const clattn_layer_params *p, const struct guarded *out, double most) {
    struct guarded last = memory(p->x.type, BATCH, 1, 48, 0);
    clattn_layer_params ready = *p;
    ready.append = false,
    ready.wk.rank = ready.wv.rank = ready.bk.rank = ready.bv.rank = ready.k_norm.rank = 0;
    ready.wk.buffer = ready.wv.buffer = ready.bk.buffer = ready.bv.buffer = ready.k_norm.buffer = NULL;
    ready.x = rows_of(p->x, 1, REST - 1, 1), ready.out = last.view;
    ready.lse.rank = 0, ready.lse.buffer = NULL, ready.score.q_lengths = NULL;
    run_layer(&ready);
    double *of_ready = read_all(&last, "the last row"), *all = read_all(out, "out");
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t m = 0; m < 48; m++)
            ck_assert(fabs(of_ready[b * 48 + m] - all[(b * REST + REST - 1) * 48 + m]) <= most);
    free(of_ready), free(all);
    guarded_release(&last);
}

// The layer appends its own rows to the cache after earlier rows. The projections write to the
// cache themselves (0, 2, 5: with both RoPE layouts and without RoPE). They cannot do so with a
// norm (1), a cache of another type (3), or query lengths (4). The plan says which.
START_TEST(appends_what_it_makes) {
    static const int32_t lengths[] = {ROWS, ROWS}, rows[] = {REST, REST};
    struct test_case test = base("append", _i == 2 ? CLATTN_TYPE_F16 : CLATTN_TYPE_F32);
    const bool straight = _i == 0 || _i == 2 || _i == 5;
    const clattn_type kept = _i == 3 ? CLATTN_TYPE_BF16 : test.q_type;
    if (_i == 1) test.norm = CLATTN_NORM_WIDTH;
    if (_i == 2) test.rope.layout = CLATTN_ROPE_INTERLEAVED;
    if (_i == 5) test.rope = (clattn_rope){.layout = CLATTN_ROPE_NONE};
    test.projection = CLATTN_PROJECTION_NATIVE;
    struct case_arrays a;
    struct case_data *data = run_whole(&test, &a);
    const int64_t capacity = _i == 0 ? ROWS : ROWS + 9;
    struct guarded k = memory(kept, BATCH, KV_HEADS, capacity, SIZE),
                   v = memory(kept, BATCH, KV_HEADS, capacity, SIZE),
                   out = memory(test.q_type, BATCH, REST, 48, 0),
                   lse = memory(CLATTN_TYPE_F32, BATCH, HEADS, REST, 0);
    clattn_layer_params p = a.layer;
    clattn_plan plan;
    fill_cache(&a.layer, k.view, v.view);
    p.x = rows_of(p.x, 1, PAST, REST), p.out = out.view, p.lse = lse.view;
    p.kv.k = k.view, p.kv.v = v.view, p.append = true;
    if (capacity > ROWS) p.score.kv_lengths = lengths;
    if (_i == 4) p.score.q_lengths = rows;
    ck_assert_int_eq(clattn_layer_plan(harness()->context, &p, &plan), CLATTN_OK);
    ck_assert_msg((strstr(plan.why, "made in the caches") != NULL) == straight, "%d: %s", _i, plan.why);
    run_layer(&p);
    assert_rest(&a, &out, limit_of(kept));
    free(read_all(&k, "k")), free(read_all(&v, "v")), free(read_all(&lse, "lse"));
    assert_ready(&p, &out, limit_of(kept));
    guarded_release(&k), guarded_release(&v), guarded_release(&out), guarded_release(&lse);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Returns the number of launches in a recorded step.
static size_t launches_of(const clattn_layer_params *p) {
    clattn_recording *r = NULL;
    ck_assert_int_eq(clattn_recording_begin(harness()->context, harness()->queue, &r), CLATTN_OK);
    run_layer(p);
    ck_assert_int_eq(clattn_recording_end(r), CLATTN_OK);
    const size_t launches = clattn_recording_launches(r);
    ck_assert_int_eq(clattn_recording_enqueue(r, harness()->queue, 0, NULL, NULL), CLATTN_OK);
    harness_finish(harness()->queue);
    clattn_recording_destroy(r);
    return launches;
}

// Layers over Hadamard-transformed caches, also of lossy types. New keys are stored with RoPE
// applied. With a norm (1), attention applies RoPE instead of the norm's pass. Transformed keys
// cost an extra launch unless attention applies RoPE to q. Transformed values cost one.
START_TEST(rotated_caches) {
    enum { WIDE = 32 };
    static const struct {
        clattn_type kept;
        double most; // largest error of out
    } types[] = {
        {CLATTN_TYPE_F32, 1e-5}, {CLATTN_TYPE_F16, 1e-2}, {CLATTN_TYPE_Q8_0, 3e-2}, {CLATTN_TYPE_Q4_0, 0.8}};
    static const int32_t first[] = {PAST, PAST};
    struct test_case test = base("rotated", CLATTN_TYPE_F32);
    test.head_dim = WIDE, test.projection = CLATTN_PROJECTION_NATIVE;
    if (_i == 1) test.norm = CLATTN_NORM_HEADS;
    struct case_arrays a;
    struct case_data *data = run_whole(&test, &a);
    const int64_t elements = WIDE / clattn_type_numbers(types[_i].kept);
    struct guarded k = memory(types[_i].kept, BATCH, KV_HEADS, ROWS, elements),
                   v = memory(types[_i].kept, BATCH, KV_HEADS, ROWS, elements),
                   start = memory(CLATTN_TYPE_F32, BATCH, PAST, 48, 0),
                   out = memory(CLATTN_TYPE_F32, BATCH, REST, 48, 0);
    clattn_layer_params p = a.layer;
    p.kv.k = k.view, p.kv.v = v.view, p.append = true;
    p.kv.k_rotation = WIDE, p.kv.v_rotation = 16;
    p.x = rows_of(a.layer.x, 1, 0, PAST), p.out = start.view, p.score.kv_lengths = first;
    run_layer(&p);
    p.x = rows_of(a.layer.x, 1, PAST, REST), p.out = out.view, p.score.kv_lengths = NULL;
    run_layer(&p);
    assert_rest(&a, &out, types[_i].most);
    assert_ready(&p, &out, types[_i].kept == CLATTN_TYPE_F32 ? 1e-5 : types[_i].most);
    const size_t both = launches_of(&p);
    assert_rest(&a, &out, types[_i].most); // launches_of has run the call again
    p.kv.v_rotation = 0;
    ck_assert_uint_eq(launches_of(&p) + 1, both);
    p.kv.k_rotation = 0;
    if (_i >= 2) ck_assert_uint_eq(launches_of(&p) + 2, both); // the projections apply RoPE to q
    if (_i == 1) ck_assert_uint_eq(launches_of(&p) + 1, both);
    guarded_release(&k), guarded_release(&v), guarded_release(&start), guarded_release(&out);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Rows [first, first + rows) of all items of x, packed: [1, B * rows, 48].
static struct guarded pack_rows(const struct case_data *data, int64_t first, int64_t rows) {
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 3, {1, BATCH * rows, 48}, LAYOUT_DENSE};
    double *x = calloc((size_t)(BATCH * rows * 48), sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < BATCH * rows * 48; i++)
        x[i] = data->x[(i / (rows * 48) * ROWS + first) * 48 + i % (rows * 48)];
    const struct guarded to = guarded_input(harness_place(), &shape, x);
    free(x);
    return to;
}

// Pages alternate between the items, [pages, Hkv, PAGE, D]. Items are those of a dense batch, or
// packed sequences.
START_TEST(appends_to_pages) {
    enum { BLOCKS = (ROWS + PAGE - 1) / PAGE };
    static const int32_t lengths[] = {ROWS, ROWS}, first[] = {PAST, PAST}, cu[] = {0, REST, BATCH * REST},
                         cu_first[] = {0, PAST, BATCH * PAST};
    struct test_case test = base("pages", CLATTN_TYPE_F32);
    struct case_arrays a;
    struct case_data *data = run_whole(&test, &a);
    struct guarded k = memory(CLATTN_TYPE_F32, BATCH * BLOCKS, KV_HEADS, PAGE, SIZE),
                   v = memory(CLATTN_TYPE_F32, BATCH * BLOCKS, KV_HEADS, PAGE, SIZE),
                   out = memory(CLATTN_TYPE_F32, BATCH, REST, 48, 0),
                   start = memory(CLATTN_TYPE_F32, BATCH, PAST, 48, 0);
    double names[BATCH * BLOCKS];
    for (int n = 0; n < BATCH * BLOCKS; n++) names[n] = n % BLOCKS * BATCH + n / BLOCKS;
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 2, {BATCH, BLOCKS}, LAYOUT_DENSE};
    struct guarded table = guarded_input(harness_place(), &shape, names);
    clattn_layer_params p = a.layer;
    p.kv.k = k.view, p.kv.v = v.view, p.append = true;
    p.kv.block_table = table.view, p.kv.page_size = PAGE;
    // The layer first appends the first rows, and then the rest.
    for (int n = 0; n < 2; n++) {
        struct guarded *to = n ? &out : &start;
        p.x = rows_of(a.layer.x, 1, n ? PAST : 0, n ? REST : PAST), p.out = to->view;
        p.score.kv_lengths = n ? lengths : first;
        struct guarded packed = {0};
        if (_i) {
            const int64_t rows = BATCH * (n ? REST : PAST);
            packed = pack_rows(data, n ? PAST : 0, rows / BATCH);
            p.x = packed.view, p.out.shape[0] = 1, p.out.shape[1] = rows, p.out.stride[0] = rows * 48;
            p.sequences = BATCH, p.cu_seqlens_q = n ? cu : cu_first;
        }
        run_layer(&p);
        guarded_release(&packed);
    }
    assert_rest(&a, &out, 1e-5);
    guarded_release(&k), guarded_release(&v), guarded_release(&out), guarded_release(&start);
    guarded_release(&table);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Keys that were computed earlier, with queries of a ragged batch. RoPE counts positions within
// each sequence.
START_TEST(ready_keys) {
    struct test_case test = base("ready", CLATTN_TYPE_F32);
    test.ready = true, test.rope.position = 0;
    test.positions = true;
    if (_i) test.n_kv = 30, test.width_y = 40;
    case_assert(&test);
}
END_TEST

START_TEST(ready_keys_of_sequences) {
    static const int32_t lengths[] = {ROWS, ROWS}, cu[] = {0, ROWS, 2 * ROWS};
    struct test_case test = base("ready sequences", CLATTN_TYPE_F32);
    if (_i) test.norm = CLATTN_NORM_HEADS;
    struct case_arrays a;
    struct case_data *data = run_whole(&test, &a);
    struct guarded k = memory(CLATTN_TYPE_F32, BATCH, KV_HEADS, ROWS, SIZE),
                   v = memory(CLATTN_TYPE_F32, BATCH, KV_HEADS, ROWS, SIZE),
                   out = memory(CLATTN_TYPE_F32, 1, BATCH * ROWS, 48, 0);
    make_keys(&a.layer, ROWS, k.view, v.view);
    clattn_layer_params p = a.layer;
    const clattn_tensor absent = {0};
    p.wk = p.wv = p.bk = p.bv = p.k_norm = absent;
    p.kv.k = k.view, p.kv.v = v.view, p.score.kv_lengths = lengths;
    p.x.shape[0] = 1, p.x.shape[1] = BATCH * ROWS, p.out = out.view;
    p.sequences = BATCH, p.cu_seqlens_q = cu;
    run_layer(&p);
    double *whole = read_all(&a.out, "out"), *got = read_all(&out, "the sequences");
    for (int64_t x = 0; x < BATCH * ROWS * 48; x++) ck_assert(fabs(whole[x] - got[x]) <= 1e-5);
    free(whole), free(got);
    guarded_release(&k), guarded_release(&v), guarded_release(&out);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Layers on packed sequences, compared with the reference of a dense batch with the same lengths.
START_TEST(sequences) {
    static const char *const names[] = {
        "layer-bf16-b3-h4-hkv2-n9-nkv21-d16-m48-causal-native-my40-biases-qlen9:0:4-kvlen21:5:4-ropehalf-"
        "raggeddevice",
        "layer-f32-b3-h4-n9-nkv21-d16-m48-causal-my40-biases-alibi-qlen9:0:4-kvlen21:5:4-raggedcachedevice"};
    struct test_case test;
    char why[256];
    ck_assert_msg(case_parse(names[_i], &test, why), "%s", why);
    test.name = names[_i];
    case_assert(&test);
}
END_TEST

static bool hear(void *launches, double done) {
    *(int *)launches += done > 0.0;
    return true;
}

// Launches of a decoder step on a CPU: the projections, attention, the output projection. A cache
// of another type adds the append.
START_TEST(launches_of_a_step) {
    struct test_case test = base("launches", CLATTN_TYPE_F32);
    const clattn_type kept = _i ? CLATTN_TYPE_BF16 : test.q_type;
    struct case_arrays a;
    int launches = 0;
    const clattn_progress progress = {hear, &launches};
    struct case_data *data = run_whole(&test, &a);
    struct guarded k = memory(kept, BATCH, KV_HEADS, ROWS, SIZE),
                   v = memory(kept, BATCH, KV_HEADS, ROWS, SIZE), out = memory(test.q_type, BATCH, 1, 48, 0);
    fill_cache(&a.layer, k.view, v.view);
    clattn_layer_params p = a.layer;
    p.projection = CLATTN_PROJECTION_NATIVE, p.progress = &progress;
    p.x = rows_of(p.x, 1, ROWS - 1, 1), p.out = out.view;
    p.kv.k = k.view, p.kv.v = v.view, p.append = true;
    run_layer(&p);
    harness_finish(harness()->queue);
    const clattn_capabilities *of = clattn_context_capabilities(harness()->context);
    if (of->is_cpu && of->float_vector_width >= 4) ck_assert_int_eq(launches, 3 + _i);
    guarded_release(&k), guarded_release(&v), guarded_release(&out);
    case_unbind(&a);
    case_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_cache");
    TCase *results = harness_add(suite, "results", (const TTest *const[]){appends_behind_a_past, NULL});
    harness_add_loop(results, past_before_made_keys, 3);
    harness_add_loop(results, appends_what_it_makes, 6);
    harness_add_loop(results, rotated_caches, 4);
    tcase_add_loop_test(results, appends_to_pages, 0, 2);
    tcase_add_loop_test(results, launches_of_a_step, 0, 2);
    tcase_add_loop_test(results, ready_keys, 1, 2);
    tcase_add_loop_test(results, ready_keys_of_sequences, 0, 2);
    tcase_add_loop_test(results, sequences, 0, 2);
    return harness_run(suite);
}
