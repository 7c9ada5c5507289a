// compare.h: rows of `clattn bench --save` files, and the ratio of two sets of times. Used by
// compare, report and bench.
#ifndef CLATTN_CLI_COMPARE_COMPARE_H
#define CLATTN_CLI_COMPARE_COMPARE_H
#include <jansson.h>
#include <stdbool.h>

// Smaller changes count as no change.
#define COMPARE_LEAST_CHANGE 0.02
// Two sets are the same if the whole interval is within this distance of 1.
#define COMPARE_MOST_DOUBT 0.05

#define COMPARE_SAMPLES 1000

enum { COMPARE_SAME, COMPARE_FASTER, COMPARE_SLOWER, COMPARE_INCONCLUSIVE };

// The times of a row, and their median.
typedef struct compare_times {
    double samples[COMPARE_SAMPLES];
    int count; // 0: the file has no samples
    double median, spread;
} compare_times;

typedef struct compare_ratio {
    double ratio, low, high; // ratio of the medians, b / a, and the ends of its 95 % interval
    int verdict;
} compare_ratio;

// Bootstrap: resample with replacement 2,000 times and compare medians. The seed is fixed, so that
// equal files have equal results [Efron 1979; percentile interval]. If a file has no samples, the
// interval is made from the spreads.
compare_ratio compare_ratio_of(const compare_times *a, const compare_times *b);
// As compare_ratio_of, for ratios b / a of interleaved runs, pair by pair: resample the ratios and
// compare medians.
compare_ratio compare_ratio_paired(const double *ratios, int count);

extern const char *const compare_verdicts[]; // words in the order of the enum above

// Read a file and check its rows. Returns -1, or an exit status after printing a line.
int compare_load(const char *path, json_t **file);
// Read the files of a command line. The entries from the first bad file on are NULL. Call
// compare_release in every case.
int compare_load_all(const char *const *paths, int count, json_t **files);
void compare_release(json_t **files, int count);

// A row's text ("" if absent), a number, whether the row was measured, and its times.
const char *row_text(const json_t *row, const char *key);
double row_number(const json_t *row, const char *key);
bool row_ok(const json_t *row);
void compare_times_of(const json_t *row, compare_times *times);
// Text of a row, made safe to print on a terminal.
const char *row_shown(const json_t *row, const char *key, char buffer[256]);

// The property of --by in which compared rows differ: `dtype`, `device`, `kernel` or `file`.
enum { COMPARE_BY_FILES = 0, COMPARE_BY_DTYPE, COMPARE_BY_DEVICE, COMPARE_BY_KERNEL, COMPARE_BY_FILE };
// Words in the order of the enum, after COMPARE_BY_FILES; NULL ends the list.
extern const char *const compare_by_words[];

// The key that rows share if they differ in that property alone, and the row's value of the
// property.
void compare_by_key(const json_t *row, int file, int by, char key[1024]);
const char *compare_by_value(const json_t *row, const char *path, int by);
#endif
