// cases.h: which cases a bench runs: the presets and the standard set as data, and the product of the lists
// that the command line gives. Leaves out how a case is run. Used by the bench sub-command.
#ifndef CLATTN_BENCH_CASES_H
#define CLATTN_BENCH_CASES_H
#include <clattn/clattn.h>

#include "bench/list.h"

typedef enum bench_op { BENCH_ATTEND = 0, BENCH_DECODE, BENCH_LAYER, BENCH_LINEAR } bench_op;

typedef struct bench_case {
    bench_op op;
    clattn_type dtype;
    clattn_kernel kernel;
    bool causal; // aligned bottom-right
    int64_t b, heads, kv_heads, n, n_kv, d, dv;
    int64_t model;                // model width of a layer, inner size of a linear; 0 elsewhere
    clattn_projection projection; // of a layer or linear
} bench_case;

#define BENCH_NAME_SIZE 256

// The axes of the product; an empty list leaves the preset's value.
enum {
    BENCH_AXIS_PRESET,
    BENCH_AXIS_OP,
    BENCH_AXIS_DTYPE,
    BENCH_AXIS_KERNEL,
    BENCH_AXIS_PROJECTION,
    BENCH_AXIS_CAUSAL,
    BENCH_AXIS_B,
    BENCH_AXIS_HEADS,
    BENCH_AXIS_KV_HEADS,
    BENCH_AXIS_MODEL,
    BENCH_AXIS_D,
    BENCH_AXIS_DV,
    BENCH_AXIS_N,
    BENCH_AXIS_N_KV,
    BENCH_AXES
};

// Names of the values on the axes that have names; NULL ends each.
extern const char *const bench_ops[], *const bench_dtypes[], *const bench_kernels[];
extern const char *const bench_presets[], *const bench_projections[];

// A stable key such as attend-f32-b1-h12-n1024-d64-full.
void bench_case_name(const bench_case *c, char name[BENCH_NAME_SIZE]);

// The product of the lists, or the standard set where all are empty; the caller frees *cases.
// False: why[256] says what would be accepted.
bool bench_cases_make(const bench_list lists[BENCH_AXES], bench_case **cases, int *count, char why[256]);
#endif
