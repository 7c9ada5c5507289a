// mpi_plan.c: which way the cost model takes, by rates that are given, and that each is taken for a reason of its own.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/harness.h"
#include "mpi/mpi_shard.h"
#include "mpi/mpi_suite.h"

#define LARGE "attend-f32-b1-h8-n960-nkv960-d32-causal"

static clattn_mpi *world_of(double link, double message, double flops, double call) {
    const clattn_mpi_params params = {.comm = MPI_COMM_WORLD,
                                      .context = harness()->context,
                                      .queue = harness()->queue,
                                      .link_bytes_per_second = link,
                                      .link_seconds = message,
                                      .flops_per_second = flops,
                                      .call_seconds = call};
    clattn_mpi *world = NULL;
    suite_check(clattn_mpi_create(&params, &world) == CLATTN_OK, "clattn_mpi_create", "failed");
    return world;
}

// The plan of such rates, of rows shared so.
static clattn_mpi_plan plan_of(clattn_mpi *world, const char *name, shard_way rows, clattn_mpi_way way) {
    const shard_call call = {name, rows, rows, way, 0, false};
    clattn_mpi_plan plan;
    char why[300] = "";
    shard s;
    shard_open(&s, &call, suite.rank, suite.ranks);
    const clattn_status status = clattn_mpi_attention_plan(world, &s.params, &plan);
    clattn_mpi_last_error(world, why, sizeof why);
    suite_check(status == CLATTN_OK, "clattn_mpi_attention_plan", why);
    shard_close(&s);
    return plan;
}

static void expect(const clattn_mpi_plan *plan, clattn_mpi_way way, const char *what) {
    const char *name = clattn_mpi_way_name(way);
    char why[600];
    snprintf(why, sizeof why, "took %s, why: %s", clattn_mpi_way_name(plan->way), plan->why);
    suite_check(plan->way == way && !strncmp(plan->why, name, strlen(name)), what, why);
    for (int n = CLATTN_MPI_RING; n < CLATTN_MPI_WAY_COUNT; n++)
        suite_check(suite.ranks == 1 || plan->seconds[way] <= plan->seconds[n], what, "another takes less");
}

// Zigzag rows are as much work for all: what travels is hidden by the ring alone.
static void fast_calls(void) {
    clattn_mpi *world = world_of(1e9, 1e-9, 1e9, 1e-9);
    clattn_mpi_plan plan = plan_of(world, LARGE, SHARD_ZIGZAG, CLATTN_MPI_AUTO);
    expect(&plan, CLATTN_MPI_RING, "rows that are balanced");
    if (suite.ranks > 1) {
        // By hand: the causal half of the scores, 4 D operations each, shared by the ranks.
        const double seconds = 8 * 0.5 * 960 * 960 * 4 * 32 / 1e9 / suite.ranks;
        suite_check(fabs(plan.seconds[CLATTN_MPI_RING] / seconds - 1) < 0.05, "the ring's seconds",
                    "are not those by hand");
        suite_check(plan.sent_bytes[CLATTN_MPI_ALL_GATHER] >=
                        (uint64_t)(suite.ranks - 1) * (960 / (unsigned)suite.ranks) * 8 * 64 * 4,
                    "bytes of all_gather", "are too few");
        suite_check(strstr(plan.why, "all_gather") && strstr(plan.why, "GB/s"), "why", plan.why);
        plan = plan_of(world, LARGE, SHARD_BLOCKS, CLATTN_MPI_AUTO);
        // Blocks of causal rows are not: heads are, where they divide.
        if (8 % suite.ranks == 0) expect(&plan, CLATTN_MPI_ALL_TO_ALL, "rows that are not balanced");
        plan = plan_of(world, LARGE, SHARD_BLOCKS, CLATTN_MPI_ALL_GATHER);
        suite_check(plan.way == CLATTN_MPI_ALL_GATHER && strstr(plan.why, "as asked"),
                    "a way that is asked for", plan.why);
    }
    clattn_mpi_destroy(world);
}

// Many small calls and merges cost more than sending few keys at once.
static void slow_calls(void) {
    if (suite.ranks < 3) return;
    clattn_mpi *world = world_of(1e12, 1e-6, 1e12, 1e-3);
    const clattn_mpi_plan plan =
        plan_of(world, "attend-f32-b1-h1-n97-nkv97-d32-full", SHARD_BLOCKS, CLATTN_MPI_AUTO);
    expect(&plan, CLATTN_MPI_ALL_GATHER, "keys and values that are small");
    suite_check(isinf(plan.seconds[CLATTN_MPI_ALL_TO_ALL]) != 0, "heads that do not divide",
                "have a finite time");
    clattn_mpi_destroy(world);
}

void suite_plans(void) {
    fast_calls();
    slow_calls();
}
