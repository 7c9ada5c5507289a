// bench_options.c: see bench_table.h.
#include "cli/bench/bench_table.h"

#include "verification/limits/model.h"

const char *const bench_option_cases[] = {"attend-f32-b1-h12-n1000-d64-full",
                                          "decode-f32-b1-h32-hkv8-n1-nkv4096-d128-full", NULL};

#define SEQUENCES 4 // number of sequences of a ragged batch

// The option that a row of the table adds to the plain case.
enum change {
    PLAIN,
    LSE,
    CAUSAL,
    WINDOW,
    LENGTHS,
    SOFTCAP,
    BIAS,
    ALIBI,
    SINKS,
    HEAD_SCALES,
    SCORE_MOD,
    MASK,
    ROPE,
    WEIGHTS,
    INT8,
    PAST,
    PREFIX,
    PAGES_16,
    PAGES_128,
    DROPOUT,
    POSITIONS,
    RAGGED_FULL,
    RAGGED_HALF
};
static const struct {
    const char *name;
    enum change change;
    bench_mask mask; // for MASK rows
    bool blocks;
} rows[] = {
    {"plain", PLAIN, BENCH_MASK_RANDOM, false},
    {"log-sum-exp", LSE, BENCH_MASK_RANDOM, false},
    {"causal", CAUSAL, BENCH_MASK_RANDOM, false},
    {"window, causal", WINDOW, BENCH_MASK_RANDOM, false},
    {"key lengths", LENGTHS, BENCH_MASK_RANDOM, false},
    {"softcap", SOFTCAP, BENCH_MASK_RANDOM, false},
    {"bias", BIAS, BENCH_MASK_RANDOM, false},
    {"boolean mask", MASK, BENCH_MASK_KEPT, false},
    {"ALiBi", ALIBI, BENCH_MASK_RANDOM, false},
    {"sinks", SINKS, BENCH_MASK_RANDOM, false},
    {"head scales", HEAD_SCALES, BENCH_MASK_RANDOM, false},
    {"ALiBi by score_mod", SCORE_MOD, BENCH_MASK_RANDOM, false},
    {"documents by boolean mask", MASK, BENCH_MASK_DOCUMENTS, false},
    {"documents by mask_mod", MASK, BENCH_MASK_DOCUMENTS_MOD, false},
    {"documents by mask_mod, block mask", MASK, BENCH_MASK_DOCUMENTS_MOD, true},
    {"RoPE", ROPE, BENCH_MASK_RANDOM, false},
    {"weights returned", WEIGHTS, BENCH_MASK_RANDOM, false},
    {"int8 keys and values", INT8, BENCH_MASK_RANDOM, false},
    {"half of the keys past ones", PAST, BENCH_MASK_RANDOM, false},
    {"half of the keys a shared prefix", PREFIX, BENCH_MASK_RANDOM, false},
    {"pages of 16 keys", PAGES_16, BENCH_MASK_RANDOM, false},
    {"pages of 128 keys", PAGES_128, BENCH_MASK_RANDOM, false},
    {"dropout", DROPOUT, BENCH_MASK_RANDOM, false},
    {"RoPE, explicit positions", POSITIONS, BENCH_MASK_RANDOM, false},
    {"ragged, beside a dense batch of as many rows", RAGGED_FULL, BENCH_MASK_RANDOM, false},
    {"ragged, beside a batch that is half padding", RAGGED_HALF, BENCH_MASK_RANDOM, false},
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

int bench_option_count(void) {
    return ROWS;
}

// True for options that make a ragged batch. Their plain call is a dense batch with the most items
// that a ragged case can have.
static bool is_ragged(int n) {
    return rows[n].change == RAGGED_FULL || rows[n].change == RAGGED_HALF;
}

static void make_batch(struct test_case *t) {
    const double width = (double)(t->head_dim > t->head_dim_v ? t->head_dim : t->head_dim_v);
    t->batch = SEQUENCES;
    while (t->n_q > 1 && (double)t->heads * SEQUENCES * (double)t->n_q * width > GUARDED_PERIOD) t->n_q /= 2;
    while (t->n_kv > 1 && (double)t->kv_heads * SEQUENCES * (double)t->n_kv * width > GUARDED_PERIOD)
        t->n_kv /= 2;
}

// Make the batch ragged, with SEQUENCES sequences. All are full, or for `half` they have 8, 1, 5
// and 2 eighths of the rows and keys: half of the batch in total.
static void make_ragged(struct test_case *t, bool half) {
    int32_t q[SEQUENCES], kv[SEQUENCES];
    for (int b = 0; b < SEQUENCES; b++) {
        const int64_t eighths = !half ? 8 : b % 4 == 0 ? 8 : b % 4 == 1 ? 1 : b % 4 == 2 ? 5 : 2;
        q[b] = (int32_t)(t->n_q > 1 ? t->n_q * eighths / 8 : t->n_q);
        kv[b] = (int32_t)(t->n_kv * eighths / 8);
    }
    t->ragged = CASE_RAGGED_HOST;
    case_give(t, CASE_Q_LENGTHS, SEQUENCES, q);
    case_give(t, CASE_KV_LENGTHS, SEQUENCES, kv);
}

// Store the same keys in whole pages.
static void make_pages(struct test_case *t, int64_t page) {
    int32_t lengths[CASE_GIVEN_MOST];
    for (int b = 0; b < CASE_GIVEN_MOST; b++) lengths[b] = (int32_t)t->n_kv;
    if (t->n_kv % page != 0 && t->batch <= CASE_GIVEN_MOST)
        case_give(t, CASE_KV_LENGTHS, (int)t->batch, lengths);
    t->page_size = page;
    t->n_kv = (t->n_kv + page - 1) / page * page;
}

static void change_places(struct test_case *t, enum change what) {
    if (what == PAST || what == PREFIX) t->has_past = true, t->past = t->n_kv / 2;
    t->past_shared = what == PREFIX;
    if (what == PAGES_16 || what == PAGES_128) make_pages(t, what == PAGES_16 ? 16 : 128);
    if (what == RAGGED_FULL || what == RAGGED_HALF) make_batch(t), make_ragged(t, what == RAGGED_HALF);
}

static void change(struct test_case *t, int n) {
    clattn_score *s = &t->score;
    const enum change what = rows[n].change;
    change_places(t, what);
    if (what == DROPOUT) s->dropout = 0.1f, s->dropout_seed = 1;
    t->positions = what == POSITIONS;
    if (what == LSE) t->no_lse = false;
    if (what == CAUSAL || what == WINDOW) s->causal = true, s->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    if (what == WINDOW) s->window = true, s->window_left = (int32_t)(t->n_kv / 4), s->window_right = 0;
    if (what == LENGTHS && t->batch <= CASE_GIVEN_MOST) {
        int32_t lengths[CASE_GIVEN_MOST];
        for (int b = 0; b < t->batch; b++) lengths[b] = (int32_t)(t->n_kv * (b % 2 ? 2 : 3) / 4);
        case_give(t, CASE_KV_LENGTHS, (int)t->batch, lengths);
    }
    if (what == SOFTCAP) s->softcap = 30;
    if (what == BIAS) t->bias.rank = 2;
    if (what == ALIBI || what == SCORE_MOD) t->hosts |= CASE_HOST_BIT(CASE_ALIBI);
    if (what == SINKS) t->hosts |= CASE_HOST_BIT(CASE_SINKS);
    if (what == HEAD_SCALES) t->hosts |= CASE_HOST_BIT(CASE_HEAD_SCALES);
    t->mods = what == SCORE_MOD;
    if (what == MASK) t->mask.rank = 2;
    t->blocks = rows[n].blocks;
    if (what == ROPE || what == POSITIONS) t->rope.layout = CLATTN_ROPE_HALF;
    t->weights = what == WEIGHTS;
    if (what == INT8) t->kv_type = CLATTN_TYPE_I8;
}

// Prepare a call, run it once and verify its result.
static bench_status make_ready(bench_call *p, session *s, const bench_settings *settings, bench_option *o) {
    bench_status status = bench_call_create(p, s, &o->row.c, o->row.kernel, o->row.why);
    double wall_ns = 0.0;
    if (status == BENCH_OK) status = bench_call_prepare(p, o->row.why);
    if (status == BENCH_OK) status = bench_warm_up(p, settings, &wall_ns, &o->row);
    if (status == BENCH_OK) o->visible_keys = (double)p->c.test.heads * bench_mask_pairs(p->data, p->c.mask);
    o->row.peak_bytes = p->bytes;
    return status;
}

static bench_status take_turns(bench_call *plain, bench_call *p, double plain_keys,
                               const bench_settings *settings, bench_option *o) {
    void *const users[2] = {plain, p};
    measure_pair pair;
    struct place *const places[2] = {&plain->place, &p->place};
    if (!measure_interleaved(places, &settings->measure, bench_call_enqueue, users, &pair)) {
        snprintf(o->row.why, sizeof o->row.why, "%s", p->status != BENCH_OK ? p->why : p->place.error);
        return BENCH_FAIL;
    }
    bench_take_times(&o->row, &pair.times[1]);
    o->plain_ns = pair.times[0].time_ns;
    o->ratio = pair.ratio;
    o->ratio_spread = pair.ratio_spread;
    o->ratio_per_key = o->visible_keys > 0.0 ? pair.ratio * plain_keys / o->visible_keys : 0.0;
    return BENCH_OK;
}

static bench_status measure_one(session *s, bench_call *plain, double plain_keys,
                                const bench_settings *settings, bench_option *o) {
    bench_call p;
    const struct test_case whole = case_complete(&o->row.c.test);
    if (!case_valid(&whole, o->row.why)) return BENCH_UNSUPPORTED;
    if (o->row.c.mask != BENCH_MASK_RANDOM && !bench_mask_fits(&whole, o->row.c.mask, o->row.why))
        return BENCH_UNSUPPORTED;
    if (!bench_can_end(settings, &o->row)) return BENCH_UNSUPPORTED;
    bench_status status = make_ready(&p, s, settings, o);
    if (status == BENCH_OK) status = take_turns(plain, &p, plain_keys, settings, o);
    bench_call_destroy(&p);
    return status;
}

// Measure a ragged batch beside a dense batch of all rows and keys.
static bench_status measure_ragged(session *s, const bench_settings *settings, bench_option *o) {
    bench_call dense;
    bench_option first = *o;
    const struct test_case whole = case_complete(&o->row.c.test);
    if (!case_valid(&whole, o->row.why)) return BENCH_UNSUPPORTED;
    first.row.c.test.ragged = CASE_DENSE;
    first.row.c.test.hosts = 0;
    bench_status status = make_ready(&dense, s, settings, &first);
    if (status == BENCH_OK)
        status = measure_one(s, &dense, first.visible_keys, settings, o);
    else
        snprintf(o->row.why, sizeof o->row.why, "%s", first.row.why);
    bench_call_destroy(&dense);
    return status;
}

static void begin_rows(const struct test_case *base, bench_option *options) {
    for (int n = 0; n < ROWS; n++) {
        options[n] = (bench_option){.name = rows[n].name};
        options[n].row = (bench_row){.error_nmse = -1.0, .status = BENCH_FAIL};
        options[n].row.c = (bench_case){.test = *base, .mask = rows[n].mask};
        change(&options[n].row.c.test, n);
    }
}

static void fail_all(bench_option *options, bench_status status, const char *why) {
    for (int n = 0; n < ROWS; n++) {
        options[n].row.status = status;
        if (options[n].row.why != why) snprintf(options[n].row.why, sizeof options[n].row.why, "%.255s", why);
    }
}

void bench_options_measure(session *s, const struct test_case *base, const bench_settings *settings,
                           bench_option *options, void (*begins)(void *user, const char *name), void *user) {
    const clattn_device device = s->device;
    bench_call plain;
    bench_option first;
    s->message[0] = '\0';
    begin_rows(base, options);
    first = options[0];
    if (!bench_can_end(settings, &first.row)) {
        fail_all(options, first.row.status, first.row.why);
        return;
    }
    if (session_open_device(s, &device, NULL) >= 0) {
        fail_all(options, BENCH_FAIL, s->message[0] ? s->message : "no context can be created on the device");
        return;
    }
    const bench_status status = make_ready(&plain, s, settings, &first);
    if (status != BENCH_OK) fail_all(options, status, first.row.why);
    for (int n = 0; status == BENCH_OK && n < ROWS; n++) {
        begins(user, options[n].name);
        options[n].row.status = is_ragged(n)
                                    ? measure_ragged(s, settings, &options[n])
                                    : measure_one(s, &plain, first.visible_keys, settings, &options[n]);
    }
    bench_call_destroy(&plain);
    session_close(s);
}
