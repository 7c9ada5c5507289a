// case_run.h: run a case on the device: its buffers, the call and the results. case_check.h has the
// verdict, measure.h the time.
//
//    struct case_arrays arrays;
//    case_bind(data, place, &arrays);
//    status = case_enqueue(place->context, queue, &arrays, &event);
//    struct case_result got = case_collect(&arrays, queue);
//    case_unbind(&arrays);
#ifndef CLATTN_VERIFICATION_CASE_CASE_RUN_H
#define CLATTN_VERIFICATION_CASE_CASE_RUN_H

#include "verification/case/case_problem.h"
#include "verification/case/case_shape.h"

// The buffers and the call, ready to be enqueued. The op decides which of `params`, `backward`,
// `layer` and `linear` is used.
#define CASE_MOD_SIZE 256
// The result of a backward's forward call, which runs when the case is bound.
struct case_forward {
    clattn_status status;
    bool intact;
};

struct case_arrays {
    case_op op;
    union {
        struct guarded all[CASE_TENSORS];
        struct {
            struct guarded q, k, v, x, y, matrix[LAYER_MATRICES], matrix_bias[LAYER_MATRICES], norm[2], gate,
                gate_bias, mask, bias, past_k, past_v, dout, dlse, packed, out, lse, weights, scores,
                gradient[GRADIENTS];
        };
    };
    struct guarded caches[2], new_rows[2]; // for k and v, if the case appends rows (case_kv.h)
    // Scales and zero points, indexed by case_kv_scales: of k, v, their past, the matrices and the
    // gate.
    struct guarded kv_scales[CASE_SCALED], kv_zeros[CASE_SCALED];
    struct guarded block_table;              // of pages
    struct guarded mods[CLATTN_MOD_BUFFERS]; // what the expressions read (case_mods.h)
    struct guarded positions[2];             // explicit RoPE positions (case_positions.h)
    struct guarded blocks;                   // the block mask
    struct guarded sinks;                    // sinks on the device
    // For a ragged case (case_ragged.h): the case, and the first rows of its sequences.
    const struct test_case *test;
    int32_t *cu[2];
    struct guarded cu_device[2];
    char score_mod[CASE_MOD_SIZE], mask_mod[CASE_MOD_SIZE], score_mod_gradient[CASE_MOD_SIZE];
    struct guarded packed_weights[LAYER_MATRICES]; // set if the case packs weights
    struct guarded ready[2];                       // keys and values from an earlier call
    clattn_attention_params params;
    clattn_attention_backward_params backward;
    struct case_forward forward; // forward call of a backward
    clattn_layer_params layer;
    clattn_linear_params linear;
};

// The library's status and results. Arrays that the case does not request are NULL.
struct case_result {
    clattn_status status;
    char message[256]; // for a status that is not OK
    bool intact;       // nothing around the outputs changed, and no input changed
    double *out, *lse, *weights, *scores;
    double *gradient[GRADIENTS]; // with a sample: only its rows of q and its keys
};

void case_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
void case_unbind(struct case_arrays *arrays);

clattn_status case_enqueue(clattn_context *context, cl_command_queue queue, const struct case_arrays *arrays,
                           cl_event *event);

// Wait for the queue and read the bound arrays.
struct case_result case_collect(const struct case_arrays *arrays, cl_command_queue queue,
                                const struct case_sample *sample);
// Bind, enqueue, collect, unbind.
struct case_result case_execute(const struct case_data *data, struct place *place);
void case_result_free(struct case_result *result);

// Make the first call of a context on an unknown driver use the kernels of later calls
// (clattn_context_create), by preparing a call without rows.
void case_skip_first_call(clattn_context *context);
#endif
