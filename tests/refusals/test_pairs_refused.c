// test_pairs_refused.c: every two options of key storage and batch packing together. Planning
// accepts each pair, or the pair is in pairs_refused (verification/sets/pairs.h) and is refused
// with a one-line message that names it. When a pair becomes supported, remove it from that list,
// and the covering arrays include it.
#include "support/case_assert.h"
#include "support/harness.h"

#include <stdio.h>
#include <string.h>

#include "verification/sets/pairs.h"

enum { ROWS = 6, HEADS = 2, SIZE = 64 };

static const int32_t cu[] = {0, 4, ROWS}, fewer[] = {4, 2};

static clattn_tensor view(clattn_type type, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t shape[] = {a, b, c, d};
    return clattn_tensor_dense(NULL, type, rank, shape);
}

// Packed batches: with packed keys, with lengths as well, and with a cache [2, H, ROWS, SIZE].
static void set_ragged(clattn_attention_params *p) {
    p->sequences = 2;
    p->cu_seqlens_q = p->kv.cu_seqlens_kv = cu;
}
static void set_ragged_device(clattn_attention_params *p) {
    p->sequences = 2, p->max_q = p->max_kv = ROWS;
    p->cu_seqlens_q_device = p->kv.cu_seqlens_kv_device = view(CLATTN_TYPE_I32, 1, 3, 0, 0, 0);
}
static void set_ragged_gaps(clattn_attention_params *p) {
    set_ragged(p);
    p->score.q_lengths = p->score.kv_lengths = fewer;
}
static void set_cache(clattn_attention_params *p) {
    p->kv.k.shape[0] = p->kv.v.shape[0] = p->kv.k_scale.shape[0] = p->kv.v_scale.shape[0] = 2;
    if (p->rope.positions.rank) p->rope.k_positions = view(CLATTN_TYPE_I32, 2, 2, ROWS, 0, 0);
}
static void set_ragged_cache(clattn_attention_params *p) {
    p->sequences = 2, p->cu_seqlens_q = cu;
    set_cache(p);
}
static void set_ragged_cache_device(clattn_attention_params *p) {
    p->sequences = 2, p->max_q = ROWS;
    p->cu_seqlens_q_device = view(CLATTN_TYPE_I32, 1, 3, 0, 0, 0);
    p->kv.kv_lengths_device = view(CLATTN_TYPE_I32, 1, 2, 0, 0, 0);
    set_cache(p);
}
static int64_t items(const clattn_attention_params *p) {
    return p->sequences ? p->sequences : 1;
}
static void set_past(clattn_attention_params *p) {
    p->kv.past_k = p->kv.past_v = view(p->kv.k.type, 4, 1, HEADS, 3, p->kv.k.shape[3]);
    if (CLATTN_TYPE_IS_SCALED(p->kv.k.type))
        p->kv.past_k_scale = p->kv.past_v_scale = view(CLATTN_TYPE_F32, 3, 1, HEADS, 3, 0);
}
static void set_pages(clattn_attention_params *p) {
    p->kv.k.shape[0] = p->kv.v.shape[0] = p->kv.k_scale.shape[0] = p->kv.v_scale.shape[0] = 1;
    p->kv.block_table = view(CLATTN_TYPE_I32, 2, items(p), 1, 0, 0);
    p->kv.page_size = ROWS;
    p->rope.k_positions = (clattn_tensor){0}; // the cache already has RoPE applied
}
static void set_append(clattn_attention_params *p) {
    const int64_t rows = p->sequences ? ROWS : 2;
    p->kv.k_new = p->kv.v_new = view(CLATTN_TYPE_F32, 4, 1, HEADS, rows, SIZE);
    if (p->rope.positions.rank) p->rope.k_positions = view(CLATTN_TYPE_I32, 2, 1, rows, 0, 0);
}
// With v as a view of k, the past's and the new rows' values are also views of their keys.
static void set_latent(clattn_attention_params *p) {
    clattn_tensor *const values[] = {&p->kv.v, &p->kv.past_v, &p->kv.v_new};
    for (int n = 0; n < 3; n++) values[n]->shape[3] /= 2;
    p->out.shape[3] = SIZE / 2;
}
static void set_device_sinks(clattn_attention_params *p) {
    p->score.sinks_device = view(CLATTN_TYPE_F32, 1, HEADS, 0, 0, 0);
}
static void set_rope(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
}
// Positions for calls that apply RoPE.
static void set_positions(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
    p->rope.positions = view(CLATTN_TYPE_I32, 2, 1, ROWS, 0, 0);
}
static void set_i8(clattn_attention_params *p) {
    p->kv.k.type = p->kv.v.type = CLATTN_TYPE_I8;
    p->kv.k_scale = p->kv.v_scale = view(CLATTN_TYPE_F32, 3, 1, HEADS, ROWS, 0);
}
static void set_f8(clattn_attention_params *p) {
    set_i8(p);
    p->kv.k.type = p->kv.v.type = CLATTN_TYPE_F8E4M3;
}
static void set_i4(clattn_attention_params *p) {
    set_i8(p);
    p->kv.k = p->kv.v = view(CLATTN_TYPE_I4, 4, 1, HEADS, ROWS, SIZE / 2);
}
static void set_blocks(clattn_attention_params *p) {
    p->kv.k = p->kv.v =
        view(CLATTN_TYPE_Q8_0, 4, 1, HEADS, ROWS, SIZE / clattn_type_numbers(CLATTN_TYPE_Q8_0));
}
// Also applies to values that are a view of k.
static void set_rotation(clattn_attention_params *p) {
    p->kv.k_rotation = p->kv.v_rotation = 8;
}
static void set_dropout(clattn_attention_params *p) {
    p->score.dropout = 0.5f;
}
static void set_mods(clattn_attention_params *p) {
    p->score.score_mod = "score + (float)j", p->score.mask_mod = "j <= i";
}

// Options that change types and shapes come first.
static const struct {
    const char *token;
    void (*set)(clattn_attention_params *params);
} options[] = {{"kvi8", set_i8},
               {"kvf8", set_f8},
               {"kvi4", set_i4},
               {"kvq", set_blocks},
               {"krotation", set_rotation},
               {"rope", set_rope},
               {"positions", set_positions},
               {"raggedhost", set_ragged},
               {"raggeddevice", set_ragged_device},
               {"raggedgaps", set_ragged_gaps},
               {"raggedcache", set_ragged_cache},
               {"raggedcachedevice", set_ragged_cache_device},
               {"past", set_past},
               {"pages", set_pages},
               {"append", set_append},
               {"latent", set_latent},
               {"devicesinks", set_device_sinks},
               {"dropout", set_dropout},
               {"mods", set_mods}};
enum { OPTIONS = sizeof options / sizeof options[0] };

static clattn_attention_params good(void) {
    clattn_attention_params p = {.q = view(CLATTN_TYPE_F32, 4, 1, HEADS, ROWS, SIZE)};
    p.out = p.kv.k = p.kv.v = p.q;
    return p;
}

static const struct pairs_refused *refusal_of(const char *a, const char *b) {
    for (int n = 0; n < pairs_refused_count; n++) {
        const struct pairs_refused *r = &pairs_refused[n];
        if ((!strcmp(r->token_a, a) && !strcmp(r->token_b, b)) ||
            (!strcmp(r->token_a, b) && !strcmp(r->token_b, a)))
            return r;
    }
    return NULL;
}

static bool is_ragged(int option) {
    return strncmp(options[option].token, "ragged", 6) == 0;
}

START_TEST(every_two_options) {
    const int a = _i / OPTIONS, b = _i % OPTIONS;
    char name[64];
    clattn_plan plan;
    clattn_attention_params p = good();
    const bool scaled = !strncmp(options[a].token, "kv", 2),
               turned = scaled || !strcmp(options[a].token, "krotation");
    // two kinds of packing exclude each other
    if (a > b || (a < b && is_ragged(a) && is_ragged(b))) return;
    // two types exclude each other
    if (a < b && scaled && !strncmp(options[b].token, "kv", 2)) return;
    snprintf(name, sizeof name, "%s with %s", options[a].token, options[b].token);
    options[a].set(&p);
    if (b > a) options[b].set(&p);
    const struct pairs_refused *refused = refusal_of(options[a].token, options[b].token);
    harness_log_clear();
    const clattn_status status = clattn_attention_plan(harness()->context, &p, &plan);
    // Positions imply rope, which scaled and Hadamard-transformed keys do not support.
    if (refused == NULL && turned && !strcmp(options[b].token, "positions"))
        refused = refusal_of("rope", options[a].token);
    if (refused != NULL)
        harness_assert_refused(name, status, refused->status, refused->word);
    else
        ck_assert_msg(status == CLATTN_OK, "%s: stands in no list of what is refused: %s", name,
                      harness_log_text());
}
END_TEST

// Each listed pair consists of options that this test knows, so that none is left untested.
START_TEST(every_listed_pair_is_tried) {
    for (int n = 0; n < pairs_refused_count; n++) {
        int known = 0;
        for (int i = 0; i < OPTIONS; i++)
            known += !strcmp(options[i].token, pairs_refused[n].token_a) ||
                     !strcmp(options[i].token, pairs_refused[n].token_b);
        ck_assert_msg(known == 2, "%s with %s", pairs_refused[n].token_a, pairs_refused[n].token_b);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pairs refused");
    TCase *group = harness_add(suite, "pairs", (const TTest *const[]){every_listed_pair_is_tried, NULL});
    tcase_add_loop_test(group, every_two_options, 0, OPTIONS * OPTIONS);
    return harness_run(suite);
}
