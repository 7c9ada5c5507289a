// small_calls.h: one small call of every operation except attention, layer and linear, with its own
// tensors. They append rows, shift keys, apply RoPE, Hadamard-transform, write masks, project keys
// and values of a layer, run the operations of block.h and linear attention, select keys, and
// compute gradients. Used by suites that test all calls alike: events, faults, threads, guard
// pages. Each call's own suite checks its results.
#ifndef CLATTN_TESTS_SMALL_CALLS_H
#define CLATTN_TESTS_SMALL_CALLS_H

#include "verification/device/guarded.h"

enum {
    SMALL_APPEND,
    SMALL_SHIFT,
    SMALL_ROPE,
    SMALL_HADAMARD,
    SMALL_DROPOUT_MASK,
    SMALL_BLOCK_MASK,
    SMALL_LAYER_KV,
    SMALL_NORM,
    SMALL_ACTIVATION,
    SMALL_EMBEDDING,
    SMALL_ARGMAX,
    SMALL_SAMPLE,
    SMALL_LINEAR_ATTENTION, // which changes its states in place
    SMALL_TOPK,
    SMALL_INDEX,
    SMALL_BACKWARD,
    SMALL_LINEAR_BACKWARD,
    SMALL_LAYER_BACKWARD,
    SMALL_LAYER_FORWARD, // the forward call that keeps results for gradients
    SMALL_CALLS
};
extern const char *const small_names[SMALL_CALLS];

struct small_call {
    int which;
    struct guarded tensors[16];
    int count, outputs; // number of tensors; the last `outputs` of them are written
    clattn_append_params append;
    clattn_shift_params shift;
    clattn_rope_params rope;
    clattn_hadamard_params hadamard;
    clattn_dropout_mask_params dropout;
    clattn_attention_params attention;
    clattn_layer_kv_params layer_kv;
    clattn_norm_params norm;
    clattn_activation_params activation;
    clattn_embedding_params embedding;
    clattn_argmax_params argmax;
    clattn_sample_params sample;
    clattn_linear_attention_params linear_attention;
    clattn_topk_params topk;
    clattn_index_params index;
    clattn_attention_backward_params backward;
    clattn_linear_backward_params linear_backward;
    clattn_layer_backward_params layer_backward;
};

void small_open(struct small_call *call, int which, struct place *place);
void small_close(struct small_call *call);
clattn_status small_enqueue(const struct small_call *call, clattn_context *context, cl_command_queue queue,
                            cl_uint wait_count, const cl_event *wait_list, cl_event *event);
// small_empty: change the call so that it does nothing. small_spoil: change it so that it is
// refused for a wrong rank.
void small_empty(struct small_call *call);
void small_spoil(struct small_call *call);

// Returns whether the inputs and the memory around the outputs are unchanged. `written` is a number
// computed from the results.
bool small_intact(const struct small_call *call, cl_command_queue queue, double *written);

#endif
