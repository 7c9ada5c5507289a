// args.h: the run-time arguments of the kernels, as structs passed by value. Host (C11) and device
// (OpenCL C 1.2) compile the same text, so fields cannot differ, and both check the sizes.
// Compile-time knobs (head size, tile, storage type) are in src/lib/tables/knobs.def.
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
#define ARGS_MOST_ROWS (INT32_MAX - 65536) // Kernels count them up to one tile past the end.
// The window bounds of a clattn_score. Causality is a right bound of 0.
#define ARGS_LEFT(score) ((score)->window ? (score)->window_left : -1)
#define ARGS_RIGHT(score) ((score)->causal ? 0 : (score)->window ? (score)->window_right : -1)
// The position of row 0 of item b, which has `rows` rows and `keys` keys.
#define ARGS_SHIFT(score, b, rows, keys)                                                                     \
    ((score)->alignment == CLATTN_ALIGN_TOP_LEFT ? 0                                                         \
     : (score)->alignment == CLATTN_ALIGN_OFFSET ? (score)->offsets ? (score)->offsets[b] : (score)->offset  \
                                                 : (keys) - (rows))
#endif

// A row at position p sees key j if p - left <= j <= p + right and 0 <= j < keys; a bound of -1 is
// open. Both ends never decrease with p, so the first and last of several rows bound all. Windows
// may be as wide as an int, so p and keys are 64-bit.
#define ARGS_FIRST_KEY(p, left, keys) ((left) < 0 ? 0 : (args_i32)ARGS_HELD((p) - (left), keys))
#define ARGS_END_KEY(p, right, keys)                                                                         \
    ((right) < 0 ? (args_i32)(keys) : (args_i32)ARGS_HELD((p) + (right) + 1, keys))

// A type that fails to compile if the size differs.
#define ARGS_SIZE(type, bytes) typedef char type##_has_##bytes##_bytes[sizeof(type) == (bytes) ? 1 : -1]

// A strided view, in elements: (b, h, n, c) is at offset + b*batch + h*head + n*row + c*column. A
// stride of 0 broadcasts. Tensors (q, k, v, out) have column = 1.
typedef struct args_view {
    args_i64 offset, batch, head, row, column;
} args_view;

// Bits of attention_args.flags: the options of a call.
#define ARGS_SOFTCAP 1       // s = softcap * tanh(s / softcap)
#define ARGS_BIAS 2          // additive bias
#define ARGS_ALIBI 4         // the table has slopes
#define ARGS_MASK 8          // boolean mask, true keeps
#define ARGS_SINK 16         // the table has sink logits
#define ARGS_BATCH_ROWS 32   // the table has shift, q_length, kv_length of each batch item
#define ARGS_LSE 64          // write the log-sum-exp
#define ARGS_HEAD_SCALES 128 // the table has scales of the scores
#define ARGS_SCORE_MOD 256   // the caller's score_mod changes scores
#define ARGS_MASK_MOD 512    // the caller's mask_mod hides keys
#define ARGS_MODS (ARGS_SCORE_MOD | ARGS_MASK_MOD)
// The result covers a part of the keys and will be combined: softmax.clh.
#define ARGS_PARTIAL (1 << 30)
// The block mask has blocks that the boolean mask and mask_mod hide or keep entirely.
#define ARGS_BLOCKS 1024
// The flags that change a score: bits of the knob SCORE_OPS and of problem.score_ops.
#define ARGS_SCORE_OPS                                                                                       \
    (ARGS_SOFTCAP | ARGS_BIAS | ARGS_ALIBI | ARGS_MASK | ARGS_HEAD_SCALES | ARGS_MODS | ARGS_BLOCKS)
// The score tap that the `scores` kernel stores.
#define ARGS_TAP_RAW 0
#define ARGS_TAP_SOFTCAP 1
#define ARGS_TAP_MASKED 2

// The table is int32 words. With ARGS_BATCH_ROWS, it begins with [batch][ARGS_ITEM_WORDS]: shift,
// q_length and kv_length of the launch, q_length of the call. With one of ARGS_HEAD_FLAGS the words
// [heads][ARGS_HEAD_WORDS] follow, as float bits.
#define ARGS_ITEM_WORDS 4
#define ARGS_ITEM_ROWS 3 // the word of the call's q_length
// A ragged batch has ARGS_SEQUENCE_WORDS words per item. Words 4 and 5: the first row of its
// queries and of its keys in the packed tensors. Words 6 and 7 describe the sequences in the order
// of work: units of work before the sequence (ARGS_NO_SEQUENCE past the last one), and its index.
#define ARGS_SEQUENCE_WORDS 8
#define ARGS_NO_SEQUENCE 0x7fffffff
#define ARGS_HEAD_WORDS 4
#define ARGS_HEAD_SLOPE 0 // ALiBi
#define ARGS_HEAD_SINK 1  // sink logit
#define ARGS_HEAD_SCALE 2 // factor of the head's scores
#define ARGS_HEAD_FLAGS (ARGS_ALIBI | ARGS_SINK | ARGS_HEAD_SCALES)
#define ARGS_HEAD_WORD(flag)                                                                                 \
    ((flag) == ARGS_ALIBI ? ARGS_HEAD_SLOPE : (flag) == ARGS_SINK ? ARGS_HEAD_SINK : ARGS_HEAD_SCALE)
typedef struct attention_args {
    args_view q, k, v, out; // [B, H or Hkv, N, D or Dv]
    args_view lse;          // [B, H, Nq], column unused
    // [B, Hkv, Nkv, groups] for types with scales; column: offset of zero points.
    args_view k_scale, v_scale;
    args_view mask, bias, weights; // [B, H, Nq, Nkv]; in the unfused path weights are the scores
    args_view blocks;              // block mask: [B, H, row blocks, key blocks]
    args_i32 batch, heads, kv_heads, group;
    args_i32 n_q, n_kv, head_dim, head_dim_v;
    args_i32 shift;                     // position of row 0 among the keys, without a table
    args_i32 window_left, window_right; // -1: no bound; causality is window_right = 0
    args_i32 flags;
    args_f32 scale, softcap;
    args_i32 splits, split_keys; // key ranges computed separately; keys per range
    // Elements between the partial results of two ranges, in out and in lse.
    args_i64 split_out, split_lse;
    // For a launch of some rows: its row 0 in the call, and the call's Nq. In a ragged batch
    // first_row is the launch's first group.
    args_i32 first_row, call_rows;
} attention_args;
ARGS_SIZE(attention_args, 528);

// The block mask's block size and states.
#define ARGS_BLOCK_ROWS 64
#define ARGS_BLOCK_KEYS 64
#define ARGS_BLOCK_EMPTY 0 // no row sees any of its keys
#define ARGS_BLOCK_PARTIAL 1
#define ARGS_BLOCK_FULL 2 // every row sees all of its keys

// A buffer for score_mod and mask_mod. Missing axes have size 1. Indices are clamped to their axes.
typedef struct args_mod_view {
    args_i64 offset, stride[4];
    args_i32 size[4];
} args_mod_view;
typedef struct mod_args {
    args_mod_view buffer[4];
} mod_args;
ARGS_SIZE(mod_args, 224);

// Rows of keys outside the views k and v (PAST, PAGED): offset, and strides of batch items, heads
// and rows.
typedef struct args_rows {
    args_i64 offset, batch, head, row;
} args_rows;
// PAST: an item's first keys are rows of a second pair of views. Their number is `rows`. If `word`
// is not negative, the number is in the table's word `word` + b.
typedef struct past_args {
    args_rows k, v;
    args_i32 rows, word;
} past_args;
ARGS_SIZE(past_args, 72);
typedef struct past_scale_args {
    args_rows k, v;
} past_scale_args;
ARGS_SIZE(past_scale_args, 64);
// PAGED: k and v are `pages` pages of page_size rows, a batch stride apart. The block table, a view
// [B, blocks], has the page of each block. For j < 2^31, j / page_size is j * multiplier >> shift
// in 64 bits.
typedef struct page_args {
    args_i64 offset, batch, column, multiplier;
    args_i32 shift, page_size, pages, unused;
} page_args;
ARGS_SIZE(page_args, 48);

// Dropout (softmax.clh): weights with words below the threshold become 0, others are scaled.
typedef struct dropout_args {
    args_u32 seed[2]; // low and high word
    args_u32 threshold;
    args_f32 factor;
} dropout_args;
ARGS_SIZE(dropout_args, 16);

// dropout_mask.cl: dropout's mask [B, H, Nq, Nkv].
typedef struct dropout_mask_args {
    args_view mask;
    args_i32 batch, heads, n_q, n_kv;
} dropout_mask_args;
ARGS_SIZE(dropout_mask_args, 56);

// block_mask.cl: sizes of the block mask. Along an axis of size 1 a block covers the whole axis.
typedef struct block_args {
    args_i32 batch, heads, rows, columns;
} block_args;
ARGS_SIZE(block_args, 16);

// ragged.cl: makes a call's table on the device from cu_seqlens there. The host's table has per
// item its shift and the maxima of its query rows and keys.
#define RAGGED_KEYS_ALL 0     // a dense batch or pages; each item has the host's number
#define RAGGED_KEYS_COUNTED 1 // a dense batch or pages; an array has each item's number
#define RAGGED_KEYS_PACKED 2
typedef struct ragged_args {
    args_i64 q_offset, q_stride, kv_offset, kv_stride; // arrays
    args_i32 keys;
    args_i32 batch, more_words;     // words of the table after the items
    args_i32 past_word, past_rows;  // past keys: as past_args
    args_i32 total_q, total_kv;     // rows of the packed tensors
    args_i32 bottom_right;          // 1: shift = kv_length - q_length
    args_i32 unit_rows, unit_heads; // rows of a unit of work; query heads that share it
    args_i32 ordered;               // 1: long sequences first
    args_i32 unused;
} ragged_args;
ARGS_SIZE(ragged_args, 80);

// sinks.cl: sink logits in a buffer, and their words in the table.
typedef struct sinks_args {
    args_i64 offset, stride;
    args_i32 words, before_heads, heads, unused;
} sinks_args;
ARGS_SIZE(sinks_args, 32);

// The part of a call that one launch of the unfused path computes.
typedef struct chunk_args {
    args_i32 first_item, first_row; // first item b*heads + h, and first row
    args_i32 rows;                  // rows of scores per item
    args_i32 tap;                   // the tap that scores.cl stores
} chunk_args;
ARGS_SIZE(chunk_args, 16);

// The row softmax of the unfused path; fields as in attention_args.
typedef struct softmax_args {
    args_view scores, weights; // [B, H, Nq, Nkv], may be the same
    args_view lse;             // [B, H, Nq]
    args_i32 batch, heads, n_q, n_kv;
    args_i32 shift, window_left, window_right, flags;
} softmax_args;
ARGS_SIZE(softmax_args, 152);

// combine.cl: merges partial results over `splits` key ranges.
typedef struct combine_args {
    args_view partial_out, partial_lse; // first range; two numbers per row: ARGS_PARTIAL
    args_view out, lse;
    args_i64 split_out, split_lse; // elements between two ranges
    args_i32 batch, heads, n_q, head_dim_v;
    args_i32 splits, flags;
} combine_args;
ARGS_SIZE(combine_args, 200);

// merge.cl: merges two partial results over disjoint keys into `a`.
typedef struct merge_args {
    args_view out_a, lse_a, out_b, lse_b;
    args_i32 batch, heads, n_q, head_dim_v;
} merge_args;
ARGS_SIZE(merge_args, 176);

// matrix_pack.cl: packed values for flash_matrix.cl, [B, Hkv, blocks of MATRIX_PACK_KEYS keys].
#define MATRIX_PACK_KEYS 32
#define MATRIX_PACK_ROWS(head_dim_v) (((head_dim_v) + 31) / 32 * 32)
#define MATRIX_PACK_BLOCK(dv, scaled) ((MATRIX_PACK_ROWS(dv) + ((scaled) ? 2 : 0)) * MATRIX_PACK_KEYS)
typedef struct pack_args {
    args_view v, v_scale, packed;
    args_i32 n_kv, flags;
} pack_args;
ARGS_SIZE(pack_args, 128);

// RoPE of a tensor [B, H, N, D], or [1, H, T, D] for a ragged batch, whose sequences are `batch`.
typedef struct rope_args {
    args_view x, y;
    args_i64 position; // position of row 0; with ARGS_BATCH_ROWS, the table's shift is added
    args_i32 batch, heads, n, head_dim;
    args_i32 rotary_dim, interleaved, flags;
    args_f32 amplitude; // YaRN's factor on cos and sin, else 1
    // Packed keys: the table's first word with lengths of their past; 0: none.
    args_i32 past_word;
    // With the knob HADAMARD: columns of a block of the Hadamard matrix; scale: 1 / sqrt(block).
    args_i32 block;
    args_f32 scale;
    args_i32 within; // 1: rows past an item's length are not changed
} rope_args;
ARGS_SIZE(rope_args, 136);

// The caller's positions, cosines and sines (knobs POSITIONS and ROPE_TABLES).
typedef struct rope_source_args {
    args_view positions;  // [batch item, axis (the view's head), row]
    args_view cos, sin;   // [batch item, row, pair]
    args_i32 cached_rows; // rows of cos and sin, indexed by position; 0: indexed by row
    // Ends of the first two sections; for interleaved sections the sizes of the others.
    args_i32 ends[2];
    args_i32 unused;
} rope_source_args;
ARGS_SIZE(rope_source_args, 136);

// append.cl: new rows of a cache. With ARGS_BATCH_ROWS, the table has per batch item its first row
// in the cache and its number of rows. In a ragged batch (knob RAGGED) it is the call's table: a
// sequence's new rows are packed like its queries and are its last keys.
#define APPEND_ITEM_WORDS 2
typedef struct append_args {
    args_view k_new, v_new, k, v; // [B, Hkv, n or capacity, D or Dv]
    args_view k_scale, v_scale;   // [B, Hkv, capacity], as in attention_args
    args_i64 position;            // position of row 0 of the cache, for RoPE
    args_i32 batch, heads, n, capacity;
    args_i32 head_dim, head_dim_v, rotary_dim, flags;
    // start of every item; circular 1: rows past the last row go to the first rows
    args_i32 start, circular;
    args_i32 first_side; // 0: keys and values; 1: only values
    args_f32 amplitude;  // YaRN's factor on cos and sin, else 1
    // number of sequences of a ragged batch, whose new rows are one packed item
    args_i32 sequences;
    args_i32 block[2]; // keys, values; with HADAMARD, as in rope_args; 0: no transform
    args_f32 scale[2];
    args_i32 unused;
} append_args;
ARGS_SIZE(append_args, 320);

// PAST: keys before the cache: `rows`, or the table's word `word` + b. A new row's position counts
// them, its row in the cache does not.
typedef struct append_past_args {
    args_i32 rows, word;
} append_past_args;
ARGS_SIZE(append_past_args, 8);

// shift.cl: RoPE by `delta` positions of keys in a cache. With ARGS_BATCH_ROWS, the table has per
// item its delta and its number of rows to rotate. Rotated columns of blocks wait in local memory.
#define SHIFT_ITEM_WORDS 2
#define SHIFT_MOST_BLOCK_WIDTH 1024
typedef struct shift_args {
    args_view k, k_scale; // [B, Hkv, N, D], [B, Hkv, N]
    args_i32 batch, heads, n, head_dim;
    args_i32 rotary_dim, flags, delta;
    args_i32 block; // with the knob HADAMARD: as in rope_args
    args_f32 scale;
    args_i32 unused;
} shift_args;
ARGS_SIZE(shift_args, 120);

// hadamard.cl: y = x H * scale with scale = 1 / sqrt(block). The limits bound local memory.
#define HADAMARD_MOST_BLOCK 1024
#define HADAMARD_MOST_COLUMNS 1024
typedef struct hadamard_args {
    args_view x, y;                 // [B, H, N, D]
    args_i32 blocks, block, unused; // per row; numbers per block
    args_f32 scale;
} hadamard_args;
ARGS_SIZE(hadamard_args, 96);

// y[b,r,c] = x[b,r,c] + bias[c], converting storage types. The bias is optional (ARGS_BIAS).
typedef struct convert_args {
    args_i64 x_offset, x_batch, x_row, y_offset, y_batch, y_row, bias_offset, scale_offset, scale_row,
        zero_offset;
    args_i64 rows; // per batch item
    args_i32 batch, columns, flags, unused;
} convert_args;
ARGS_SIZE(convert_args, 104);

// Local memory of flash.cl: tiles of Q, of K or V, and of scores. A row has one float of padding,
// so that a column spreads over memory banks. Planner and kernels share this and the next formulas.
#define FLASH_KV_WIDTH(d, dv) ((d) > (dv) ? (d) : (dv))
#define FLASH_LOCAL_FLOATS(tile_q, tile_kv, d, dv)                                                           \
    ((tile_q) * ((d) + 1) + (tile_kv) * (FLASH_KV_WIDTH(d, dv) + 1) + (tile_q) * ((tile_kv) + 1))

// Local memory of flash_tiles.cl: a chunk of Q and K, which is reused for weights and values of
// group_columns keys; partial results of rows; two numbers per row; a flag. Lines are padded.
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
// decode_tiles.cl also has the places of the rows.
#define DECODE_TILES_PLACES_BYTES(micro_rows, group_rows) (8 * (micro_rows) * (group_rows))
// Partial results per row: one with sub-groups, which add them in registers.
#define FLASH_TILES_LINES(group_columns, subgroup) ((subgroup) ? 1 : (group_columns))

// Private memory of a work-item of flash_lanes.cl: Q, output, scores and options; packed K and V.
#define LANES_PRIVATE_BYTES(rows, tile_kv, key_block, d, dv)                                                 \
    (4 * ((rows) * ((d) + (dv) + 3 * (tile_kv)) + (key_block) * (d) + (tile_kv) * (dv)))

// Private memory of a work-item of decode_rows.cl, if values are not a part of the keys. It has
// queries and output of the rows, a tile of scores and options, and a tile of keys and values.
#define ROWS_PRIVATE_BYTES(rows, tile_kv, d, dv)                                                             \
    (4 * ((rows) * ((d) + (dv) + 3 * (tile_kv)) + (tile_kv) * ((d) + (dv) + 64)))

// Values of the knob MATRIX_ENGINE. The knob EMULATED has the values from MATRIX_ENGINE_MMA on.
#define MATRIX_ENGINE_EMULATION 1
#define MATRIX_ENGINE_AMX 2
#define MATRIX_ENGINE_MMA 3     // NVIDIA's mma.sync
#define MATRIX_ENGINE_WGMMA 4   // Hopper's wgmma, shared by four warps
#define FRAGMENT_HIDDEN "//@ "  // prefix of instructions that the host uncovers: program/binary.h
#define MATRIX_ENGINE_WMMA 5    // AMD's WMMA of gfx11
#define MATRIX_ENGINE_WMMA_12 6 // AMD's WMMA of gfx12
#define MATRIX_ENGINE_MFMA 7    // AMD's MFMA
#define MATRIX_ENGINE_DPAS_8 8  // Intel's DPAS with sub-groups of 8
#define MATRIX_ENGINE_DPAS_16 9 // the same with 16

// Values of the knob DOT_I8; OWN and PTX are in dots.clh.
#define DOT_I8_EMULATION 1
#define DOT_I8_VNNI 2
#define DOT_I8_OWN 3
#define DOT_I8_PTX 4

// float32 for the knob TYPE_V, where 0 means "the type of k". No storage type has the number 3.
#define ARGS_TYPE_V_F32 3

// Values of the knob PREFETCH_LEVEL.
#define PREFETCH_NOTHING 1
#define PREFETCH_FIRST_LEVEL 2
#define PREFETCH_SECOND_LEVEL 3

// probe_ask.cl: words of its result, whose last word is the index of the next tile. Then head size,
// query rows, words of a tile of keys or values, and tiles of each kind, which follow the result.
#define PROBE_ASK_RESULT 1024
#define PROBE_ASK_DIM 128
#define PROBE_ASK_ROWS 4
#define PROBE_ASK_WORDS 4096
#define PROBE_ASK_TILES 2048

// decode_groups.cl. LANES: work-items that share a row of K or V, each with eight of its d numbers.
// BLOCK: keys that a work-group reads at once, four for each work-item. CHUNK: keys of a chunk,
// about one for each work-item.
#define DECODE_GROUPS_LANES(d) (((d) + 7) / 8)
#define DECODE_GROUPS_BLOCK(group, d) ((group) / DECODE_GROUPS_LANES(d) * 4)
#define DECODE_GROUPS_CHUNK(group, d)                                                                        \
    (DECODE_GROUPS_BLOCK(group, d) < (group)                                                                 \
         ? (group) / DECODE_GROUPS_BLOCK(group, d) * DECODE_GROUPS_BLOCK(group, d)                           \
         : DECODE_GROUPS_BLOCK(group, d))
// Lanes that add partial sums of a score in registers: a power of two that divides the row's lanes
// and fits the sub-group; 1 without shuffles. The results are added in local memory, with an odd
// pitch.
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
// Local memory: rows of q; weights of a chunk; sixteen partial sums per row; the rows' places.
// Partial scores share their memory with sums of the group and of the output.
#define DECODE_GROUPS_SCRATCH(group, rows, d, subgroup)                                                      \
    (DECODE_GROUPS_PARTIAL(group, rows, d, subgroup) > 8 * (group)                                           \
         ? DECODE_GROUPS_PARTIAL(group, rows, d, subgroup)                                                   \
         : 8 * (group))
#define DECODE_GROUPS_LOCAL_FLOATS(group, rows, d, subgroup)                                                 \
    ((rows) * (8 * DECODE_GROUPS_LANES(d) + DECODE_GROUPS_CHUNK(group, d) + 16 + 5) +                        \
     DECODE_GROUPS_SCRATCH(group, rows, d, subgroup))

// Bits of the knob SUBGROUP_WAYS and of clattn_capabilities.subgroup_ways: how to use sub-groups.
#define SUBGROUPS_KHR 1
#define SUBGROUPS_INTEL 2
#define SUBGROUPS_SHUFFLE_KHR 4
#define SUBGROUPS_SHUFFLE_QCOM 8
#define SUBGROUPS_SIZE_INTEL 16
#define SUBGROUPS_SIZE_QCOM 32
#define SUBGROUP_PROBE_ITEMS 64 // work-items of the probe's group

// Largest private memory of a work-item. Much larger arrays compile, but overflow a stack.
#define PRIVATE_BYTES_MOST (4 << 20)

// Most columns of y per work-item of linear_lanes.cl: its tile of y then stays in the L2 cache.
#define LINEAR_TILE_COLUMNS 576

// y[b,r,n] = sum_k x[b,r,k] w[n,k] + bias[n]. Variants are in linear.clh; all sizes are at least 1.
//   x[b,r,k]  x_offset + b*x_batch + (k / x_head_columns)*x_head + r*x_row + k % x_head_columns
//   w[n,k]    w_offset + n*w_row + k; scales and zero points from scale_offset and zero_offset on:
//             n*scale_row + k / SCALE_GROUP
//   y[b,r,n]  y_offset + b*y_batch + (n / y_head_columns)*y_head + r*y_row + n % y_head_columns
// So splitting columns into heads, and joining them, is free. A plain matrix has x_head_columns =
// reduction and y_head_columns = columns.
typedef struct linear_args {
    args_i64 x_offset, x_batch, x_head, x_row;
    args_i64 w_offset, w_row, bias_offset, scale_offset, scale_row, zero_offset;
    args_i64 y_offset, y_batch, y_head, y_row;
    args_i64 position;           // position of row 0, for RoPE
    args_i64 packed_offset;      // offset of linear_matrix.cl's packed weights, in words
    args_i32 batch, rows;        // B, rows per batch item
    args_i32 columns, reduction; // columns of y; columns of x and w
    args_i32 x_head_columns, y_head_columns;
    args_i32 flags;       // ARGS_BIAS, ARGS_BATCH_ROWS, LINEAR_POSITIONS
    args_i32 rotary_dim;  // columns of a head that RoPE rotates
    args_i32 column_tile; // columns of a work-item of linear_matrix.cl or linear_lanes.cl
    // With RAGGED: sequences, and rows of the cache that y is, or 0.
    args_i32 position_batch, position_row;
    args_f32 amplitude; // YaRN's factor on cos and sin, else 1
} linear_args;
ARGS_SIZE(linear_args, 176);
#define LINEAR_TRANSPOSED_W 1
#define LINEAR_TRANSPOSED_X 2
#define LINEAR_POSITIONS 1 // a bit of `flags`; other bits are ARGS_...

// Packed weights of linear_matrix.cl: columns of y per block, numbers of the reduction per step,
// words before the first tile, and the most rows and columns of y per work-item.
#define LINEAR_MATRIX_COLUMNS 32
#define LINEAR_MATRIX_STEP 32
#define LINEAR_MATRIX_BLOCKS(columns) (((columns) + LINEAR_MATRIX_COLUMNS - 1) / LINEAR_MATRIX_COLUMNS)
#define LINEAR_MATRIX_STEPS(reduction) (((reduction) + LINEAR_MATRIX_STEP - 1) / LINEAR_MATRIX_STEP)
#define LINEAR_MATRIX_HEAD(blocks) ((2 * (blocks) + 15) / 16 * 16)
#define LINEAR_MATRIX_TILE_ROWS 128
#define LINEAR_MATRIX_TILE_COLUMNS 512

// linear_pack.cl: weights as in linear_args; packed_offset is in words.
typedef struct linear_pack_args {
    args_i64 w_offset, w_row, packed_offset;
    args_i32 columns, reduction;
} linear_pack_args;
ARGS_SIZE(linear_pack_args, 32);

// norm.cl: x[b,h,n,d], in place. NORM_SCALES: divide by the root mean square. NORM_WEIGHTS:
// multiply by the weights + `more`. ARGS_BATCH_ROWS: add the table's shift to positions.
#define NORM_SCALES 1
#define NORM_WEIGHTS 2
typedef struct norm_args {
    args_view x;
    args_i64 w_offset;
    args_i64 position; // position of row 0, for RoPE
    args_i32 batch, heads, n, head_dim;
    args_i32 shared; // number of heads of a row with one mean: 1, or all
    args_i32 rotary_dim, flags;
    args_f32 epsilon, more, amplitude; // amplitude: RoPE's factor on cos and sin
} norm_args;
ARGS_SIZE(norm_args, 96);

// gate.cl: x[b,h,n,d] *= sigmoid(gate[b,0,n,c]), c = h, or h * head_dim + d without of_heads.
typedef struct gate_args {
    args_view x, gate;
    args_i32 batch, heads, n, head_dim;
    args_i32 of_heads, unused;
} gate_args;
ARGS_SIZE(gate_args, 104);

// Steps of a transformer block besides attention and projections. Views are [B, N, width].

// row_norm.cl. Flags: ADDS: normalise x + residual; STORES: store this sum; CENTERS: subtract the
// mean; WEIGHS: multiply by weight + more; SHIFTS: add the bias.
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

// activate.cl: out = f(x), times up with `gates`, plus residual with `adds`. `how`:
// clattn_activation.
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

// linear_few_lanes.cl with EPILOGUE: activate.cl's step after a projection.
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

// argmax.cl: out[b,n] = index of the largest element of x[b,n]; counts: lengths[b,n] += 1.
typedef struct argmax_args {
    args_view x, out, lengths;
    args_i32 width, counts;
} argmax_args;
ARGS_SIZE(argmax_args, 128);

// sample.cl: out[b,n] = a random index of x[b,n]. by: 1 / temperature; to_exp2: by * log2(e); top_p
// 1 is off; margin: largest distance below the maximum, from min_p.
typedef struct sample_args {
    args_view x, out;
    args_i32 width, top_k;
    args_f32 by, to_exp2, top_p, margin;
    args_u32 seed[2]; // low and high word
} sample_args;
ARGS_SIZE(sample_args, 112);

// layer_few_lanes.cl: shared by its work-groups in one buffer; counters are 0 between launches.
enum { SMALL_Q, SMALL_K, SMALL_V, SMALL_OUT, SMALL_PROJECTIONS };
typedef struct small_layer {
    linear_args of[SMALL_PROJECTIONS];
    // Parts of the work that were fetched, and that are done; number of groups that have left.
    args_i32 taken, done, left;
    args_i32 tiles; // number of tiles of query rows
} small_layer;
ARGS_SIZE(small_layer, 720);
#endif
