// bench_options.c: see bench_options.h.
#include "tool/bench_options.h"

#include <stdio.h>
#include <string.h>

#include "evidence/model.h"

const char *const bench_option_cases[] = {"attend-f32-b1-h12-n1000-d64-full",
                                          "decode-f32-b1-h32-hkv8-n1-nkv4096-d128-full", NULL};

// What a row of the table changes in the case.
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
    INT8
};
static const struct {
    const char *name;
    enum change change;
    bench_mask mask; // of MASK
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
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

int bench_option_count(void) {
    return ROWS;
}

static void change(struct test_case *t, int n) {
    clattn_score *s = &t->score;
    const enum change what = rows[n].change;
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
    if (what == ROPE) t->rope.layout = CLATTN_ROPE_HALF;
    t->weights = what == WEIGHTS;
    if (what == INT8) t->kv_type = CLATTN_TYPE_I8;
}

// A call that is ready and has given the right result once.
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
    if (!measure_in_turns(places, &settings->measure, bench_call_enqueue, users, &pair)) {
        snprintf(o->row.why, sizeof o->row.why, "%s", p->status != BENCH_OK ? p->why : p->place.error);
        return BENCH_FAIL;
    }
    o->row.times = pair.times[1];
    o->row.gflops = model_flops(&p->data->test) / pair.times[1].time_ns;
    o->row.gbytes_per_s = model_bytes(&p->data->test) / pair.times[1].time_ns;
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
    if (o->row.c.mask != BENCH_MASK_RANDOM && !bench_mask_fits(&whole)) {
        snprintf(o->row.why, sizeof o->row.why,
                 "a mask of more than a million elements is a table that repeats");
        return BENCH_UNSUPPORTED;
    }
    bench_status status = make_ready(&p, s, settings, o);
    if (status == BENCH_OK) status = take_turns(plain, &p, plain_keys, settings, o);
    bench_call_destroy(&p);
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
    if (session_open_device(s, &device, NULL) >= 0) {
        fail_all(options, BENCH_FAIL, s->message[0] ? s->message : "the device takes no context");
        return;
    }
    first = options[0];
    const bench_status status = make_ready(&plain, s, settings, &first);
    if (status != BENCH_OK) fail_all(options, status, first.row.why);
    for (int n = 0; status == BENCH_OK && n < ROWS; n++) {
        begins(user, options[n].name);
        options[n].row.status = measure_one(s, &plain, first.visible_keys, settings, &options[n]);
    }
    bench_call_destroy(&plain);
    session_close(s);
}
