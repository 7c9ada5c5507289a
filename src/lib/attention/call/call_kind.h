// call_kind.h: predicates on the parameters of a call: where keys and values are stored, whether
// sequences are packed, and which options change scores.
#ifndef CLATTN_ATTENTION_CALL_CALL_KIND_H
#define CLATTN_ATTENTION_CALL_CALL_KIND_H
#include <clattn/clattn.h>
#include "tables/score.def"

// New rows are appended (k_new); keys are in pages (block_table); past_k precedes k.
bool cla_kv_appends(const clattn_kv *kv);
bool cla_kv_is_paged(const clattn_kv *kv);
bool cla_kv_has_past(const clattn_kv *kv);
int64_t cla_kv_count(const clattn_kv *kv);   // upper bound on the keys of an item
int cla_kv_past(const clattn_kv *kv, int b); // keys of item b that are in the past

// True if v is a view of the first numbers of k's rows.
bool cla_kv_is_view(const clattn_tensor *k, const clattn_tensor *v);
// True if the scales, zero points and past of v are also views of k's, as in latent attention.
bool cla_kv_is_shared(const clattn_kv *kv);
// True if new rows are appended to a cache whose v is a view of k, so that v_new is a view of
// k_new.
bool cla_kv_is_latent_cache(const clattn_kv *kv);

// Ragged batches: whether sequences are packed, their number (B otherwise), whether keys are packed
// too, and whether lengths are in device memory.
bool cla_ragged_given(const clattn_attention_params *p);
int64_t cla_ragged_sequences(const clattn_attention_params *p);
bool cla_ragged_packs_keys(const clattn_attention_params *p);
bool cla_ragged_on_device(const clattn_attention_params *p);

// The score options in use, as ARGS_... bits of args.h.
int cla_score_flags(const clattn_score *score);
// How results differ under the options in use: by item, head, row, ... The bits are in
// "tables/score.def".
unsigned cla_score_differs(const clattn_score *score);
// Why these score options prevent a cascade (one read of a past that all items share); NULL: they
// permit one.
const char *cla_score_cascade_refusal(const clattn_score *score);
// Width of the window in keys (left + right + 1; causality is right = 0). 0: one side is unbounded.
int cla_score_band(const clattn_score *score);
#endif
