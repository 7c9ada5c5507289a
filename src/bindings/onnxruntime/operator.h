// operator.h: the operators: their description for ONNX Runtime, their attributes, and their
// functions.
#ifndef CLATTN_ONNXRUNTIME_OPERATOR_H
#define CLATTN_ONNXRUNTIME_OPERATOR_H
#include <stdbool.h>

#include "onnxruntime/api.h"

struct call;
struct device;
struct kernel;

// Attributes of all operators, with ONNX's names. Each operator reads its own.
struct attributes {
    int64_t q_num_heads, kv_num_heads, num_heads;
    int64_t is_causal, unidirectional;
    int64_t left_window_size, right_window_size, local_window_size;
    int64_t qk_matmul_output_mode, softmax_precision, qk_output;
    int64_t interleaved, rotary_embedding_dim, do_rotary, rotary_interleaved;
    int64_t axis, smooth_softmax;
    float scale, softcap, mask_filter_value;
    bool scale_given;
    char mode[16], k_quant_type[16], v_quant_type[16];
};

// A shape that may be partly unknown, before a tensor exists.
enum { MOST_SIZES = 8 };
struct shape {
    int element; // element type; 0: the node leaves out the tensor
    int rank;    // 0: unknown
    int64_t size[MOST_SIZES];
    const char *name[MOST_SIZES]; // names of unknown sizes, which are -1; "": no name
};

struct operation {
    const char *domain, *name;
    int opsets[2]; // first and last opset of the domain that defines this version
    // A letter for each input and output: 1 or 2, the operator's first or second type; *, any type;
    // i, int32; l, int64; f, float32.
    const char *inputs, *outputs;
    unsigned required; // a bit for each required input; of the outputs, only the first is required
    // Why the node is refused, as far as its attributes show; NULL: it is not.
    const char *(*refuses)(const struct kernel *kernel);
    // Infer the shape of the first output. Unknown sizes stay unknown. Its type is that of the
    // first input.
    void (*infer)(const struct attributes *attributes, const struct shape *inputs, struct shape *output);
    void (*compute)(struct call *call);
};

// An operator for certain types on a device, as ONNX Runtime holds it.
struct op {
    OrtCustomOp ort; // first, so that pointers can be converted
    const struct operation *is;
    const OrtApi *api;
    struct device *device;
    int types[2];
};

// A node of a session.
struct kernel {
    const struct op *op;
    const OrtApi *api;
    struct attributes attributes;
    unsigned inputs, outputs; // a bit for each that the node has
};

// Append an axis's size to a shape: as it is, or multiplied by `times` and divided by `parts`.
void shape_add(struct shape *to, const struct shape *from, int axis);
void shape_add_part(struct shape *to, const struct shape *from, int axis, int64_t times, int64_t parts);
// OrtCustomOp's InferOutputShapeFn for all operators.
OrtStatus *shapes_infer(const OrtCustomOp *op, OrtShapeInferContext *context);

extern const struct operation operator_attention, operator_rotary_embedding, operator_tensor_scatter,
    operator_multi_head_attention, operator_group_query_attention;

#endif
