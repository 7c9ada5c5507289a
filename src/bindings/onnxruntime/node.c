// node.c: see node.h.
#include "onnxruntime/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/device.h"
#include "onnxruntime/library.h"

static const struct {
    const char *name;
    size_t offset;
    int64_t missing; // default value
} numbers[] = {
#define NUMBER(name, missing)                                                                                \
    { #name, offsetof(struct attributes, name), missing }
    NUMBER(q_num_heads, 0),
    NUMBER(kv_num_heads, 0),
    NUMBER(num_heads, 0),
    NUMBER(is_causal, 0),
    NUMBER(unidirectional, 0),
    NUMBER(left_window_size, -1),
    NUMBER(right_window_size, -1),
    NUMBER(local_window_size, -1),
    NUMBER(qk_matmul_output_mode, 0),
    NUMBER(softmax_precision, 1),
    NUMBER(qk_output, 0),
    NUMBER(interleaved, 0),
    NUMBER(do_rotary, 0),
    NUMBER(rotary_embedding_dim, 0),
    NUMBER(rotary_interleaved, 0),
    NUMBER(axis, -2),
    NUMBER(smooth_softmax, 0),
#undef NUMBER
};

// True if the attribute exists. An error of ONNX Runtime means that it does not.
static bool said(const OrtApi *api, OrtStatus *status) {
    if (status) api->ReleaseStatus(status);
    return status == NULL;
}

// Read an attribute of a graph's node, or of a node whose shapes are inferred. *bytes: its size.
static bool graph_attribute(const struct node *node, const char *name, int type, void *value, size_t most,
                            size_t *bytes) {
    const OrtOpAttr *attribute = NULL;
    OrtStatus *status = node->inferred
                            ? node->api->ShapeInferContext_GetAttribute(node->inferred, name, &attribute)
                            : node->api->Node_GetAttributeByName(node->node, name, &attribute);
    return said(node->api, status) && attribute &&
           said(node->api, node->api->ReadOpAttr(attribute, type, value, most, bytes));
}

static bool whole(const struct node *node, const char *name, int64_t *value) {
    size_t bytes = 0;
    if (node->info) return said(node->api, node->api->KernelInfoGetAttribute_int64(node->info, name, value));
    return graph_attribute(node, name, ORT_ATTRIBUTE_INT, value, sizeof *value, &bytes);
}

static bool real(const struct node *node, const char *name, float *value) {
    size_t bytes = 0;
    if (node->info) return said(node->api, node->api->KernelInfoGetAttribute_float(node->info, name, value));
    return graph_attribute(node, name, ORT_ATTRIBUTE_FLOAT, value, sizeof *value, &bytes);
}

// Read a text of up to 15 bytes. All known texts fit. A longer text is unknown, so it is replaced
// by some other unknown text.
static void text(const struct node *node, const char *name, char value[16]) {
    size_t size = 16, bytes = 0;
    const bool read =
        node->info ? said(node->api, node->api->KernelInfoGetAttribute_string(node->info, name, value, &size))
                   : graph_attribute(node, name, ORT_ATTRIBUTE_STRING, value, 15, &bytes);
    if (!node->info) size = bytes;
    if (!read)
        snprintf(value, 16, "%s", size > 16 ? "(longer)" : "");
    else if (!node->info)
        value[bytes < 15 ? bytes : 15] = '\0';
}

typedef OrtStatus *count_of(const OrtKernelInfo *info, size_t *count);
typedef OrtStatus *name_of(const OrtKernelInfo *info, size_t index, char *text, size_t *size);

// One bit for each named input or output of a kernel.
static unsigned named(const struct node *node, count_of *counts, name_of *names) {
    unsigned bits = 0;
    size_t count = 0, size = 0;
    if (!said(node->api, counts(node->info, &count))) return 0;
    for (size_t n = 0; n < count && n < 32; n++)
        if (said(node->api, names(node->info, n, NULL, &size)) && size > 1)
            // `size` includes the terminating 0.
            bits |= 1u << n;
    return bits;
}

typedef OrtStatus *values_count(const OrtNode *node, size_t *count);
typedef OrtStatus *values_of(const OrtNode *node, const OrtValueInfo **values, size_t count);

// One bit for each input or output of a graph's node.
static unsigned valued(const struct node *node, values_count *counts, values_of *all) {
    const OrtValueInfo *values[32] = {NULL};
    unsigned bits = 0;
    size_t count = 0;
    if (!said(node->api, counts(node->node, &count)) || count > 32 ||
        !said(node->api, all(node->node, values, count)))
        return 0;
    for (size_t n = 0; n < count; n++) bits |= values[n] ? 1u << n : 0;
    return bits;
}

void node_attributes(const struct node *node, struct attributes *to) {
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
        int64_t value = 0;
        if (!whole(node, numbers[n].name, &value)) value = numbers[n].missing;
        memcpy((char *)to + numbers[n].offset, &value, sizeof value);
    }
    to->scale_given = real(node, "scale", &to->scale);
    if (!to->scale_given) to->scale = 0;
    if (!real(node, "softcap", &to->softcap)) to->softcap = 0;
    if (!real(node, "mask_filter_value", &to->mask_filter_value)) to->mask_filter_value = -10000;
    text(node, "mode", to->mode);
    text(node, "k_quant_type", to->k_quant_type);
    text(node, "v_quant_type", to->v_quant_type);
}

void node_read(const struct node *node, struct kernel *kernel) {
    const OrtApi *api = node->api;
    node_attributes(node, &kernel->attributes);
    kernel->inputs = node->info ? named(node, api->KernelInfo_GetInputCount, api->KernelInfo_GetInputName)
                                : valued(node, api->Node_GetNumInputs, api->Node_GetInputs);
    kernel->outputs = node->info ? named(node, api->KernelInfo_GetOutputCount, api->KernelInfo_GetOutputName)
                                 : valued(node, api->Node_GetNumOutputs, api->Node_GetOutputs);
}

// The type of a tensor's elements; 0: unknown.
static int type_of(const OrtApi *api, const OrtValueInfo *value) {
    const OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *tensor = NULL;
    int element = 0;
    if (said(api, api->GetValueInfoTypeInfo(value, &type)) &&
        said(api, api->CastTypeInfoToTensorInfo(type, &tensor)) && tensor &&
        said(api, api->GetTensorElementType(tensor, &element)))
        return element;
    return 0;
}

// True if all inputs with an operator's own type have that type, and the operator knows all inputs.
static bool has_types(const struct op *op, const OrtValueInfo *const *values, size_t count) {
    for (size_t n = 0; n < count; n++) {
        if (n >= strlen(op->is->inputs)) {
            if (values[n]) return false;
            continue;
        }
        const char letter = op->is->inputs[n];
        if (values[n] && (letter == '1' || letter == '2') &&
            type_of(op->api, values[n]) != op->types[letter == '2'])
            return false;
    }
    return true;
}

const struct op *node_op(const struct node *node, const struct library *library) {
    const OrtApi *api = node->api;
    const OrtValueInfo *values[32] = {NULL};
    const char *name = NULL, *domain = NULL;
    size_t count = 0;
    if (!said(api, api->Node_GetOperatorType(node->node, &name)) ||
        !said(api, api->Node_GetDomain(node->node, &domain)) ||
        !said(api, api->Node_GetNumInputs(node->node, &count)) || count > 32 ||
        !said(api, api->Node_GetInputs(node->node, values, count)))
        return NULL;
    const bool contributed = strcmp(domain, "com.microsoft") == 0;
    for (int n = 0; n < library->count; n++) {
        const struct op *op = &library->ops[n];
        if (strcmp(op->is->name, name) == 0 && (op->is->domain[0] != '\0') == contributed &&
            has_types(op, values, count))
            return op;
    }
    return NULL;
}

OrtStatus *node_kernel(const struct op *op, const struct node *node, struct kernel **made) {
    char line[LINE];
    struct kernel *kernel = calloc(1, sizeof *kernel);
    *made = NULL;
    if (kernel == NULL) return node->api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    kernel->op = op;
    kernel->api = node->api;
    node_read(node, kernel);
    const char *const why = op->is->refuses(kernel);
    if (why) {
        snprintf(line, sizeof line, "clattn %s: %s", op->is->name, why);
        free(kernel);
        return node->api->CreateStatus(ORT_NOT_IMPLEMENTED, line);
    }
    *made = kernel;
    return NULL;
}
