// compare_ratio.h: how much slower one set of times is than another, and how sure that is. Used by compare and bench.
#ifndef CLATTN_TOOL_COMPARE_COMPARE_RATIO_H
#define CLATTN_TOOL_COMPARE_COMPARE_RATIO_H

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
// Of ratios b / a that were taken in turns, round for round: their median, drawn again in the same way.
compare_ratio compare_ratio_paired(const double *ratios, int count);

extern const char *const compare_verdicts[]; // in the order of the enum
#endif
