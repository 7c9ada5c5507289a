// rope.h: RoPE from one tensor to another, for attention and clattn_rope_enqueue. rope_call.c
// checks clattn_rope. rope.c computes frequencies and enqueues the launch, which can also
// Hadamard-transform rows.
#ifndef CLATTN_ATTENTION_ROPE_ROPE_H
#define CLATTN_ATTENTION_ROPE_ROPE_H
#include "attention/call/tensor.h"
#include "launch/chain.h"

struct call;

#define ROPE_MAX_POSITION (1 << 24) // float32 results are verified up to here

// R, the number of rotary columns.
int cla_rope_width(const clattn_rope *r, int head_dim);
// The bounds of Llama 3's and YaRN's scaling, with defaults.
typedef struct rope_frequency_range {
    double low, high;
} rope_frequency_range;
rope_frequency_range cla_rope_range(const clattn_rope *r);
bool cla_rope_has_sections(const clattn_rope *r);
// The factor on cosines and sines.
double cla_rope_amplitude(const clattn_rope *r);

// Check all fields of clattn_rope except positions, for heads of head_dim columns.
clattn_status cla_rope_check_numbers(clattn_context *c, const clattn_rope *r, int head_dim);
// Check explicit positions of `rows` rows in `batch` items.
clattn_status cla_rope_check_positions(clattn_context *c, const clattn_rope *r,
                                       const clattn_tensor *positions, const char *name, int64_t batch,
                                       int64_t rows, bool planning);

// View of checked positions for kernels: axes batch item, section (in the view's head axis), row.
args_view cla_rope_positions_view(const clattn_tensor *positions);

// The knob POSITIONS for explicit positions, and the kernel argument that describes them.
int cla_rope_positions_knob(const clattn_rope *r);
rope_source_args cla_rope_source(const clattn_rope *r, const clattn_tensor *positions);

// Fill a table of R/2 frequencies. It is valid until the chain ends.
clattn_status cla_rope_make_frequencies(clattn_context *c, const clattn_rope *r, int head_dim, chain *steps,
                                        cl_mem *frequencies);

// RoPE parameters of the rows of q or k, for kernels that apply RoPE while they compute these rows.
typedef struct rope_rows {
    // frequencies; shifts per batch item, used if `flags` has ARGS_BATCH_ROWS
    cl_mem frequencies, table;
    const clattn_tensor *positions; // explicit positions; NULL: `position` and shifts
    int64_t position;               // position of row 0
    int rotary_dim, flags;          // rotary_dim 0: no RoPE; flags: ARGS_BATCH_ROWS or 0
    // Packed keys: the table word at which the past lengths begin; 0: none.
    int past_word;
    float amplitude; // factor on cosines and sines
    bool interleaved;
} rope_rows;

// Apply RoPE to a tensor [B, H, N, D], into another tensor or in place.
typedef struct rope_apply {
    const clattn_rope *rope;
    const clattn_tensor *x;
    const clattn_tensor *cos, *sin; // the caller's tables instead of frequencies; NULL: none
    const cl_mem *y;
    clattn_type y_type;
    args_view y_view;
    int sequences; // sequences in a packed x; 0: x is not packed
    // Block size in columns of a Hadamard transform after RoPE; 0: none.
    int rotation;
    bool in_place; // y is the caller's x
    bool within;   // with a rotation: skip rows past an item's length
    rope_rows rows;
} rope_apply;
clattn_status cla_rope_apply_prepare(clattn_context *c, const rope_apply *t);
clattn_status cla_rope_apply_enqueue(chain *steps, const rope_apply *t);
double cla_rope_apply_flops(const clattn_tensor *x);
// Check x and y of a call on rows, [B, H, N, D], against each other.
clattn_status cla_rope_check_rows(clattn_context *c, const clattn_tensor *from, const clattn_tensor *to,
                                  bool planning);

// Check a Hadamard block size for rows of `size` numbers; 0: no transform. `name` is the option's
// name.
clattn_status cla_hadamard_check(clattn_context *c, const char *name, int rotation, int64_t size);
bool cla_hadamard_divides(int block, int64_t size); // true for a supported block size
float cla_hadamard_scale(int rotation);

// For a call: RoPE of q and k into the workspace, then the Hadamard transform of q.
clattn_status cla_rope_check(clattn_context *context, const clattn_attention_params *params, int head_dim,
                             bool planning);
clattn_status cla_rope_prepare(struct call *c);
double cla_rope_flops(const struct call *c);
clattn_status cla_rope_enqueue(struct call *c, chain *chain);
// Undo the Hadamard transform of v in the result. Does nothing if v has none.
clattn_status cla_hadamard_undo_on_out_prepare(const struct call *c);
double cla_hadamard_undo_on_out_flops(const struct call *c);
clattn_status cla_hadamard_undo_on_out(const struct call *c, chain *chain);
// The RoPE parameters of a call's q or k rows, without the buffers for frequencies and shifts.
rope_rows cla_rope_rows_of(const struct call *c, bool is_query);
// Fill the table of frequencies of a call's RoPE, if it has RoPE.
clattn_status cla_rope_frequencies(struct call *c, chain *steps);
#endif
