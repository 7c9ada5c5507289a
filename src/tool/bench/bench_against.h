// bench_against.h: two settings of the same cases on one device, in turns: clattn bench --against OPTIONS. Used by bench and tune.
#ifndef CLATTN_TOOL_BENCH_BENCH_AGAINST_H
#define CLATTN_TOOL_BENCH_BENCH_AGAINST_H
#include "tool/bench/bench.h"
#include "tool/compare/compare.h"

// A case, and its partner with the options changed; the row's status is the worse of theirs.
typedef struct bench_pair {
    bench_row row, other;
    compare_ratio ratio; // the partner's time by the row's, of the runs that were taken in turns
} bench_pair;

// One side of a pair: a context's options, tuned rows (NULL: those that the options say), and the case.
typedef struct bench_side {
    const common_options *options;
    const char *rows;
    bench_case c;
} bench_side;

// Both on contexts of their own, verified, then in turns.
void bench_pair_measure(const clattn_device *device, const bench_side sides[2],
                        const bench_settings *settings, bench_pair *pair);

// What the options leave open is as without them. Before any case is made. -1, or an exit status with its line.
int bench_against_complete(const bench *b, bench *other);

// Case i and its partner, each on a context of its own.
void bench_against_measure(const bench *b, const session *device, int i, bench_pair *pair);

void bench_table_add_pair(json_t *table, const char *options, const bench_pair *pair);
void bench_table_print_pair(FILE *to, const json_t *row);
#endif
