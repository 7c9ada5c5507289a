// strided_tensors.h: adds a tensor to a call of strided_calls.c, the only file that includes this
// header.
#ifndef CLATTN_TESTS_STRIDED_TENSORS_H
#define CLATTN_TESTS_STRIDED_TENSORS_H

#include "support/strided_calls.h"

#include <stdlib.h>

#include "verification/reference/random.h"

#define F32 CLATTN_TYPE_F32
#define I8 CLATTN_TYPE_I8
#define I32 CLATTN_TYPE_I32
#define BOOL CLATTN_TYPE_BOOL

enum use { READ = 1, WRITTEN = 2, BOTH = 3, ANY = 4 };

// Numbers of I32 tensors are n % 3: valid pages, positions and rows. `given` numbers are kept.
static clattn_tensor add_values(struct strided_call *c, const char *field, clattn_tensor *view, int use,
                                clattn_type type, int rank, const int64_t *shape, const double *given) {
    struct strided_tensor *t = &c->tensor[c->count++];
    struct random random = {(uint64_t)(100 + c->count)};
    *view = clattn_tensor_dense(NULL, type, rank, shape);
    *t = (struct strided_tensor){.field = field,
                                 .view = view,
                                 .read = use & READ,
                                 .written = use & WRITTEN,
                                 .any = use & ANY,
                                 .repeats = (use & READ) && !(use & WRITTEN) && type != I32};
    const int64_t count = guarded_count(view);
    t->values = calloc((size_t)count + 1, sizeof *t->values);
    for (int64_t n = 0; t->values != NULL && n < count; n++)
        t->values[n] = given          ? given[n]
                       : type == I32  ? (double)(n % 3)
                       : type == BOOL ? (double)(n % 5 != 1)
                       : type == I8   ? (double)(n * 37 % 101 - 50)
                                      : random_uniform(&random, -1, 1);
    return *view;
}

#define ADD(type_of, at, field, use, type, rank, ...)                                                        \
    add_values(c, #type_of "." #field, &at field, use, type, rank,                                           \
               (const int64_t[CLATTN_MAX_RANK]){__VA_ARGS__}, NULL)
#define ADD_GIVEN(type_of, at, field, use, numbers, rank, ...)                                               \
    add_values(c, #type_of "." #field, &at field, use, I32, rank,                                            \
               (const int64_t[CLATTN_MAX_RANK]){__VA_ARGS__}, numbers)

#endif
