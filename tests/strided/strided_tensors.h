// strided_tensors.h: how the files of strided_calls.h add the tensors of a call.
#ifndef CLATTN_TESTS_STRIDED_TENSORS_H
#define CLATTN_TESTS_STRIDED_TENSORS_H
#include "strided/strided_calls.h"

#define F32 CLATTN_TYPE_F32
#define I8 CLATTN_TYPE_I8
#define I32 CLATTN_TYPE_I32
#define BOOL CLATTN_TYPE_BOOL

enum use { READ = 1, WRITTEN = 2, BOTH = 3, ANY = 4 };

// Add a tensor. Numbers of I32 tensors are valid pages, positions and rows. `given` numbers are
// kept.
clattn_tensor add_values(struct strided_call *c, const char *field, clattn_tensor *view, int use,
                         clattn_type type, int rank, const int64_t *shape, const double *given);
#define ADD(type_of, at, field, use, type, rank, ...)                                                        \
    add_values(c, #type_of "." #field, &at field, use, type, rank,                                           \
               (const int64_t[CLATTN_MAX_RANK]){__VA_ARGS__}, NULL)
#define ADD_GIVEN(type_of, at, field, use, numbers, rank, ...)                                               \
    add_values(c, #type_of "." #field, &at field, use, I32, rank,                                            \
               (const int64_t[CLATTN_MAX_RANK]){__VA_ARGS__}, numbers)

// A wrapper of a call's enqueue function, with the type that all calls share here.
#define ENQUEUE(name, call, params)                                                                          \
    static clattn_status name(const struct strided_call *c, clattn_context *context,                         \
                              cl_command_queue queue) {                                                      \
        return clattn_##call##_enqueue(context, queue, &c->params, 0, NULL, NULL);                           \
    }

// Sizes of a call. In a small call all of them are 1, except the head size.
struct sizes {
    int64_t b, h, n, keys, d, dv;
};
struct sizes sizes_of(const struct strided_call *c);

// Calls of strided_selection.c.
void strided_open_topk(struct strided_call *c);
void strided_open_index(struct strided_call *c);
void strided_open_linear_attention(struct strided_call *c);
#endif
