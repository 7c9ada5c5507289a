// bench_options.h: what an option of an attention call costs: the call with it and the plain one in turns, and the time of a
// key that is seen beside the plain call's. Used by bench.
#ifndef CLATTN_TOOL_BENCH_BENCH_OPTIONS_H
#define CLATTN_TOOL_BENCH_BENCH_OPTIONS_H
#include "tool/bench/bench_measure.h"

typedef struct bench_option {
    bench_row row;
    const char *name;
    double visible_keys;        // pairs of a row and a key that it sees, of all heads and batch items
    double plain_ns;            // the plain call between its runs, median
    double ratio, ratio_spread; // its time by that of the plain run beside it: median, interquartile range
    double ratio_per_key;       // the same of the time of a visible key
} bench_option;

// The cases that they are measured on where none is named; NULL ends them.
extern const char *const bench_option_cases[];

int bench_option_count(void);
// All of one case, the first being the plain call, on a context of its own (`s` is opened and closed here). `begins` is
// called before each with its name.
void bench_options_measure(session *s, const struct test_case *base, const bench_settings *settings,
                           bench_option *options, void (*begins)(void *user, const char *name), void *user);
#endif
