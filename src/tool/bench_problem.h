// problem.h: one case made real: its inputs on the device and their values on the host, its output, and the
// call. Inputs are uniform with variance 1 (weights: 1 / width), so that scores have a deviation of about 1.
// Leaves out verification and time. Used by check and measure.
#ifndef CLATTN_TOOL_BENCH_PROBLEM_H
#define CLATTN_TOOL_BENCH_PROBLEM_H
#include "tool/bench_cases.h"
#include "tool/tool.h"

// Q, K, V; or X and WQ of a linear; or X, Y, WQ, WK, WV, WO (Y without elements where it is X).
enum { PROBLEM_Q, PROBLEM_K, PROBLEM_V };
enum { PROBLEM_X, PROBLEM_Y, PROBLEM_WQ, PROBLEM_WK, PROBLEM_WV, PROBLEM_WO, PROBLEM_INPUTS };

// Values of a tensor, as stored: a table that repeats with a prime period, so that rows differ and the host
// needs no copy of a large tensor. The table goes on past its period for one row, so that every row is
// contiguous.
typedef struct problem_values {
    double *table;
    int64_t period;
} problem_values;

struct composition;

typedef struct problem {
    session *session;
    bench_case c;
    problem_values values[PROBLEM_INPUTS];
    cl_mem buffers[PROBLEM_INPUTS + 2], out;
    int buffer_count;
    double bytes;    // of all buffers, with the workspace
    double build_ns; // of what clattn does not count
    clattn_attention_params attention;
    clattn_layer_params layer;
    clattn_linear_params linear;
    struct composition *composition; // CLBlast's, in place of clattn (baseline.h); NULL elsewhere
} problem;

typedef enum bench_status { BENCH_OK = 0, BENCH_FAIL, BENCH_UNSUPPORTED } bench_status;

// Inputs, output (filled with NaN) and the name of the kernel. why[256] says what is in the way. Destroy it
// in every case.
bench_status problem_create(problem *p, session *s, const bench_case *c, char kernel[32], char why[256]);
void problem_destroy(problem *p);

// Make the workspace and compile.
bench_status problem_prepare(problem *p, char why[256]);
bench_status problem_enqueue(problem *p, cl_event *event, char why[256]);

// Elements [first, first + count) of an input, count being at most its row.
const double *problem_input(const problem *p, int index, int64_t first);
bool problem_output(problem *p, int64_t first, int64_t count, double *x);
#endif
