// node.h: what a node says, asked of the kernel that is made of it, or of the graph that it stands in.
#ifndef CLATTN_ONNXRUNTIME_NODE_H
#define CLATTN_ONNXRUNTIME_NODE_H
#include "onnxruntime/operator.h"

struct library;

struct node {
    const OrtApi *api;
    const OrtKernelInfo *info; // one of three
    const OrtNode *node;
    const OrtShapeInferContext *inferred;
};

void node_attributes(const struct node *node, struct attributes *attributes);
// Its attributes, and which inputs and outputs it has.
void node_read(const struct node *node, struct kernel *kernel);
// The library's operator for a node of a graph; NULL: there is none of its name and types.
const struct op *node_op(const struct node *node, const struct library *library);
// A kernel, or why it is refused. It is freed with free().
OrtStatus *node_kernel(const struct op *op, const struct node *node, struct kernel **kernel);

#endif
