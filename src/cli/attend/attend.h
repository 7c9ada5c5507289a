// attend.h: one call of clattn attend, and how it is run by the ranks of MPI.
#ifndef CLATTN_TOOL_ATTEND_ATTEND_H
#define CLATTN_TOOL_ATTEND_ATTEND_H
#include "cli/ranks/ranks_keys.h"
#include "cli/devices/several.h"

// State of --mpi: the files, of which parts are read, and the result. A part is one shared call: all items of a batch, or one of
// sequences that lie one behind the other, whose rows every rank then has some of.
typedef struct attend_part {
    ranks_rows q, kv, out_rows;
    bool decode; // all ranks have the queries
    array out, lse;
} attend_part;
typedef struct attend_shared {
    load_place q;
    ragged_options ragged; // which the calls themselves are not
    kv_options kv;
    ranks_keys keys;
    attend_part *parts;
    int64_t count, batch, heads, max_q; // parts; items in all; the longest sequence's rows
    int32_t *q_lengths, *kv_lengths;    // [batch]; NULL: all
    array whole, whole_lse;             // type and shape of the result
} attend_shared;

// Gradients of a call: what is given, and files that are asked for.
#define ATTEND_GRADIENTS 7
typedef struct attend_gradients {
    const char *out, *lse, *score_mod, *paths[ATTEND_GRADIENTS]; // as given
    array out_array, lse_array, arrays[ATTEND_GRADIENTS];
    clattn_attention_backward_params params;
} attend_gradients;

typedef struct attend {
    const char *q, *k, *v, *out, *lse, *weights, *scores, *dropout_mask;
    bool bshd;
    int scores_at, v_type, dtype; // indices into names; -1: not given, of types the files' own
    store_options stores;         // --kv-type and the like
    int64_t kv_rotation;          // columns of a block; 0: none
    store stored[2];              // what K and V become; of f32 where they stay floats
    array q_array, k_array, v_array, out_array, lse_array, weights_array, scores_array, dropout_array;
    common_options common;
    score_options score;
    kv_options kv;
    rope_options rope;
    ragged_options ragged;
    append_options append;
    ranks ranks;
    attend_shared shared;
    several_options several;
    clattn_attention_params params;
    clattn_dropout_mask_params dropout;
    attend_gradients gradients;
    expect expect;
} attend;

// These return -1, else the exit status.
// Convert q, k and v to the types that the call has.
int attend_store(attend *a);
// Load what is no q, k or v; items and heads of q, and items of k.
int attend_options(attend *a, int64_t items, int64_t heads, int64_t k_items);
int attend_upload(attend *a, tensors *t);
int attend_outputs(attend *a, tensors *t);

// attend_backward.c: check the options, load the files, put them on the device beside forward's, run, write, in this order; nothing
// where there is no --grad-out.
option_group attend_gradients_group(attend_gradients *g);
int attend_gradients_check(const attend *a);
int attend_gradients_load(attend *a);
int attend_gradients_begin(attend *a, tensors *t);
int attend_gradients_run(attend *a, session *s);
int attend_gradients_save(attend *a, tensors *t);
void attend_gradients_free(attend_gradients *g);

// attend_ranks.c: find the files before there is a device; run, which is the exit status.
int attend_shared_find(attend *a);
int attend_shared_run(attend *a, session *s);
void attend_shared_free(attend *a);
#endif
