// args.h: the run-time arguments of every kernel, as structs passed by value.
// The same text is compiled by the host (C11) and by the device (OpenCL C 1.2), so a field cannot drift; both
// sides assert the size. Compile-time knobs (head size, tile, storage type) are in src/lib/tables/knobs.def instead.
#ifndef CLATTN_ARGS_H
#define CLATTN_ARGS_H

#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
typedef long args_i64;
typedef int args_i32;
typedef uint args_u32;
typedef float args_f32;
#define ARGS_HELD(x, most) clamp(x, 0L, most)
#else
#include <stdint.h>
typedef int64_t args_i64;
typedef int32_t args_i32;
typedef uint32_t args_u32;
typedef float args_f32;
#define ARGS_HELD(x, most) args_held(x, most)
static inline int64_t args_held(int64_t x, int64_t most) {
    return x < 0 ? 0 : x < most ? x : most;
}
// The two bounds below of a clattn_score: causality is a right bound of 0.
#define ARGS_LEFT(score) ((score)->window ? (score)->window_left : -1)
#define ARGS_RIGHT(score) ((score)->causal ? 0 : (score)->window ? (score)->window_right : -1)
// The place of row 0 of item b, which has so many rows and keys.
#define ARGS_SHIFT(score, b, rows, keys)                                                                     \
    ((score)->alignment == CLATTN_ALIGN_TOP_LEFT ? 0                                                         \
     : (score)->alignment == CLATTN_ALIGN_OFFSET ? (score)->offsets ? (score)->offsets[b] : (score)->offset  \
                                                 : (keys) - (rows))
#endif

// A row at place p among `keys` keys sees those from the first to before the end: p - left <= j <= p + right, 0 <= j < keys; a
// bound of -1 is open. p and keys, of which there are less than 2^31, have 64 bits, because a window may be as wide as an int. Both
// ends never fall from a row to the next, so that the first and the last row of several bound those of all.
#define ARGS_FIRST_KEY(p, left, keys) ((left) < 0 ? 0 : (args_i32)ARGS_HELD((p) - (left), keys))
#define ARGS_END_KEY(p, right, keys)                                                                         \
    ((right) < 0 ? (args_i32)(keys) : (args_i32)ARGS_HELD((p) + (right) + 1, keys))

// A type that does not compile where the size is another, on the host as on the device.
#define ARGS_SIZE(type, bytes) typedef char type##_has_##bytes##_bytes[sizeof(type) == (bytes) ? 1 : -1]

// A strided view, in elements: item (b, h, n, c) is at offset + b*batch + h*head + n*row + c*column.
// A stride of 0 broadcasts. Tensors (q, k, v, out) have column = 1.
typedef struct args_view {
    args_i64 offset, batch, head, row, column;
} args_view;

// The options of one call, or-ed into attention_args.flags.
#define ARGS_SOFTCAP 1       // s = softcap * tanh(s / softcap)
#define ARGS_BIAS 2          // additive bias
#define ARGS_ALIBI 4         // slopes are in the table
#define ARGS_MASK 8          // boolean mask, true keeps
#define ARGS_SINK 16         // sink logits are in the table
#define ARGS_BATCH_ROWS 32   // the table holds shift, q_length, kv_length of each batch item
#define ARGS_LSE 64          // write the log-sum-exp
#define ARGS_HEAD_SCALES 128 // scales of the scores are in the table
#define ARGS_SCORE_MOD 256   // the caller's score_mod changes scores
#define ARGS_MASK_MOD 512    // the caller's mask_mod hides keys
#define ARGS_MODS (ARGS_SCORE_MOD | ARGS_MASK_MOD)
#define ARGS_PARTIAL (1 << 30) // the result is one of several over disjoint keys, to be combined: softmax.clh
#define ARGS_BLOCKS 1024 // the block mask says which blocks the boolean mask and mask_mod hide or keep whole
// Those of them that change a score: the bits of the knob SCORE_OPS, and of the planner's problem.score_ops.
#define ARGS_SCORE_OPS                                                                                       \
    (ARGS_SOFTCAP | ARGS_BIAS | ARGS_ALIBI | ARGS_MASK | ARGS_HEAD_SCALES | ARGS_MODS | ARGS_BLOCKS)
// The score tap that the `scores` kernel writes.
#define ARGS_TAP_RAW 0
#define ARGS_TAP_SOFTCAP 1
#define ARGS_TAP_MASKED 2

// The table is int32 words: [batch][ARGS_ITEM_WORDS] = shift, q_length and kv_length of the launch, q_length of the
// call (present with ARGS_BATCH_ROWS, else absent) and then [heads][ARGS_HEAD_WORDS] as float bits (present with one
// of ARGS_HEAD_FLAGS).
#define ARGS_ITEM_WORDS 4
#define ARGS_ITEM_ROWS 3 // the word of the last of them
// In a ragged batch (knob RAGGED) an item has more words: behind those four the first row of its queries and of its keys
// among all of the packed tensors; then, of the n-th item, the n-th sequence in the order in which they are worked on: how
// many units of work stand before its own (tiles of query rows, or passes over them), and its number. What is behind the last
// of them has ARGS_NO_SEQUENCE units before it.
#define ARGS_SEQUENCE_WORDS 8
#define ARGS_NO_SEQUENCE 0x7fffffff
#define ARGS_HEAD_WORDS 4
#define ARGS_HEAD_SLOPE 0 // ALiBi
#define ARGS_HEAD_SINK 1  // sink logit
#define ARGS_HEAD_SCALE 2 // of the scores
#define ARGS_HEAD_FLAGS (ARGS_ALIBI | ARGS_SINK | ARGS_HEAD_SCALES)
#define ARGS_HEAD_WORD(flag)                                                                                 \
    ((flag) == ARGS_ALIBI ? ARGS_HEAD_SLOPE : (flag) == ARGS_SINK ? ARGS_HEAD_SINK : ARGS_HEAD_SCALE)
typedef struct attention_args {
    args_view q, k, v, out; // [B, H or Hkv, N, D or Dv]
    args_view lse;          // [B, H, Nq], column unused
    // [B, Hkv, Nkv], and groups side by side, of keys and values that have scales; column: how far behind them their zero points lie
    args_view k_scale, v_scale;
    args_view mask, bias, weights; // [B, H, Nq, Nkv]; in the unfused path weights are the scores
    args_view blocks;              // of the block mask: [B, H, row blocks, key blocks]
    args_i32 batch, heads, kv_heads, group;
    args_i32 n_q, n_kv, head_dim, head_dim_v;
    args_i32 shift;                     // position of row 0 among the keys where no table says it
    args_i32 window_left, window_right; // -1 is unbounded; causality is window_right = 0
    args_i32 flags;
    args_f32 scale, softcap;
    args_i32 splits, split_keys;   // key ranges computed apart and merged later; keys in each
    args_i64 split_out, split_lse; // elements between the partial results of two ranges, in out and in lse
    // A launch of some rows: which row of the call its row 0 is, and the call's Nq. Of a ragged batch first_row is the
    // launch's first group.
    args_i32 first_row, call_rows;
} attention_args;
ARGS_SIZE(attention_args, 528);

// A block of the block mask, and what it holds.
#define ARGS_BLOCK_ROWS 64
#define ARGS_BLOCK_KEYS 64
#define ARGS_BLOCK_EMPTY 0 // no row sees any of the keys
#define ARGS_BLOCK_PARTIAL 1
#define ARGS_BLOCK_FULL 2 // all rows see all of them

// A buffer of the caller's that score_mod and mask_mod read: an index is kept within its axis, so that nothing past the
// buffer is read. Axes that it does not have are of size 1.
typedef struct args_mod_view {
    args_i64 offset, stride[4];
    args_i32 size[4];
} args_mod_view;
typedef struct mod_args {
    args_mod_view buffer[4];
} mod_args;
ARGS_SIZE(mod_args, 224);

// Where keys lie beside the views k and v of attention_args; given to a kernel where its knob PAST or PAGED is on.
// A view of rows without columns.
typedef struct args_rows {
    args_i64 offset, batch, head, row;
} args_rows;
// PAST: the first keys of an item are rows of a second pair of views: `rows` of them, or as many as the table's word
// `word` + b says where word is not negative.
typedef struct past_args {
    args_rows k, v;
    args_i32 rows, word;
} past_args;
ARGS_SIZE(past_args, 72);
typedef struct past_scale_args {
    args_rows k, v;
} past_scale_args;
ARGS_SIZE(past_scale_args, 64);
// PAGED: k and v are `pages` pages of page_size rows, a batch stride apart; the block table, a view [B, blocks], has the page
// of each block of an item's keys. j / page_size is j * multiplier >> shift, in 64 bits, for j below 2^31.
typedef struct page_args {
    args_i64 offset, batch, column, multiplier;
    args_i32 shift, page_size, pages, unused;
} page_args;
ARGS_SIZE(page_args, 48);

// Dropout of a call: softmax.clh. A weight whose word is below the threshold is dropped; the others are multiplied by factor.
typedef struct dropout_args {
    args_u32 seed[2]; // its low and its high word
    args_u32 threshold;
    args_f32 factor;
} dropout_args;
ARGS_SIZE(dropout_args, 16);

// dropout_mask.cl: the mask of such a call, [B, H, Nq, Nkv].
typedef struct dropout_mask_args {
    args_view mask;
    args_i32 batch, heads, n_q, n_kv;
} dropout_mask_args;
ARGS_SIZE(dropout_mask_args, 56);

// block_mask.cl: sizes of the block mask; of an axis of 1 the block holds what is so for all.
typedef struct block_args {
    args_i32 batch, heads, rows, columns;
} block_args;
ARGS_SIZE(block_args, 16);

// ragged.cl: a call's table, made on the device where cu_seqlens lie there. The host's table has of each item shift, most
// query rows, most keys; what is not right for a table on the device is put right.
#define RAGGED_KEYS_ALL 0     // keys are a dense batch, or pages, and each item has as many as the host says
#define RAGGED_KEYS_COUNTED 1 // likewise, and an array says how many
#define RAGGED_KEYS_PACKED 2
typedef struct ragged_args {
    args_i64 q_offset, q_stride, kv_offset, kv_stride; // of the arrays
    args_i32 keys;
    args_i32 batch, more_words;     // words of the table behind those of the items
    args_i32 past_word, past_rows;  // of past keys: as past_args
    args_i32 total_q, total_kv;     // rows of the packed tensors
    args_i32 bottom_right;          // 1: shift = kv_length - q_length
    args_i32 unit_rows, unit_heads; // rows of a unit of work, and query heads whose rows share it
    args_i32 ordered;               // 1: long sequences first
    args_i32 unused;
} ragged_args;
ARGS_SIZE(ragged_args, 80);

// sinks.cl: sink logits in a buffer, and the words of the table that they go to.
typedef struct sinks_args {
    args_i64 offset, stride;
    args_i32 words, before_heads, heads, unused;
} sinks_args;
ARGS_SIZE(sinks_args, 32);

// The part of a call that one launch of the unfused path's kernels does.
typedef struct chunk_args {
    args_i32 first_item, first_row; // where it starts: item b*heads + h, and row
    args_i32 rows;                  // rows of scores that one item of the chunk has
    args_i32 tap;                   // which tap scores.cl writes
} chunk_args;
ARGS_SIZE(chunk_args, 16);

// The row softmax of the unfused path; fields as those of attention_args.
typedef struct softmax_args {
    args_view scores, weights; // [B, H, Nq, Nkv], may be one
    args_view lse;             // [B, H, Nq]
    args_i32 batch, heads, n_q, n_kv;
    args_i32 shift, window_left, window_right, flags;
} softmax_args;
ARGS_SIZE(softmax_args, 152);

// Partial results over `splits` key ranges become one.
typedef struct combine_args {
    args_view partial_out, partial_lse; // of the first range; of partial_lse two numbers a row: ARGS_PARTIAL
    args_view out, lse;
    args_i64 split_out, split_lse; // elements between the partial results of two ranges
    args_i32 batch, heads, n_q, head_dim_v;
    args_i32 splits, flags;
} combine_args;
ARGS_SIZE(combine_args, 200);

// Two partial results over disjoint keys, merged into `a`.
typedef struct merge_args {
    args_view out_a, lse_a, out_b, lse_b;
    args_i32 batch, heads, n_q, head_dim_v;
} merge_args;
ARGS_SIZE(merge_args, 176);

// The values of a call for flash_matrix.cl: [B, Hkv] of blocks of MATRIX_PACK_KEYS keys; a row of the view is a block: matrix_pack.cl.
#define MATRIX_PACK_KEYS 32
#define MATRIX_PACK_ROWS(head_dim_v) (((head_dim_v) + 31) / 32 * 32)
#define MATRIX_PACK_BLOCK(dv, scaled) ((MATRIX_PACK_ROWS(dv) + ((scaled) ? 2 : 0)) * MATRIX_PACK_KEYS)
typedef struct pack_args {
    args_view v, v_scale, packed;
    args_i32 n_kv, flags;
} pack_args;
ARGS_SIZE(pack_args, 128);

// Rotary embedding of one tensor [B, H, N, D] into another of the same shape; of a ragged batch [1, H, T, D], and `batch` is
// the number of sequences.
typedef struct rope_args {
    args_view x, y;
    args_i64 position; // of row 0; with ARGS_BATCH_ROWS the table's shift is added
    args_i32 batch, heads, n, head_dim;
    args_i32 rotary_dim, interleaved, flags;
    args_f32 amplitude; // YaRN's factor on cos and sin, else 1
    args_i32 past_word; // of packed keys: where in the table lengths of their past begin; 0: in position
    args_i32 block; // with the knob ROTATED: columns of a block of the Hadamard matrix, and 1 over their root
    args_f32 scale;
    args_i32 within; // 1: rows past an item's length, or no item's, are left alone
} rope_args;
ARGS_SIZE(rope_args, 136);

// Where its positions, cosines and sines are, where the knobs POSITIONS and CACHED say that they are the caller's.
typedef struct rope_source_args {
    args_view positions;  // of batch item, axis (the view's head) and row
    args_view cos, sin;   // of batch item, row and pair
    args_i32 cached_rows; // positions that cos and sin have rows of; 0: each row has its own
    args_i32 ends[2];     // of the first two sections; of interleaved ones the sizes of the others
    args_i32 unused;
} rope_source_args;
ARGS_SIZE(rope_source_args, 136);

// append.cl: rows into a cache. With ARGS_BATCH_ROWS the table says of each batch item the row of the cache to which its
// first row goes, and how many it has. Of a ragged batch (knob RAGGED) the table is the call's: a sequence's new rows are
// packed as its queries, and are the last of its keys.
#define APPEND_ITEM_WORDS 2
typedef struct append_args {
    args_view k_new, v_new, k, v; // [B, Hkv, n or capacity, D or Dv]
    args_view k_scale, v_scale;   // [B, Hkv, capacity], as those of attention_args
    args_i64 position;            // of row 0 of the cache, for RoPE
    args_i32 batch, heads, n, capacity;
    args_i32 head_dim, head_dim_v, rotary_dim, flags;
    args_i32 start, circular; // of every batch item; rows past the last go to the first
    args_i32 first_side;      // 0: keys come first; 1: there are only values
    args_f32 amplitude;       // YaRN's factor on cos and sin, else 1
    args_i32 sequences;       // of a ragged batch, whose new rows are packed, one item
    args_i32 block[2];        // with the knob ROTATED, of keys and values: as in rope_args; 0: not rotated
    args_f32 scale[2];
    args_i32 unused;
} append_args;
ARGS_SIZE(append_args, 320);

// For keys that have a past in front of the cache (knob PAST): its rows, or where in the table an item's number of them begins; -1:
// all have `rows`. A row's place and position count them, its row of the cache does not.
typedef struct append_past_args {
    args_i32 rows, word;
} append_past_args;
ARGS_SIZE(append_past_args, 8);

// shift.cl: keys of a cache turned on by `delta` positions. With ARGS_BATCH_ROWS the table says of each batch item its delta, and
// how many of its rows are turned. Numbers of blocks that turn lie in local memory meanwhile.
#define SHIFT_ITEM_WORDS 2
#define SHIFT_MOST_BLOCK_WIDTH 1024
typedef struct shift_args {
    args_view k, k_scale; // [B, Hkv, N, D], [B, Hkv, N]
    args_i32 batch, heads, n, head_dim;
    args_i32 rotary_dim, flags, delta;
    args_i32 block; // with the knob ROTATED: as in rope_args
    args_f32 scale;
    args_i32 unused;
} shift_args;
ARGS_SIZE(shift_args, 120);

// hadamard.cl: y = x H / sqrt(block), of which scale is the factor. Kernels of rotated caches have a whole row in local memory.
#define HADAMARD_MOST_BLOCK 1024
#define ROTATED_MOST_COLUMNS 1024
typedef struct hadamard_args {
    args_view x, y;                 // [B, H, N, D]
    args_i32 blocks, block, unused; // of a row, and numbers of each
    args_f32 scale;
} hadamard_args;
ARGS_SIZE(hadamard_args, 96);

// y[b,r,c] = x[b,r,c] + bias[c], converting storage types; the bias is optional (ARGS_BIAS).
typedef struct convert_args {
    args_i64 x_offset, x_batch, x_row, y_offset, y_batch, y_row, bias_offset, scale_offset, scale_row,
        zero_offset;
    args_i64 rows; // of a batch item
    args_i32 batch, columns, flags, unused;
} convert_args;
ARGS_SIZE(convert_args, 104);

// Local memory of a work-group of the portable flash kernel: tiles of Q, of K or V, and of scores, each row padded
// by one float so that a column does not fall on one memory bank. The planner and the kernel share this formula.
#define FLASH_KV_WIDTH(d, dv) ((d) > (dv) ? (d) : (dv))
#define FLASH_LOCAL_FLOATS(tile_q, tile_kv, d, dv)                                                           \
    ((tile_q) * ((d) + 1) + (tile_kv) * (FLASH_KV_WIDTH(d, dv) + 1) + (tile_q) * ((tile_kv) + 1))

// Local memory of a work-group of flash_tiles.cl: a chunk of Q and of K, or after them weights and values of group_columns
// keys; partial results of the rows; two numbers a row; and a flag. Lines of rows are four floats longer. The planner
// and the kernel share it.
#define FLASH_TILES_PITCH(micro_rows, group_rows) ((micro_rows) * (group_rows) + 4)
#define FLASH_TILES_QUADS(group_columns, dv) (((dv) + 4 * (group_columns)-1) / (4 * (group_columns)))
#define FLASH_TILES_SCORES(micro_rows, group_rows, group_columns, chunk)                                     \
    ((chunk)*FLASH_TILES_PITCH(micro_rows, group_rows) + 4 * (group_columns) * ((chunk) + 4))
#define FLASH_TILES_VALUES(micro_rows, group_rows, group_columns, dv)                                        \
    ((group_columns) *                                                                                       \
     (FLASH_TILES_PITCH(micro_rows, group_rows) + 4 * (group_columns)*FLASH_TILES_QUADS(group_columns, dv)))
#define FLASH_TILES_SHARED(micro_rows, group_rows, group_columns, chunk, dv)                                 \
    (FLASH_TILES_SCORES(micro_rows, group_rows, group_columns, chunk) >                                      \
             FLASH_TILES_VALUES(micro_rows, group_rows, group_columns, dv)                                   \
         ? FLASH_TILES_SCORES(micro_rows, group_rows, group_columns, chunk)                                  \
         : FLASH_TILES_VALUES(micro_rows, group_rows, group_columns, dv))
#define FLASH_TILES_LOCAL_FLOATS(micro_rows, group_rows, group_columns, chunk, dv, lines)                    \
    (FLASH_TILES_SHARED(micro_rows, group_rows, group_columns, chunk, dv) +                                  \
     (lines)*FLASH_TILES_PITCH(micro_rows, group_rows) + 2 * (micro_rows) * (group_rows) + 4)
// Besides, of decode_tiles.cl: where the rows are.
#define DECODE_TILES_PLACES_BYTES(micro_rows, group_rows) (8 * (micro_rows) * (group_rows))
// Partial results of a row: with sub-groups they become one in registers.
#define FLASH_TILES_LINES(group_columns, subgroup) ((subgroup) ? 1 : (group_columns))

// Private memory of a work-item of flash_lanes.cl: tiles of Q, of the output, of scores and of their options, and what is
// packed of K and V. The planner and the kernel share it, too.
#define LANES_PRIVATE_BYTES(rows, tile_kv, key_block, d, dv)                                                 \
    (4 * ((rows) * ((d) + (dv) + 3 * (tile_kv)) + (key_block) * (d) + (tile_kv) * (dv)))

// The same of decode_rows.cl, where a head's values are not its keys: queries and output of the rows, scores of a tile of them
// and their options, and the keys at hand with their values.
#define ROWS_PRIVATE_BYTES(rows, tile_kv, d, dv)                                                             \
    (4 * ((rows) * ((d) + (dv) + 3 * (tile_kv)) + (tile_kv) * ((d) + (dv) + 64)))

// The values of the knob MATRIX_ENGINE. Those of fragments.clh, from MMA on, are the values of the knob EMULATED, too.
#define MATRIX_ENGINE_EMULATION 1
#define MATRIX_ENGINE_AMX 2
#define MATRIX_ENGINE_MMA 3     // NVIDIA's mma.sync
#define MATRIX_ENGINE_WGMMA 4   // and Hopper's wgmma, which four warps share
#define FRAGMENT_HIDDEN "//@ "  // before instructions that the host shows to the assembler: program/binary.h
#define MATRIX_ENGINE_WMMA 5    // AMD's WMMA of gfx11
#define MATRIX_ENGINE_WMMA_12 6 // and of gfx12
#define MATRIX_ENGINE_MFMA 7    // AMD's MFMA
#define MATRIX_ENGINE_DPAS_8 8  // Intel's DPAS with sub-groups of 8
#define MATRIX_ENGINE_DPAS_16 9 // and of 16

// The values of the knob DOT_I8: OWN and PTX are dots.clh's.
#define DOT_I8_EMULATION 1
#define DOT_I8_VNNI 2
#define DOT_I8_OWN 3
#define DOT_I8_PTX 4

// The knob TYPE_V of float32: 0 says that v is stored as k, and 3 is no storage of either.
#define ARGS_TYPE_V_F32 3

// The values of the knob ASK_AHEAD.
#define ASK_NOTHING 1
#define ASK_FIRST_LEVEL 2
#define ASK_SECOND_LEVEL 3

// probe_ask.cl: words of its result, the last of which is its own; the head size, query rows, words of a tile of keys or
// values, and how many tiles of each there are behind the result.
#define PROBE_ASK_RESULT 1024
#define PROBE_ASK_DIM 128
#define PROBE_ASK_ROWS 4
#define PROBE_ASK_WORDS 4096
#define PROBE_ASK_TILES 2048

// decode_groups.cl: work-items that share a row of K or V of d numbers, eight each; keys that a group reads at once, four a
// work-item; keys of a chunk, which are about as many as the group has items.
#define DECODE_GROUPS_LANES(d) (((d) + 7) / 8)
#define DECODE_GROUPS_BLOCK(group, d) ((group) / DECODE_GROUPS_LANES(d) * 4)
#define DECODE_GROUPS_CHUNK(group, d)                                                                        \
    (DECODE_GROUPS_BLOCK(group, d) < (group)                                                                 \
         ? (group) / DECODE_GROUPS_BLOCK(group, d) * DECODE_GROUPS_BLOCK(group, d)                           \
         : DECODE_GROUPS_BLOCK(group, d))
// Lanes whose partial sums of a score meet in registers: the power of two that divides those of a row and fits the
// sub-group; 1 without shuffles. The others meet in local memory, an odd number of places apart.
#define DECODE_GROUPS_DIVIDES(d, subgroup, n) (DECODE_GROUPS_LANES(d) % (n) == 0 && (subgroup) >= (n))
#define DECODE_GROUPS_SHARE(d, subgroup)                                                                     \
    (DECODE_GROUPS_DIVIDES(d, subgroup, 32)   ? 32                                                           \
     : DECODE_GROUPS_DIVIDES(d, subgroup, 16) ? 16                                                           \
     : DECODE_GROUPS_DIVIDES(d, subgroup, 8)  ? 8                                                            \
     : DECODE_GROUPS_DIVIDES(d, subgroup, 4)  ? 4                                                            \
     : DECODE_GROUPS_DIVIDES(d, subgroup, 2)  ? 2                                                            \
                                              : 1)
#define DECODE_GROUPS_PARTS(d, subgroup) (DECODE_GROUPS_LANES(d) / DECODE_GROUPS_SHARE(d, subgroup))
#define DECODE_GROUPS_PITCH(d, subgroup)                                                                     \
    (DECODE_GROUPS_PARTS(d, subgroup) < 4 ? DECODE_GROUPS_PARTS(d, subgroup)                                 \
                                          : DECODE_GROUPS_PARTS(d, subgroup) | 1)
#define DECODE_GROUPS_PARTIAL(group, rows, d, subgroup)                                                      \
    (DECODE_GROUPS_PARTS(d, subgroup) > 1 || DECODE_GROUPS_SHARE(d, subgroup) == 1                           \
         ? DECODE_GROUPS_BLOCK(group, d) * (rows)*DECODE_GROUPS_PITCH(d, subgroup)                           \
         : 0)
// Its local memory: the pass's rows of q; weights of a chunk; partial scores, in whose place sums of the group and, at the
// end, of the output meet; sixteen partial sums a row; and what the rows are.
#define DECODE_GROUPS_SCRATCH(group, rows, d, subgroup)                                                      \
    (DECODE_GROUPS_PARTIAL(group, rows, d, subgroup) > 8 * (group)                                           \
         ? DECODE_GROUPS_PARTIAL(group, rows, d, subgroup)                                                   \
         : 8 * (group))
#define DECODE_GROUPS_LOCAL_FLOATS(group, rows, d, subgroup)                                                 \
    ((rows) * (8 * DECODE_GROUPS_LANES(d) + DECODE_GROUPS_CHUNK(group, d) + 16 + 5) +                        \
     DECODE_GROUPS_SCRATCH(group, rows, d, subgroup))

// How a device spells sub-groups, the bits of the knob SUBGROUP_WAYS: those of clattn_capabilities.subgroup_ways.
#define SUBGROUPS_KHR 1
#define SUBGROUPS_INTEL 2
#define SUBGROUPS_SHUFFLE_KHR 4
#define SUBGROUPS_SHUFFLE_QCOM 8
#define SUBGROUPS_SIZE_INTEL 16
#define SUBGROUPS_SIZE_QCOM 32
#define SUBGROUP_PROBE_ITEMS 64 // work-items of the group that probes them

// The most that the arrays of a work-item may take of it: a tile far beyond builds, and overruns a stack.
#define PRIVATE_BYTES_MOST (4 << 20)

// Projections.

// Columns of y that a work-item of linear_lanes.cl can own: its tile of y then stays in the second-level cache.
#define LINEAR_TILE_COLUMNS 576

// y[b,r,n] = sum_k x[b,r,k] w[n,k] + bias[n], in elements:
//   x[b,r,k] at x_offset + b*x_batch + (k / x_head_columns)*x_head + r*x_row + k % x_head_columns
//   w[n,k]   at w_offset + n*w_row + k; its scale at scale_offset + n*scale_row + k / SCALE_GROUP, its zero point from zero_offset on
//   y[b,r,n] at y_offset + b*y_batch + (n / y_head_columns)*y_head + r*y_row + n % y_head_columns
// so that splitting columns into heads and joining heads into columns cost nothing. A plain matrix has
// x_head_columns = reduction and y_head_columns = columns. All sizes are at least 1. linear_lanes.cl also reads matrices that lie with
// columns as rows, by the knob TURNED: W, of which w[n,k] lies at w_offset + k*w_row + n, and x, which has x_head_columns and x_row of 1:
// the gradients of a projection sum over what were rows.
// With the knob ROPE the heads of y are turned: row r of batch item b by its position, which is position + r, with
// ARGS_BATCH_ROWS plus the shift of the table of args.h; with LINEAR_POSITIONS by what the table holds in its place, its
// own position: of row r of batch item b at position + b*position_batch + r*position_row.
typedef struct linear_args {
    args_i64 x_offset, x_batch, x_head, x_row;
    args_i64 w_offset, w_row, bias_offset, scale_offset, scale_row, zero_offset;
    args_i64 y_offset, y_batch, y_head, y_row;
    args_i64 position;           // of row 0, for RoPE
    args_i64 packed_offset;      // of linear_matrix.cl's packed weights, in words
    args_i32 batch, rows;        // B, rows of a batch item
    args_i32 columns, reduction; // of y; of x and w
    args_i32 x_head_columns, y_head_columns;
    args_i32 flags;      // ARGS_BIAS: there is a bias; ARGS_BATCH_ROWS: positions are shifted by the table
    args_i32 rotary_dim; // columns of a head that RoPE turns
    args_i32
        column_tile; // columns of a work-item of linear_lanes.cl, at most LINEAR_TILE_COLUMNS; of linear_matrix.cl
    args_i32 position_batch, position_row; // with RAGGED: sequences; rows of the cache that y is, or 0
    args_f32 amplitude;                    // of RoPE: YaRN's factor on cos and sin, else 1
} linear_args;
ARGS_SIZE(linear_args, 176);
#define LINEAR_TURNED_W 1
#define LINEAR_TURNED_X 2
#define LINEAR_POSITIONS 1 // of the flags, whose other bits are those of args.h

// Weights packed for linear_matrix.cl: blocks of so many columns of y, steps of so much of the reduction; the head, in words,
// before the first tile. A work-item has at most so many rows and columns of y.
#define LINEAR_MATRIX_COLUMNS 32
#define LINEAR_MATRIX_STEP 32
#define LINEAR_MATRIX_BLOCKS(columns) (((columns) + LINEAR_MATRIX_COLUMNS - 1) / LINEAR_MATRIX_COLUMNS)
#define LINEAR_MATRIX_STEPS(reduction) (((reduction) + LINEAR_MATRIX_STEP - 1) / LINEAR_MATRIX_STEP)
#define LINEAR_MATRIX_HEAD(blocks) ((2 * (blocks) + 15) / 16 * 16)
#define LINEAR_MATRIX_TILE_ROWS 128
#define LINEAR_MATRIX_TILE_COLUMNS 512

// linear_pack.cl: weights as in linear_args; where the packed ones begin, in words.
typedef struct linear_pack_args {
    args_i64 w_offset, w_row, packed_offset;
    args_i32 columns, reduction;
} linear_pack_args;
ARGS_SIZE(linear_pack_args, 32);

// Steps of a layer between its projections and attention.

// norm.cl: x[b,h,n,d], in place. flags: NORM_SCALES: divided by the root of its mean square; NORM_WEIGHTS: multiplied by
// weights, which begin at w_offset, plus `more`; ARGS_BATCH_ROWS: positions are shifted by the table of args.h.
#define NORM_SCALES 1
#define NORM_WEIGHTS 2
typedef struct norm_args {
    args_view x;
    args_i64 w_offset;
    args_i64 position; // of row 0, for RoPE
    args_i32 batch, heads, n, head_dim;
    args_i32 shared; // heads of a row that share a mean: 1, or all
    args_i32 rotary_dim, flags;
    args_f32 epsilon, more, amplitude; // amplitude: of RoPE's cosines and sines
} norm_args;
ARGS_SIZE(norm_args, 96);

// gate.cl: x[b,h,n,d] = x[b,h,n,d] * sigmoid(gate[b,0,n,c]), c = h, or h * head_dim + d where each number has its own.
typedef struct gate_args {
    args_view x, gate;
    args_i32 batch, heads, n, head_dim;
    args_i32 of_heads, unused;
} gate_args;
ARGS_SIZE(gate_args, 104);

// Steps of a transformer block beside its layer of attention and its projections. Views are of [B, N, width].

// row_norm.cl. flags: ROW_NORM_ADDS: of x + residual; STORES: that sum is written; CENTERS: less the mean; WEIGHS, SHIFTS:
// times weight + more, plus bias.
#define ROW_NORM_ADDS 1
#define ROW_NORM_STORES 2
#define ROW_NORM_CENTERS 4
#define ROW_NORM_WEIGHS 8
#define ROW_NORM_SHIFTS 16
typedef struct row_norm_args {
    args_view x, residual, sum, out;
    args_i64 weight_offset, bias_offset;
    args_i32 width, flags;
    args_f32 epsilon, more;
} row_norm_args;
ARGS_SIZE(row_norm_args, 192);

// activate.cl: out = how(x), times up with `gates`, plus the residual with `adds`. The numbers of clattn_activation.
#define ACTIVATE_SILU 1
#define ACTIVATE_GELU 2
#define ACTIVATE_GELU_TANH 3
#define ACTIVATE_GELU_QUICK 4
#define ACTIVATE_RELU 5
#define ACTIVATE_RELU_SQUARED 6
#define ACTIVATE_SIGMOID 7
typedef struct activate_args {
    args_view x, up, residual, out;
    args_i32 width, how, gates, adds;
} activate_args;
ARGS_SIZE(activate_args, 176);

// linear_few_lanes.cl with EPILOGUE: what becomes of a projection, as activate.cl does it.
typedef struct epilogue_args {
    args_view residual;
    args_i32 how, gates, adds, unused;
} epilogue_args;
ARGS_SIZE(epilogue_args, 56);

// embed.cl: out[b,n] = table[ids[b,n]] * scale.
typedef struct embed_args {
    args_view ids, out;
    args_i64 table_offset, table_row;
    args_i32 width, rows;
    args_f32 scale;
    args_i32 unused;
} embed_args;
ARGS_SIZE(embed_args, 112);

// argmax.cl: out[b,n] = the place of the greatest of x[b,n]; counts: lengths[b,n] becomes one more.
typedef struct argmax_args {
    args_view x, out, lengths;
    args_i32 width, counts;
} argmax_args;
ARGS_SIZE(argmax_args, 128);

// sample.cl: out[b,n] = a place of x[b,n], drawn. by and to_exp2: 1 / temperature, and that times log2(e); top_p is 1 where it leaves
// all; margin: how far below the greatest min_p leaves numbers.
typedef struct sample_args {
    args_view x, out;
    args_i32 width, top_k;
    args_f32 by, to_exp2, top_p, margin;
    args_u32 seed[2]; // its low and its high word
} sample_args;
ARGS_SIZE(sample_args, 112);

// layer_few_lanes.cl: what its work-groups share, in one buffer: projections, and counters that are 0 between launches.
enum { SMALL_Q, SMALL_K, SMALL_V, SMALL_OUT, SMALL_PROJECTIONS };
typedef struct small_layer {
    linear_args of[SMALL_PROJECTIONS];
    args_i32 taken, done, left; // parts of the work that were taken and that are done; groups that have left
    args_i32 tiles;             // of query rows
} small_layer;
ARGS_SIZE(small_layer, 720);
#endif
