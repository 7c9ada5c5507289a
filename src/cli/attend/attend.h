// attend.h: the state of one `clattn attend`, on one device or over the ranks of MPI.
#ifndef CLATTN_CLI_ATTEND_ATTEND_H
#define CLATTN_CLI_ATTEND_ATTEND_H
#include "cli/ranks/ranks_keys.h"
#include "cli/devices/device_group.h"

// One shared call of --mpi. Without --cu-seqlens, the only part has all batch items. With
// --cu-seqlens, each sequence is a part, and every rank has some rows of each sequence.
typedef struct attend_part {
    ranks_rows q, kv, out_rows;
    bool decode; // every rank has all the queries
    array out, lse;
} attend_part;
typedef struct attend_shared {
    load_place q;
    ragged_options ragged; // the files are ragged, but each shared call is dense
    kv_options kv;
    ranks_keys keys;
    attend_part *parts;
    // Parts; batch items in total; query rows of the longest sequence.
    int64_t count, batch, heads, max_q;
    int32_t *q_lengths, *kv_lengths; // [batch]; NULL: every item has its full length
    array whole, whole_lse;          // type and shape of the result, without data
} attend_shared;

// The gradients of a call: the inputs of backward, and the files that the user requested.
#define ATTEND_GRADIENTS 7
typedef struct attend_gradients {
    // Paths and text from the command line.
    const char *out, *lse, *score_mod, *paths[ATTEND_GRADIENTS];
    array out_array, lse_array, arrays[ATTEND_GRADIENTS];
    clattn_attention_backward_params params;
} attend_gradients;

typedef struct attend {
    const char *q, *k, *v, *out, *lse, *weights, *scores, *dropout_mask;
    bool bshd;
    // Indices into the tables of names. -1: not given. For types, -1 keeps the files' own type.
    int scores_at, v_type, dtype;
    store_options stores; // --kv-type and its companions
    int64_t kv_rotation;  // columns of a Hadamard block; 0: no transform
    // How K and V are stored on the device. CLATTN_TYPE_F32: as the floats of the file,
    // unquantised.
    store stored[2];
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

// The functions below return -1, else the exit status.
//
// Convert q, k and v to the types of the call.
int attend_store(attend *a);
// Load every file except q, k and v. `items` and `heads` are those of q, `k_items` is that of k.
int attend_options(attend *a, int64_t items, int64_t heads, int64_t k_items);
int attend_upload(attend *a, tensors *t);
int attend_outputs(attend *a, tensors *t);

// attend_backward.c, in calling order: check the options, load the files, upload them beside
// forward's, run and save. Without --grad-out the functions do nothing.
option_group attend_gradients_group(attend_gradients *g);
int attend_gradients_check(const attend *a);
int attend_gradients_load(attend *a);
int attend_gradients_begin(attend *a, tensors *t);
int attend_gradients_run(attend *a, session *s);
int attend_gradients_save(attend *a, tensors *t);
void attend_gradients_free(attend_gradients *g);

// attend_ranks.c. `find` inspects the files before a device is opened. `run` returns the exit
// status.
int attend_shared_find(attend *a);
int attend_shared_run(attend *a, session *s);
void attend_shared_free(attend *a);
#endif
