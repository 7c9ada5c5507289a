// shapes.c: infers the shape of an operator's first output. ONNX Runtime calls it when it creates a
// session with custom operators. The rules of each operator are in its `infer`.
#include <stdatomic.h>
#include <stdio.h>

#include "onnxruntime/node.h"

enum { INPUTS = 16, NAME = 24 };

void shape_add(struct shape *to, const struct shape *from, int axis) {
    to->size[to->rank] = from->size[axis];
    to->name[to->rank++] = from->name[axis];
}

void shape_add_part(struct shape *to, const struct shape *from, int axis, int64_t times, int64_t parts) {
    const int64_t size = from->size[axis];
    const bool known = size >= 0 && parts > 0 && times > 0 && size <= INT64_MAX / times;
    to->size[to->rank] = known ? size * times / parts : -1;
    to->name[to->rank++] = times == parts ? from->name[axis] : "";
}

// The shape of an input; unknown if the input is absent.
static struct shape shape_of(const OrtApi *api, const OrtShapeInferContext *context, size_t index) {
    OrtTensorTypeAndShapeInfo *info = NULL; // owned by the context
    struct shape shape = {0};
    size_t rank = 0;
    OrtStatus *status = api->ShapeInferContext_GetInputTypeShape(context, index, &info);
    if (status == NULL) status = api->GetTensorElementType(info, &shape.element);
    if (status == NULL) status = api->GetDimensionsCount(info, &rank);
    if (status == NULL && rank <= MOST_SIZES) status = api->GetDimensions(info, shape.size, rank);
    if (status == NULL && rank <= MOST_SIZES) status = api->GetSymbolicDimensions(info, shape.name, rank);
    if (status)
        api->ReleaseStatus(status);
    else if (rank <= MOST_SIZES)
        shape.rank = (int)rank;
    return shape;
}

// Name sizes that are unknown and have no name. Otherwise ONNX Runtime would read the size as the
// number -1.
static void name_rest(struct shape *shape, char names[MOST_SIZES][NAME]) {
    static _Atomic unsigned count;
    for (int axis = 0; axis < shape->rank; axis++) {
        const char *name = shape->name[axis];
        if (shape->size[axis] >= 0) {
            shape->name[axis] = "";
        } else if (name == NULL || name[0] == '\0') {
            snprintf(names[axis], NAME, "clattn_%u", atomic_fetch_add(&count, 1));
            shape->name[axis] = names[axis];
        }
    }
}

OrtStatus *shapes_infer(const OrtCustomOp *custom, OrtShapeInferContext *context) {
    const struct op *op = (const struct op *)custom;
    const OrtApi *api = op->api;
    struct shape inputs[INPUTS] = {{0}}, output = {0};
    char names[MOST_SIZES][NAME];
    struct attributes attributes = {0};
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t count = 0;
    OrtStatus *status = api->ShapeInferContext_GetInputCount(context, &count);
    for (size_t n = 0; status == NULL && n < count && n < INPUTS; n++) inputs[n] = shape_of(api, context, n);
    if (status) return status;
    node_attributes(&(struct node){.api = api, .inferred = context}, &attributes);
    op->is->infer(&attributes, inputs, &output);
    if (output.rank == 0) return NULL;
    name_rest(&output, names);
    status = api->CreateTensorTypeAndShapeInfo(&info);
    if (status == NULL) status = api->SetTensorElementType(info, inputs[0].element);
    if (status == NULL) status = api->SetDimensions(info, output.size, (size_t)output.rank);
    if (status == NULL) status = api->SetSymbolicDimensions(info, output.name, (size_t)output.rank);
    if (status == NULL) status = api->ShapeInferContext_SetOutputTypeShape(context, 0, info);
    if (info) api->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}
