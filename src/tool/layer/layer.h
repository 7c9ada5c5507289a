// layer.h: what one call of clattn layer has been told: by options, by a model's folder (model.c) or by a preset.
#ifndef CLATTN_TOOL_LAYER_LAYER_H
#define CLATTN_TOOL_LAYER_LAYER_H
#include <jansson.h>

#include "evidence/sets/presets.h"
#include "tool/layer/layer_weights.h"
#include "tool/ranks/ranks.h"

typedef struct model {
    int32_t heads, kv_heads, head_dim, head_dim_v, width; // width 0: any
    clattn_rope rope;
    clattn_norm norm; // of q and k, with weights
    bool norm_plus_one;
    float norm_epsilon;
    bool bidirectional; // no causality
    float scale, softcap;
    bool sinks;         // learned ones
    int32_t window;     // keys that a row sees, itself included; 0: all before it
    int bias;           // of Q, K and V: 0 none, 1 each, -1 not said
    bool out_bias;      // of the output: where it must be there
    char names[96];     // for layer_weights: "llama:PREFIX"
    char *file;         // model.safetensors, owned; NULL: shards
    json_t *shards;     // of each tensor the name of its file, owned
    const char *folder; // of the shards
} model;

// Read config.json and find the weights. Returns -1, else EXIT_WRONG with a line: also for a model whose attention is of
// a kind that config.json tells and the library does not have.
int model_load(const char *folder, int64_t layer, model *m);
void model_free(model *m);

// Gradients of a layer: what is given, and files that are asked for.
#define LAYER_GRADIENTS 18
typedef struct layer_gradients {
    const char *out, *score_mod, *paths[LAYER_GRADIENTS]; // as given
    array out_array, arrays[LAYER_GRADIENTS];
    clattn_layer_backward_params params;
} layer_gradients;

typedef struct layer_run {
    layer_weights weights;
    const char *x, *y, *out, *attention_weights, *model_folder;
    const struct preset *preset;
    bool lists;    // the presets, and nothing else
    int64_t layer; // of the model; -1: not given
    model model;
    bool dynamic; // the model's RoPE goes by the length of x
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
    expect expect;
    common_options common;
    ranks ranks;
    ranks_rows rows; // of x and out
    array whole;     // type and shape of the result that ranks share
} layer_run;

// Checks options, folder and preset against one another, then loads the weights. Returns -1, else the exit status with
// a line printed.
int layer_model_load(layer_run *r);
int layer_upload(layer_run *r, tensors *t);

// Refuses options that --mpi does not take; layer_ranks.c: run, which is the exit status.
int layer_shared_check(layer_run *r);
int layer_shared_run(layer_run *r, session *s, tensors *t);
#endif
