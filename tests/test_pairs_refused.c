// test_pairs_refused.c: of the options that say where keys lie and how a batch is packed, every two are taken together by a plan, or
// stand in pairs_refused (evidence/pairs.h) and are refused by name, in one line. An option that is built for another leaves that
// list, and the covering arrays then have the pair.
#include "case_assert.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "evidence/pairs.h"

enum { ROWS = 6, HEADS = 2, SIZE = 16 };

static const int32_t cu[] = {0, 4, ROWS};

static clattn_tensor view(clattn_type type, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t shape[] = {a, b, c, d};
    return clattn_tensor_dense(NULL, type, rank, shape);
}

static void set_ragged(clattn_attention_params *p) {
    p->sequences = 2;
    p->cu_seqlens_q = p->kv.cu_seqlens_kv = cu;
}
static void set_past(clattn_attention_params *p) {
    p->kv.past_k = p->kv.past_v = view(p->kv.k.type, 4, 1, HEADS, 3, SIZE);
    if (p->kv.k.type == CLATTN_TYPE_I8)
        p->kv.past_k_scale = p->kv.past_v_scale = view(CLATTN_TYPE_F32, 3, 1, HEADS, 3, 0);
}
static void set_pages(clattn_attention_params *p) {
    p->kv.k.shape[0] = p->kv.v.shape[0] = 1;
    p->kv.block_table = view(CLATTN_TYPE_I32, 2, 1, 1, 0, 0);
    p->kv.page_size = ROWS;
}
static void set_append(clattn_attention_params *p) {
    p->kv.k_new = p->kv.v_new = view(CLATTN_TYPE_F32, 4, 1, HEADS, 2, SIZE);
    if (p->rope.positions.rank) p->rope.k_positions = view(CLATTN_TYPE_I32, 2, 1, 2, 0, 0);
}
static void set_rope(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
}
// Of the keys that the call turns.
static void set_positions(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
    p->rope.positions = view(CLATTN_TYPE_I32, 2, 1, ROWS, 0, 0);
}
static void set_i8(clattn_attention_params *p) {
    p->kv.k.type = p->kv.v.type = CLATTN_TYPE_I8;
    p->kv.k_scale = p->kv.v_scale = view(CLATTN_TYPE_F32, 3, 1, HEADS, ROWS, 0);
}
static void set_dropout(clattn_attention_params *p) {
    p->score.dropout = 0.5f;
}
static void set_mods(clattn_attention_params *p) {
    p->score.score_mod = "score + (float)j", p->score.mask_mod = "j <= i";
}

// Those that change the types and shapes of others stand before them.
static const struct {
    const char *token;
    void (*set)(clattn_attention_params *params);
} options[] = {{"kvi8", set_i8},       {"rope", set_rope},       {"positions", set_positions},
               {"ragged", set_ragged}, {"past", set_past},       {"pages", set_pages},
               {"append", set_append}, {"dropout", set_dropout}, {"mods", set_mods}};
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

START_TEST(every_two_options) {
    const int a = _i / OPTIONS, b = _i % OPTIONS;
    char name[64];
    clattn_plan plan;
    clattn_attention_params p = good();
    if (a > b) return;
    snprintf(name, sizeof name, "%s with %s", options[a].token, options[b].token);
    options[a].set(&p);
    if (b > a) options[b].set(&p);
    const struct pairs_refused *refused = refusal_of(options[a].token, options[b].token);
    harness_log_clear();
    const clattn_status status = clattn_attention_plan(harness()->context, &p, &plan);
    // Positions bring rope with them, which i8 keys do not have.
    if (refused == NULL && !strcmp(options[a].token, "kvi8") && !strcmp(options[b].token, "positions"))
        refused = refusal_of("rope", "kvi8");
    if (refused != NULL)
        harness_assert_refused(name, status, refused->status, refused->word);
    else
        ck_assert_msg(status == CLATTN_OK, "%s: stands in no list of what is refused: %s", name,
                      harness_log_text());
}
END_TEST

// Each listed pair is one of the test's options, so that none is left untried.
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
