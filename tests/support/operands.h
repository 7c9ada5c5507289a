// operands.h: one small call of each operation with every tensor that it can have. Each tensor has
// a buffer of its own, and a list says how the call uses it. The suites about memory use these
// calls. Results are not checked here.
#ifndef CLATTN_TESTS_OPERANDS_H
#define CLATTN_TESTS_OPERANDS_H

#include "support/harness.h"

enum operation { OPERATION_ATTENTION, OPERATION_LAYER, OPERATION_LINEAR, OPERATION_MERGE, OPERATION_COUNT };

#define OPERAND_READ 1
#define OPERAND_WRITE 2
#define OPERANDS_MOST 16
#define OPERAND_BYTES ((size_t)64 << 10) // size of every buffer

struct operand {
    const char *name;
    clattn_tensor *view;
    int use; // OPERAND_READ, _WRITE or both
    bool optional;
};

struct operands {
    enum operation operation;
    union {
        clattn_attention_params attention;
        clattn_layer_params layer;
        clattn_linear_params linear;
        clattn_merge_params merge;
    } params;
    int count;
    struct operand operand[OPERANDS_MOST];
    cl_mem *workspace; // NULL: the operation has none
};

// Fill `o`, which must not move in memory. `kernel` is the attention's kernel, also in a layer.
void operands_make(struct operands *o, enum operation operation, clattn_kernel kernel);
void operands_release(struct operands *o);

clattn_status operands_enqueue(struct operands *o, cl_event *event);
size_t operands_workspace(struct operands *o);
// The end of a view's last element, in bytes from the start of its buffer.
int64_t operands_end(const clattn_tensor *view);
// Run the call and return all its outputs, one after another; the caller frees them. The second
// function only reads the outputs.
unsigned char *operands_results(struct operands *o, size_t *bytes);
unsigned char *operands_written(const struct operands *o, size_t *bytes);

cl_mem operands_buffer(cl_mem_flags flags, size_t bytes);

#endif
