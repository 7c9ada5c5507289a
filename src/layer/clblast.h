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

// Drop the programs that CLBlast keeps. It must run before the last release of a context that CLBlast has
// used.
void cla_clblast_clear(void);
#endif
