// case_run.h: a case on the device: its buffers, the call, and what came out. Leaves out the judgement
// (case_check.h) and time (measure.h).
//
//   struct case_arrays arrays;
//   case_bind(data, place, &arrays);
//   status = case_enqueue(place->context, queue, &arrays, &event);
//   struct case_result got = case_collect(&arrays, queue);
//   case_unbind(&arrays);
#ifndef CLATTN_EVIDENCE_CASE_CASE_RUN_H
#define CLATTN_EVIDENCE_CASE_CASE_RUN_H

#include "verification/case/case_problem.h"
#include "verification/case/case_shape.h"

// The buffers, and the call that is ready to be enqueued: `params` of attention, `backward`, `layer` or `linear`, by the op.
#define CASE_MOD_SIZE 256
// What the forward call of a backward did when it was bound.
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
    struct guarded caches[2], new_rows[2]; // of k and v, where the case appends (case_kv.h)
    // Of k, v, their past, matrices and the gate's, where their type has some, by case_kv_scales.
    struct guarded kv_scales[CASE_SCALED], kv_zeros[CASE_SCALED];
    struct guarded block_table;              // of pages
    struct guarded mods[CLATTN_MOD_BUFFERS]; // what expressions read (case_mods.h), and those
    struct guarded positions[2];             // explicit ones of RoPE (case_positions.h)
    struct guarded blocks;                   // the block mask
    struct guarded sinks;                    // those on the device
    const struct test_case *test; // where it is ragged (case_ragged.h), and first rows of its sequences
    int32_t *cu[2];
    struct guarded cu_device[2];
    char score_mod[CASE_MOD_SIZE], mask_mod[CASE_MOD_SIZE], score_mod_gradient[CASE_MOD_SIZE];
    struct guarded packed_weights[LAYER_MATRICES]; // where the case packs them
    struct guarded ready[2];                       // keys and values that are made before
    clattn_attention_params params;
    clattn_attention_backward_params backward;
    struct case_forward forward; // of a backward
    clattn_layer_params layer;
    clattn_linear_params linear;
};

// The library's status and results; arrays that were not asked for are NULL.
struct case_result {
    clattn_status status;
    char message[256]; // of a status that is not OK
    bool intact;       // nothing around the outputs changed, and no input
    double *out, *lse, *weights, *scores;
    double *gradient[GRADIENTS]; // of some rows of q and some keys where a sample says so
};

void case_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
void case_unbind(struct case_arrays *arrays);

clattn_status case_enqueue(clattn_context *context, cl_command_queue queue, const struct case_arrays *arrays,
                           cl_event *event);

// Read what the bound arrays hold now, after waiting for the queue.
struct case_result case_collect(const struct case_arrays *arrays, cl_command_queue queue,
                                const struct case_sample *sample);
// Bind, enqueue, collect, unbind.
struct case_result case_execute(const struct case_data *data, struct place *place);
void case_result_free(struct case_result *result);

#endif
