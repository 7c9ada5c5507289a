// call.h: one call of an operator: the node's tensors, memory of the device over them, and the first thing that went wrong, after
// which nothing more is done. Leaves out what the operators compute.
#ifndef CLATTN_ONNXRUNTIME_CALL_H
#define CLATTN_ONNXRUNTIME_CALL_H
#include "onnxruntime/device.h"
#include "onnxruntime/operator.h"

enum { MOST_AXES = 8, MOST_HELD = 32 };

// A tensor of the node, which lies dense in host memory.
struct array {
    void *data;       // NULL: the node has none there
    int element;      // ORT_TYPE_...
    clattn_type type; // of element; CLATTN_TYPE_COUNT: clattn has none such
    int rank;
    int64_t shape[MOST_AXES];
    int64_t count;
    size_t bytes;
};

struct held {
    cl_mem buffer; // of the device
    void *to;      // host memory that receives what the buffer holds in the end
    void *memory;  // or host memory that the call has taken
    size_t bytes;
    bool shared; // buffer is that host memory itself
};

struct call {
    const struct kernel *kernel;
    struct device *device;
    OrtKernelContext *context;
    cl_command_queue queue;
    OrtStatus *status; // the first failure; NULL: none so far
    size_t inputs, outputs;
    struct held held[MOST_HELD];
    int count;
};

// Whether the call goes on.
bool call_good(const struct call *call);
// Fails it with a line, as printf; INVALID_ARGUMENT of ONNX Runtime's.
void call_refuse(struct call *call, const char *format, ...);
// Fails it where the status is not OK, with the library's line.
void call_check(struct call *call, clattn_status status);

// An input of the node; its data is NULL where there is none, or where the call has failed.
struct array call_input(struct call *call, size_t index);
// An output, made with these sizes; its data is NULL where nobody wants it, or it has no elements, and nothing is to be computed.
struct array call_output(struct call *call, size_t index, int rank, const int64_t *shape);

// Memory of the device with what the host's holds: to be read; or to be written, and read back into it before call_node ends, where
// `filled` says that it has numbers before. NULL: there are no bytes, or it fails.
cl_mem call_reads(struct call *call, const void *data, size_t bytes);
cl_mem call_writes(struct call *call, void *data, size_t bytes, bool filled);
// Memory of the device alone, for what one step hands to the next.
cl_mem call_scratch(struct call *call, size_t bytes);
// Host memory until call_node ends.
void *call_memory(struct call *call, size_t bytes);

// The same for the shape of an input: its shape is appended to the line.
void call_refuse_shape(struct call *call, const struct array *array, const char *format, ...);

// Sizes of an axis that call_axes accepts: any; 1, which repeats, or n.
#define ANY_SIZE (-1)
#define ONE_OR(n) (-2 - (int64_t)(n))
// Whether an input has these axes; refuses another by `name`, with its shape and the accepted one. `axes` are the specification's letters,
// such as "[B, N, R / 2]". An input without data passes.
bool call_axes(struct call *call, const struct array *array, const char *name, const char *axes, int rank,
               const int64_t *sizes);
// Whether the rows of an input [B, N, heads * D] are a whole number of heads; refuses others.
bool call_heads(struct call *call, const struct array *array, int64_t heads, const char *name);

// The numbers of an array of int32 or int64, of which there must be `count`, as int32. Refuses those that do not fit, by `name`.
int32_t *call_integers(struct call *call, const struct array *array, int64_t count, const char *name);
// The same of numbers of keys: [batch], each 0 to `most`.
int32_t *call_lengths(struct call *call, const struct array *array, int64_t batch, int64_t most,
                      const char *name);
// A view of position_ids, [batch, count], each of which must be one of `rows` of the tables of cosines and sines.
clattn_tensor call_positions(struct call *call, const struct array *ids, int64_t batch, int64_t count,
                             int64_t rows);

// A view [B, H, N, D] of an input that is one, or [B, N, H * D] of `heads` heads. Refuses others, by `name`.
clattn_tensor call_rows(struct call *call, const struct array *array, int64_t heads, const char *name);
// A view of all its axes, of which there are at most four.
clattn_tensor call_view(struct call *call, const struct array *array);

// Computes a node: from any number of threads at once, also of one kernel.
OrtStatus *call_node(const struct kernel *kernel, OrtKernelContext *context);

#endif
