// layer_weights.h: load a layer's projections by the names that models use: all heads, or only this
// rank's.
#ifndef CLATTN_CLI_LAYER_LAYER_WEIGHTS_H
#define CLATTN_CLI_LAYER_LAYER_WEIGHTS_H
#include <jansson.h>

#include "cli/call_options/store_options.h"
#include "cli/files/formats.h"

// Query heads [first, first + count) of `all`, and the key/value heads that they read.
typedef struct layer_share {
    bool wanted;
    int64_t first, count, all, kv_first, kv_count, kv_all;
} layer_share;

// Assign heads to a rank: whole key/value heads with their query heads. With more ranks than
// key/value heads, each rank has a part of one key/value head's query heads. Returns -1, or
// EXIT_WRONG after printing a line if there are fewer query heads than ranks.
int layer_share_heads(layer_share *s, int rank, int ranks, int64_t heads, int64_t kv_heads);
// Read this rank's heads of a layer's tensor, LAYER_WQ and so on. `packed`: it contains q, k and v.
// `transposed`: it is [in, out].
int layer_share_load(const layer_share *s, const char *option, int tensor, bool packed, bool transposed,
                     const load_place *place, array *a);

enum {
    LAYER_WQ,
    LAYER_WK,
    LAYER_WV,
    LAYER_WO,
    LAYER_GATE,
    LAYER_BQ, // biases and norms, which are vectors, begin here
    LAYER_BK,
    LAYER_BV,
    LAYER_BO,
    LAYER_GATE_BIAS,
    LAYER_Q_NORM,
    LAYER_K_NORM,
    // read only from a model's file: otherwise attend and layer have the option --sinks
    LAYER_SINKS,
    LAYER_TENSORS
};
extern const char *const layer_tensor_options[LAYER_TENSORS]; // "wq", ...

// The scales of a matrix of 8 or 4 bits. CLATTN_TYPE_F32: the matrix is floats and `scale` is
// absent. Each 4-bit number is one i8 in the array, so that the array has the matrix's shape.
typedef struct matrix_scales {
    clattn_type type;
    array scale, zero; // [rows] or [rows, groups]
} matrix_scales;

typedef struct layer_weights {
    const char *file, *names; // --weights, --names
    // Maps each tensor to its file's name in `folder`; replaces `file`.
    const json_t *shards;
    const char *folder;
    const char *given[LAYER_TENSORS]; // --wq ...: a tensor's name in `file`, or a path
    array arrays[LAYER_TENSORS];      // rank 0 with NULL data: absent
    matrix_scales scales[LAYER_BQ];
    bool present[LAYER_TENSORS];
    store_options stores; // --weight-type and its companions
    store store;          // how matrices are stored
    bool norms, sinks;    // the caller uses them; otherwise a file that has them is an error
    bool packed;          // wq and bq contain q, k and v in this order
    bool transposed;      // matrices of the file are [in, out]
    layer_share share;    // this rank's heads; other heads are not loaded
    double read_bytes;
    int64_t parts[2]; // with `packed`: heads of q, and heads of k and of v; 0: equal counts
} layer_weights;

// True if `names` begins with this scheme, such as "llama:".
bool layer_weights_named(const layer_weights *w, const char *scheme);
// Find and load the tensors. Returns -1, or prints a line and returns the exit status.
int layer_weights_load(layer_weights *w);
int layer_weights_upload(layer_weights *w, tensors *t, clattn_layer_params *p);
// The sinks as [heads] floats, which the caller frees; NULL: there are none.
int layer_weights_sinks(const layer_weights *w, int64_t heads, float **sinks);
int layer_weights_transpose(array *a);                // transposes [in, out] to [out, in]
double layer_weights_numbers(const clattn_tensor *w); // elements of a matrix on the device

// layer_find.c: layer_weights_have: true if a tensor exists. layer_find: find it. layer_find_load:
// load a found tensor; `option` is named in errors. layer_weights_read: find and load.
bool layer_weights_have(const layer_weights *w, char **names, size_t count, const char *name);
int layer_find(const layer_weights *w, const char *name, load_place *place);
int layer_find_load(const char *option, const load_place *place, array *a);
int layer_weights_read(const layer_weights *w, const char *name, array *a);

// layer_stored.c. The functions return -1, or print a line and return the exit status.
//    layer_stored_read      read a matrix by name, with the scales of 8-bit and 4-bit matrices
//    layer_stored_convert   quantise a float matrix as --weight-type says
//    layer_stored_upload    upload a matrix, its scales and its zero points
int layer_stored_read(const layer_weights *w, const char *name, array *a, matrix_scales *s);
int layer_stored_convert(const layer_weights *w, const char *option, array *a, const matrix_scales *s);
int layer_stored_upload(const layer_weights *w, tensors *t, const array *a, const matrix_scales *s,
                        clattn_tensor *const views[3]);
void layer_stored_free(matrix_scales *s);
void layer_weights_free(layer_weights *w);
#endif
