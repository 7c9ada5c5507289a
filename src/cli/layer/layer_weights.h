// layer_weights.h: the four projections of a layer by the names that models use, all of them or those of the heads that are a rank's.
#ifndef CLATTN_TOOL_LAYER_LAYER_WEIGHTS_H
#define CLATTN_TOOL_LAYER_LAYER_WEIGHTS_H
#include <jansson.h>

#include "cli/call_options/store_options.h"
#include "cli/files/formats.h"

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

// What a matrix of 8 or 4 bits needs beside it. type f32: the matrix is of floats, and `scale` is absent. A number of 4 bits is one of i8
// in the array, so that all have the matrix' shape.
typedef struct matrix_scales {
    clattn_type type;
    array scale, zero; // [rows] or [rows, groups]
} matrix_scales;

typedef struct layer_weights {
    const char *file, *names; // --weights, --names
    const json_t *shards;     // in place of `file`: of each tensor the name of its file, in `folder`
    const char *folder;
    const char *given[LAYER_TENSORS]; // --wq ..., a tensor's name in `file`, or a file of its own
    array arrays[LAYER_TENSORS];      // rank 0 with NULL data: absent
    matrix_scales scales[LAYER_BQ];
    bool present[LAYER_TENSORS];
    store_options stores; // --weight-type and the like
    store store;          // what matrices become
    bool norms, sinks;    // the caller knows what they are for; else a file that has some is refused
    bool packed;          // wq and bq hold q, k and v one after another
    bool turned;          // matrices of the file are [in, out]
    layer_share share;    // of heads; what is not theirs is not loaded
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
int layer_weights_turn(array *a);                     // [in, out] becomes [out, in]
double layer_weights_numbers(const clattn_tensor *w); // of a matrix on the device

// layer_find.c: whether a tensor is there, of a file with these names; where it is; all of it, of the option that asks; both at once.
bool layer_weights_have(const layer_weights *w, char **names, size_t count, const char *name);
int layer_find(const layer_weights *w, const char *name, load_place *place);
int layer_find_load(const char *option, const load_place *place, array *a);
int layer_weights_read(const layer_weights *w, const char *name, array *a);

// layer_stored.c: a matrix by its own name, with what it needs where it has 8 or 4 bits; a matrix of floats as --weight-type says; and on
// the device, its scales and its zero points. Return -1, else the exit status with a line printed.
int layer_stored_read(const layer_weights *w, const char *name, array *a, matrix_scales *s);
int layer_stored_convert(const layer_weights *w, const char *option, array *a, const matrix_scales *s);
int layer_stored_upload(const layer_weights *w, tensors *t, const array *a, const matrix_scales *s,
                        clattn_tensor *const views[3]);
void layer_stored_free(matrix_scales *s);
void layer_weights_free(layer_weights *w);
#endif
