// model.h: a folder with a model as Hugging Face lays it out: config.json tells how a layer attends, so that nobody has
// to repeat it in options; the weights lie in model.safetensors or in shards with an index. Used by clattn layer.
#ifndef CLATTN_TOOL_LAYER_MODEL_H
#define CLATTN_TOOL_LAYER_MODEL_H
#include <jansson.h>

#include "tool/cli/tool.h"

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
#endif
