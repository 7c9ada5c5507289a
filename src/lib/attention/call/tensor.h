// tensor.h: checks of the caller's tensor views, before anything is enqueued. Each error message is
// one line: the view's name, the value found, and the values accepted.
#ifndef CLATTN_ATTENTION_CALL_TENSOR_H
#define CLATTN_ATTENTION_CALL_TENSOR_H
#include "args/args.h"
#include "device/context.h"

// Bit sets of the types of one kind, from types.def.
#define TYPE_BIT(name, word, bytes, numbers) | 1 << CLATTN_TYPE_##name
enum {
    TYPES_FLOAT = 0
#define TYPE_FLOAT TYPE_BIT
#include "tables/types.def"
    ,
    TYPES_SCALED = 0
#define TYPE_SCALED TYPE_BIT
#include "tables/types.def"
    ,
    TYPES_BLOCKS = 0
#define TYPE_BLOCKS TYPE_BIT
#include "tables/types.def"
};
// Types that a tensor may have, as bit sets.
#define TYPES_F32 (1u << CLATTN_TYPE_F32)
#define TYPES_KV (TYPES_FLOAT | TYPES_SCALED | TYPES_BLOCKS)
#define TYPES_WEIGHTS TYPES_KV
#define TYPES_TABLE (TYPES_FLOAT | TYPES_BLOCKS) // embedding tables
#define TYPES_I32 (1u << CLATTN_TYPE_I32)
#define TYPES_BOOL (1u << CLATTN_TYPE_BOOL)
#define ANY_LAST_STRIDE                                                                                      \
    (1u << CLATTN_TYPE_COUNT) // in addition to types; without it the last axis must be contiguous

typedef struct tensor_rule {
    const char *name, *axes; // for messages, such as "k", "[B, Hkv, Nkv, D]"
    unsigned types;          // accepted types, and ANY_LAST_STRIDE
    bool output;             // the call writes it: elements must not overlap
    bool planning;           // the buffer may be NULL
} tensor_rule;

// True if the caller passed this view: it has a rank, a buffer or an address.
bool cla_tensor_given(const clattn_tensor *t);
// Mark each view without a buffer as absent (rank 0). Used for optional tensors of a call that
// needs buffers.
void cla_tensor_drop_absent(clattn_tensor *const views[], int count);
bool cla_tensor_is_empty(const clattn_tensor *t); // some axis has size 0
int64_t cla_tensor_count(const clattn_tensor *t);
// Size of the last axis in numbers. For block types this is elements times numbers per block.
int64_t cla_tensor_width(const clattn_tensor *t);
// Convert a count of numbers to elements. Fails if `numbers` is not a whole number of blocks.
clattn_status cla_tensor_elements(clattn_context *c, const char *name, clattn_type type, int64_t numbers,
                                  int64_t *elements);
// True if both views have the same elements in the same places: the operation is in place.
bool cla_tensor_same_view(const clattn_tensor *a, const clattn_tensor *b);
// Index one past the last element of a checked view, counted from the start of its buffer.
int64_t cla_tensor_end(const clattn_tensor *t);

// The largest power of two up to 16 that divides the start index of every row. For views of rank 4.
int cla_tensor_row_alignment(const clattn_tensor *t);

// Check rank, type, sizes, strides and presence of one view. views.h checks the buffer itself.
clattn_status cla_tensor_check(clattn_context *c, const clattn_tensor *t, int rank, const tensor_rule *rule);

// Check that two views have one type, if both are given.
clattn_status cla_tensor_check_alike(clattn_context *c, const char *name, const clattn_tensor *t,
                                     const char *like, const clattn_tensor *other);

// Check that the view's shape is `shape`; a size of -1 accepts any size.
clattn_status cla_tensor_check_shape(clattn_context *c, const clattn_tensor *t, const int64_t *shape,
                                     const tensor_rule *rule);

// Check a mask or bias of rank 1 to 4. Each size, counted from the right, must be that of `shape`
// [B,H,Nq,Nkv], or 1. `view` receives strides in which a broadcast axis has stride 0.
clattn_status cla_tensor_check_broadcast(clattn_context *c, const clattn_tensor *t, const int64_t shape[4],
                                         const tensor_rule *rule, args_view *view);

// Strides as kernels read them, from a [B, H, N, ...] view. The column stride is 0 for a [B, H, N]
// view.
args_view cla_tensor_view(const clattn_tensor *t);
#endif
