// test_pairs_layer.c: every two options of a layer together: storage of keys, packing of the batch,
// operations on heads and scores. Planning accepts each pair, or the pair is in `refused` and is
// refused with a one-line message that names it. Results are in test_layer_cache.c.
#include "support/harness.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, ROWS = 6, HEADS = 4, KV_HEADS = 2, SIZE = 16, WIDTH = 32, CAPACITY = 10, PAST = 3 };

// Keys are computed from y, or are ready. New keys are appended to a cache that is dense, paged or
// int8. Past rows come first.
enum {
    CROSS,
    READY,
    APPEND,
    PAGES,
    I8,
    BEHIND,
    RAGGED,
    RAGGED_DEVICE,
    KV_LENGTHS,
    NORM,
    GATE,
    SINKS,
    ROPE,
    POSITIONS,
    MASK,
    MODS,
    DROPOUT,
    OPTIONS
};
static const char *const names[OPTIONS] = {
    "cross", "ready", "append",      "pages", "kvi8",      "past", "ragged", "raggeddevice", "kvlen",
    "norm",  "gate",  "devicesinks", "rope",  "positions", "mask", "mods",   "dropout"};

static const struct {
    int a, b;
    const char *word;
    clattn_status status;
} refused[] = {
    {READY, CROSS, "y: is there to make keys and values", CLATTN_INVALID_ARGUMENT},
    {PAGES, BEHIND, "block_table: not with past_k", CLATTN_UNSUPPORTED},
};
enum { REFUSED = sizeof refused / sizeof refused[0] };

static const int32_t cu[] = {0, 4, ROWS}, lengths[] = {8, 7}, fewer[] = {4, 2};

static clattn_tensor view(clattn_type type, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t shape[] = {a, b, c, d};
    return clattn_tensor_dense(NULL, type, rank, shape);
}

static bool has(unsigned with, int option) {
    return with >> option & 1;
}

// Set the caller's keys, with appended rows or a past.
static void set_keys(clattn_layer_params *p, unsigned with) {
    const clattn_type type = has(with, I8) ? CLATTN_TYPE_I8 : CLATTN_TYPE_F32;
    const bool ready = has(with, READY), pages = has(with, PAGES),
               append = !ready && (has(with, APPEND) || pages || has(with, I8));
    const int64_t items = pages ? 5 : BATCH, rows = pages ? 5 : CAPACITY;
    if (ready || append) {
        p->kv.k = p->kv.v = view(type, 4, items, KV_HEADS, rows, SIZE);
        if (has(with, I8)) p->kv.k_scale = p->kv.v_scale = view(CLATTN_TYPE_F32, 3, items, KV_HEADS, rows, 0);
    }
    p->append = append;
    if (pages) p->kv.block_table = view(CLATTN_TYPE_I32, 2, BATCH, 2, 0, 0), p->kv.page_size = 5;
    if (ready) p->wk = p->wv = (clattn_tensor){0};
    if (!has(with, BEHIND)) return;
    p->kv.past_k = p->kv.past_v = view(type, 4, 1, KV_HEADS, PAST, SIZE);
    if (has(with, I8))
        p->kv.past_k_scale = p->kv.past_v_scale = view(CLATTN_TYPE_F32, 3, 1, KV_HEADS, PAST, 0);
}

static void set_batch(clattn_layer_params *p, unsigned with, bool packs_y) {
    if (!has(with, RAGGED) && !has(with, RAGGED_DEVICE)) return;
    p->x.shape[0] = p->out.shape[0] = 1;
    p->sequences = BATCH, p->max_q = ROWS;
    if (has(with, RAGGED)) {
        p->cu_seqlens_q = cu;
        if (packs_y) p->kv.cu_seqlens_kv = cu;
        return;
    }
    p->cu_seqlens_q_device = view(CLATTN_TYPE_I32, 1, BATCH + 1, 0, 0, 0);
    if (!packs_y) return;
    p->kv.cu_seqlens_kv_device = p->cu_seqlens_q_device, p->max_kv = ROWS;
}

static void set_rope(clattn_layer_params *p, unsigned with) {
    const int64_t batch = p->x.shape[0];
    if (has(with, ROPE) || has(with, POSITIONS)) p->rope.layout = CLATTN_ROPE_HALF;
    if (!has(with, POSITIONS)) return;
    p->rope.positions = view(CLATTN_TYPE_I32, 2, batch, ROWS, 0, 0);
    if (has(with, CROSS)) p->rope.k_positions = view(CLATTN_TYPE_I32, 2, batch, p->y.shape[1], 0, 0);
}

static clattn_layer_params layer_of(unsigned with) {
    const clattn_type f32 = CLATTN_TYPE_F32;
    clattn_layer_params p = {.heads = HEADS, .kv_heads = KV_HEADS, .projection = CLATTN_PROJECTION_NATIVE};
    p.x = p.out = view(f32, 3, BATCH, ROWS, WIDTH, 0);
    p.wq = view(f32, 2, HEADS * SIZE, WIDTH, 0, 0), p.wo = view(f32, 2, WIDTH, HEADS * SIZE, 0, 0);
    p.wk = p.wv = view(f32, 2, KV_HEADS * SIZE, WIDTH, 0, 0);
    set_keys(&p, with);
    set_batch(&p, with, has(with, CROSS));
    if (has(with, CROSS)) p.y = p.x;
    set_rope(&p, with);
    if (has(with, KV_LENGTHS)) p.score.kv_lengths = p.kv.k.rank || p.kv.past_k.rank ? lengths : fewer;
    if (has(with, NORM)) p.norm = CLATTN_NORM_HEADS, p.q_norm = view(f32, 1, SIZE, 0, 0, 0);
    if (has(with, GATE)) p.w_gate = view(f32, 2, HEADS, WIDTH, 0, 0);
    if (has(with, SINKS)) p.score.sinks_device = view(f32, 1, HEADS, 0, 0, 0);
    if (has(with, MODS)) p.score.score_mod = "score + (float)j", p.score.mask_mod = "j <= i";
    if (has(with, DROPOUT)) p.score.dropout = 0.5f;
    if (has(with, MASK)) p.score.mask = view(CLATTN_TYPE_BOOL, 2, ROWS, 1, 0, 0);
    return p;
}

START_TEST(every_two_options) {
    const int a = _i / OPTIONS, b = _i % OPTIONS;
    char name[64];
    clattn_plan plan;
    if (a > b) return;
    const clattn_layer_params p = layer_of(1u << a | 1u << b);
    snprintf(name, sizeof name, "%s with %s", names[a], names[b]);
    int n = 0;
    while (n < REFUSED && !(refused[n].a == a && refused[n].b == b) &&
           !(refused[n].a == b && refused[n].b == a))
        n++;
    harness_log_clear();
    const clattn_status status = clattn_layer_plan(harness()->context, &p, &plan);
    if (n < REFUSED)
        harness_assert_refused(name, status, refused[n].status, refused[n].word);
    else
        ck_assert_msg(status == CLATTN_OK, "%s: is not among those that are refused: %s", name,
                      harness_log_text());
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pairs of a layer");
    TCase *group = harness_add(suite, "pairs", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, every_two_options, 0, OPTIONS * OPTIONS);
    return harness_run(suite);
}
