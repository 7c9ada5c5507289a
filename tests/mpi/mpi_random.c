// mpi_random.c: a covering array of options, in which every two values of every two options meet, over sizes by chance, each shared in
// a way by chance. Numbers are from a seed, the same on all ranks and in all runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/mpi_shard.h"
#include "mpi/mpi_suite.h"

enum {
    TYPE,
    HEADS,
    ALIGNED,
    WINDOW,
    LENGTHS,
    CAP,
    SINKS,
    MAPS,
    SLOPES,
    KEYS,
    WAY,
    Q_ROWS,
    KV_ROWS,
    PIECE,
    FACTORS
};
#define MOST_LEVELS 5
// Tokens of a case's name; of the last five numbers of enums.
static const char *const levels[FACTORS][MOST_LEVELS] = {
    [TYPE] = {"f32", "f16", "bf16"},
    [HEADS] = {"h8-hkv8", "h8-hkv2", "h16-hkv8", "h3-hkv1"},
    [ALIGNED] = {"full", "causal", "causal-topleft", "causal-offset9", "causal-offsets"},
    [WINDOW] = {"", "-window20:0", "-window7:9", "-windowm1:3"},
    [LENGTHS] = {"", "-kvlen", "-qlen", "-qlen-kvlen"},
    [CAP] = {"", "-softcap5"},
    [SINKS] = {"", "-sinks", "-sinks-devicesinks"},
    [MAPS] = {"", "-maskqk", "-bias1hqk", "-maskb11k"},
    [SLOPES] = {"", "-alibi", "-headscales"},
    [KEYS] = {"", "-kvi8"},
    [WAY] = {"0", "1", "2", "3"},
    [Q_ROWS] = {"0", "1", "2", "3", "4"},
    [KV_ROWS] = {"0", "1", "2", "3", "4"},
    [PIECE] = {"0", "1", "13", "64"},
};
#define MOST_ROWS 64
static int rows[MOST_ROWS][FACTORS], row_count;
static bool met[FACTORS][MOST_LEVELS][FACTORS][MOST_LEVELS];

static int count_of(int factor) {
    int n = 0;
    while (n < MOST_LEVELS && levels[factor][n]) n++;
    return n;
}

// Pairs that a level of a factor would newly meet in a row of which the first factors stand.
static int gain(const int *row, const int *order, int done, int factor, int level) {
    int new = 0;
    for (int n = 0; n < done; n++) new += !met[order[n]][row[order[n]]][factor][level];
    return new;
}

// Greedy: a row begins with a pair that has not met, and takes of each further factor what meets most. False: all have met.
static bool add_row(uint64_t *seed) {
    int order[FACTORS], *row = rows[row_count], done = 0;
    for (int a = 0; a < FACTORS && !done; a++)
        for (int b = 0; b < a && !done; b++)
            for (int pair = 0; pair < count_of(a) * count_of(b) && !done; pair++) {
                const int x = pair / count_of(b), y = pair % count_of(b);
                if (met[a][x][b][y]) continue;
                order[0] = a, order[1] = b, row[a] = x, row[b] = y, done = 2;
            }
    if (!done || row_count == MOST_ROWS) return false;
    for (int factor = 0; factor < FACTORS; factor++) {
        if (factor == order[0] || factor == order[1]) continue;
        const int levels_here = count_of(factor), first = (int)(suite_random(seed) % (unsigned)levels_here);
        int best = first;
        for (int n = 1; n < levels_here; n++) {
            const int level = (first + n) % levels_here;
            if (gain(row, order, done, factor, level) > gain(row, order, done, factor, best)) best = level;
        }
        row[factor] = best;
        order[done++] = factor;
    }
    for (int a = 0; a < FACTORS; a++)
        for (int b = 0; b < FACTORS; b++) met[a][row[a]][b][row[b]] = true;
    return ++row_count;
}

uint64_t suite_random(uint64_t *seed) { // xorshift*
    *seed ^= *seed >> 12, *seed ^= *seed << 25, *seed ^= *seed >> 27;
    return (*seed * 0x2545F4914F6CDD1Du) >> 33;
}

static void name_of(const int *row, uint64_t *seed, char name[256]) {
    const int q = 1 + (int)(suite_random(seed) % 150), kv = 1 + (int)(suite_random(seed) % 200),
              batch = 1 + (int)(suite_random(seed) % 2);
    snprintf(name, 256, "attend-%s-b%d-%s-n%d-nkv%d-d32-%s%s%s%s%s%s%s%s", levels[TYPE][row[TYPE]], batch,
             levels[HEADS][row[HEADS]], q, kv, levels[ALIGNED][row[ALIGNED]], levels[KEYS][row[KEYS]],
             levels[CAP][row[CAP]], levels[WINDOW][row[WINDOW]], levels[MAPS][row[MAPS]],
             levels[SLOPES][row[SLOPES]], levels[SINKS][row[SINKS]], levels[LENGTHS][row[LENGTHS]]);
}

void suite_random_calls(int count) {
    uint64_t seed = 20240607;
    int ways[CLATTN_MPI_WAY_COUNT] = {0};
    memset(met, 0, sizeof met);
    row_count = 0;
    while (add_row(&seed)) {
    }
    suite_check(row_count > 0 && row_count < MOST_ROWS, "the covering array", "is not whole");
    for (int n = 0; n < count; n++) {
        char name[256], why[256] = "", what[512];
        const int *row = rows[n % row_count];
        name_of(row, &seed, name);
        shard_call call = {name,
                           (shard_way)row[Q_ROWS],
                           (shard_way)row[KV_ROWS],
                           (clattn_mpi_way)row[WAY],
                           atoi(levels[PIECE][row[PIECE]]),
                           false};
        const bool heads = row[HEADS] < 3 && suite.ranks <= 8 && 8 % suite.ranks == 0 && row[MAPS] == 0 &&
                           (row[HEADS] != 1 || suite.ranks <= 2);
        if (call.way == CLATTN_MPI_ALL_TO_ALL && !heads) call.way = CLATTN_MPI_AUTO;
        clattn_mpi_report report = {0};
        const bool good = shard_holds(suite.world, &call, &report, why);
        snprintf(what, sizeof what, "%s, rows %d and %d, way %d, pieces of %d", name, call.q, call.kv,
                 call.way, (int)call.piece_rows);
        suite_check(good, what, why);
        ways[report.plan.way]++;
    }
    if (suite.rank == 0)
        printf("%d calls of %d rows of options: %d ring, %d all_to_all, %d all_gather\n", count, row_count,
               ways[CLATTN_MPI_RING], ways[CLATTN_MPI_ALL_TO_ALL], ways[CLATTN_MPI_ALL_GATHER]);
}
