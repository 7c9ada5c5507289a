// clblast.h: the one door to CLBlast. Without it (meson -Dclblast=disabled) the same functions say so.
#ifndef CLATTN_LAYER_CLBLAST_H
#define CLATTN_LAYER_CLBLAST_H
#include "core/chain.h"

// A row-major float32 matrix in a buffer: element (r, c) is at offset + r*stride + c.
typedef struct matrix {
    cl_mem buffer;
    int64_t offset, stride;
} matrix;

bool cla_clblast_available(void);

// y[rows, columns] = x[rows, inner] w[columns, inner]^T, onto the chain.
clattn_status cla_clblast_multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                                   const int64_t size[3]);

// CLBlast keeps programs of every cl_context that it has seen, for the whole process. Leave: drop them all, if this
// context has used CLBlast and is the last that did. Hand over: another context on the same cl_context does that later.
void cla_clblast_leave(clattn_context *context);
void cla_clblast_hand_over(clattn_context *from, clattn_context *to);
#endif
