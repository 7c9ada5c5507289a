// select_args.h: the run-time arguments of cl/sparse, like args.h for the other kernels.
#ifndef CLATTN_SELECT_ARGS_H
#define CLATTN_SELECT_ARGS_H
#include "args/args.h"

// The table has SELECT_ITEM_WORDS int32 words per item: its first row in packed tensors, its rows,
// the position of row 0, its keys, and its first key in packed keys.
#define SELECT_ITEM_WORDS 5

// Bits of select_args.flags.
#define SELECT_CAUSAL 1
#define SELECT_BOTTOM_RIGHT 2 // with SELECT_DEVICE_LENGTHS: row 0 is at keys - rows
#define SELECT_DEVICE_LENGTHS 4
#define SELECT_RAGGED 8 // tensors of rows have one batch item
#define SELECT_COUNTS 16
#define SELECT_SCORES 32
#define SELECT_THRESHOLD 64
#define SELECT_PACKED_KEYS 128
#define SELECT_WEIGHTS 256
#define SELECT_LINEAR 512
#define SELECT_MEAN 1024

// A slot of scratch memory has SELECT_HEAD_WORDS words, of which the first counts the candidates,
// then `capacity` scores, then `capacity` entries.
#define SELECT_HEAD_WORDS 4
#define SELECT_SLOT_WORDS(capacity) (2 * (args_i64)(capacity) + SELECT_HEAD_WORDS)
// Most work-items of a group, and local words of a group.
#define SELECT_GROUP 256
#define SELECT_BINS 256
#define SELECT_LOCAL_WORDS (SELECT_BINS + 2)

// A unit is a row of a list head of an item, in the order [B, heads, rows]. A launch has `segments`
// groups for each unit from `unit` on, and a slot for each group.
typedef struct select_args {
    args_view indices, counts, scores; // written: (batch, row, head, place)
    args_view lengths;
    args_i64 unit;
    args_i32 rows, heads, entries; // `entries` limits those of a row
    args_i32 k, sinks, newest, block;
    args_i32 segments, span, capacity; // a segment has `span` entries
    args_i32 flags, minimum;
    args_f32 threshold;
    args_i32 unused;
} select_args;
ARGS_SIZE(select_args, 224);

typedef struct topk_args {
    select_args select;
    args_view scores; // read: (batch, head, row, entry)
} topk_args;
ARGS_SIZE(topk_args, 264);

typedef struct index_args {
    select_args select;
    args_view q, k, k_scale;
    args_view weights; // (batch, row, head)
    args_i64 table_offset, table_batch, table_column;
    args_i32 head_dim, group; // `group` index heads share a list head
    args_i32 page_size, pages;
    args_f32 scale;
    args_i32 unused;
} index_args;
ARGS_SIZE(index_args, 432);
#endif
