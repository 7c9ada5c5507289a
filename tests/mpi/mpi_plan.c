// mpi_plan.c: MPI plans. Checks which strategy the cost model chooses for given rates. Compares the
// planned memory with the memory that a call uses: buffers are counted by the OpenCL layer, host
// memory by the world's own allocation functions. Then each host allocation and each OpenCL call
// fails once on one rank. All ranks must return the error, and none may hang.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "support/layer_client.h"
#include "mpi/mpi_suite.h"

#define FEWER "attend-f32-b1-h8-n97-nkv97-d32-causal"
#define FEWER_GRADIENTS "backward-f32-b1-h8-n97-nkv97-d32-causal"
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

// Returns the plan with the rates of `world`. Rows are distributed by `rows`; `strategy` is the
// requested strategy.
static clattn_mpi_plan plan_of(clattn_mpi *world, const char *name, shard_way rows,
                               clattn_mpi_strategy strategy) {
    const shard_call call = {name, rows, rows, strategy, 0, false};
    clattn_mpi_plan plan;
    char why[300] = "";
    shard s;
    shard_open(&s, &call, suite.rank, suite.ranks);
    const clattn_status status = s.whole.op == CASE_BACKWARD
                                     ? clattn_mpi_attention_backward_plan(world, &s.backward, &plan)
                                     : clattn_mpi_attention_plan(world, &s.params, &plan);
    clattn_mpi_last_error(world, why, sizeof why);
    suite_check(status == CLATTN_OK, "clattn_mpi_attention_plan", why);
    shard_close(&s);
    return plan;
}

static void expect(const clattn_mpi_plan *plan, clattn_mpi_strategy strategy, const char *what) {
    const char *name = clattn_mpi_strategy_name(strategy);
    char why[600];
    snprintf(why, sizeof why, "took %s, why: %s", clattn_mpi_strategy_name(plan->strategy), plan->why);
    suite_check(plan->strategy == strategy && !strncmp(plan->why, name, strlen(name)), what, why);
    for (int n = CLATTN_MPI_RING; n < CLATTN_MPI_STRATEGY_COUNT; n++)
        suite_check(suite.ranks == 1 || plan->seconds[strategy] <= plan->seconds[n], what,
                    "another takes less");
}

// Zigzag rows balance the work. Only the ring hides communication behind it.
static void fast_calls(void) {
    clattn_mpi *world = world_of(1e9, 1e-9, 1e9, 1e-9);
    clattn_mpi_plan plan = plan_of(world, LARGE, SHARD_ZIGZAG, CLATTN_MPI_AUTO);
    expect(&plan, CLATTN_MPI_RING, "rows that are balanced");
    if (suite.ranks > 1) {
        // By hand: half of the scores (causal), 4 D operations each, divided by the ranks.
        const double seconds = 8 * 0.5 * 960 * 960 * 4 * 32 / 1e9 / suite.ranks;
        suite_check(fabs(plan.seconds[CLATTN_MPI_RING] / seconds - 1) < 0.05, "the ring's seconds",
                    "are not those by hand");
        suite_check(plan.sent_bytes[CLATTN_MPI_ALL_GATHER] >=
                        (uint64_t)(suite.ranks - 1) * (960 / (unsigned)suite.ranks) * 8 * 64 * 4,
                    "bytes of all_gather", "are too few");
        suite_check(strstr(plan.why, "all_gather") && strstr(plan.why, "GB/s"), "why", plan.why);
        plan = plan_of(world, LARGE, SHARD_BLOCKS, CLATTN_MPI_AUTO);
        // Blocks of causal rows are unbalanced. Heads are balanced, if the ranks divide them.
        if (8 % suite.ranks == 0) expect(&plan, CLATTN_MPI_ALL_TO_ALL, "rows that are not balanced");
        plan = plan_of(world, LARGE, SHARD_BLOCKS, CLATTN_MPI_ALL_GATHER);
        suite_check(plan.strategy == CLATTN_MPI_ALL_GATHER && strstr(plan.why, "as asked"),
                    "a way that is asked for", plan.why);
    }
    clattn_mpi_destroy(world);
}

// Gradients support two ways. In both they send and compute more than attention does.
static void of_gradients(void) {
    clattn_mpi *world = world_of(1e9, 1e-9, 1e9, 1e-9);
    const clattn_mpi_plan attention = plan_of(world, FEWER, SHARD_ZIGZAG, CLATTN_MPI_AUTO),
                          gradients = plan_of(world, FEWER_GRADIENTS, SHARD_ZIGZAG, CLATTN_MPI_AUTO);
    expect(&gradients, gradients.strategy, "a plan of gradients");
    for (int n = CLATTN_MPI_RING; suite.ranks > 1 && n <= CLATTN_MPI_ALL_TO_ALL; n++)
        suite_check(isinf(attention.seconds[n]) || (gradients.seconds[n] > 2 * attention.seconds[n] &&
                                                    gradients.sent_bytes[n] > attention.sent_bytes[n]),
                    clattn_mpi_strategy_name((clattn_mpi_strategy)n),
                    "of gradients is as cheap as attention");
    suite_check(gradients.strategy != CLATTN_MPI_ALL_GATHER &&
                    (suite.ranks == 1 || isinf(gradients.seconds[CLATTN_MPI_ALL_GATHER])),
                "gradients by all_gather", gradients.why);
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

#define SMALL 8192 // bytes of tables, which grow with ranks, segments and pieces

static struct heap {
    size_t live, most;
    // number of allocations so far; refuse: number of the allocation that fails, 0: none
    long taken, refuse;
} heap;

typedef union block {
    size_t bytes;
    max_align_t align;
} block;

static void *take(void *user, size_t bytes) {
    struct heap *h = user;
    block *b = ++h->taken == h->refuse ? NULL : malloc(sizeof *b + bytes);
    if (!b) return NULL;
    b->bytes = bytes;
    h->live += bytes;
    if (h->live > h->most) h->most = h->live;
    return memset(b + 1, 0xa5, bytes);
}

static void give_back(void *user, void *memory) {
    struct heap *h = user;
    block *b = (block *)memory - 1;
    h->live -= b->bytes;
    free(b);
}

static clattn_status open_world(clattn_mpi **world) {
    const clattn_mpi_params params = {.comm = MPI_COMM_WORLD,
                                      .context = harness()->context,
                                      .queue = harness()->queue,
                                      .host_memory = {take, give_back, &heap}};
    return clattn_mpi_create(&params, world);
}

static clattn_status run(clattn_mpi *world, const shard *s, bool decode, clattn_mpi_report *report) {
    return shard_run(world, s, decode, report);
}

static bool possible(const shard_call *call) {
    return call->strategy != CLATTN_MPI_ALL_TO_ALL || 8 % suite.ranks == 0;
}

#define Z SHARD_ZIGZAG
#define DECODE "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal"
#define PLAIN "attend-f32-b1-h8-n960-nkv960-d32-causal"
#define GRADIENTS_TOO "backward-bf16-b1-h8-n960-nkv960-d32-causal"
static const shard_call measured[] = {
    {PLAIN, Z, Z, CLATTN_MPI_RING, 16, false},
    {PLAIN "-qlen", Z, Z, CLATTN_MPI_RING, 16, false},
    {DECODE, SHARD_BLOCKS, SHARD_PAGES, 0, 0, true},
    {GRADIENTS_TOO "-alibi-sinks-biasqk-qlen", Z, Z, CLATTN_MPI_RING, 64, false},
    {GRADIENTS_TOO "-dlse-gradf32-mods", Z, Z, CLATTN_MPI_RING, 0, false},
    {GRADIENTS_TOO "-dlse-alibi-qlen", Z, Z, CLATTN_MPI_ALL_TO_ALL, 0, false},
    {"attend-bf16-b1-h8-n960-nkv960-d32-causal-lse", Z, Z, CLATTN_MPI_RING, 64, false},
    {PLAIN, Z, Z, CLATTN_MPI_ALL_GATHER, 0, false},
    {PLAIN "-qlen-mods", Z, Z, CLATTN_MPI_ALL_TO_ALL, 0, false},
};
static const shard_call refused[] = {
    {FEWER "-qlen", Z, Z, CLATTN_MPI_RING, 32, false},
    {DECODE, SHARD_BLOCKS, SHARD_PAGES, 0, 0, true},
    {FEWER_GRADIENTS "-alibi-gradf16", Z, Z, CLATTN_MPI_RING, 32, false},
    {FEWER_GRADIENTS "-alibi", Z, Z, CLATTN_MPI_ALL_TO_ALL, 0, false},
    {FEWER "-qlen-mods", Z, Z, CLATTN_MPI_RING, 32, false},
    {FEWER "-mods", SHARD_BLOCKS, SHARD_BLOCKS, CLATTN_MPI_ALL_GATHER, 0, false},
    {FEWER "-mods", Z, Z, CLATTN_MPI_ALL_TO_ALL, 0, false},
    {FEWER, Z, Z, CLATTN_MPI_AUTO, 0, false},
};
enum {
    MEASURED = sizeof measured / sizeof *measured,
    REFUSED = sizeof refused / sizeof *refused,
    RINGS = 2,
    FEW_MEASURED = 4,
    FEW_REFUSED = 3
};

// Memory of a ring besides the call's tensors: two pieces and a partial result. With lengths also a
// float32 result, because the caller's must keep some rows.
static void expect_formula(const shard *s, const clattn_mpi_plan *plan, bool lengths, const char *what) {
    const size_t rows = 16, heads = 8, dim = 32;
    const size_t piece = 2 * rows * heads * dim * 4 + 4 * 256, // each part rounded up to 256
        result = (size_t)s->q.count * heads * (dim + 1) * 4, most = 2 * piece + (lengths ? 2 : 1) * result;
    char why[128];
    snprintf(why, sizeof why, "%zu bytes on the device and %zu on the host", plan->device_bytes,
             plan->host_bytes);
    suite_check(plan->device_bytes <= most && plan->host_bytes <= 2 * piece &&
                    (suite.ranks == 1 || plan->device_bytes >= piece),
                what, why);
}

// Measure the second of two equal calls, in which the context creates nothing for its own cache.
static void measure(clattn_mpi *world, const shard_call *call, bool ring, bool lengths) {
    const struct layer_control *layer = layer_client();
    struct layer_counts before = {.bytes = 0}, after = {.bytes = 0};
    clattn_mpi_report report = {.seconds = 0};
    char why[256];
    shard s;
    if (!possible(call)) return;
    shard_open(&s, call, suite.rank, suite.ranks);
    clattn_status status = run(world, &s, call->decode, NULL);
    if (layer) layer->count(&before), layer->watch();
    const size_t held = heap.most = heap.live;
    if (status == CLATTN_OK) status = run(world, &s, call->decode, &report);
    if (layer) layer->count(&after);
    const size_t host = heap.most - held, device = (size_t)(after.most_bytes - before.bytes);
    const clattn_mpi_plan *plan = &report.plan;
    snprintf(why, sizeof why,
             "%s: took %zu bytes on the device and %zu on the host, the plan says %zu and %zu",
             clattn_status_name(status), device, host, plan->device_bytes, plan->host_bytes);
    suite_check(status == CLATTN_OK && (!layer || device == plan->device_bytes) && host >= plan->host_bytes &&
                    host <= plan->host_bytes + SMALL,
                call->name, why);
    suite_check(heap.live == held && after.bytes == before.bytes, call->name, "keeps what it took");
    if (ring) expect_formula(&s, plan, lengths, call->name);
    shard_close(&s);
}

// Fail unless all ranks return the same status. Returns false for CLATTN_OK.
static bool told(clattn_mpi *world, clattn_status status, clattn_status want, const char *name, long n) {
    int mine = (int)status, least = 0, most = 0;
    char text[400] = "", what[300], whose[32];
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (world) clattn_mpi_last_error(world, text, sizeof text);
    snprintf(what, sizeof what, "%s, refusing number %ld on the last rank: status %d, of all %d to %d", name,
             n, mine, least, most);
    snprintf(whose, sizeof whose, "rank %d: ", suite.ranks - 1);
    const bool named = status == CLATTN_OK || !world || !strncmp(text, whose, strlen(whose));
    suite_check(least == most && (status == want || want == CLATTN_OK) && named, what, text);
    return status != CLATTN_OK;
}

static void refuse(long n) {
    heap.taken = 0;
    heap.refuse = suite.rank == suite.ranks - 1 ? n : 0;
}

static void refuse_host(clattn_mpi *world, const shard_call *call) {
    const size_t held = heap.live;
    bool failed = true;
    long n = 0;
    shard s;
    if (!possible(call)) return;
    shard_open(&s, call, suite.rank, suite.ranks);
    while (failed && ++n < 100) {
        refuse(n);
        const clattn_status status = run(world, &s, call->decode, NULL);
        failed = told(world, status, status == CLATTN_OK ? CLATTN_OK : CLATTN_OUT_OF_MEMORY, call->name, n);
        suite_check(heap.live == held, call->name, "a call that was refused keeps host memory");
    }
    refuse(0);
    suite_check(!failed && n > 5, call->name, "no piece of host memory was refused, or all were");
    shard_close(&s);
}

static void refuse_worlds(void) {
    bool failed = true;
    for (long n = 1; failed; n++) {
        clattn_mpi *world = NULL;
        refuse(n);
        const clattn_status status = open_world(&world);
        failed = told(NULL, status, status == CLATTN_OK ? CLATTN_OK : CLATTN_OUT_OF_MEMORY,
                      "clattn_mpi_create", n);
        suite_check(!world == failed, "clattn_mpi_create", "made one though refused");
        clattn_mpi_destroy(world);
        suite_check(heap.live == 0, "clattn_mpi_create", "keeps host memory");
    }
    refuse(0);
    const clattn_mpi_params half = {.comm = MPI_COMM_WORLD,
                                    .context = harness()->context,
                                    .queue = harness()->queue,
                                    .host_memory = {take, NULL, &heap}};
    clattn_mpi *world = NULL;
    suite_check(clattn_mpi_create(&half, &world) == CLATTN_INVALID_ARGUMENT && !world, "half of host_memory",
                "was taken");
}

// Let every step-th OpenCL call fail on one rank, with an error that does not lose the device.
static void refuse_opencl(clattn_mpi *world, const shard_call *call, int step) {
    const struct layer_control *layer = layer_client();
    const bool last = suite.rank == suite.ranks - 1;
    int count = 0, failures = 0, has = layer != NULL, all = 0;
    shard s;
    MPI_Allreduce(&has, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (!all || !possible(call)) return;
    shard_open(&s, call, suite.rank, suite.ranks);
    layer->arm(0, 0);
    suite_check(run(world, &s, call->decode, NULL) == CLATTN_OK, call->name, "failed");
    count = layer->disarm().calls;
    MPI_Bcast(&count, 1, MPI_INT, suite.ranks - 1, MPI_COMM_WORLD);
    for (int n = 1; n <= count; n += step) {
        if (last) layer->arm(n, CL_OUT_OF_HOST_MEMORY);
        const clattn_status status = run(world, &s, call->decode, NULL);
        if (last) layer->disarm();
        failures += told(world, status, CLATTN_OK, call->name, n);
    }
    suite_check(run(world, &s, call->decode, NULL) == CLATTN_OK, call->name, "fails after calls that failed");
    suite_check(count > 5 && failures * step > count / 3, call->name, "few calls of OpenCL failed");
    shard_close(&s);
}

static void memory(bool quick) {
    clattn_mpi *world = NULL;
    refuse_worlds();
    suite_check(open_world(&world) == CLATTN_OK, "clattn_mpi_create", "failed");
    if (!world) return;
    for (int n = 0; n < (quick ? FEW_MEASURED : MEASURED); n++)
        measure(world, &measured[n], n < RINGS, n == 1);
    for (int n = 0; n < (quick ? FEW_REFUSED : REFUSED); n++) {
        refuse_host(world, &refused[n]);
        refuse_opencl(world, &refused[n], quick ? 13 : 1);
    }
    clattn_mpi_destroy(world);
    suite_check(heap.live == 0, "clattn_mpi_destroy", "keeps host memory");
}

void suite_plans(bool quick) {
    fast_calls();
    of_gradients();
    slow_calls();
    memory(quick);
}
