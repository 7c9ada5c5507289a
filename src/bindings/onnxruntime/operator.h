// operator.h: the operators: what ONNX Runtime is told of each, its attributes, and who computes it.
#ifndef CLATTN_ONNXRUNTIME_OPERATOR_H
#define CLATTN_ONNXRUNTIME_OPERATOR_H
#include <stdbool.h>

#include "onnxruntime/api.h"

struct call;
struct device;
struct kernel;

// The attributes of all operators, by ONNX's names; each operator reads its own.
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

// What is known of a tensor's sizes before there is a tensor.
enum { MOST_SIZES = 8 };
struct shape {
    int element; // its type; 0: the node leaves it out
    int rank;    // 0: unknown
    int64_t size[MOST_SIZES];
    const char *name[MOST_SIZES]; // of a size of -1, which is unknown; "": it has none
};

struct operation {
    const char *domain, *name;
    int opsets[2]; // of the domain, the first and the last in which it came or changed
    // A letter for each input and output: 1 or 2, the first or second type of the operator; * any; i and l int32 and int64; f float32.
    const char *inputs, *outputs;
    unsigned required; // a bit for each input that no node leaves out; of outputs it is the first
    // What the node asks for that is not done: a line that says what is; NULL: nothing, so far as it shows before there are tensors.
    const char *(*refuses)(const struct kernel *kernel);
    // The shape of its first output, of the first input's type; what is not known stays so.
    void (*infer)(const struct attributes *attributes, const struct shape *inputs, struct shape *output);
    void (*compute)(struct call *call);
};

// An operator for its types on a device: what ONNX Runtime holds.
struct op {
    OrtCustomOp ort; // first, so that one is the other
    const struct operation *is;
    const OrtApi *api;
    struct device *device;
    int types[2];
};

// A node.
struct kernel {
    const struct op *op;
    const OrtApi *api;
    struct attributes attributes;
    unsigned inputs, outputs; // a bit for each that it has
};

// Sizes of shapes: one of them as it is, a multiple of one by `times` over `parts`.
void shape_add(struct shape *to, const struct shape *from, int axis);
void shape_add_part(struct shape *to, const struct shape *from, int axis, int64_t times, int64_t parts);
// What ONNX Runtime asks for an operator's node.
OrtStatus *shapes_infer(const OrtCustomOp *op, OrtShapeInferContext *context);

extern const struct operation operator_attention, operator_rotary_embedding, operator_tensor_scatter,
    operator_multi_head_attention, operator_group_query_attention;

#endif
