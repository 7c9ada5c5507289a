// cases.h: which cases a bench runs: the presets and the standard set as data, and the product of the lists
// that the command line gives. Leaves out how a case is run. Used by the bench sub-command.
#ifndef CLATTN_TOOL_BENCH_CASES_H
#define CLATTN_TOOL_BENCH_CASES_H
#include <clattn/clattn.h>

#include "tool/bench_list.h"

typedef enum bench_op { BENCH_ATTEND = 0, BENCH_DECODE, BENCH_LAYER, BENCH_LINEAR } bench_op;

// What a case is that is there to be compared with.
typedef enum bench_baseline { BENCH_NO_BASELINE = 0, BENCH_UNFUSED, BENCH_CLBLAST } bench_baseline;

typedef struct bench_case {
    bench_op op;
    clattn_type dtype;
    clattn_kernel kernel;
    bool causal; // aligned bottom-right
    int64_t b, heads, kv_heads, n, n_kv, d, dv;
    int64_t model;                // model width of a layer, inner size of a linear; 0 elsewhere
    clattn_projection projection; // of a layer or linear
    bench_baseline baseline;      // CLBLAST: its composition (baseline.h); UNFUSED: `kernel` says it, too
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
extern const char *const bench_presets[], *const bench_projections[], *const bench_baselines[];

// A stable key such as attend-f32-b1-h12-n1024-d64-full.
void bench_case_name(const bench_case *c, char name[BENCH_NAME_SIZE]);

// The product of the lists, each case followed by those of the baselines (indices into bench_baselines) that
// there are for its op. Where all lists are empty: the standard set, with those of its baselines that are
// asked for, or with all where none is named. The caller frees *cases. False: why[256] says what would be
// accepted.
bool bench_cases_make(const bench_list lists[BENCH_AXES], const bench_list *baselines, bench_case **cases,
                      int *count, char why[256]);
#endif
