// layer_squares.h: how many numbers of a quantised matrix share one scale. config.json states it in
// quantization_config, as transformers and compressed-tensors write it. Otherwise the number of
// scales decides if it is unambiguous.
#ifndef CLATTN_CLI_LAYER_LAYER_SQUARES_H
#define CLATTN_CLI_LAYER_LAYER_SQUARES_H
#include "cli/layer/layer_weights.h"

// The part of a matrix that shares one scale, in rows and columns. SQUARE_ALL: every row, or every
// column.
#define SQUARE_ALL INT64_MAX // every row, or every column
typedef struct square {
    int64_t rows, columns; // 0: not in config.json
    // width of an integer in packed words; 0: not in config.json, -1: no integer
    int bits;
} square;

// The squares in config.json: one for the file, or one for each of its groups of matrices.
typedef struct squares {
    char *path; // path of config.json, owned
    square *list;
    int count;
} squares;

static inline int64_t square_parts(int64_t size, int64_t each) { // both are 1 or more
    return (size - 1) / each + 1;
}

// Read the config.json of the model's folder, or the one beside --weights. Without the file there
// are no squares. Returns -1, or prints a line and returns the exit status. Call squares_free also
// after a failure.
int squares_read(const layer_weights *w, squares *all);
void squares_free(squares *all);

// Find the square of matrix `a` that one number of `scale` covers. `name` is the scale tensor's
// name. `bits` is the width of a's packed numbers; 0: `a` is not packed. Returns -1, or EXIT_WRONG
// after printing a line.
int squares_find(const squares *all, const array *a, int bits, const char *name, const array *scale,
                 square *s);
#endif
