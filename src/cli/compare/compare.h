// compare.h: the rows of files of clattn bench --save, and how much slower one set of times is than another. Used by compare, report and
// bench.
#ifndef CLATTN_TOOL_COMPARE_COMPARE_H
#define CLATTN_TOOL_COMPARE_COMPARE_H
#include <jansson.h>
#include <stdbool.h>

// Below this, a change is none whatever the clock says.
#define COMPARE_LEAST_CHANGE 0.02
// Two that can differ by no more are the same.
#define COMPARE_MOST_DOUBT 0.05

#define COMPARE_SAMPLES 1000

enum { COMPARE_SAME, COMPARE_FASTER, COMPARE_SLOWER, COMPARE_INCONCLUSIVE };

// Times of a row, and their median.
typedef struct compare_times {
    double samples[COMPARE_SAMPLES];
    int count; // 0: the file has none
    double median, spread;
} compare_times;

typedef struct compare_ratio {
    double ratio, low, high; // of medians, b / a; its interval of 95 %
    int verdict;
} compare_ratio;

// Bootstrap: medians of samples drawn again, with replacement, two thousand times; the same files give the same numbers
// [Efron 1979; the interval is that of percentiles]. Where a file has no samples the interval is made of the spreads.
compare_ratio compare_ratio_of(const compare_times *a, const compare_times *b);
// The same for ratios b / a that were taken in turns, round for round: their median, drawn again in the same way.
compare_ratio compare_ratio_paired(const double *ratios, int count);

extern const char *const compare_verdicts[]; // in the order of the enum

// Read a file and check its rows. -1, or an exit status, and its words are said.
int compare_load(const char *path, json_t **file);
// Files of a command line, which the caller releases by compare_release whatever the status is: NULL from the bad one on.
int compare_load_all(const char *const *paths, int count, json_t **files);
void compare_release(json_t **files, int count);

// A row's word ("" where there is none), a number, whether it was measured, its times.
const char *row_text(const json_t *row, const char *key);
double row_number(const json_t *row, const char *key);
bool row_ok(const json_t *row);
void compare_times_of(const json_t *row, compare_times *times);
// A text of a file for the terminal, which control characters would steer.
const char *row_shown(const json_t *row, const char *key, char buffer[256]);

// The one thing that differs between the rows that are compared: `dtype`, `device`, `kernel` or `file`.
enum { COMPARE_BY_FILES = 0, COMPARE_BY_DTYPE, COMPARE_BY_DEVICE, COMPARE_BY_KERNEL, COMPARE_BY_FILE };
extern const char *const compare_by_words[]; // in the order of the enum, after the first; ending with NULL

// The key that two rows share which differ in that thing alone, and a row's value of it.
void compare_by_key(const json_t *row, int file, int by, char key[1024]);
const char *compare_by_value(const json_t *row, const char *path, int by);
#endif
