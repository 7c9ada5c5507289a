/* fuzz_call.h: a call of the API as the fuzzer sees it: a right one in small sizes, and what an input may change of it. Each
 * fuzz_call_*.c makes calls of one subject; fuzz_api.c chooses among them. */
#ifndef CLATTN_TESTS_FUZZ_CALL_H
#define CLATTN_TESTS_FUZZ_CALL_H

#include "fuzz/fuzz_device.h"
#include "fuzz/fuzz_values.h"

enum { FUZZ_MOST_FIELDS = 48, FUZZ_MOST_WORK = 4000000 };

/* What an input may change of a call, and what its answer is checked against. */
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
    unsigned arrays;               /* host arrays that are given, a bit for each */
    bool built_of_text;            /* it has expressions, which the compiler may refuse */
    void *owned[FUZZ_MOST_FIELDS]; /* host arrays, freed at the end */
    int owned_count;
} fuzz_fields;

/* A dense view in a buffer of its own; its number among the tensors. */
int fuzz_add_view(fuzz_fields *f, clattn_tensor *t, clattn_type type, int rank, const int64_t *shape);
/* The same, absent where it is not wanted. */
int fuzz_add_optional(fuzz_fields *f, bool wanted, clattn_tensor *t, clattn_type type, int rank,
                      const int64_t *shape);
void fuzz_add_int(fuzz_fields *f, void *i);
void fuzz_add_float(fuzz_fields *f, float *x);
void fuzz_add_bool(fuzz_fields *f, bool *x);
void fuzz_add_rope(fuzz_fields *f, clattn_rope *r);
void fuzz_add_score(fuzz_fields *f, clattn_score *s, clattn_rope *r);
/* Positions of RoPE, of `rows` and, where not 0, of `keys`, three axes of them by a bit of `with`. */
void fuzz_add_positions(fuzz_fields *f, unsigned with, clattn_rope *r, int64_t batch, int64_t rows,
                        int64_t keys);
/* The caller's expressions, buffers of theirs and a block mask [B, H, rows, keys]; `with` says which. */
void fuzz_add_expressions(fuzz_fields *f, unsigned with, clattn_score *s, const int64_t full[4]);

/* Changes that the input chooses. */
void fuzz_change_all(fuzz_fields *f, fuzz_bytes *b);
/* Strides of 0 for all tensors so far but one, but in the last axis. */
void fuzz_repeat(const fuzz_fields *f, const clattn_tensor *output);

/* Host arrays of exactly `count` numbers; NULL where they would be too long to make. */
int32_t *fuzz_integers(fuzz_fields *f, fuzz_bytes *b, int64_t count);
/* First rows of sequences, [count + 1], most often right. */
int32_t *fuzz_first_rows(fuzz_fields *f, fuzz_bytes *b, int64_t count);
/* Those of f->score, by the bits of f->arrays. */
void fuzz_add_arrays(fuzz_fields *f, fuzz_bytes *b, int64_t batch, int64_t heads);
void fuzz_free(fuzz_fields *f);

/* Numbers, from the input, at the beginning of a tensor's buffer, which kernels read as they are: pages, positions. */
void fuzz_fill(const clattn_tensor *t, fuzz_bytes *b, bool rising);

/* Multiply-adds of a call; a view may repeat an element and so ask for any number of them. */
double fuzz_work(const clattn_tensor *q, int64_t keys, int64_t width);

/* Asking `plan` without any buffer, then without the views that enqueueing takes for absent because they have none, which must
 * not find more right; true in *right where the call must be taken. The views are whole again. */
typedef clattn_status (*fuzz_planner)(const void *params, void *plan);
clattn_status fuzz_plan(fuzz_fields *f, fuzz_planner ask, const void *params, void *plan, bool *right);
bool fuzz_all_fit(const fuzz_fields *f);

/* After an enqueue: what was taken must not have been refused, and is written where nothing else lies. */
bool fuzz_end(const fuzz_fields *f, const fuzz_launch *at, clattn_status status, bool right);

/* What makes another program of an attention call, but for its types and sizes. */
void fuzz_score_signature(const clattn_score *s, const clattn_rope *r, int64_t to[16]);

#endif
