// compare_ratio.c: see compare.h.
#include "cli/compare/compare.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/random.h"

const char *const compare_verdicts[] = {"same", "faster", "slower", "inconclusive", NULL};

#define DRAWS 2000
#define FEWEST 5 // the fewest samples for an interval

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *x, int count) {
    qsort(x, (size_t)count, sizeof x[0], compare_doubles);
    return count % 2 ? x[count / 2] : 0.5 * (x[count / 2 - 1] + x[count / 2]);
}

static double drawn_median(const double *samples, int count, struct random *random, double *room) {
    for (int i = 0; i < count; i++) {
        const int at = (int)random_uniform(random, 0.0, count);
        room[i] = samples[at < count ? at : count - 1];
    }
    return median_of(room, count);
}

// Set the interval. Sorts `drawn`.
static void take_interval(double drawn[DRAWS], compare_ratio *r) {
    qsort(drawn, DRAWS, sizeof drawn[0], compare_doubles);
    r->low = drawn[DRAWS / 40], r->high = drawn[DRAWS - 1 - DRAWS / 40];
}

static int verdict_of(const compare_ratio *r) {
    const double less = 1.0 - COMPARE_LEAST_CHANGE, more = 1.0 + COMPARE_LEAST_CHANGE;
    if (r->high < 1.0 && r->ratio < less) return COMPARE_FASTER;
    if (r->low > 1.0 && r->ratio > more) return COMPARE_SLOWER;
    if (r->low >= 1.0 - COMPARE_MOST_DOUBT && r->high <= 1.0 + COMPARE_MOST_DOUBT) return COMPARE_SAME;
    return COMPARE_INCONCLUSIVE;
}

// Without samples: the interval from the extremes of median and spread of both sides.
static void by_spread(const compare_times *a, const compare_times *b, compare_ratio *r) {
    const double least_a = a->median > a->spread ? a->median - a->spread : 0.0;
    r->low = (b->median > b->spread ? b->median - b->spread : 0.0) / (a->median + a->spread);
    r->high = least_a > 0.0 ? (b->median + b->spread) / least_a : 1e18;
}

// True if both are the same measurement, such as a file compared with its copy. Its scatter says
// nothing about a difference.
static bool is_one(const compare_times *a, const compare_times *b) {
    return a->median == b->median && a->spread == b->spread && a->count == b->count &&
           memcmp(a->samples, b->samples, (size_t)a->count * sizeof a->samples[0]) == 0;
}

compare_ratio compare_ratio_of(const compare_times *a, const compare_times *b) {
    compare_ratio r = {.ratio = b->median / a->median};
    if (is_one(a, b)) return (compare_ratio){.ratio = 1.0, .low = 1.0, .high = 1.0, .verdict = COMPARE_SAME};
    double *drawn = malloc((DRAWS + COMPARE_SAMPLES) * sizeof *drawn);
    if (drawn && a->count >= FEWEST && b->count >= FEWEST) {
        struct random random = {1};
        for (int i = 0; i < DRAWS; i++) {
            const double one = drawn_median(a->samples, a->count, &random, drawn + DRAWS);
            drawn[i] = drawn_median(b->samples, b->count, &random, drawn + DRAWS) / one;
        }
        take_interval(drawn, &r);
    } else {
        by_spread(a, b, &r);
    }
    free(drawn);
    r.verdict = verdict_of(&r);
    return r;
}

compare_ratio compare_ratio_paired(const double *ratios, int count) {
    compare_ratio r = {.low = 0.0, .high = 1e18};
    double *drawn = malloc((DRAWS + COMPARE_SAMPLES) * sizeof *drawn);
    if (drawn && count > 0 && count <= COMPARE_SAMPLES) {
        struct random random = {1};
        memcpy(drawn + DRAWS, ratios, (size_t)count * sizeof *ratios);
        r.ratio = median_of(drawn + DRAWS, count);
        for (int i = 0; i < DRAWS; i++) drawn[i] = drawn_median(ratios, count, &random, drawn + DRAWS);
        if (count >= FEWEST) take_interval(drawn, &r);
    }
    free(drawn);
    r.verdict = verdict_of(&r);
    return r;
}
