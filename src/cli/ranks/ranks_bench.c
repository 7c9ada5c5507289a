// ranks_bench.c: `clattn bench --mpi`: one attention call over 1, 2, 4, ... ranks. Strong scaling:
// the same sequence for all counts. Weak scaling: the same rows for each rank. Reports the share of
// transfers that the ring hides, and the bytes sent.
#include <clattn/mpi.h>

#include <math.h>

#include "verification/words/words.h"
#include "verification/device/opencl.h"
#include "cli/ranks/ranks.h"
#include "cli/common/report.h"

typedef struct ranks_bench {
    int64_t n, heads, kv_heads, d, repeat, piece;
    int causal, dtype;
    bool decode, all;
    ranks ranks;
    common_options common;
} ranks_bench;

static const char *const yes_no[] = {"no", "yes", NULL};

static const option_row bench_rows[] = {
    {"-n", "N", "rows of the whole sequence, keys of a decode; default 8192",
     AS_INTEGER(ranks_bench, n, 1, INT32_MAX)},
    {"heads", "H", "default 8", AS_INTEGER(ranks_bench, heads, 1, INT32_MAX)},
    {"kv-heads", "H", "default as --heads", AS_INTEGER(ranks_bench, kv_heads, 1, INT32_MAX)},
    {"-d", "D", "head size; default 64", AS_INTEGER(ranks_bench, d, 1, INT32_MAX)},
    {"causal", "WORD", "no or yes; default yes", AS_CHOICE(ranks_bench, causal, yes_no)},
    {"dtype", "TYPE", "f32, f16, bf16", AS_CHOICE(ranks_bench, dtype, names_types)},
    {"repeat", "N", "timed runs, whose median is shown; default 5", AS_INTEGER(ranks_bench, repeat, 1, 1000)},
    {"decode", NULL, "one query row over keys that are partitioned in pages", AS_SWITCH(ranks_bench, decode)},
    {"piece-rows", "N", "the ring's piece; default 32 MiB", AS_INTEGER(ranks_bench, piece, 1, INT32_MAX)},
    {"all-ranks", NULL, "measure only all ranks, not also 1, 2, 4, ... of them", AS_SWITCH(ranks_bench, all)},
};

typedef struct ranks_call {
    clattn_mpi_attention_params params;
    clattn_mpi_segment q[2], *kv;
    cl_mem memory[4];
} ranks_call;

static int fill_tensor(const ranks_bench *b, session *s, ranks_call *c, int which, int64_t heads,
                       int64_t rows, clattn_tensor *t) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16};
    const size_t count = (size_t)(heads * rows * b->d), bytes = count * clattn_type_size(types[b->dtype]);
    float *values = malloc((count + 1) * sizeof *values);
    array made = {0};
    const int64_t shape[4] = {1, heads, rows, b->d};
    uint32_t seed = 1 + (uint32_t)which;
    bool good = values != NULL;
    for (size_t n = 0; n < count && good; n++) {
        seed = seed * 1664525u + 1013904223u;
        values[n] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    good = good && (b->dtype ? array_from_f32(&(array){.rank = 4, .shape = {1, heads, rows, b->d}}, values,
                                              b->dtype == 1 ? ARRAY_F16 : ARRAY_BF16, &made)
                             : true);
    int status = good ? session_buffer(s, b->dtype ? made.data : values, bytes, &c->memory[which])
                      : tool_failed("no memory");
    *t = clattn_tensor_dense(c->memory[which], types[b->dtype], 4, shape);
    free(values);
    array_free(&made);
    return status;
}

static void close_call(ranks_call *c) {
    for (int n = 0; n < 4; n++)
        if (c->memory[n]) clReleaseMemObject(c->memory[n]);
    free(c->kv);
}

// Create this rank's part of a call of n rows over `count` ranks.
static int open_call(const ranks_bench *b, session *s, int rank, int count, int64_t n, ranks_call *c) {
    clattn_mpi_attention_params *p = &c->params;
    const int64_t page = 256;
    const int32_t pages = b->decode ? clattn_mpi_pages(rank, count, n, page, NULL, 0) : 2;
    *c = (ranks_call){.kv = calloc((size_t)pages + 1, sizeof *c->kv)};
    if (!c->kv) return tool_failed("no memory");
    p->kv_rows.segments = c->kv, p->q_rows.segments = c->q;
    p->kv_rows.count = b->decode ? clattn_mpi_pages(rank, count, n, page, c->kv, pages)
                                 : clattn_mpi_zigzag(rank, count, n, c->kv, 2);
    int64_t rows = 0;
    for (int32_t k = 0; k < p->kv_rows.count; k++) rows += c->kv[k].count;
    if (p->kv_rows.count == 0) p->kv_rows.count = 1; // one segment without rows
    memcpy(c->q, c->kv, b->decode ? 0 : sizeof c->q);
    p->q_rows.count = b->decode ? 0 : p->kv_rows.count;
    p->score.causal = b->causal, p->score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p->piece_rows = b->decode ? 0 : b->piece;
    for (int strategy = 0; b->ranks.strategy && !b->decode && strategy < CLATTN_MPI_STRATEGY_COUNT;
         strategy++)
        if (!strcmp(b->ranks.strategy, clattn_mpi_strategy_name((clattn_mpi_strategy)strategy)))
            p->strategy = (clattn_mpi_strategy)strategy;
    const int64_t q_rows = b->decode ? 1 : rows;
    int status = fill_tensor(b, s, c, 0, b->heads, q_rows, &p->q);
    if (status < 0) status = fill_tensor(b, s, c, 1, b->kv_heads, rows, &p->k);
    if (status < 0) status = fill_tensor(b, s, c, 2, b->kv_heads, rows, &p->v);
    if (status < 0) status = fill_tensor(b, s, c, 3, b->heads, q_rows, &p->out);
    return status;
}

// Exchange the worst status. All ranks must stop together, because a rank that stops alone leaves
// the others waiting.
static clattn_status agreed(MPI_Comm comm, clattn_status mine) {
    int worst = (int)mine;
    MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, comm);
    return (clattn_status)worst;
}

// The median run by the slowest rank's time. The first run is not counted.
static clattn_status measure(const ranks_bench *b, clattn_mpi *world, MPI_Comm comm, const ranks_call *c,
                             clattn_mpi_report *median, double *seconds) {
    clattn_mpi_report *reports = calloc((size_t)b->repeat + 1, sizeof *reports);
    double *times = calloc((size_t)b->repeat + 1, sizeof *times);
    clattn_status status = agreed(comm, reports && times ? CLATTN_OK : CLATTN_OUT_OF_MEMORY);
    for (int64_t n = 0; n <= b->repeat && status == CLATTN_OK; n++) {
        clattn_mpi_report *r = &reports[n ? n - 1 : 0];
        MPI_Barrier(comm);
        status = agreed(comm, b->decode ? clattn_mpi_decode_run(world, &c->params, r)
                                        : clattn_mpi_attention_run(world, &c->params, r));
        MPI_Allreduce(&r->seconds, &times[n ? n - 1 : 0], 1, MPI_DOUBLE, MPI_MAX, comm);
    }
    for (int64_t n = 0; n < b->repeat && status == CLATTN_OK; n++) {
        int64_t below = 0;
        for (int64_t k = 0; k < b->repeat; k++)
            below += times[k] < times[n] || (k < n && times[k] == times[n]);
        if (below == b->repeat / 2) *median = reports[n], *seconds = times[n];
    }
    free(reports);
    free(times);
    return status;
}

typedef struct bench_row {
    const char *scaling;
    int ranks;
    int64_t n;
    double seconds, efficiency, hidden, bytes, memory;
    clattn_mpi_report report;
} bench_row;

static void print_row(const ranks_bench *b, const session *s, const bench_row *row) {
    const clattn_mpi_plan *plan = &row->report.plan;
    if (b->common.json)
        report_json(json_pack(
            "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
            "s:f, s:f}",
            "op", b->decode ? "decode" : "attend", "scaling", row->scaling, "device", s->capabilities->name,
            "ranks", row->ranks, "n", (json_int_t)row->n, "heads", (json_int_t)b->heads, "kv_heads",
            (json_int_t)b->kv_heads, "d", (json_int_t)b->d, "causal", b->causal, "dtype",
            names_types[b->dtype], "way", clattn_mpi_strategy_name(plan->strategy), "time_ns",
            1e9 * row->seconds, "efficiency", row->efficiency, "hidden", row->hidden, "sent_bytes",
            row->bytes, "scratch_bytes", row->memory, "predicted_ns", 1e9 * plan->seconds[plan->strategy],
            "flops_per_second", plan->flops_per_second, "link_bytes_per_second", plan->link_bytes_per_second,
            "link_seconds", plan->link_seconds, "call_seconds", plan->call_seconds));
    else
        printf("%-6s  %4d ranks  N %8lld  %-10s  %10.3f ms  efficiency %5.1f %%  hidden %5.1f %%  sent "
               "%10.3f MB\n",
               row->scaling, row->ranks, (long long)row->n, clattn_mpi_strategy_name(plan->strategy),
               1e3 * row->seconds, 100 * row->efficiency, 100 * row->hidden, row->bytes / 1e6);
    fflush(stdout);
}

// Run on the first `count` ranks while the others wait.
static int run_part(const ranks_bench *b, session *s, MPI_Comm comm, int count, bench_row *row) {
    const clattn_mpi_params params = {.comm = comm, .context = s->context, .queue = s->queue};
    clattn_mpi *world = NULL;
    clattn_mpi_plan plan;
    ranks_call c = {.kv = NULL};
    char text[400] = "";
    int rank, status;
    MPI_Comm_rank(comm, &rank);
    clattn_status done = clattn_mpi_create(&params, &world);
    if (done != CLATTN_OK) return session_status(s, done);
    status = open_call(b, s, rank, count, row->n, &c);
    MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, comm);
    // Measures the transfer rates.
    if (status < 0 && !b->decode) done = clattn_mpi_attention_plan(world, &c.params, &plan);
    done = agreed(comm, done);
    if (status < 0 && done == CLATTN_OK) done = measure(b, world, comm, &c, &row->report, &row->seconds);
    clattn_mpi_last_error(world, text, sizeof text);
    if (status < 0 && done != CLATTN_OK)
        status = tool_failed("%s", text[0] ? text : clattn_status_text(done));
    const clattn_mpi_report *r = &row->report;
    double mine[4] = {(double)r->sent_bytes, r->transfer_seconds, r->exposed_seconds,
                      (double)r->plan.device_bytes},
           all[4] = {0};
    MPI_Reduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, 0, comm);
    MPI_Reduce(mine + 3, all + 3, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
    row->bytes = all[0], row->hidden = all[1] > 0 ? 1 - all[2] / all[1] : 1, row->memory = all[3];
    close_call(&c);
    clattn_mpi_destroy(world);
    return status;
}

// Strong efficiency: the time of one rank divided by P times the time of P ranks. Weak efficiency
// also accounts for the work of each rank, which grows P times.
static int run_all(const ranks_bench *b, session *s) {
    double alone = 0;
    int status = -1;
    for (int weak = 0; weak < (b->all || b->decode ? 1 : 2) && status < 0; weak++)
        for (int count = b->all ? b->ranks.count : 1; count <= b->ranks.count && status < 0; count *= 2) {
            bench_row row = {.scaling = weak ? "weak" : "strong", .ranks = count};
            MPI_Comm comm;
            row.n = weak ? b->n / b->ranks.count * count : b->n;
            MPI_Comm_split(MPI_COMM_WORLD, b->ranks.rank < count ? 0 : MPI_UNDEFINED, b->ranks.rank, &comm);
            if (comm != MPI_COMM_NULL) {
                status = run_part(b, s, comm, count, &row);
                MPI_Comm_free(&comm);
            }
            if (count == 1) alone = row.seconds;
            const double work = weak ? (double)count * count : 1;
            row.efficiency = row.seconds > 0 && alone > 0 ? alone * work / (count * row.seconds) : 0;
            status = ranks_agree(&b->ranks, status);
            if (status < 0 && b->ranks.rank == 0) print_row(b, s, &row);
        }
    return status;
}

int ranks_bench_run(int argc, char **argv) {
    ranks_bench b = {.n = 8192, .heads = 8, .d = 64, .repeat = 5, .causal = 1};
    session s = {0};
    const option_group groups[] = {
        {"case", OPTION_ROWS(bench_rows), &b}, ranks_group(&b.ranks), common_group(&b.common)};
    command_line line = {.command = "bench",
                         .summary = "scaling over the ranks of mpirun",
                         .example = "mpirun -n 4 clattn bench --mpi -n 16384 -d 128 --causal yes",
                         .groups = groups,
                         .group_count = sizeof groups / sizeof groups[0]};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    b.kv_heads = b.kv_heads ? b.kv_heads : b.heads;
    status = ranks_open(&b.ranks, &line, argc, argv);
    if (status >= 0) return status;
    if (ranks_way_is(&b.ranks, "decode") || ranks_way_is(&b.ranks, "heads"))
        status = tool_wrong("--mpi-way %s: works with attend and layer; --decode measures decode",
                            b.ranks.strategy);
    if (status < 0) status = session_open(&s, &b.common);
    const bool opened = status < 0;
    status = ranks_agree(&b.ranks, status);
    if (status < 0) status = run_all(&b, &s);
    if (opened) session_close(&s);
    ranks_close(&b.ranks, status);
    return status < 0 ? EXIT_DONE : status;
}
