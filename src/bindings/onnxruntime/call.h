// call.h: one call of an operator: the node's tensors, device memory for them, and the first error.
// After an error nothing more is computed.
#ifndef CLATTN_ONNXRUNTIME_CALL_H
#define CLATTN_ONNXRUNTIME_CALL_H
#include "onnxruntime/device.h"
#include "onnxruntime/operator.h"

enum { MOST_AXES = 8, MOST_HELD = 32 };

// A tensor of the node, dense in host memory.
struct array {
    void *data;       // NULL: the node does not have this input or output
    int element;      // ORT_TYPE_...
    clattn_type type; // storage type for `element`; CLATTN_TYPE_COUNT: clattn has no such type
    int rank;
    int64_t shape[MOST_AXES];
    int64_t count;
    size_t bytes;
};

struct held {
    cl_mem buffer; // a device buffer
    void *to;      // host memory to which its content is copied at the end
    void *memory;  // or host memory that the call allocated
    size_t bytes;
    bool shared; // buffer is that host memory itself
};

struct call {
    const struct kernel *kernel;
    struct device *device;
    OrtKernelContext *context;
    cl_command_queue queue;
    OrtStatus *status; // the first error; NULL: none
    size_t inputs, outputs;
    struct held held[MOST_HELD];
    int count;
};

// True if the call has no error so far.
bool call_good(const struct call *call);
// Fail the call with a message, formatted as by printf, and ONNX Runtime's INVALID_ARGUMENT.
void call_refuse(struct call *call, const char *format, ...);
// Fail the call if `status` is not OK, with the library's message.
void call_check(struct call *call, clattn_status status);

// An input of the node. Its data is NULL if the node leaves it out or the call has failed.
struct array call_input(struct call *call, size_t index);
// Create an output of this shape. Its data is NULL if the node leaves it out, or it has no
// elements.
struct array call_output(struct call *call, size_t index, int rank, const int64_t *shape);

// Device memory for host data that the device reads or writes. Written data is copied back before
// call_node ends. `filled`: the device also reads the old content. NULL: there are no bytes, or the
// call fails.
cl_mem call_reads(struct call *call, const void *data, size_t bytes);
cl_mem call_writes(struct call *call, void *data, size_t bytes, bool filled);
// Device memory without a host counterpart, for data between two steps.
cl_mem call_scratch(struct call *call, size_t bytes);
// Host memory until call_node ends.
void *call_memory(struct call *call, size_t bytes);

// Like call_refuse, for the shape of an input, which is appended to the message.
void call_refuse_shape(struct call *call, const struct array *array, const char *format, ...);

// Sizes of an axis that call_axes accepts: any size, or 1 (which repeats) or n.
#define ANY_SIZE (-1)
#define ONE_OR(n) (-2 - (int64_t)(n))
// Check that an input has these sizes. Otherwise the call fails with `name`, the input's shape and
// the accepted one. `axes` are the specification's letters, such as "[B, N, R / 2]". An input
// without data is accepted.
bool call_axes(struct call *call, const struct array *array, const char *name, const char *axes, int rank,
               const int64_t *sizes);
// Check that the rows of an input [B, N, heads * D] are a whole number of heads.
bool call_heads(struct call *call, const struct array *array, int64_t heads, const char *name);

// The numbers of an int32 or int64 array as int32. There must be `count` of them, and all must fit.
// `name` is for errors.
int32_t *call_integers(struct call *call, const struct array *array, int64_t count, const char *name);
// As call_integers, for numbers of keys: [batch], each 0 to `most`.
int32_t *call_lengths(struct call *call, const struct array *array, int64_t batch, int64_t most,
                      const char *name);
// A view of position_ids [batch, count]. Each must be one of the `rows` rows of the tables of
// cosines and sines.
clattn_tensor call_positions(struct call *call, const struct array *ids, int64_t batch, int64_t count,
                             int64_t rows);

// View an input [B, H, N, D], or [B, N, H * D] of `heads` heads, as [B, H, N, D]. Other shapes
// fail, with `name`.
clattn_tensor call_rows(struct call *call, const struct array *array, int64_t heads, const char *name);
// A view of a tensor with at most four axes.
clattn_tensor call_view(struct call *call, const struct array *array);

// Compute a node. Several threads may do so at once, even for one kernel.
OrtStatus *call_node(const struct kernel *kernel, OrtKernelContext *context);

#endif
