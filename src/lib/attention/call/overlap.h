// overlap.h: decide whether two views of the same memory share a byte. The test is exact: comparing
// address ranges is not enough, because views of one buffer may interleave (packed q, k and v; a
// log-sum-exp in the padding of the output).
#ifndef CLATTN_ATTENTION_CALL_OVERLAP_H
#define CLATTN_ATTENTION_CALL_OVERLAP_H
#include <clattn/clattn.h>

// The bytes of a non-empty view that passed cla_tensor_check. It consists of blocks of `block`
// bytes, at `start` plus every combination of the axes' strides. Axes without gaps are merged into
// the block.
typedef struct byte_view {
    uint64_t start, end; // first byte and one past the last, counted from `base`
    int64_t block;
    int axes;
    struct byte_axis {
        int64_t stride, count; // stride in bytes, ascending; number of steps
    } axis[CLATTN_MAX_RANK];
} byte_view;

byte_view cla_byte_view(const clattn_tensor *t, uint64_t base);

// The search stops after OVERLAP_STEPS steps with OVERLAP_UNKNOWN. Views with nested strides need
// fewer.
#define OVERLAP_STEPS 4096
typedef enum overlap { OVERLAP_NONE, OVERLAP_SOME, OVERLAP_UNKNOWN } overlap;
overlap cla_overlap(const byte_view *a, const byte_view *b);
#endif
