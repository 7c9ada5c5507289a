// operands.h: one small call of each operation with every tensor it can have, each in a buffer of its own and listed by
// name with what the call does to it: what the suites about memory go through. Leaves out what the numbers should be.
#ifndef CLATTN_TESTS_OPERANDS_H
#define CLATTN_TESTS_OPERANDS_H

#include "support/harness.h"

enum operation { OPERATION_ATTENTION, OPERATION_LAYER, OPERATION_LINEAR, OPERATION_MERGE, OPERATION_COUNT };

#define OPERAND_READ 1
#define OPERAND_WRITE 2
#define OPERANDS_MOST 16
#define OPERAND_BYTES ((size_t)64 << 10) // of every buffer

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

// Fill `o`, which must not move. `kernel` is attention's, in a layer, too.
void operands_make(struct operands *o, enum operation operation, clattn_kernel kernel);
void operands_release(struct operands *o);

clattn_status operands_enqueue(struct operands *o, cl_event *event);
size_t operands_workspace(struct operands *o);
// One past a view's last byte, from the start of its buffer.
int64_t operands_end(const clattn_tensor *view);
// Run the call; what it wrote, all outputs one after another. The caller frees it. The second does not run it.
unsigned char *operands_results(struct operands *o, size_t *bytes);
unsigned char *operands_written(const struct operands *o, size_t *bytes);

cl_mem operands_buffer(cl_mem_flags flags, size_t bytes);

#endif
