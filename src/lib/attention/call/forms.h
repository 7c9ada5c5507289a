// forms.h: which form a call has, by its parameters alone: where its keys and values lie, whether its rows are packed, and which
// options change its scores.
#ifndef CLATTN_ATTENTION_CALL_FORMS_H
#define CLATTN_ATTENTION_CALL_FORMS_H
#include <clattn/clattn.h>
#include "tables/score.def"

// New rows go to the caches; keys lie in pages; there is a past before k and v.
bool cla_kv_appends(const clattn_kv *kv);
bool cla_kv_is_paged(const clattn_kv *kv);
bool cla_kv_has_past(const clattn_kv *kv);
int64_t cla_kv_count(const clattn_kv *kv);   // keys of an item at most
int cla_kv_past(const clattn_kv *kv, int b); // those of an item that lie in the past

// Whether v is a part of k's rows; whether values are the first numbers of their keys' rows, as in latent attention, in the past,
// too; whether new rows go to such a cache, and v_new is then a view of k_new.
bool cla_kv_is_view(const clattn_tensor *k, const clattn_tensor *v);
bool cla_kv_is_shared(const clattn_kv *kv);
bool cla_kv_is_latent_cache(const clattn_kv *kv);

// Whether sequences are packed; their number, which is B where it is no axis of q; whether keys are packed, too; whether the
// lengths are on the device.
bool cla_ragged_given(const clattn_attention_params *p);
int64_t cla_ragged_sequences(const clattn_attention_params *p);
bool cla_ragged_packs_keys(const clattn_attention_params *p);
bool cla_ragged_on_device(const clattn_attention_params *p);

// The options of a call's scores as ARGS_... of args.h.
int cla_score_flags(const clattn_score *score);
// By what those that are given differ, as "tables/score.def" has it.
unsigned cla_score_differs(const clattn_score *score);
// Why a past that items share is not read once with one of them; NULL: it is.
const char *cla_score_apart(const clattn_score *score);
// Keys that the window, or it and causality, let a row see; 0: one side is open.
int cla_score_band(const clattn_score *score);
#endif
