/* fuzz_call.h: a call of the API as the fuzzer sees it: a valid call of small size, and the parts
 * that an input may change. Each fuzz_call_*.c makes the calls of one subject. fuzz_api.c chooses
 * among them. */
#ifndef CLATTN_TESTS_FUZZ_CALL_H
#define CLATTN_TESTS_FUZZ_CALL_H

#include "fuzz/fuzz_device.h"
#include "fuzz/fuzz_values.h"

enum { FUZZ_MOST_FIELDS = 48, FUZZ_MOST_WORK = 4000000 };

/* The parts of a call that an input may change, and that its result is checked against. */
typedef struct fuzz_fields {
    clattn_tensor *tensors[FUZZ_MOST_FIELDS];
    int32_t *ints[FUZZ_MOST_FIELDS];
    float *floats[FUZZ_MOST_FIELDS];
    bool *bools[FUZZ_MOST_FIELDS];
    cl_mem *workspace;
    clattn_score *score;
    clattn_rope *rope;
    int required;     /* the first tensors are required */
    uint64_t written; /* one bit for each written tensor */
    int tensor_count, int_count, float_count, bool_count;
    unsigned arrays;               /* one bit for each host array that is set */
    bool built_of_text;            /* has expressions, which the compiler may refuse */
    void *owned[FUZZ_MOST_FIELDS]; /* host arrays, freed at the end */
    int owned_count;
} fuzz_fields;

/* Add a dense view in its own buffer. Returns its index in `tensors`. */
int fuzz_add_view(fuzz_fields *f, clattn_tensor *t, clattn_type type, int rank, const int64_t *shape);
/* As fuzz_add_view, or an absent tensor if not wanted. */
int fuzz_add_optional(fuzz_fields *f, bool wanted, clattn_tensor *t, clattn_type type, int rank,
                      const int64_t *shape);
void fuzz_add_int(fuzz_fields *f, void *i);
void fuzz_add_float(fuzz_fields *f, float *x);
void fuzz_add_bool(fuzz_fields *f, bool *x);
void fuzz_add_rope(fuzz_fields *f, clattn_rope *r);
void fuzz_add_score(fuzz_fields *f, clattn_score *s, clattn_rope *r);
/* Add positions of RoPE for `rows`, and for `keys` unless 0. A bit of `with` selects three axes. */
void fuzz_add_positions(fuzz_fields *f, unsigned with, clattn_rope *r, int64_t batch, int64_t rows,
                        int64_t keys);
/* Add expressions of the caller, their buffers and a block mask [B, H, rows, keys], selected by
 * `with`. */
void fuzz_add_expressions(fuzz_fields *f, unsigned with, clattn_score *s, const int64_t full[4]);

/* Make the changes that the input chooses. */
void fuzz_change_all(fuzz_fields *f, fuzz_bytes *b);
/* Set strides of 0 for all tensors so far except `output`, in all axes but the last. */
void fuzz_repeat(const fuzz_fields *f, const clattn_tensor *output);

/* Create a host array of exactly `count` numbers. NULL if it would be too long. */
int32_t *fuzz_integers(fuzz_fields *f, fuzz_bytes *b, int64_t count);
/* First rows of sequences, [count + 1], usually valid. */
int32_t *fuzz_first_rows(fuzz_fields *f, fuzz_bytes *b, int64_t count);
/* Add the host arrays of f->score that f->arrays selects. */
void fuzz_add_arrays(fuzz_fields *f, fuzz_bytes *b, int64_t batch, int64_t heads);
void fuzz_free(fuzz_fields *f);

/* Fill the start of a tensor's buffer with numbers from the input. Kernels use them unchecked, as
 * pages and positions. */
void fuzz_fill(const clattn_tensor *t, fuzz_bytes *b, bool rising);

/* Multiply-adds of a call. There is no upper limit, because a view may repeat elements. */
double fuzz_work(const clattn_tensor *q, int64_t keys, int64_t width);

/* Call `plan` without buffers, then without the optional views that have no buffer. The second call
 * must not accept more. Sets *right if the call must be accepted. Restores the views. */
typedef clattn_status (*fuzz_planner)(const void *params, void *plan);
clattn_status fuzz_plan(fuzz_fields *f, fuzz_planner ask, const void *params, void *plan, bool *right);
bool fuzz_all_fit(const fuzz_fields *f);

/* Check the result of an enqueue. An accepted call must be valid, and its outputs must overlap
 * nothing else. */
bool fuzz_end(const fuzz_fields *f, const fuzz_launch *at, clattn_status status, bool right);

/* The options that select another program for an attention call, besides types and sizes. */
void fuzz_score_signature(const clattn_score *s, const clattn_rope *r, int64_t to[16]);

#endif
