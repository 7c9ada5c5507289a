// test_mpi.c: attention over MPI, run by tests/mpi/check_mpi.sh with 1 to 8 ranks. Results must
// equal those of one device within the error budget, for any distribution of rows.
//
//   test_mpi quick | all | N: N random calls | CASE ROWS ROWS WAY PIECE: as a failure prints
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "verification/sets/pairs.h"
#include "mpi/mpi_strides.h"
#include "mpi/mpi_suite.h"

#define Z SHARD_ZIGZAG
#define B SHARD_BLOCKS
#define P SHARD_PAGES
#define R SHARD_RAGGED
#define L SHARD_LAST
#define RING CLATTN_MPI_RING
#define GATHER CLATTN_MPI_ALL_GATHER
#define HEADS CLATTN_MPI_ALL_TO_ALL
// The first calls share few kernels. A quick run stops after them.
static const shard_call calls[] = {
    {"attend-f32-b1-h8-n97-nkv97-d32-causal", Z, Z, RING, 0, false},
    {"attend-f32-b1-h8-n97-nkv97-d32-causal", B, R, RING, 16, false},
    {"attend-f32-b1-h8-n97-nkv97-d32-causal", R, Z, GATHER, 0, false},
    {"attend-f32-b1-h8-n97-nkv97-d32-causal", Z, P, HEADS, 0, false},
    {"attend-f32-b2-h8-hkv4-n60-nkv90-d32-causal-softcap5-window40:0-alibi-sinks-qlen33:60-kvlen90:41", Z, R,
     RING, 0, false},
    {"attend-f32-b2-h8-hkv4-n60-nkv90-d32-causal-softcap5-window40:0-alibi-sinks-qlen33:60-kvlen90:41", Z, R,
     HEADS, 0, false},
    // Only the second chunk of a piece is sent on.
    {"attend-f32-b2-h8-hkv4-n97-nkv97-d32-causal-softcap5-window9:0-alibi-sinks-qlen97:60-kvlen97:41", Z, Z,
     RING, 0, false},
    {"decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal", B, P, 0, 0, true},
    {"attend-f32-b1-h8-n33-nkv64-d64-dv32-full-kvu4-groups32-scalesf16-zeros", R, R, RING, 9, false},
    {"attend-f32-b1-h8-n33-nkv64-d64-dv32-full-kvu4-groups32-scalesf16-zeros", Z, P, HEADS, 0, false},
    {"backward-f32-b1-h8-n97-nkv97-d32-causal", Z, Z, RING, 0, false},
    {"backward-f32-b2-h8-hkv4-n60-nkv90-d32-causal-dlse-softcap5-window40:0-biasqk-alibi-sinks-qlen33:60-"
     "kvlen90:41",
     Z, R, RING, 16, false},
    {"backward-f32-b1-h6-hkv3-n97-nkv97-d32-causal-alibi", Z, P, HEADS, 0, false},
#define QUICK 13
    {"attend-f32-b1-h2-hkv1-n97-nkv97-d32-causal", Z, Z, RING, 0, false},
    {"attend-f32-b1-h2-hkv1-n97-nkv97-d32-causal", B, R, RING, 16, false},
    {"attend-f32-b1-h2-hkv1-n50-nkv131-d32-full", R, R, RING, 7, false},
    {"attend-f32-b1-h2-hkv1-n50-nkv131-d32-full", L, B, RING, 0, false},
    {"attend-f32-b2-h2-n60-nkv90-d32-causal-qlen33:60-kvlen90:41", Z, Z, RING, 0, false},
    {"attend-f32-b2-h2-n60-nkv90-d32-causal-qlen33:60-kvlen90:41", R, P, RING, 0, false},
    {"attend-f32-b1-h2-n80-nkv80-d32-causal-windowm1:9-alibi", Z, R, RING, 0, false},
    {"attend-f32-b1-h2-n80-nkv80-d32-full-window20:3", B, B, RING, 0, false},
    {"attend-bf16-b2-h4-hkv2-n40-nkv70-d32-dv16-causal-softcap5-sinks", Z, Z, RING, 0, false},
    {"attend-f16-b2-h2-n33-nkv40-d32-full-maskqk-bias1hqk", R, R, RING, 0, false},
    {"attend-f32-b1-h2-n33-nkv64-d32-full-kvi8-headscales-offsets", R, R, RING, 9, false},
    {"attend-f32-b1-h2-n33-nkv64-d32-full-kvi8-valuesf16", R, R, RING, 9, false},
    {"attend-f32-b1-h2-n33-nkv64-d32-full-kvbf16-valuesf8e4m3", R, R, GATHER, 0, false},
    {"attend-bf16-b1-h8-n33-nkv64-d32-full-valuesi8", R, R, HEADS, 0, false},
    {"attend-f16-b1-h2-n33-nkv64-d64-dv96-full-kvi8-valuesu4-groups32-valuegroups96-zeros", R, P, GATHER, 0,
     false},
    {"attend-bf16-b2-h4-hkv2-n40-nkv70-d64-causal-kvi4-groups64-scalesbf16-lse", Z, Z, RING, 7, false},
    // some rows see no key
    {"attend-f32-b1-h2-n64-nkv20-d64-causal-kvi4-zeros", Z, B, RING, 0, false},
    {"attend-f32-b2-h2-n40-nkv40-d32-causal-alibi-qlen-kvlen-mods", Z, Z, RING, 0, false},
    {"attend-f32-b1-h1-n1-nkv1-d32-causal", B, B, RING, 0, false},
    {"attend-f32-b1-h2-n64-nkv20-d32-causal-kvi8", Z, B, RING, 0, false}, // some rows see no key
    {"attend-f32-b1-h2-n40-nkv20-d32-causal-sinks-devicesinks", Z, B, RING, 0, false},
    {"attend-f32-b2-h2-n60-nkv90-d32-causal-qlen33:60-kvlen90:41", Z, R, GATHER, 0, false},
    {"attend-f16-b2-h2-n33-nkv40-d32-full-maskqk-bias1hqk", R, R, GATHER, 0, false},
    {"attend-f32-b2-h2-n40-nkv40-d32-causal-alibi-qlen-kvlen-mods", Z, Z, GATHER, 0, false},
    {"attend-f32-b1-h2-n33-nkv64-d32-full-kvi8-headscales-offsets", R, R, GATHER, 0, false},
    {"attend-f32-b2-h16-hkv8-n60-nkv90-d32-causal-qlen33:60-kvlen90:41", Z, R, HEADS, 0, false},
    {"attend-bf16-b2-h8-n40-nkv70-d32-dv16-causal-softcap5-sinks", Z, P, HEADS, 0, false},
    {"attend-f32-b2-h8-n40-nkv40-d32-causal-alibi-qlen-kvlen-mods", Z, Z, HEADS, 0, false},
    {"attend-f32-b1-h8-n33-nkv64-d32-full-kvi8-headscales-offsets", R, L, HEADS, 0, false},
    {"attend-f32-b1-h8-n97-nkv97-d32-causal", Z, Z, CLATTN_MPI_AUTO, 0, false},
    {"backward-bf16-b2-h4-hkv2-n40-nkv70-d32-dv16-causal-dlse-softcap5-sinks", Z, Z, RING, 0, false},
    {"backward-f16-b2-h2-n33-nkv40-d32-full-gradf32-maskqk-bias1hqk", R, R, RING, 7, false},
    {"backward-f32-b1-h6-hkv2-n33-nkv64-d32-full-biask-headscales-offsets", P, P, RING, 0, false},
    {"backward-f32-b2-h2-n40-nkv40-d32-causal-alibi-qlen-kvlen-mods", Z, Z, RING, 0, false},
    {"backward-f32-b2-h2-n40-nkv40-d32-causal-qlen-mods-modsread-modsgradient", Z, R, RING, 13, false},
    // some rows see no key
    {"backward-f32-b1-h2-n64-nkv20-d32-causal-dlse-sinks", Z, B, RING, 0, false},
    {"backward-f32-b1-h2-n50-nkv131-d32-full", L, B, RING, 0, false},
    {"backward-f32-b1-h1-n1-nkv1-d32-causal", B, B, RING, 0, false},
    {"backward-f32-b1-h2-n40-nkv40-d32-causal-dlse-sinks-devicesinks-onlys", Z, B, RING, 0, false},
    {"backward-bf16-b2-h8-n40-nkv70-d32-dv16-causal-dlse-gradf32-softcap5-alibi-sinks", Z, P, HEADS, 0,
     false},
    {"backward-f32-b2-h16-hkv8-n60-nkv90-d32-causal-headscales-qlen33:60-kvlen90:41", Z, R, HEADS, 0, false},
    {"backward-f32-b2-h8-n40-nkv40-d32-causal-alibi-qlen-kvlen-mods", Z, Z, HEADS, 0, false},
    {"backward-f32-b1-h8-n97-nkv97-d32-causal", Z, Z, CLATTN_MPI_AUTO, 0, false},
    {"decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvlen300:17-sinks", B, P, 0, 0, true},
    {"decode-f32-b1-h4-hkv2-n3-nkv90-d64-causal-alibi", B, P, 0, 0, true},
    {"decode-f16-b2-h8-hkv2-n1-nkv300-d64-causal-kvu4-groups32-scalesf16-zeros", B, P, 0, 0, true},
    {"decode-f16-b1-h4-hkv2-n3-nkv90-d64-causal-kvi4-groups64-alibi", B, L, 0, 0, true},
    {"decode-bf16-b2-h4-hkv4-n1-nkv90-d64-full-window40:0-offsets", B, R, 0, 0, true},
};

static int64_t kv_heads_of(const char *name) {
    struct test_case test;
    char why[256];
    return case_read(name, &test, why) ? test.kv_heads : 1;
}

static void run_calls(size_t count) {
    char why[256], what[512];
    for (size_t n = 0; n < count; n++) {
        clattn_mpi_report report = {0};
        shard_call call = calls[n];
        if (call.strategy == HEADS && kv_heads_of(call.name) % suite.ranks) call.strategy = CLATTN_MPI_AUTO;
        const bool good = shard_holds(suite.world, &call, &report, why);
        snprintf(what, sizeof what, "%s, rows %d and %d, strategy %d", calls[n].name, calls[n].q, calls[n].kv,
                 calls[n].strategy);
        suite_check(good, what, why);
    }
}

// The same ranks with the same rows return the same bits.
static void run_twice(void) {
    static const shard_call twice[] = {
        {"attend-bf16-b2-h8-n40-nkv70-d32-dv16-causal-softcap5-sinks", Z, Z, RING, 16, false},
        {"attend-bf16-b2-h8-n40-nkv70-d32-dv16-causal-softcap5-sinks", Z, R, GATHER, 0, false},
        {"decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal", B, P, 0, 0, true},
        {"backward-bf16-b2-h8-n40-nkv70-d32-dv16-causal-softcap5-sinks", Z, Z, RING, 16, false},
    };
    for (size_t n = 0; n < sizeof twice / sizeof *twice; n++) {
        char why[256] = "";
        suite_check(shard_repeats(suite.world, &twice[n], why), twice[n].name, why);
    }
}

// A covering array over options of the call and of its distribution: every two values of every two
// options occur. Sizes are random, but the same on all ranks and in all runs. The last options are
// enum values, and bytes of pieces.
enum {
    CALL,
    OF_CALL,
    TYPE,
    OF_HEADS,
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
static const struct pairs_factor factors[FACTORS] = {
    [CALL] = {"call", PAIRS_RUN, false, {"attend", "backward"}},
    [OF_CALL] = {"derivatives", PAIRS_RUN, false, {"", "-dlse", "-gradf32"}},
    [TYPE] = {"type", PAIRS_RUN, false, {"f32", "f16", "bf16"}},
    [OF_HEADS] = {"heads", PAIRS_RUN, false, {"h8-hkv8", "h8-hkv2", "h16-hkv8", "h3-hkv1"}},
    [ALIGNED] = {"aligned",
                 PAIRS_RUN,
                 false,
                 {"full", "causal", "causal-topleft", "causal-offset9", "causal-offsets"}},
    [WINDOW] = {"window", PAIRS_RUN, false, {"", "-window20:0", "-window7:9", "-windowm1:3"}},
    [LENGTHS] = {"lengths", PAIRS_RUN, false, {"", "-kvlen", "-qlen", "-qlen-kvlen"}},
    [CAP] = {"cap", PAIRS_RUN, false, {"", "-softcap5"}},
    [SINKS] = {"sinks", PAIRS_RUN, false, {"", "-sinks", "-sinks-devicesinks"}},
    [MAPS] = {"maps", PAIRS_RUN, false, {"", "-maskqk", "-bias1hqk", "-maskb11k"}},
    [SLOPES] = {"slopes", PAIRS_RUN, false, {"", "-alibi", "-headscales"}},
    [KEYS] = {"keys", PAIRS_RUN, false, {"", "-kvi8"}},
    [WAY] = {"strategy", PAIRS_RUN, false, {"0", "1", "2", "3"}},
    [Q_ROWS] = {"q_rows", PAIRS_RUN, false, {"0", "1", "2", "3", "4"}},
    [KV_ROWS] = {"kv_rows", PAIRS_RUN, false, {"0", "1", "2", "3", "4"}},
    [PIECE] = {"piece", PAIRS_RUN, false, {"0", "1", "13", "64"}},
};
static const struct pairs_options options = {.factors = factors, .count = FACTORS};

static shard_call call_of(const struct pairs_row *row, struct random *random, char name[256]) {
    const char *of[FACTORS];
    for (int n = 0; n < FACTORS; n++) of[n] = factors[n].levels[row->level[n]];
    const int q = (int)random_uniform(random, 1, 151), kv = (int)random_uniform(random, 1, 201),
              batch = (int)random_uniform(random, 1, 3);
    const bool gradients = row->level[CALL] > 0;
    snprintf(name, 256, "%s-%s-b%d-%s-n%d-nkv%d-d32-%s%s%s%s%s%s%s%s", of[CALL], of[TYPE], batch,
             of[OF_HEADS], q, kv, of[ALIGNED], gradients ? of[OF_CALL] : of[KEYS], of[CAP], of[WINDOW],
             of[MAPS], of[SLOPES], of[SINKS], of[LENGTHS]);
    shard_call call = {.name = name, .q = (shard_way)atoi(of[Q_ROWS]), .kv = (shard_way)atoi(of[KV_ROWS])};
    call.strategy = (clattn_mpi_strategy)atoi(of[WAY]), call.piece_rows = atoi(of[PIECE]);
    const bool heads = row->level[OF_HEADS] < 3 && 8 % suite.ranks == 0 && !*of[MAPS] &&
                       (row->level[OF_HEADS] != 1 || suite.ranks <= 2);
    if (call.strategy == CLATTN_MPI_ALL_TO_ALL && !heads) call.strategy = CLATTN_MPI_AUTO;
    if (call.strategy == CLATTN_MPI_ALL_GATHER && gradients) call.strategy = CLATTN_MPI_RING;
    return call;
}

static void run_random(int count) {
    struct random random = {20240607};
    struct pairs array;
    int ways[CLATTN_MPI_STRATEGY_COUNT] = {0};
    pairs_make_of(&options, 1, &array);
    suite_check(array.count > 0 && pairs_missing(&array) == 0, "the covering array", "is not whole");
    for (int n = 0; n < count; n++) {
        char name[256], why[256] = "", what[512];
        const shard_call call = call_of(&array.rows[n % array.count], &random, name);
        clattn_mpi_report report = {0};
        const bool good = shard_holds(suite.world, &call, &report, why);
        snprintf(what, sizeof what, "%s, rows %d and %d, strategy %d, pieces of %d", name, call.q, call.kv,
                 call.strategy, (int)call.piece_rows);
        suite_check(good, what, why);
        ways[report.plan.strategy]++;
    }
    if (suite.rank == 0)
        printf("%d calls of %d rows of options: %d ring, %d all_to_all, %d all_gather\n", count, array.count,
               ways[CLATTN_MPI_RING], ways[CLATTN_MPI_ALL_TO_ALL], ways[CLATTN_MPI_ALL_GATHER]);
    pairs_free(&array);
}

// Fail unless ranks that were started on two drivers have two.
static void check_drivers(void) {
    char mine[256] = "", first[256];
    snprintf(mine, sizeof mine, "%s", clattn_context_capabilities(harness()->context)->driver);
    memcpy(first, mine, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    int other = strcmp(first, mine) != 0, all = 0;
    MPI_Allreduce(&other, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    suite_check(!getenv("CLATTN_TEST_MIXED") || all > 0, "ranks on two drivers", first);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &suite.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &suite.ranks);
    harness_start();
    const clattn_mpi_params params = {
        .comm = MPI_COMM_WORLD, .context = harness()->context, .queue = harness()->queue};
    const clattn_status status = clattn_mpi_create(&params, &suite.world);
    if (status != CLATTN_OK) {
        fprintf(stderr, "clattn_mpi_create: %s\n", clattn_status_name(status));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const bool quick = argc > 1 && !strcmp(argv[1], "quick"), whole = argc > 1 && !strcmp(argv[1], "all");
    check_drivers();
    if (quick || whole) {
        suite_plans(quick);
        suite_faults();
        suite_strides(quick);
        suite_layers(quick);
        run_calls(quick ? QUICK : sizeof calls / sizeof *calls);
        if (whole) run_twice();
    } else if (argc > 5) {
        const shard_call call = {argv[1],
                                 (shard_way)atoi(argv[2]),
                                 (shard_way)atoi(argv[3]),
                                 (clattn_mpi_strategy)atoi(argv[4]),
                                 atoi(argv[5]),
                                 !strncmp(argv[1], "decode", 6)};
        char why[256] = "";
        clattn_mpi_report report = {0};
        suite_check(shard_holds(suite.world, &call, &report, why), argv[1], why);
    } else {
        run_random(argc > 1 ? atoi(argv[1]) : 0);
    }
    clattn_mpi_destroy(suite.world);
    harness_stop();
    const int mine[2] = {suite.checks, suite.failures};
    int all[2] = {0};
    MPI_Reduce(mine, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (suite.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (all[0] - all[1]) / all[0], all[0],
               all[1]);
    MPI_Finalize();
    return suite.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
