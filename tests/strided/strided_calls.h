// strided_calls.h: every call with every tensor that it has, with host values for each. The tensors
// have the names of the header's fields. The suite (test_strides.c) chooses strides and offsets.
// That suite fails if a tensor of the header is in no call here.
#ifndef CLATTN_TESTS_STRIDED_CALLS_H
#define CLATTN_TESTS_STRIDED_CALLS_H

#include "verification/device/guarded.h"

#define STRIDED_TENSORS 48

struct strided_tensor {
    const char *field; // such as "clattn_kv.k_scale"
    clattn_tensor *view;
    bool read, written, any; // any: its last stride need not be 1
    bool repeats;            // the values are the same along every axis, so strides may be 0
    double *values;          // dense
    struct guarded memory;
};

struct strided_call {
    const char *name;
    int count;
    struct strided_tensor tensor[STRIDED_TENSORS];
    clattn_status (*enqueue)(const struct strided_call *call, clattn_context *context,
                             cl_command_queue queue);
    clattn_rope *rope_of; // the call's RoPE, if it applies RoPE; else NULL
    bool small;           // sizes of 1 wherever possible
    union {
        clattn_attention_params attention;
        clattn_layer_params layer;
        clattn_layer_kv_params layer_kv;
        clattn_attention_backward_params attention_backward;
        clattn_layer_backward_params layer_backward;
        clattn_linear_backward_params linear_backward;
        clattn_linear_params linear;
        clattn_pack_params pack;
        clattn_append_params append;
        clattn_shift_params shift;
        clattn_hadamard_params hadamard;
        clattn_rope_params rope;
        clattn_merge_params merge;
        clattn_dropout_mask_params dropout;
        clattn_norm_params norm;
        clattn_activation_params activation;
        clattn_embedding_params embedding;
        clattn_argmax_params argmax;
        clattn_sample_params sample;
        clattn_linear_attention_params linear_attention;
        clattn_topk_params topk;
        clattn_index_params index;
    };
    struct guarded packed; // the buffer of packed weights
};

extern const int strided_count;
// Open call n, with dense views that have no buffers yet.
void strided_open(struct strided_call *call, int n, bool small, struct place *place);
void strided_close(struct strided_call *call);

// The field's name without its struct.
const char *strided_name(const struct strided_tensor *tensor);

#endif
