// bench_cases.h: which cases a bench runs: the presets and the standard set as data, and the product of the lists
// that the command line gives. Leaves out how a case is run. Used by the bench sub-command.
#ifndef CLATTN_TOOL_BENCH_BENCH_CASES_H
#define CLATTN_TOOL_BENCH_BENCH_CASES_H
#include "evidence/case/case.h"
#include "tool/bench/bench_mask.h"
#include "tool/cli/tool.h"

// What a case is that is there to be compared with.
typedef enum bench_baseline { BENCH_NO_BASELINE = 0, BENCH_UNFUSED, BENCH_CLBLAST } bench_baseline;

typedef struct bench_case {
    struct test_case test;
    bench_mask mask;         // what the mask of the case is
    bench_baseline baseline; // CLBLAST: its composition (bench_baseline.h); UNFUSED: the kernel says it, too
} bench_case;

// The axes of the product; an empty list leaves the preset's value.
enum {
    BENCH_AXIS_PRESET,
    BENCH_AXIS_OP,
    BENCH_AXIS_DTYPE,
    BENCH_AXIS_KERNEL,
    BENCH_AXIS_PROJECTION,
    BENCH_AXIS_PRECISION,
    BENCH_AXIS_PACKED,
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

// Names of the values on the axes whose words are the bench's own; NULL ends each.
extern const char *const bench_presets[], *const bench_baselines[];

// The product of the lists, each case followed by those of the baselines (indices into bench_baselines) that
// there are for its op. Where all lists are empty: the standard set, with those of its baselines that are
// asked for, or with all where none is named. The caller frees *cases. False: why[256] says what would be
// accepted.
bool bench_cases_make(const option_list lists[BENCH_AXES], const option_list *baselines, bench_case **cases,
                      int *count, char why[256]);

// The cases of NAME[,NAME]: names (evidence/case/case.h) or aliases of hard cases.
bool bench_cases_named(const char *names, bench_case **cases, int *count, char why[256]);
#endif
