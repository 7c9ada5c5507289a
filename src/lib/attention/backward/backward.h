// backward.h: the gradients of one attention call after all checks, and their launches.
#ifndef CLATTN_ATTENTION_BACKWARD_BACKWARD_H
#define CLATTN_ATTENTION_BACKWARD_BACKWARD_H
#include "args/backward_args.h"
#include "attention/call/call.h"
#include "attention/call/views.h"
#include "plan/backward_plan.h"

// Results of the main kernels. A kernel writes a result directly, or as float32 sums in the
// workspace. Sums are needed if a result has several parts, if RoPE must be undone, or (dv) if dk
// needs sums.
enum { DQ, DK, DV, MAIN_RESULTS };
typedef struct backward_result {
    const clattn_tensor *t;    // the caller's tensor; absent: not wanted
    const clattn_tensor *like; // the forward tensor with the same shape
    bool packed;               // ragged batch: packed rows
    bool sums;
    uint64_t at; // byte offset of the sums in the workspace
    int parts;
    bool applies_rope; // the forward call applied RoPE to these rows
} backward_result;

typedef struct backward_job {
    call call; // the checked forward call
    backward_variant variant;
    backward_args args;
    backward_result result[MAIN_RESULTS];
    // Byte offsets in the workspace, behind the forward call's part: a pair of numbers per row, and
    // the per-row terms of head options.
    uint64_t pairs, marks, workspace_bytes;
    int64_t rows; // query rows of all heads and items; packed rows if ragged
    bool marks_rows;
    clattn_attention_backward_params params; // a copy; `forward` is unchanged
} backward_job;

// Check everything except memory, and plan. With CALL_PARTS the tensors are parts of memory that a
// layer allocates later: q, k, v, out and lse of `forward`, dout, dq, dk and dv of `workspace`.
// Release job->call after success and after failure.
clattn_status cla_backward_check(clattn_context *context, const clattn_attention_backward_params *params,
                                 entry_purpose purpose, unsigned how, backward_job *job);
// Set the offsets of q, k, v, out and lse, and move those of dout, dq, dk and dv by `elements`.
void cla_backward_move(backward_job *job, clattn_tensor *const parts[4], const clattn_tensor *lse,
                       int64_t elements);
void cla_backward_bind(backward_job *job, cl_mem forward, cl_mem workspace);

// Add the views of the forward call, which are read, and of its gradients.
void cla_backward_add_views(call_views *v, const clattn_attention_backward_params *params,
                            const clattn_attention_params *forward);

double cla_backward_flops(const backward_job *job);
clattn_status cla_backward_prepare(backward_job *job);
clattn_status cla_backward_run(backward_job *job, chain *steps);
#endif
