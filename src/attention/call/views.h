// views.h: the memory that one call touches, checked together: that each buffer is a buffer of the context that may be
// read and written as the call does it and holds its views, and that nothing the call writes shares a byte with anything
// else it reads or writes. Each distinct buffer is asked once a call, and nothing is kept, because the driver may give
// the handle of a released buffer to another.
#ifndef CLATTN_ATTENTION_CALL_VIEWS_H
#define CLATTN_ATTENTION_CALL_VIEWS_H
#include "attention/call/overlap.h"
#include "device/context.h"

#define VIEWS_MOST 64

typedef enum view_use { VIEW_READ = 1, VIEW_WRITE = 2, VIEW_BOTH = 3 } view_use;

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
clattn_status cla_views_check(call_views *v);
// Then the caller's workspace, of which the call takes so many bytes; NULL is allowed.
clattn_status cla_views_check_workspace(call_views *v, cl_mem workspace, uint64_t bytes);

// The elements of `size` bytes to which a buffer's first byte is aligned, at most 16: as it lies where its memory is the
// caller's (CL_MEM_USE_HOST_PTR), else all, which OpenCL aligns to 16 floats. NULL: all. Where the driver does not say it, 1,
// and its code.
cl_int cla_buffer_alignment(cl_mem buffer, size_t size, int *elements);
// The same, where a driver that does not say it refuses the call.
clattn_status cla_views_alignment(clattn_context *c, const char *name, cl_mem buffer, size_t size,
                                  int *elements);
#endif
