// views.h: the tensors of an attention call as a table, and checks of the memory that one call
// touches. Each buffer must belong to the context, permit the call's access, and contain its views.
// Nothing that the call writes may overlap anything else it reads or writes. Each distinct buffer
// is queried once per call. Results are not cached, because a driver may reuse the handle of a
// released buffer.
#ifndef CLATTN_ATTENTION_CALL_VIEWS_H
#define CLATTN_ATTENTION_CALL_VIEWS_H
#include "attention/call/overlap.h"
#include "device/context.h"

#define VIEWS_MOST 64

typedef enum view_use { VIEW_READ = 1, VIEW_WRITE = 2, VIEW_BOTH = 3, VIEW_CACHE = 5 } view_use;

// One row of "tables/views.def", which documents the columns.
typedef struct view_rule {
    const char *name;
    size_t field; // offset in clattn_attention_params
    const char *axes;
    view_use use;
    enum { GIVEN_ALWAYS, GIVEN_OPTIONAL, GIVEN_EMPTY, GIVEN_PART } given;
    enum { MASK_NOTHING, MASK_SIZES, MASK_HIDES, MASK_SAYS } mask;
} view_rule;
enum {
#define VIEW(field, name, axes, use, given, mask) +1
    VIEW_RULES = 0
#include "tables/views.def"
};
extern const view_rule cla_view_rules[VIEW_RULES];
clattn_tensor *cla_view_of(clattn_attention_params *p, size_t field);
// The letter of an axis, as in the column `axes` of views.def.
char cla_view_axis(const view_rule *rule, const clattn_tensor *t, int axis);

// How to read the views in a call's own copy of the parameters. Addresses become buffers
// (device/pointer.h). Optional views without a buffer become absent, unless `planning`.
typedef struct given_views {
    const clattn_context *context;
    bool planning; // views need no buffers
    // The call is part of another call, which has already converted some addresses. New rows of
    // keys may have no buffer yet.
    bool inner;
    bool sizes; // only the axes of key tensors matter; buffers are ignored
} given_views;

void cla_given_views(const given_views *g, bool optional, clattn_tensor *const views[], int count);
#define CLA_GIVEN(g, optional, ...)                                                                          \
    cla_given_views(g, optional, (clattn_tensor *const[]){__VA_ARGS__},                                      \
                    (int)(sizeof((clattn_tensor *const[]){__VA_ARGS__}) / sizeof(clattn_tensor *)))

void cla_given_attention(const given_views *g, clattn_attention_params *p);
// Parameter structs that other calls share.
void cla_given_kv(const given_views *g, clattn_kv *kv);
void cla_given_score(const given_views *g, clattn_score *s);
void cla_given_rope(const given_views *g, clattn_rope *r);

// The memory behind a buffer. Sub-buffers of one parent have the same `space`, and so do buffers
// over host memory.
typedef struct view_memory {
    cl_mem buffer;
    cl_mem space; // NULL: host memory, and `start` is an address
    uint64_t start, bytes;
    cl_mem_flags access;
} view_memory;

typedef struct call_view {
    const char *name;
    const clattn_tensor *tensor;
    view_use use;
    const view_memory *memory;
    byte_view bytes;
} call_view;

typedef struct call_views {
    clattn_context *context;
    int count, memories;
    call_view view[VIEWS_MOST];
    view_memory memory[VIEWS_MOST + 1]; // the last element is for the workspace
} call_views;

void cla_views_begin(call_views *v, clattn_context *context);
// Add a view that has passed cla_tensor_check. Views without a buffer or without elements are
// skipped.
void cla_views_add(call_views *v, const char *name, const clattn_tensor *t, view_use use);
// Add the views of a checked attention call. cla_views_add_masks adds only the views that hide
// keys: the boolean mask and mod_buffers.
void cla_views_add_attention(call_views *v, const clattn_attention_params *p);
void cla_views_add_masks(call_views *v, const clattn_attention_params *p);
clattn_status cla_views_check(call_views *v);
// Check the caller's workspace, which needs `bytes` bytes. A NULL workspace is accepted. If it is
// too small because the driver rejected a kernel after planning, *workspace becomes NULL, and the
// call borrows memory from its context instead.
clattn_status cla_views_check_workspace(call_views *v, cl_mem *workspace, uint64_t bytes);

// Set *elements to the alignment of a buffer's first byte: a power of two up to 16, in elements of
// `size` bytes. Only CL_MEM_USE_HOST_PTR memory and raw addresses can have less than 16. If the
// driver does not return the host pointer, *elements is 1, and the result is the driver's error
// code.
cl_int cla_buffer_alignment(cl_mem buffer, size_t size, int *elements);
// As cla_buffer_alignment, but a driver error fails the call.
clattn_status cla_views_alignment(clattn_context *c, const char *name, cl_mem buffer, size_t size,
                                  int *elements);
#endif
