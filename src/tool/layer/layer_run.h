// layer_run.h: what one call of clattn layer has been told: by options, by a model's folder or by a preset.
#ifndef CLATTN_TOOL_LAYER_LAYER_RUN_H
#define CLATTN_TOOL_LAYER_LAYER_RUN_H
#include "evidence/sets/presets.h"
#include "tool/attend/expect.h"
#include "tool/call_options/call_options.h"
#include "tool/layer/layer_weights.h"
#include "tool/layer/model.h"
#include "tool/ranks/ranks.h"

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
    expect expect;
    common_options common;
    ranks ranks;
    ranks_rows rows; // of x and out
    array whole;     // type and shape of the result that ranks share
} layer_run;

// What options, folder or preset tell, checked against one another; then the weights. Returns -1, else the exit status with
// a line printed.
int layer_model_load(layer_run *r);
int layer_upload(layer_run *r, tensors *t);

// layer_ranks.c: what --mpi cannot be beside; of heads, this rank's, once all are known; run, which is the exit status.
int layer_shared_check(layer_run *r);
int layer_shared_deal(layer_run *r);
int layer_shared_run(layer_run *r, session *s, tensors *t);
#endif
