// pairs.c: see pairs.h. A greedy algorithm: for each option in random order, a row selects the
// value that forms the rarest pairs. Rows of one configuration differ only in options that are not
// compiled.
#include "verification/sets/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/allocate.h"
#include "verification/reference/random.h"

#define UNSET 255
#define TRIES 200 // for a row whose values do not fit together

// The pairs of values that may meet, computed once, and how often each occurs in the rows so far.
struct seen {
    const struct pairs_options *options;
    bool meet[PAIRS_MOST_FACTORS][PAIRS_MOST_LEVELS][PAIRS_MOST_FACTORS][PAIRS_MOST_LEVELS];
    int times[PAIRS_MOST_FACTORS][PAIRS_MOST_LEVELS][PAIRS_MOST_FACTORS][PAIRS_MOST_LEVELS];
    unsigned thirds[PAIRS_MOST_FACTORS][PAIRS_MOST_LEVELS];
};

static int levels(const struct seen *seen, int factor) {
    return pairs_level_count(seen->options, factor);
}

static struct seen *begin(const struct pairs *p) {
    struct seen *seen = evidence_zeros(1, sizeof *seen);
    seen->options = p->options;
    for (int a = 0; a < seen->options->count; a++)
        for (int x = 0; x < levels(seen, a); x++) {
            seen->thirds[a][x] = p->family < 0 ? 0 : pairs_thirds(p->family, a, x);
            for (int b = 0; b < seen->options->count; b++)
                for (int y = 0; y < levels(seen, b); y++)
                    seen->meet[a][x][b][y] = p->family < 0 || pairs_meet(p->family, a, x, b, y);
        }
    return seen;
}

static int *times_of(struct seen *seen, int a, int level_a, int b, int level_b) {
    return a < b ? &seen->times[a][level_a][b][level_b] : &seen->times[b][level_b][a][level_a];
}

static void note(struct seen *seen, const struct pairs_row *row) {
    for (int a = 0; a < seen->options->count; a++)
        for (int b = a + 1; b < seen->options->count; b++)
            ++*times_of(seen, a, row->level[a], b, row->level[b]);
}

// A pair that no row has yet is worth more than all other pairs together.
static double worth(int times) {
    return times == 0 ? 1000.0 : 1.0 / (double)(times * times);
}

// The gain of adding a value to a row; negative: it does not fit one or two of the row's values.
static double gain(struct seen *seen, const struct pairs_row *row, int factor, int level) {
    double sum = 0.0;
    unsigned thirds = seen->thirds[factor][level];
    if (!seen->meet[factor][level][factor][level]) return -1.0;
    for (int other = 0; other < seen->options->count; other++) {
        const int taken = row->level[other];
        if (taken == UNSET) continue;
        if (!seen->meet[factor][level][other][taken]) return -1.0;
        thirds |= seen->thirds[other][taken];
        sum += worth(*times_of(seen, factor, level, other, taken));
    }
    return pairs_is_third(thirds) ? -1.0 : sum;
}

static int best_level(struct seen *seen, const struct pairs_row *row, int factor, struct random *random) {
    double best = -1.0;
    int chosen = UNSET;
    for (int level = 0; level < levels(seen, factor); level++) {
        const double here = gain(seen, row, factor, level);
        if (here < 0.0) continue;
        const double with_chance =
            here * (1.0 + random_uniform(random, 0, 1e-3)) + random_uniform(random, 0, 1e-6);
        if (with_chance > best) best = with_chance, chosen = level;
    }
    return chosen;
}

static void shuffle(int *order, int count, struct random *random) {
    for (int n = 0; n < count; n++) order[n] = n;
    for (int n = count - 1; n > 0; n--) {
        const int other = (int)random_uniform(random, 0, n + 1), kept = order[n];
        order[n] = order[other];
        order[other] = kept;
    }
}

// Set the values that are still unset. False: no value fits.
static bool fill(struct seen *seen, struct pairs_row *row, struct random *random) {
    int order[PAIRS_MOST_FACTORS];
    shuffle(order, seen->options->count, random);
    for (int n = 0; n < seen->options->count; n++) {
        if (row->level[order[n]] != UNSET) continue;
        const int level = best_level(seen, row, order[n], random);
        if (level == UNSET) return false;
        row->level[order[n]] = (unsigned char)level;
    }
    return true;
}

// Extend `from` several times and return the row with the most new pairs. False: no row fits.
static bool best_row(struct seen *seen, const struct pairs_row *from, struct random *random,
                     struct pairs_row *to) {
    double best = -1.0;
    for (int n = 0; n < TRIES && (n < 4 || best < 0.0); n++) {
        struct pairs_row row = *from;
        double all = 0.0;
        if (!fill(seen, &row, random)) continue;
        for (int a = 0; a < seen->options->count; a++)
            for (int b = a + 1; b < seen->options->count; b++)
                all += worth(*times_of(seen, a, row.level[a], b, row.level[b]));
        if (all > best) best = all, *to = row;
    }
    return best >= 0.0;
}

static bool is_compiled(const struct pairs *p, int factor) {
    return p->family < 0 ? p->options->factors[factor].when == PAIRS_COMPILED
                         : pairs_is_compiled(p->family, factor);
}

// Find a pair that no row has yet, among compiled options or among all options. False: there is
// none.
static bool find_unseen(const struct pairs *p, struct seen *seen, bool compiled, struct pairs_row *row) {
    for (int a = 0; a < seen->options->count; a++)
        for (int b = a + 1; b < seen->options->count; b++) {
            if (compiled && !(is_compiled(p, a) && is_compiled(p, b))) continue;
            for (int x = 0; x < levels(seen, a); x++)
                for (int y = 0; y < levels(seen, b); y++) {
                    if (!seen->meet[a][x][b][y] || *times_of(seen, a, x, b, y)) continue;
                    memset(row->level, UNSET, sizeof row->level);
                    row->level[a] = (unsigned char)x, row->level[b] = (unsigned char)y;
                    return true;
                }
        }
    return false;
}

// Start a row with the values of the next configuration, and the other values unset.
static void begin_as(const struct pairs *p, int number, struct pairs_row *row) {
    const struct pairs_row *first = p->rows; // the first rows are the first of each configuration
    *row = first[number % p->configurations];
    for (int f = 0; f < p->options->count; f++)
        if (!is_compiled(p, f)) row->level[f] = UNSET;
}

static void add(struct pairs *p, struct seen *seen, const struct pairs_row *row) {
    p->rows = evidence_grow(p->rows, (size_t)p->count + 1, sizeof *p->rows);
    p->rows[p->count++] = *row;
    note(seen, row);
}

// Add rows until all pairs of compiled values occur; then rows of those configurations; then rows
// for the pairs that are still missing.
static void make_rows(struct pairs *p, struct seen *seen, int least, struct random *random) {
    struct pairs_row from = {.configuration = 0}, row;
    while (find_unseen(p, seen, true, &from) && best_row(seen, &from, random, &row)) {
        row.configuration = p->configurations++;
        add(p, seen, &row);
    }
    for (int n = 0; p->count < least; n++) {
        begin_as(p, n, &from);
        if (best_row(seen, &from, random, &row)) add(p, seen, &row);
    }
    while (find_unseen(p, seen, false, &from) && best_row(seen, &from, random, &row)) {
        row.configuration = p->configurations++;
        add(p, seen, &row);
    }
}

static int family_of(const char *name) {
    int n = 0;
    while (pairs_families[n] && strcmp(pairs_families[n], name) != 0) n++;
    return pairs_families[n] ? n : -1;
}

static void make(struct pairs *p) {
    struct random random = {p->seed};
    struct seen *seen = begin(p);
    make_rows(p, seen, p->options->least, &random);
    free(seen);
}

bool pairs_make(const char *family, uint64_t seed, struct pairs *p) {
    *p = (struct pairs){.family = family_of(family), .seed = seed};
    if (p->family < 0) return false;
    p->options = pairs_options_of(p->family);
    make(p);
    return true;
}

void pairs_make_of(const struct pairs_options *options, uint64_t seed, struct pairs *p) {
    *p = (struct pairs){.family = -1, .options = options, .seed = seed};
    make(p);
}

void pairs_free(struct pairs *p) {
    free(p->rows);
    *p = (struct pairs){0};
}

int pairs_missing(const struct pairs *p) {
    struct seen *seen = begin(p);
    int count = 0;
    for (int n = 0; n < p->count; n++) note(seen, &p->rows[n]);
    for (int a = 0; a < seen->options->count; a++)
        for (int b = a + 1; b < seen->options->count; b++)
            for (int x = 0; x < levels(seen, a); x++)
                for (int y = 0; y < levels(seen, b); y++)
                    count += *times_of(seen, a, x, b, y) == 0 && seen->meet[a][x][b][y];
    free(seen);
    return count;
}

int pairs_all(int family) {
    const struct pairs none = {.family = family, .options = pairs_options_of(family)};
    return pairs_missing(&none);
}

struct test_case pairs_case(const struct pairs *p, int n) {
    char tokens[CASE_NAME_SIZE], why[256];
    struct test_case test;
    const struct pairs_options *o = p->options;
    size_t used = (size_t)snprintf(tokens, sizeof tokens, "%s", o->op);
    for (int f = 0; f < o->count; f++) {
        const char *level = o->factors[f].levels[p->rows[n].level[f]];
        if (o->factors[f].laid) continue;
        used += (size_t)snprintf(tokens + used, sizeof tokens - used, "%s%s", *level ? "-" : "", level);
    }
    snprintf(tokens + used, sizeof tokens - used, "-seed%llu",
             (unsigned long long)p->seed * 1000 + (unsigned long long)n);
    if (!case_read(tokens, &test, why)) evidence_end("pairs: %s: %s", tokens, why);
    for (int f = 0; f < o->count; f++)
        if (o->factors[f].laid) o->lay(&test, o->factors[f].levels[p->rows[n].level[f]]);
    if (!case_valid(&test, why)) evidence_end("pairs: %s: %s", tokens, why);
    test.kernel = pairs_kernel(p->family);
    return test;
}
