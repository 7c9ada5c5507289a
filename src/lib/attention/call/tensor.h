// tensor.h: checking the caller's views, before anything is enqueued. Each failure is one line that names the
// view, what was seen and what would be accepted.
#ifndef CLATTN_ATTENTION_CALL_TENSOR_H
#define CLATTN_ATTENTION_CALL_TENSOR_H
#include "args/args.h"
#include "device/context.h"

// A bit for each type of a kind.
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
// A type of k and v that has to be quantised; of a number that is no type, false.
#define TYPES_F32 (1u << CLATTN_TYPE_F32)
#define TYPES_KV (TYPES_FLOAT | TYPES_SCALED | TYPES_BLOCKS)
#define TYPES_WEIGHTS TYPES_KV
#define TYPES_TABLE (TYPES_FLOAT | TYPES_BLOCKS) // of embeddings
#define TYPES_I32 (1u << CLATTN_TYPE_I32)
#define TYPES_BOOL (1u << CLATTN_TYPE_BOOL)
#define ANY_LAST_STRIDE                                                                                      \
    (1u << CLATTN_TYPE_COUNT) // beside types: else the last axis must be contiguous, as tensor.h says

typedef struct tensor_rule {
    const char *name, *axes; // such as "k", "[B, Hkv, Nkv, D]"
    unsigned types;          // TYPES_..., ANY_LAST_STRIDE
    bool output;             // elements must not overlap
    bool planning;           // a NULL buffer is fine
} tensor_rule;

// A view counts as given when it has a rank, a buffer or an address.
bool cla_tensor_given(const clattn_tensor *t);
// Where buffers are needed, a view without one is absent, whatever its rank: so it counts as not given.
void cla_tensor_drop_absent(clattn_tensor *const views[], int count);
bool cla_tensor_is_empty(const clattn_tensor *t); // an axis has no elements
int64_t cla_tensor_count(const clattn_tensor *t);
// Numbers in its last axis, of which an element may be a block.
int64_t cla_tensor_width(const clattn_tensor *t);
// Elements that so many numbers are: refused where they are no whole blocks.
clattn_status cla_tensor_elements(clattn_context *c, const char *name, clattn_type type, int64_t numbers,
                                  int64_t *elements);
// The same elements in the same places: an output in place of an input.
bool cla_tensor_same_view(const clattn_tensor *a, const clattn_tensor *b);
// One past the last element of a checked view, in elements from the start of its buffer.
int64_t cla_tensor_end(const clattn_tensor *t);

// The largest power of two, at most 16, that divides where the rows of a view of rank 4 begin, in elements.
int cla_tensor_row_alignment(const clattn_tensor *t);

// Check everything about a view that does not depend on other views or on its buffer (views.h); its rank must be `rank`.
clattn_status cla_tensor_check(clattn_context *c, const clattn_tensor *t, int rank, const tensor_rule *rule);

// Check that the shape is `shape`; sizes of -1 are free.
clattn_status cla_tensor_check_shape(clattn_context *c, const clattn_tensor *t, const int64_t *shape,
                                     const tensor_rule *rule);

// A mask or bias: rank 1 to 4, each size that of `shape` [B,H,Nq,Nkv] from the right, or 1. Gives the view
// with a stride of 0 where it repeats.
clattn_status cla_tensor_check_broadcast(clattn_context *c, const clattn_tensor *t, const int64_t shape[4],
                                         const tensor_rule *rule, args_view *view);

// The strides of a [B, H, N, ...] view; a [B, H, N] view has column 0.
args_view cla_tensor_view(const clattn_tensor *t);
#endif
