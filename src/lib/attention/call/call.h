// call.h: one attention call after all checks: what the kernels need, and nothing of the caller's memory any
// more but the buffers. Made by cla_call_check (call.c); used by flash.c, unfused.c and rope.c.
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

// Where the partial results of a launch go that is one of several over disjoint keys: float32, as ARGS_PARTIAL says.
typedef struct call_partial {
    bool on;
    args_view out, lse;
    int64_t split_out, split_lse;
} call_partial;

typedef struct call {
    clattn_context *context;
    problem problem;
    variant variant;
    variant
        few_variant; // of a ragged batch's sequences of up to few_rows rows, where those take another kernel (mixed.c)
    int few_rows;         // 0: they do not
    cascade_plan cascade; // of a past that all items share
    call_partial partial; // of a part of a call: cascade.c
    int first_key;        // which key of the call its key 0 is
    attention_args args;
    ragged_batch ragged;
    int32_t *arrays; // owned
    mods_found mods; // what score_mod and mask_mod became
    cl_mem q, k, v;  // what the kernels read: the caller's, or the workspace with turned copies
    past_args past;  // of past_k and past_v
    past_scale_args past_scales;
    page_args pages; // of block_table
    cl_mem table;    // shifts, lengths, slopes, sinks; NULL where none is given
    cl_mem
        with_sinks; // memory for it with sinks of the device, which it takes the place of when they are in it
    cl_mem frequencies; // of RoPE; NULL until they are needed
    cl_mem past_table;  // of k's positions behind a past that differs, likewise
    append append;      // of k_new and v_new, where they are given
    cl_mem append_table;
    bool appended; // who made the new rows has put them there, turned
    cl_mem workspace;
    uint64_t q_turned, k_turned; // bytes from the workspace's start of the turned copies
    uint64_t variant_workspace;  // bytes from the workspace's start of the variant's own part
    uint64_t workspace_bytes;    // all of it
    bool turns;                  // q and k are turned by RoPE here, into the workspace, or q is rotated
    // k is not: rows of pages and rotated ones were turned before, new ones are as they are appended
    bool keeps_keys;
    bool empty; // nothing to do: B, H or Nq is 0
    // A copy; its host arrays are copies in `arrays`, or not looked at again. Last: what is before it starts as zero.
    clattn_attention_params params;
} call;

// Check everything and plan. Unless it is for ENTRY_ENQUEUE, buffers may be NULL; q, k, v, out and new keys may be so, too,
// where they are parts of a workspace that a layer makes later. `params` may be the call's own. Release the call whether it
// was refused or not.
#define CALL_PARTS 1
#define CALL_KEYS_TURNED 2 // RoPE is of q alone
#define CALL_SIZES 4       // buffers of keys are not looked at: views with axes are there
#define CALL_UNPLANNED 8   // no kernel is chosen and no expressions are looked up: the caller has its own
clattn_status cla_call_check(clattn_context *context, const clattn_attention_params *params,
                             entry_purpose purpose, unsigned how, call *c);
// The parts q, k, v and out lie elsewhere in the workspace than when they were checked; then they have their buffer.
void cla_call_move(call *c, clattn_tensor *const parts[4]);
void cla_call_bind(call *c, cl_mem workspace);
// Then keys and values that are not in it.
void cla_call_bind_kv(call *c, const clattn_kv *kv);
void cla_call_release(call *c);

// Elements to which all rows of a tensor are aligned, or of its copy; and those of q, k and v, of a call that was not planned.
clattn_status cla_call_alignment(const call *c, const char *name, const clattn_tensor *t, bool copied,
                                 int *rows);
clattn_status cla_call_fill_alignments(call *c);

// Leave RoPE to whoever makes q and k: the workspace is laid out again, without turned copies.
void cla_call_leave_rope(call *c);
#endif
