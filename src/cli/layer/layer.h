// layer.h: the request of one `clattn layer`, from options, from a model's folder (model.c) or from
// a preset.
#ifndef CLATTN_CLI_LAYER_LAYER_H
#define CLATTN_CLI_LAYER_LAYER_H
#include <jansson.h>

#include "verification/sets/presets.h"
#include "cli/layer/layer_weights.h"
#include "cli/ranks/ranks.h"

// The places of the norms in a block. `attention` and `mlp` are the block's two halves.
typedef enum block_form {
    BLOCK_PRE,      // h = x + attention(norm(x)), out = h + mlp(norm(h))
    BLOCK_SANDWICH, // h = x + norm(attention(norm(x))), out = h + norm(mlp(norm(h)))
    BLOCK_RESULT,   // h = x + norm(attention(x)), out = h + norm(mlp(h))
    BLOCK_POST,     // h = norm(x + attention(x)), out = norm(h + mlp(h))
    BLOCK_PARALLEL  // n = norm(x), out = x + attention(n) + mlp(n)
} block_form;

enum {
    BLOCK_NORM_X,         // norm of the block's input
    BLOCK_NORM_ATTENTION, // norm of attention's result, or of its sum with x
    BLOCK_NORM_H,         // norm of the MLP's input
    BLOCK_NORM_MLP,       // norm of the MLP's result, or of its sum with h
    // From here on matrices. BLOCK_GATE has the activation; an MLP without a gate stores its first
    // matrix here.
    BLOCK_GATE,
    BLOCK_UP,
    BLOCK_DOWN,
    BLOCK_TENSORS
};

enum {
    BLOCK_PLUS_ONE = 1,     // the norms multiply by 1 + w [Gemma]
    BLOCK_BIASES = 2,       // the matrices always have biases; without this flag, mlp_bias decides
    BLOCK_PACKED = 4,       // gate and up are one tensor, gate's rows first
    BLOCK_TRANSPOSED = 8,   // matrices are stored as [in, out]
    BLOCK_GELU_IS_TANH = 16 // the activation gelu is its tanh approximation
};

// A kind of block: its form, its norm, and the key and default of its activation.
typedef struct block_kind {
    block_form form;
    clattn_norm_kind norm;
    const char *activation_key, *activation;
    int is;
    // Tensor names after the layer's prefix, without .weight and .bias. NULL: the block has no such
    // tensor.
    const char *const *names;
} block_kind;

typedef struct model {
    int32_t heads, kv_heads, head_dim, head_dim_v, width; // width 0: any
    // The count or size is the kind's default, and weights of another size override it.
    bool assumes_kv_heads, assumes_head_dim;
    clattn_rope rope;
    // R/2 factors for up to short_length positions, then R/2 factors for more positions. Owned;
    // NULL: none.
    float *pair_factors;
    double short_length;
    clattn_norm norm; // norm of q and k, which has weights
    bool norm_plus_one;
    float norm_epsilon;
    bool bidirectional; // without causality; the window extends to both sides
    float scale, softcap;
    bool sinks;              // learned sinks
    int32_t window;          // keys that a row sees, itself included; 0: all before it
    int bias;                // biases of Q, K and V: 0 none, 1 each has one, -1 unknown
    bool out_bias;           // the output has a bias, which must be present
    const block_kind *block; // with --block; the fields below are the block's values in config.json
    float block_epsilon;
    clattn_activation activation;
    const char *activation_name;
    int32_t hidden;
    bool mlp_bias;
    char names[96];     // for layer_weights: "llama:PREFIX"
    char *file;         // path of model.safetensors, owned; NULL: the model has shards
    json_t *shards;     // maps each tensor to its file's name; owned
    const char *folder; // folder of the shards
} model;

// Parse the JSON file at `path` as an object, which the caller releases. NULL: prints a line that
// begins with `option`.
json_t *model_json(const char *option, const char *path);

// Read config.json and find the weights. Returns -1, or EXIT_WRONG after printing a line. A model
// whose attention, or with `block` whose block, needs a feature that the library does not have is
// an error.
int model_load(const char *folder, int64_t layer, bool block, model *m);
void model_free(model *m);

// The gradients of a layer: the inputs of backward, and the files that the user requested.
#define LAYER_GRADIENTS 18
typedef struct layer_gradients {
    const char *out, *score_mod, *paths[LAYER_GRADIENTS]; // from the command line
    array out_array, arrays[LAYER_GRADIENTS];
    clattn_layer_backward_params params;
} layer_gradients;

// One step of a block: a library call. A block is a list of steps on one queue; without --block the
// list has the layer only.
typedef struct block_step {
    enum { STEP_LAYER, STEP_NORM, STEP_LINEAR } what;
    clattn_norm_params norm;
    clattn_linear_params linear;
} block_step;

#define BLOCK_STEPS 8
typedef struct layer_block {
    bool wanted;                    // --block
    array arrays[BLOCK_TENSORS][2]; // weight and bias
    matrix_scales scales[BLOCK_TENSORS];
    clattn_tensor views[BLOCK_TENSORS][2], scale_views[BLOCK_TENSORS][2]; // scales and zero points
    block_step steps[BLOCK_STEPS];
    int count;
} layer_block;

typedef struct layer_run {
    layer_weights weights;
    const char *x, *y, *out, *attention_weights, *model_folder;
    const struct preset *preset;
    bool lists;    // --list: print the presets and do nothing else
    int64_t layer; // index of the layer in the model; -1: not given
    model model;
    bool dynamic; // the model's RoPE depends on the sequence's length
    int dtype;    // index into names_types; -1: not given
    rope_options rope;
    int norm;     // index into names_norms; -1: not given
    float *sinks; // sinks from the file of weights, owned
    array x_array, y_array, out_array, weights_array;
    clattn_layer_params params;
    score_options score;
    kv_options kv;
    ragged_options ragged;
    layer_gradients gradients;
    layer_block block;
    expect expect;
    common_options common;
    ranks ranks;
    ranks_rows rows; // this rank's rows of x and out
    array whole;     // type and shape of the result that the ranks share
} layer_run;

// Check that options, folder and preset agree, then load the weights. Returns -1, or prints a line
// and returns the exit status.
int layer_model_load(layer_run *r);
// Adapt the RoPE to the sequence's length, after x, past rows and positions are loaded.
void layer_model_length(layer_run *r);
int layer_upload(layer_run *r, tensors *t);

// Reject options that --mpi does not support. layer_ranks.c: layer_shared_run returns the exit
// status.
int layer_shared_check(layer_run *r);
int layer_shared_run(layer_run *r, session *s, tensors *t);
#endif
