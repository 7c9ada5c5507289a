// views.h: the tensors of a call as a table, and the memory that one call touches, checked together: that each buffer is a buffer of
// the context that may be read and written as the call does it and holds its views, and that nothing the call writes shares a byte
// with anything else it reads or writes. Each distinct buffer is asked once a call, and nothing is kept, because the driver may give
// the handle of a released buffer to another.
#ifndef CLATTN_ATTENTION_CALL_VIEWS_H
#define CLATTN_ATTENTION_CALL_VIEWS_H
#include "attention/call/overlap.h"
#include "device/context.h"

#define VIEWS_MOST 64

typedef enum view_use { VIEW_READ = 1, VIEW_WRITE = 2, VIEW_BOTH = 3, VIEW_CACHE = 5 } view_use;

// The tensors of an attention call, a row each of "tables/views.def", which says what the columns mean.
typedef struct view_rule {
    const char *name;
    size_t field; // in clattn_attention_params
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
char cla_view_axis(const view_rule *rule, const clattn_tensor *t, int axis); // the letter of its axes

// The views of a call's own copy of what the caller gave: addresses are taken (device/pointer.h), and where buffers are needed,
// optional views without one are absent, whatever else they say.
typedef struct given_views {
    const clattn_context *context;
    bool planning; // views need no buffers
    bool inner;    // part of another call, which has taken some, and makes new rows that have no buffer yet
    bool sizes;    // keys are there by their axes: their buffers are not looked at
} given_views;

void cla_given_views(const given_views *g, bool optional, clattn_tensor *const views[], int count);
#define CLA_GIVEN(g, optional, ...)                                                                          \
    cla_given_views(g, optional, (clattn_tensor *const[]){__VA_ARGS__},                                      \
                    (int)(sizeof((clattn_tensor *const[]){__VA_ARGS__}) / sizeof(clattn_tensor *)))

void cla_given_attention(const given_views *g, clattn_attention_params *p);
// Parts of one that other parameters have, too.
void cla_given_kv(const given_views *g, clattn_kv *kv);
void cla_given_score(const given_views *g, clattn_score *s);
void cla_given_rope(const given_views *g, clattn_rope *r);

// Where a buffer's bytes really are: sub-buffers of one parent, and buffers on one host pointer, share a `space`.
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
    view_memory memory[VIEWS_MOST + 1]; // the last is the workspace's
} call_views;

void cla_views_begin(call_views *v, clattn_context *context);
// Views without a buffer are passed over: absent ones, those that are only planned, parts of a workspace to come. The
// others have passed cla_tensor_check.
void cla_views_add(call_views *v, const char *name, const clattn_tensor *t, view_use use);
// Those of a checked attention call; of them what hides keys beside their positions: the boolean mask, and what expressions read.
void cla_views_add_attention(call_views *v, const clattn_attention_params *p);
void cla_views_add_masks(call_views *v, const clattn_attention_params *p);
clattn_status cla_views_check(call_views *v);
// Then the caller's workspace, of which the call takes so many bytes; NULL is allowed.
// One that is too small becomes NULL, and the call borrows from its context, where the driver refused a kernel since it was made.
clattn_status cla_views_check_workspace(call_views *v, cl_mem *workspace, uint64_t bytes);

// The elements of `size` bytes to which a buffer's first byte is aligned, at most 16: as it lies where its memory is the
// caller's (CL_MEM_USE_HOST_PTR), else all, which OpenCL aligns to 16 floats. NULL: all. Where the driver does not say it, 1,
// and its code.
cl_int cla_buffer_alignment(cl_mem buffer, size_t size, int *elements);
// The same, where a driver that does not say it refuses the call.
clattn_status cla_views_alignment(clattn_context *c, const char *name, cl_mem buffer, size_t size,
                                  int *elements);
#endif
