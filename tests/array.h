// array.h: a tensor in a buffer with guard zones: NaN around what the library reads, a byte pattern around
// what it writes, NaN in place of results that are still to come. Leaves out what the values mean (case.h).
#ifndef CLATTN_TESTS_ARRAY_H
#define CLATTN_TESTS_ARRAY_H

#include "harness.h"

// How the axes lie in the buffer. A tensor that is not of rank 4 treats BSHD as DENSE.
enum layout {
    LAYOUT_DENSE = 0, // row-major from element 0
    LAYOUT_BSHD,      // [B, N, H, D] in memory
    LAYOUT_PADDED,    // odd offset, every stride a little too large and odd: nothing is aligned
    LAYOUT_SPACED,    // offset and row stride with a gap of 16 elements: aligned, not dense
    LAYOUT_COUNT
};

struct array {
    clattn_tensor view;
    size_t bytes;   // of the buffer
    uint8_t *image; // what the buffer held when it was made
};

// What a buffer is for: the type, rank, sizes and the way they lie.
struct array_shape {
    clattn_type type;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
    enum layout layout;
};

// values: dense, row-major; rounded to the type when stored.
struct array array_input(const struct array_shape *shape, const double *values);
struct array array_output(const struct array_shape *shape);
// An array that the library reads and writes (merge): values inside, the byte pattern around.
struct array array_in_out(const struct array_shape *shape, const double *values);

// Read the view into dense values (STORAGE_UNTOUCHED where nobody wrote). False when anything around it
// changed.
bool array_read(const struct array *array, cl_command_queue queue, double *values);

// True when not one byte of the buffer, view and surroundings, changed.
bool array_intact(const struct array *array, cl_command_queue queue);

// The raw bytes of the buffer; the caller frees them.
uint8_t *array_bytes(const struct array *array, cl_command_queue queue);

// Elements behind a view from now on. 0 ends the buffer with the view, for tools that see one element too
// far.
void array_set_guard(int64_t elements);

int64_t array_count(const clattn_tensor *view);
void array_release(struct array *array);

// `count` numbers in [-size, size] as the type stores them; free() them.
double *array_random(struct random *random, int64_t count, clattn_type type, double size);

#endif
