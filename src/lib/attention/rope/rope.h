// rope.h: rotary embedding of one tensor into another, as attention and clattn_rope_enqueue do it: what clattn_rope says,
// checked (rope_call.c), its frequencies, and the launch, which also rotates rows by the Hadamard matrix (rope.c).
#ifndef CLATTN_ATTENTION_ROPE_ROPE_H
#define CLATTN_ATTENTION_ROPE_ROPE_H
#include "attention/call/tensor.h"
#include "launch/chain.h"

struct call;

#define ROPE_MAX_POSITION (1 << 24) // float32 results are checked up to here

// The rotary width R.
int cla_rope_width(const clattn_rope *r, int head_dim);
// Llama 3's and YaRN's bounds, with their defaults.
typedef struct rope_turn_range {
    double low, high;
} rope_turn_range;
rope_turn_range cla_rope_range(const clattn_rope *r);
bool cla_rope_has_sections(const clattn_rope *r);
// The factor of cosines and sines.
double cla_rope_amplitude(const clattn_rope *r);

// All that clattn_rope says but for positions: of a head, where it has a layout. Then positions of `rows` rows in `batch`
// items; they are given.
clattn_status cla_rope_check_numbers(clattn_context *c, const clattn_rope *r, int head_dim);
clattn_status cla_rope_check_positions(clattn_context *c, const clattn_rope *r,
                                       const clattn_tensor *positions, const char *name, int64_t batch,
                                       int64_t rows, bool planning);

// Checked positions as kernels see them: of batch item, axis of the sections (the view's head) and row.
args_view cla_rope_positions_view(const clattn_tensor *positions);

// The knob POSITIONS where there are some, and what kernels that have it are given.
int cla_rope_positions_knob(const clattn_rope *r);
rope_source_args cla_rope_source(const clattn_rope *r, const clattn_tensor *positions);

// A buffer of R/2 words, until the chain ends.
clattn_status cla_rope_make_frequencies(clattn_context *c, const clattn_rope *r, int head_dim, chain *steps,
                                        cl_mem *frequencies);

// RoPE as a kernel takes it that turns rows of q, or of k, while it makes them.
typedef struct rope_rows {
    cl_mem turns, table;            // frequencies; shifts of the batch items, where flags say so
    const clattn_tensor *positions; // explicit ones, in place of position and shifts; NULL: none
    int64_t position;               // of row 0
    int rotary_dim, flags;          // 0: no RoPE; ARGS_BATCH_ROWS or 0
    int past_word; // of packed keys: the word of the table from which on their past's lengths stand; 0: none
    float amplitude; // of cosines and sines
    bool interleaved;
} rope_rows;

// One tensor [B, H, N, D] turned into another, which may be itself.
typedef struct rope_turn {
    const clattn_rope *rope;
    const clattn_tensor *x;
    const clattn_tensor *cos, *sin; // the caller's, in place of frequencies; NULL: none
    const cl_mem *y;
    clattn_type y_type;
    args_view y_view;
    int sequences; // of a ragged batch, which is x; 0: x is none
    int rotation;  // rows are rotated behind that, in blocks of so many columns; 0: they are not
    bool in_place; // y is the caller's x, which then changes
    bool within;   // rows past an item's length are left alone; with a rotation
    rope_rows rows;
} rope_turn;
clattn_status cla_rope_turn_prepare(clattn_context *c, const rope_turn *t);
clattn_status cla_rope_turn_enqueue(chain *steps, const rope_turn *t);
double cla_rope_turn_flops(const clattn_tensor *x);
// x and y of a call that turns rows, [B, H, N, D], against one another.
clattn_status cla_rope_check_rows(clattn_context *c, const clattn_tensor *from, const clattn_tensor *to,
                                  bool planning);

// Rows of `size` numbers that are rotated in blocks of so many, as `name` asks for; 0: they are not.
clattn_status cla_rotation_check(clattn_context *c, const char *name, int rotation, int64_t size);
bool cla_rotation_divides(int block, int64_t size); // a block that the matrix is made in
float cla_rotation_scale(int rotation);

// RoPE of a call's q and k, into the workspace, and the rotation of q behind it.
clattn_status cla_rope_check(clattn_context *context, const clattn_attention_params *params, int head_dim,
                             bool planning);
clattn_status cla_rope_prepare(struct call *c);
double cla_rope_flops(const struct call *c);
clattn_status cla_rope_enqueue(struct call *c, chain *chain);
// The result of rotated values, rotated back. Nothing where they are not.
clattn_status cla_rope_back_prepare(const struct call *c);
double cla_rope_back_flops(const struct call *c);
clattn_status cla_rope_back_enqueue(const struct call *c, chain *chain);
// The call's RoPE for a kernel that turns rows of q, or of k, while it makes them; without buffers but positions.
rope_rows cla_rope_rows_of(const struct call *c, bool is_query);
// The frequencies of a call's RoPE, likewise.
clattn_status cla_rope_frequencies(struct call *c, chain *steps);
#endif
