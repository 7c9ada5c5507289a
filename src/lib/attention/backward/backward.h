// backward.h: the gradients of one attention call after all checks, and their launches.
#ifndef CLATTN_ATTENTION_BACKWARD_BACKWARD_H
#define CLATTN_ATTENTION_BACKWARD_BACKWARD_H
#include "args/backward_args.h"
#include "attention/call/call.h"
#include "attention/call/views.h"
#include "plan/backward_plan.h"

// The results that the main kernels make. Each is written at once, or as float32 sums into the workspace, where it has parts, is turned
// back by RoPE, or stands beside one that is.
enum { DQ, DK, DV, MAIN_RESULTS };
typedef struct backward_result {
    const clattn_tensor *t;    // the caller's; not given: not wanted
    const clattn_tensor *like; // of forward, with its shape
    bool packed;               // a ragged batch's
    bool sums;
    uint64_t at; // bytes from the workspace's start of its sums
    int parts;
    bool turned; // forward turned the rows
} backward_result;

typedef struct backward_job {
    call call; // forward's, checked
    backward_variant variant;
    backward_args args;
    backward_result result[MAIN_RESULTS];
    // Bytes from the workspace's start, behind the call's own: the rows' pairs, and what their heads' options have of them.
    uint64_t pairs, marks, workspace_bytes;
    int64_t rows; // query rows, of all heads and items, or of all heads and those that are packed
    bool marks_rows;
    clattn_attention_backward_params params; // a copy, of which `forward` is as it was given
} backward_job;

// All checks but those of memory, and the plan. With CALL_PARTS q, k, v, out and lse of forward are parts of a memory, and dout, dq, dk
// and dv of a workspace, that are known later; they are moved there, with the call's q, k, v, out and lse at these places and the others
// by so many elements, and bound. Release the call whether it was refused or not.
clattn_status cla_backward_check(clattn_context *context, const clattn_attention_backward_params *params,
                                 entry_purpose purpose, unsigned how, backward_job *job);
void cla_backward_move(backward_job *job, clattn_tensor *const parts[4], const clattn_tensor *lse,
                       int64_t elements);
void cla_backward_bind(backward_job *job, cl_mem forward, cl_mem workspace);

// The tensors of the call and of these gradients of it, which are what it writes.
void cla_backward_add_views(call_views *v, const clattn_attention_backward_params *params,
                            const clattn_attention_params *forward);

double cla_backward_flops(const backward_job *job);
clattn_status cla_backward_prepare(backward_job *job);
clattn_status cla_backward_run(backward_job *job, chain *steps);
#endif
