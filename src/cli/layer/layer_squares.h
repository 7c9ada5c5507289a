// layer_squares.h: how many numbers of a quantised matrix share one scale. config.json says so in quantization_config, as transformers and
// compressed-tensors write it; without it the counts of scales decide, where they leave no doubt.
#ifndef CLATTN_TOOL_LAYER_LAYER_SQUARES_H
#define CLATTN_TOOL_LAYER_LAYER_SQUARES_H
#include "cli/layer/layer_weights.h"

// The part of a matrix that shares one scale, in rows and columns.
#define SQUARE_ALL INT64_MAX // every row, or every column
typedef struct square {
    int64_t rows, columns; // 0: config.json does not say
    int bits;              // of an integer in packed words; 0: not said, -1: no integer
} square;

// The squares that config.json names: one for the file, or one for each of its groups of matrices.
typedef struct squares {
    char *path; // of config.json, owned
    square *list;
    int count;
} squares;

static inline int64_t square_parts(int64_t size, int64_t each) { // both are 1 or more
    return (size - 1) / each + 1;
}

// Reads config.json of the model's folder, or the one beside --weights. A file that is absent names no squares. Returns -1, else the exit
// status with a line printed. squares_free is called after a failure, too.
int squares_read(const layer_weights *w, squares *all);
void squares_free(squares *all);

// Finds the square of `a` that each number of `scale`, a tensor called `name`, is for. `bits`: those of a's packed numbers, 0: it is not
// packed. Returns -1, else EXIT_WRONG with a line printed.
int squares_find(const squares *all, const array *a, int bits, const char *name, const array *scale,
                 square *s);
#endif
