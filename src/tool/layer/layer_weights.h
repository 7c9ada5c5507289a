// layer_weights.h: the four projections of a layer by the names that models use, all of them or those of the heads that are a rank's.
#ifndef CLATTN_TOOL_LAYER_LAYER_WEIGHTS_H
#define CLATTN_TOOL_LAYER_LAYER_WEIGHTS_H
#include <jansson.h>

#include "tool/call_options/tensors.h"
#include "tool/files/formats.h"

// Query heads [first, first + count) of `all`, and the key/value heads that they read.
typedef struct layer_share {
    bool wanted;
    int64_t first, count, all, kv_first, kv_count, kv_all;
} layer_share;

// Key/value heads in blocks; where there are more ranks than those, each has a part of the query heads of one. Returns -1, else
// EXIT_WRONG with a line: there are fewer heads than ranks.
int layer_share_heads(layer_share *s, int rank, int ranks, int64_t heads, int64_t kv_heads);
// Read what is theirs of a layer's tensor, LAYER_WQ and so on. `packed`: it holds q, k and v; `turned`: it is [in, out].
int layer_share_load(const layer_share *s, const char *option, int tensor, bool packed, bool turned,
                     const load_place *place, array *a);

enum {
    LAYER_WQ,
    LAYER_WK,
    LAYER_WV,
    LAYER_WO,
    LAYER_GATE,
    LAYER_BQ, // from here on vectors
    LAYER_BK,
    LAYER_BV,
    LAYER_BO,
    LAYER_GATE_BIAS,
    LAYER_Q_NORM,
    LAYER_K_NORM,
    LAYER_SINKS, // of a file's scheme alone: attend and layer have an option for them
    LAYER_TENSORS
};
extern const char *const layer_tensor_options[LAYER_TENSORS]; // "wq", ...

typedef struct layer_weights {
    const char *file, *names; // --weights, --names
    const json_t *shards;     // in place of `file`: of each tensor the name of its file, in `folder`
    const char *folder;
    const char *given[LAYER_TENSORS]; // --wq ..., a tensor's name in `file`, or a file of its own
    array arrays[LAYER_TENSORS];      // rank 0 with NULL data: absent
    bool present[LAYER_TENSORS];
    bool norms, sinks; // the caller knows what they are for; else a file that has some is refused
    bool packed;       // wq and bq hold q, k and v one after another
    bool turned;       // matrices of the file are [in, out]
    layer_share share; // of heads; what is not theirs is not loaded
    double read_bytes;
    int64_t parts[2]; // of what is packed, heads of q and of each of k and v; 0: as many of each
} layer_weights;

// The scheme that `names` begins with, such as "llama:".
bool layer_weights_named(const layer_weights *w, const char *scheme);
// Find and load. Returns -1, else the exit status with a line printed.
int layer_weights_load(layer_weights *w);
int layer_weights_upload(layer_weights *w, tensors *t, clattn_layer_params *p);
// The sinks as [heads] floats, NULL where there are none; the caller frees them.
int layer_weights_sinks(const layer_weights *w, int64_t heads, float **sinks);
// A tensor beside them, whole, by its own name; whether it is there, of a file with these names; [in, out] turned to [out, in].
int layer_weights_read(const layer_weights *w, const char *name, array *a);
bool layer_weights_have(const layer_weights *w, char **names, size_t count, const char *name);
int layer_weights_turn(array *a);
void layer_weights_free(layer_weights *w);
#endif
