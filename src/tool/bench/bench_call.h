// bench_call.h: one case made real for the bench: its inputs and output on the device, the plan, the workspace and
// the call, clattn's or that of a baseline. Leaves out verification and time. Used by bench_measure and tune.
#ifndef CLATTN_TOOL_BENCH_BENCH_CALL_H
#define CLATTN_TOOL_BENCH_BENCH_CALL_H
#include "evidence/case/case_check.h"
#include "tool/bench/bench_cases.h"
#include "tool/cli/session.h"

typedef enum bench_status { BENCH_OK = 0, BENCH_FAIL, BENCH_UNSUPPORTED } bench_status;

struct composition;

typedef struct bench_call {
    session *session;
    bench_case c;
    struct place place;
    struct case_data *data;
    struct case_arrays arrays;
    cl_mem scratch;                  // workspace, or the scores of the composition
    double bytes;                    // of all buffers
    double build_ns;                 // of what clattn does not count
    struct composition *composition; // CLBlast's, in place of clattn (bench_baseline.h); NULL elsewhere
    bench_status status;             // of the last enqueue
    char why[256];
    clattn_progress progress; // of a watched call
    double watched_ms, share; // since `start_ns`, what was done when it was looked at last
    uint64_t start_ns;
    bool late;
} bench_call;

// Inputs, output (filled with NaN) and the name of the kernel. why[256] says what is in the way. Destroy it
// in every case.
bench_status bench_call_create(bench_call *call, session *s, const bench_case *c, char kernel[32],
                               char why[256]);
void bench_call_destroy(bench_call *call);

// Make the workspace and compile.
bench_status bench_call_prepare(bench_call *call, char why[256]);
// From here on a run that takes longer is given up; 0: as long as it takes. What has no slices is not given up: projections alone,
// CLBlast.
void bench_call_watch(bench_call *call, double most_ms);
// Enqueue once: a measure_call, whose user is the bench_call.
bool bench_call_enqueue(void *call, cl_event *event);
#endif
