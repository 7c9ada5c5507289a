// node.h: reads a node's attributes, from its kernel, from its graph, or during shape inference.
#ifndef CLATTN_ONNXRUNTIME_NODE_H
#define CLATTN_ONNXRUNTIME_NODE_H
#include "onnxruntime/operator.h"

struct library;

struct node {
    const OrtApi *api;
    const OrtKernelInfo *info; // one of `info`, `node` and `inferred` is set
    const OrtNode *node;
    const OrtShapeInferContext *inferred;
};

void node_attributes(const struct node *node, struct attributes *attributes);
// Read its attributes, and which inputs and outputs it has.
void node_read(const struct node *node, struct kernel *kernel);
// The library's operator for a graph's node; NULL: none has its name and types.
const struct op *node_op(const struct node *node, const struct library *library);
// Create a kernel, or return why the node is refused. Free it with free().
OrtStatus *node_kernel(const struct op *op, const struct node *node, struct kernel **kernel);

#endif
