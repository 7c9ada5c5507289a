// call.h: one attention call after all checks: what the kernels need, and nothing of the caller's memory any
// more but the buffers. Made by cla_call_check (call.c); used by flash.c, unfused.c and rope.c.
#ifndef CLATTN_ATTENTION_CALL_CALL_H
#define CLATTN_ATTENTION_CALL_CALL_H
#include "attention/kv/append.h"
#include "attention/mods/mods.h"
#include "attention/rope/rope.h"
#include "attention/kv/ragged.h"
#include "attention/call/tensor.h"
#include "attention/call/views.h"
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
    cl_mem workspace;
    uint64_t q_turned, k_turned; // bytes from the workspace's start of the turned copies
    uint64_t variant_workspace;  // bytes from the workspace's start of the variant's own part
    uint64_t workspace_bytes;    // all of it
    bool turns;                  // q and k are turned by RoPE here, into the workspace
    bool keeps_keys; // k is not: rows of pages were turned before, new ones are as they are appended
    bool empty;      // nothing to do: B, H or Nq is 0
    // A copy; its host arrays are copies in `arrays`, or not looked at again. Last: what is before it starts as zero.
    clattn_attention_params params;
} call;

// Check everything and plan. Unless it is for ENTRY_ENQUEUE, buffers may be NULL; q, k, v, out and new keys may be so, too,
// where they are parts of a workspace that a layer makes later. `params` may be the call's own. Release the call whether it
// was refused or not.
#define CALL_PARTS 1
#define CALL_KEYS_TURNED 2 // RoPE is of q alone
#define CALL_SIZES 4       // buffers of keys are not looked at: views with axes are there
clattn_status cla_call_check(clattn_context *context, const clattn_attention_params *params,
                             entry_purpose purpose, unsigned how, call *c);
// The caller's memory that a checked call reads and writes.
void cla_call_views(const call *c, call_views *v);
// Of those what hides keys beside their positions: the boolean mask, and what expressions read.
void cla_call_mask_views(const clattn_score *score, call_views *v);
// The parts q, k, v and out lie elsewhere in the workspace than when they were checked; then they have their buffer.
void cla_call_move(call *c, clattn_tensor *const parts[4]);
void cla_call_bind(call *c, cl_mem workspace);
// Then keys and values that are not in it.
void cla_call_bind_kv(call *c, const clattn_kv *kv);
void cla_call_release(call *c);

// A call's small table, where it has one and it is not there yet, until the chain ends. All that a call borrows it borrows
// before its first command: asking whether something may be lent again must not come between its commands.
clattn_status cla_call_table(call *c, chain *steps);
// Its words: of batch items, and where those of heads, then of the past, begin.
typedef struct call_words {
    size_t before_heads, before_past, all;
} call_words;
call_words cla_call_words(const call *c);
// The table of a launch of the rows from `first` on, so many, which it counts from 0; NULL where there is none.
clattn_status cla_call_table_of(const call *c, chain *steps, int first, int rows, cl_mem *table);

// Sinks on the device (sinks.c): once the call's sizes are known; memory for a table with them, before the first command; and
// what makes *table one, which it then is. Nothing where there are none.
clattn_status cla_sinks_check(const call *c, bool planning);
clattn_status cla_sinks_prepare(const call *c);
clattn_status cla_sinks_borrow(const call *c, chain *steps, cl_mem *to);
clattn_status cla_sinks_enqueue(const call *c, chain *steps, cl_mem to, cl_mem *table);

// The options of clattn_score (score.c): those without code, their values, the host arrays, which are copied first where
// the call will run; then what kernels see of them.
clattn_status cla_score_check(clattn_context *context, const clattn_score *score);
clattn_status cla_score_take_arrays(call *c, bool copy);
int cla_score_flags(const clattn_score *score);
// Keys that the window, or it and causality, let a row see; 0: one side is open.
int cla_score_band(const clattn_score *score);
int32_t cla_call_shift(const call *c, int b); // position of an item's row 0 among the keys
void cla_score_fill(const call *c, attention_args *a);

// Keys that rows see by their position and by lengths, whatever a boolean mask says: of `rows` rows from `first` on in all
// batch items, together, in one head; and of a row that sees the most, at most.
double cla_call_seen(const call *c, int first, int rows);
double cla_call_seen_of(const call *c, int b, int first, int rows); // in one of them
// The same of the keys from first_key to before end_key.
double cla_call_seen_in(const call *c, int b, int first, int rows, double first_key, double end_key);
double cla_call_row_keys(const call *c);

// Keys and values (kv.c): their checks, what kernels see of them, and their buffers as arguments, in the order of kv.clh.
clattn_status cla_kv_check_unbuilt(clattn_context *context, const clattn_attention_params *p, bool turned);
clattn_status cla_kv_check(clattn_context *context, const clattn_kv *kv, const int64_t q[4], int64_t items,
                           bool planning);
clattn_status cla_kv_check_scale(clattn_context *context, const clattn_tensor *t, const clattn_tensor *of,
                                 const tensor_rule *rule);
void cla_kv_fill(call *c);
bool cla_kv_is_shared(const clattn_kv *kv);
bool cla_kv_is_view(const clattn_tensor *k, const clattn_tensor *v); // v is a part of k's rows
void cla_kv_key_arguments(const call *c, launch *l);
void cla_kv_value_arguments(const call *c, const cl_mem *v, launch *l); // v: the call's, or packed ones
void cla_kv_place_arguments(const call *c, launch *l);
// Where keys lie besides (kv_places.c): past rows, and pages. Whether k and v are pages; the keys of the call; those of an item
// at most; how many of them lie in the past; the length of an item.
clattn_status cla_kv_check_places(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning);
bool cla_kv_is_paged(const clattn_kv *kv);
bool cla_kv_has_past(const clattn_kv *kv);
int64_t cla_kv_count(const clattn_kv *kv);
int cla_kv_past(const clattn_kv *kv, int b);
int cla_kv_most(const call *c, int b);
int cla_kv_length(const call *c, int b);
void cla_kv_fill_places(call *c);
void cla_kv_fill_past(const call *c, int32_t *words); // a word a batch item, in the table behind all else
// The rows of a table of RoPE that count k's rows from past_lengths on, instead of the call's.
clattn_status cla_kv_past_table(call *c, chain *steps);
void cla_kv_views(const call *c, call_views *v);

// New rows of keys and values (kv_append.c), which go to the caches before anything else: their checks, what the launch
// needs, its table, which is borrowed before the first command, and the launch. Nothing where there are none.
bool cla_kv_appends(const clattn_kv *kv);
bool cla_kv_is_latent_cache(const clattn_kv *kv); // they do, and v is a view of k: so are those of v
clattn_status cla_kv_check_new(call *c, bool planning);
void cla_kv_fill_new(call *c);
clattn_status cla_kv_append_prepare(const call *c);
double cla_kv_append_flops(const call *c);
clattn_status cla_kv_append_table(call *c, chain *steps);
clattn_status cla_kv_append_enqueue(call *c, chain *steps);

// The values in tiles (matrix_pack.c), where the variant wants them so: into the workspace, and what kernels then see of
// them in place of the caller's.
clattn_status cla_pack_prepare(const call *c);
clattn_status cla_pack_enqueue(const call *c, chain *chain, args_view *v);

// A kernel of the call that is launched in groups of so many work-items. ENTRY_PLAN_AGAIN: once compiled it allows fewer, or
// spills registers that the plan counted on.
clattn_status cla_call_program(const call *c, const program_spec *spec, int work_group, program **p);

// The kernels of a call, for prepare and for the enqueue.
clattn_status cla_flash_prepare(call *c);
clattn_status cla_flash_enqueue(call *c, chain *chain);
double cla_flash_flops(const call *c); // of all launches that count theirs
// The arguments of a fused kernel, for one that does more besides; the values must outlive the launch.
void cla_flash_arguments(const call *c, const attention_args *a, const dropout_args *dropout, launch *l);
// So many partial results become the call's.
clattn_status cla_flash_prepare_combine(const call *c);
double cla_flash_combine_flops(const call *c, int splits);
clattn_status cla_flash_combine(const call *c, chain *chain, int splits);
clattn_status cla_unfused_prepare(call *c);
clattn_status cla_unfused_enqueue(call *c, chain *chain);
double cla_unfused_flops(const call *c);

// Sequences of few rows among others (mixed.c): planned after the call itself; and, once the call has its table, a call of
// theirs, which is enqueued behind it and released with it.
void cla_mixed_plan(call *c, const plan_input *in);
clattn_status cla_mixed_prepare(const call *c);
clattn_status cla_mixed_begin(const call *c, call *few, chain *steps);
clattn_status cla_mixed_enqueue(const call *c, call *few, chain *steps);

// Leave RoPE to whoever makes q and k: the workspace is laid out again, without turned copies.
void cla_call_leave_rope(call *c);

// RoPE of q and k into the workspace.
clattn_status cla_rope_check(clattn_context *context, const clattn_attention_params *params, int head_dim,
                             bool planning);
clattn_status cla_rope_prepare(call *c);
double cla_rope_flops(const call *c);
clattn_status cla_rope_enqueue(call *c, chain *chain);

// The call's RoPE for a kernel that turns rows of q, or of k, while it makes them; without buffers but positions.
rope_rows cla_rope_rows_of(const call *c, bool is_query);

// The frequencies of a call's RoPE, likewise.
clattn_status cla_rope_frequencies(call *c, chain *steps);
#endif
