// overlap.h: whether two views of the same memory have a byte in common: exactly, not by their ranges alone, because
// parts of one buffer may interleave (packed q, k and v; a log-sum-exp in the padding of the output). Pure arithmetic.
#ifndef CLATTN_ATTENTION_CALL_OVERLAP_H
#define CLATTN_ATTENTION_CALL_OVERLAP_H
#include <clattn/clattn.h>

// The bytes of a view that has elements and passed cla_tensor_check: blocks of `block` bytes, at `start` plus every
// sum of multiples below `count` of the strides. Axes that leave no gap have become part of the block.
typedef struct byte_view {
    uint64_t start, end; // the first byte, one past the last; counted from wherever `base` is
    int64_t block;
    int axes;
    struct byte_axis {
        int64_t stride, count; // in bytes, ascending
    } axis[CLATTN_MAX_RANK];
} byte_view;

byte_view cla_byte_view(const clattn_tensor *t, uint64_t base);

// Found out in at most OVERLAP_STEPS steps, which nested strides never take.
#define OVERLAP_STEPS 4096
typedef enum overlap { OVERLAP_NONE, OVERLAP_SOME, OVERLAP_UNKNOWN } overlap;
overlap cla_overlap(const byte_view *a, const byte_view *b);
#endif
