// bench_list.h: lists on the command line: `512,1k..16k*2` of numbers, `f32,bf16` of names. One axis of the product
// of cases each. Used by the options of bench.
#ifndef CLATTN_TOOL_BENCH_BENCH_LIST_H
#define CLATTN_TOOL_BENCH_BENCH_LIST_H
#include <stdbool.h>
#include <stdint.h>

#define BENCH_LIST_MAX 64

typedef struct bench_list {
    int64_t x[BENCH_LIST_MAX];
    int count; // 0: not given
} bench_list;

// Items: N, or A..B*F (multiplied), or A..B+S (stepped), A..B being doubled; k is 1024. All from 1 to
// 16777216. False: why[256] says what would be accepted.
bool bench_list_numbers(const char *text, bench_list *list, char why[256]);

// Indices into names, which end with NULL.
bool bench_list_names(const char *text, const char *const *names, bench_list *list, char why[256]);
#endif
