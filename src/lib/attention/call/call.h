// call.h: one attention call after all checks. `call` holds everything that the kernels need. It
// refers to the caller's device buffers, and to no host memory of the caller. cla_call_check
// (call.c) fills it; flash.c, unfused.c and rope.c read it.
#ifndef CLATTN_ATTENTION_CALL_CALL_H
#define CLATTN_ATTENTION_CALL_CALL_H
#include "attention/kv/append.h"
#include "attention/mods/mods.h"
#include "attention/rope/rope.h"
#include "attention/kv/ragged.h"
#include "attention/call/tensor.h"
#include "launch/entry.h"
#include "plan/cascade.h"
#include "plan/variant.h"

// Destination of a launch's partial result, when several launches cover disjoint keys. The format
// is float32; see ARGS_PARTIAL in args.h.
typedef struct call_partial {
    bool on;
    args_view out, lse;
    int64_t split_out, split_lse;
} call_partial;

typedef struct call {
    clattn_context *context;
    problem problem;
    variant variant;
    // With few_rows > 0: the kernel for the sequences of a ragged batch that have 1 to few_rows
    // query rows. `variant` then computes only the longer sequences (ragged_decode.c).
    variant few_variant;
    int few_rows;         // 0: one kernel computes all sequences
    cascade_plan cascade; // plan for a past shared by all items
    call_partial partial; // set when a cascade makes this call one part of two (cascade.c)
    int first_key;        // index in the whole call of this launch's key 0
    attention_args args;
    ragged_batch ragged;
    int32_t *arrays; // owned copies of the host arrays
    mods_found mods; // OpenCL C made from score_mod and mask_mod
    cl_mem q, k, v;  // what the kernels read: the caller's buffers, or RoPE'd copies
    past_args past;  // views of past_k and past_v
    past_scale_args past_scales;
    page_args pages; // view of block_table
    cl_mem table;    // device table of shifts, lengths, slopes, sinks; NULL: none needed
    // Memory for a copy of `table` that includes sinks_device. It replaces `table` once the
    // copy is written.
    cl_mem with_sinks;
    cl_mem frequencies; // for RoPE; NULL until needed
    // Start position of k's rows for each item, when past_lengths differ. NULL until needed.
    cl_mem past_table;
    append append; // arguments for appending k_new and v_new
    cl_mem append_table;
    bool appended; // the caller has already stored the new rows, with RoPE applied
    cl_mem workspace;
    uint64_t q_roped, k_roped;  // byte offsets of the RoPE'd copies in the workspace
    uint64_t variant_workspace; // byte offset of the kernel's own scratch in the workspace
    uint64_t workspace_bytes;   // size of the workspace
    bool applies_rope;          // this call writes RoPE'd or transformed copies
    // k is read in place, without a RoPE'd copy. True for paged and Hadamard-transformed keys,
    // which are stored with RoPE applied, and for appended keys, which get RoPE as they are
    // appended.
    bool keeps_keys;
    bool empty; // no output to compute: B, H or Nq is 0
    // Copy of the caller's parameters. Its host arrays point into `arrays`, or are not read again.
    // Must be the last field: cla_call_check zeroes every field before it.
    clattn_attention_params params;
} call;

// Check the parameters and plan the call. Buffers may be NULL unless `purpose` is ENTRY_ENQUEUE.
// `params` may be &c->params. Release the call with cla_call_release after success and after
// failure.
//
// Bits of `how`. CALL_PARTS: q, k, v, out and new keys may lack buffers. They are parts of a
// workspace that a layer allocates later.
#define CALL_PARTS 1
// The caller applies RoPE to the keys; only q gets RoPE here.
#define CALL_KEYS_ROPED 2
// Only the axes of the key tensors matter; their buffers are ignored.
#define CALL_SIZES 4
// Choose no kernel and compile no expressions: the caller brings its own kernel.
#define CALL_UNPLANNED 8
clattn_status cla_call_check(clattn_context *context, const clattn_attention_params *params,
                             entry_purpose purpose, unsigned how, call *c);
// Set the offsets of q, k, v and out inside the workspace, when they changed after the check.
// cla_call_bind sets the workspace's buffer.
void cla_call_move(call *c, clattn_tensor *const parts[4]);
void cla_call_bind(call *c, cl_mem workspace);
// Set the buffers of k and v when they are not in the workspace.
void cla_call_bind_kv(call *c, const clattn_kv *kv);
void cla_call_release(call *c);

// Alignment in elements (a power of two, at most 16) of the rows of a tensor, or of its RoPE'd copy
// if `copied`.
clattn_status cla_call_alignment(const call *c, const char *name, const clattn_tensor *t, bool copied,
                                 int *rows);
clattn_status cla_call_fill_alignments(call *c);

// Skip RoPE in this call because the projections apply it. Drops the RoPE'd copies from the
// workspace.
void cla_call_skip_rope(call *c);
#endif
