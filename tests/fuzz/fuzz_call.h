/* fuzz_call.h: a call of the API as the fuzzer sees it: a valid one in small sizes, and the
 * parts that an input may change. Each fuzz_call_*.c has calls of one subject; fuzz_api.c
 * chooses among them. */
#ifndef CLATTN_TESTS_FUZZ_CALL_H
#define CLATTN_TESTS_FUZZ_CALL_H

#include "fuzz/fuzz_device.h"
#include "fuzz/fuzz_values.h"

enum { FUZZ_MOST_FIELDS = 48, FUZZ_MOST_WORK = 4000000 };

/* The parts of a call that an input may change, and the data of the checks. */
typedef struct fuzz_fields {
    clattn_tensor *tensors[FUZZ_MOST_FIELDS];
    int32_t *ints[FUZZ_MOST_FIELDS];
    float *floats[FUZZ_MOST_FIELDS];
    bool *bools[FUZZ_MOST_FIELDS];
    cl_mem *workspace;
    clattn_score *score;
    clattn_rope *rope;
    int required;     /* the first of tensors */
    uint64_t written; /* a bit for each of tensors */
    int tensor_count, int_count, float_count, bool_count;
    unsigned arrays;               /* host arrays that are set, a bit for each */
    bool built_of_text;            /* it has expressions, which the compiler may refuse */
    void *owned[FUZZ_MOST_FIELDS]; /* host arrays, freed at the end */
    int owned_count;
} fuzz_fields;

/* A dense view in a buffer of its own; returns its number among the tensors. */
int fuzz_add_view(fuzz_fields *f, clattn_tensor *t, clattn_type type, int rank, const int64_t *shape);
/* The same, absent if it is not wanted. */
int fuzz_add_optional(fuzz_fields *f, bool wanted, clattn_tensor *t, clattn_type type, int rank,
                      const int64_t *shape);
void fuzz_add_int(fuzz_fields *f, void *i);
void fuzz_add_float(fuzz_fields *f, float *x);
void fuzz_add_bool(fuzz_fields *f, bool *x);
void fuzz_add_rope(fuzz_fields *f, clattn_rope *r);
void fuzz_add_score(fuzz_fields *f, clattn_score *s, clattn_rope *r);
/* Positions of RoPE, for `rows` and, if not 0, for `keys`; a bit of `with` selects three axes. */
void fuzz_add_positions(fuzz_fields *f, unsigned with, clattn_rope *r, int64_t batch, int64_t rows,
                        int64_t keys);
/* The caller's expressions with their buffers, and a block mask [B, H, rows, keys]; `with`
 * selects them. */
void fuzz_add_expressions(fuzz_fields *f, unsigned with, clattn_score *s, const int64_t full[4]);

/* Changes that the input chooses. */
void fuzz_change_all(fuzz_fields *f, fuzz_bytes *b);
/* Strides of 0 for all tensors so far but one, except in the last axis. */
void fuzz_repeat(const fuzz_fields *f, const clattn_tensor *output);

/* Host arrays of exactly `count` numbers; NULL if they would be too long. */
int32_t *fuzz_integers(fuzz_fields *f, fuzz_bytes *b, int64_t count);
/* First rows of sequences, [count + 1], usually valid. */
int32_t *fuzz_first_rows(fuzz_fields *f, fuzz_bytes *b, int64_t count);
/* The arrays of f->score, by the bits of f->arrays. */
void fuzz_add_arrays(fuzz_fields *f, fuzz_bytes *b, int64_t batch, int64_t heads);
void fuzz_free(fuzz_fields *f);

/* Numbers of the input at the beginning of a tensor's buffer, which kernels use unchecked:
 * pages, positions. */
void fuzz_fill(const clattn_tensor *t, fuzz_bytes *b, bool rising);

/* Multiply-adds of a call. A view may repeat an element, so their number is unlimited. */
double fuzz_work(const clattn_tensor *q, int64_t keys, int64_t width);

/* Call `plan` without any buffer, then without the views that enqueueing treats as absent. The
 * second must not succeed if the first fails. *right is true if the call must be accepted. The
 * views are whole again afterwards. */
typedef clattn_status (*fuzz_planner)(const void *params, void *plan);
clattn_status fuzz_plan(fuzz_fields *f, fuzz_planner ask, const void *params, void *plan, bool *right);
bool fuzz_all_fit(const fuzz_fields *f);

/* After an enqueue: an accepted call must not have been refused by its plan, and its outputs
 * overlap nothing. */
bool fuzz_end(const fuzz_fields *f, const fuzz_launch *at, clattn_status status, bool right);

/* The parts of an attention call that make another program, besides its types and sizes. */
void fuzz_score_signature(const clattn_score *s, const clattn_rope *r, int64_t to[16]);

#endif
