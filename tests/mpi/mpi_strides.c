// mpi_strides.c: the rule of last strides (tensor.h), for each way to distribute rows. Tensors that
// must be contiguous are refused on all ranks before anything large is sent. Other tensors lead to
// the same results with any stride.
#include <stddef.h>
#include <stdio.h>

#include "mpi/mpi_shard.h"
#include "mpi/mpi_strides.h"
#include "mpi/mpi_suite.h"

// Tensors of a forward call and of its gradients.
static const struct {
    const char *name;
    size_t at;
    bool any, gradient;
} tensors[] = {
#define STRIDED(name, any) {#name, offsetof(clattn_mpi_attention_params, name), any, false},
#define STRIDED_GRADIENT(name, any) {#name, offsetof(clattn_mpi_attention_backward_params, name), any, true},
#include "strided/strided_mpi.def"
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

// Way 0 is decode.
static const char *case_of(clattn_mpi_strategy strategy, const char *options, char name[160]) {
    snprintf(name, 160, "%s-f32-b2-h%d-n%d-nkv64-d32-full-kvi8-sinks-devicesinks-lse%s",
             strategy ? "attend" : "decode", suite.ranks, strategy ? 33 : 1, options);
    return name;
}

static clattn_status run(const clattn_mpi_attention_params *p, clattn_mpi_strategy strategy) {
    return strategy ? clattn_mpi_attention_run(suite.world, p, NULL)
                    : clattn_mpi_decode_run(suite.world, p, NULL);
}

// An invalid stride on the last rank only.
static void refused(clattn_mpi_strategy strategy) {
    char name[160], says[128], what[64];
    const shard_call call = {case_of(strategy, "", name), SHARD_BLOCKS, SHARD_BLOCKS, strategy, 0, !strategy};
    shard s;
    shard_open(&s, &call, suite.rank, suite.ranks);
    for (int n = 0; n < 2 * TENSORS; n++) {
        clattn_mpi_attention_params p = s.params;
        clattn_tensor *t = (clattn_tensor *)((char *)&p + tensors[n / 2].at);
        if (tensors[n / 2].any || tensors[n / 2].gradient) continue;
        if (suite.rank == suite.ranks - 1) t->stride[3] = n % 2 ? 0 : 2;
        snprintf(says, sizeof says, "rank %d: %s: last stride %d: the last axis must be contiguous (1)",
                 suite.ranks - 1, tensors[n / 2].name, n % 2 ? 0 : 2);
        snprintf(what, sizeof what, "strategy %d: %s's last stride", (int)strategy, tensors[n / 2].name);
        suite_sent = 0;
        suite_expect(run(&p, strategy), CLATTN_INVALID_ARGUMENT, says, what);
        suite_check(suite_sent == 0, what, "has sent something large");
    }
    shard_close(&s);
}

static const char *gradients_of(const char *options, char name[160]) {
    snprintf(name, 160, "backward-f32-b2-h%d-n33-nkv64-d32-full-dlse-alibi-sinks%s", suite.ranks, options);
    return name;
}

static void gradients_refused(clattn_mpi_strategy strategy) {
    char name[160], says[128], what[64];
    const shard_call call = {gradients_of("", name), SHARD_BLOCKS, SHARD_BLOCKS, strategy, 0, false};
    shard s;
    shard_open(&s, &call, suite.rank, suite.ranks);
    for (int n = 0; n < 2 * TENSORS; n++) {
        clattn_mpi_attention_backward_params p = s.backward;
        clattn_tensor *t = (clattn_tensor *)((char *)&p + tensors[n / 2].at);
        if (tensors[n / 2].any || !tensors[n / 2].gradient) continue;
        if (suite.rank == suite.ranks - 1) t->stride[3] = n % 2 ? 0 : 2;
        snprintf(says, sizeof says, "%s: last stride %d", tensors[n / 2].name, n % 2 ? 0 : 2);
        snprintf(what, sizeof what, "strategy %d: last stride of %s", (int)strategy, tensors[n / 2].name);
        suite_sent = 0;
        suite_expect(clattn_mpi_attention_backward_run(suite.world, &p, NULL), CLATTN_INVALID_ARGUMENT, says,
                     what);
        suite_check(suite_sent == 0, what, "has sent something large");
    }
    shard_close(&s);
}

// Masks and biases have other last strides than on the neighbouring rank (mpi_shard.c). Scales and
// lse have strides between heads.
static void right(clattn_mpi_strategy strategy) {
    char name[160], why[256] = "";
    clattn_mpi_report report;
    const bool maps = strategy != CLATTN_MPI_ALL_TO_ALL;
    const shard_call call = {case_of(strategy, maps ? "-scattered-maskqk-bias1hqk" : "-scattered", name),
                             SHARD_ZIGZAG,
                             SHARD_PAGES,
                             strategy,
                             0,
                             !strategy};
    const bool good = shard_holds(suite.world, &call, &report, why);
    suite_check(good, name, why);
}

static void gradients_right(clattn_mpi_strategy strategy) {
    char name[160], why[256] = "";
    clattn_mpi_report report;
    const bool maps = strategy != CLATTN_MPI_ALL_TO_ALL;
    const shard_call call = {gradients_of(maps ? "-scattered-bias1hqk" : "-scattered", name),
                             SHARD_ZIGZAG,
                             SHARD_PAGES,
                             strategy,
                             0,
                             false};
    const bool good = shard_holds(suite.world, &call, &report, why);
    suite_check(good, name, why);
}

void suite_strides(bool quick) {
    for (int strategy = CLATTN_MPI_AUTO; strategy < CLATTN_MPI_STRATEGY_COUNT; strategy++) {
        refused((clattn_mpi_strategy)strategy);
        if (!quick || strategy != CLATTN_MPI_RING) right((clattn_mpi_strategy)strategy);
    }
    static const clattn_mpi_strategy ways[] = {CLATTN_MPI_RING, CLATTN_MPI_ALL_TO_ALL};
    for (int n = 0; n < 2; n++) gradients_refused(ways[n]), gradients_right(ways[n]);
}
