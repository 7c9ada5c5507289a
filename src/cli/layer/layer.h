// layer.h: what one call of clattn layer has been told: by options, by a model's folder (model.c) or by a preset.
#ifndef CLATTN_TOOL_LAYER_LAYER_H
#define CLATTN_TOOL_LAYER_LAYER_H
#include <jansson.h>

#include "verification/sets/presets.h"
#include "cli/layer/layer_weights.h"
#include "cli/ranks/ranks.h"

// Where the norms of a block are. `attention` and `mlp` are its halves.
typedef enum block_form {
    BLOCK_PRE,      // h = x + attention(norm(x)), out = h + mlp(norm(h))
    BLOCK_SANDWICH, // h = x + norm(attention(norm(x))), out = h + norm(mlp(norm(h)))
    BLOCK_RESULT,   // h = x + norm(attention(x)), out = h + norm(mlp(h))
    BLOCK_POST,     // h = norm(x + attention(x)), out = norm(h + mlp(h))
    BLOCK_PARALLEL  // n = norm(x), out = x + attention(n) + mlp(n)
} block_form;

enum {
    BLOCK_NORM_X,         // of the block's input
    BLOCK_NORM_ATTENTION, // of attention's result, or of its sum with x
    BLOCK_NORM_H,         // of what the MLP reads
    BLOCK_NORM_MLP,       // of the MLP's result, or of its sum with h
    BLOCK_GATE,           // from here on matrices; this one has the activation, also where there is no gate
    BLOCK_UP,
    BLOCK_DOWN,
    BLOCK_TENSORS
};

enum {
    BLOCK_PLUS_ONE = 1,     // the norms' weights are 1 + w [Gemma]
    BLOCK_BIASES = 2,       // of the matrices, always; else where mlp_bias says so
    BLOCK_PACKED = 4,       // gate and up are one tensor, one below the other
    BLOCK_TURNED = 8,       // matrices are [in, out]
    BLOCK_GELU_IS_TANH = 16 // the activation gelu is its approximation by tanh
};

// A kind of block: its form, and the key and the default of its activation.
typedef struct block_kind {
    block_form form;
    clattn_norm_kind norm;
    const char *activation_key, *activation;
    int is;
    const char *const *names; // after the layer's own, without .weight and .bias; NULL: there is none
} block_kind;

typedef struct model {
    int32_t heads, kv_heads, head_dim, head_dim_v, width; // width 0: any
    bool assumes_kv_heads, assumes_head_dim; // the kind's defaults, which weights of another size replace
    clattn_rope rope;
    float *pair_factors; // R/2 up to short_length positions, R/2 for more, owned; NULL: none
    double short_length;
    clattn_norm norm; // of q and k, with weights
    bool norm_plus_one;
    float norm_epsilon;
    bool bidirectional; // no causality; the window is on both sides
    float scale, softcap;
    bool sinks;              // learned ones
    int32_t window;          // keys that a row sees, itself included; 0: all before it
    int bias;                // of Q, K and V: 0 none, 1 each, -1 not said
    bool out_bias;           // of the output: where it must be there
    const block_kind *block; // with --block; and what config.json tells of it:
    float block_epsilon;
    clattn_activation activation;
    const char *activation_name;
    int32_t hidden;
    bool mlp_bias;
    char names[96];     // for layer_weights: "llama:PREFIX"
    char *file;         // model.safetensors, owned; NULL: shards
    json_t *shards;     // of each tensor the name of its file, owned
    const char *folder; // of the shards
} model;

// The object in the JSON file at `path`, which the caller releases; NULL with a line that begins with `option` printed.
json_t *model_json(const char *option, const char *path);

// Read config.json and find the weights. Returns -1, else EXIT_WRONG with a line: also for a model whose attention, or with `block`
// whose block, is of a kind that config.json tells and the library does not have.
int model_load(const char *folder, int64_t layer, bool block, model *m);
void model_free(model *m);

// Gradients of a layer: what is given, and files that are asked for.
#define LAYER_GRADIENTS 18
typedef struct layer_gradients {
    const char *out, *score_mod, *paths[LAYER_GRADIENTS]; // as given
    array out_array, arrays[LAYER_GRADIENTS];
    clattn_layer_backward_params params;
} layer_gradients;

// One call of a block, which is a list of them in one queue; without --block the layer is the only one.
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
    bool lists;    // the presets, and nothing else
    int64_t layer; // of the model; -1: not given
    model model;
    bool dynamic; // the model's RoPE depends on the length of the sequence
    int dtype;    // index into names_types; -1: not given
    rope_options rope;
    int norm;     // index into names_norms; -1: not given
    float *sinks; // of the weights' file, owned
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
    ranks_rows rows; // of x and out
    array whole;     // type and shape of the result that ranks share
} layer_run;

// Checks options, folder and preset against one another, then loads the weights. Returns -1, else the exit status with
// a line printed.
int layer_model_load(layer_run *r);
// RoPE for the length of the sequence, once x, past rows and positions are loaded.
void layer_model_length(layer_run *r);
int layer_upload(layer_run *r, tensors *t);

// Refuses options that --mpi does not take; layer_ranks.c: run, which is the exit status.
int layer_shared_check(layer_run *r);
int layer_shared_run(layer_run *r, session *s, tensors *t);
#endif
