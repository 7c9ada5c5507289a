// ranks_mpi.c: what clattn-mpi has in place of the plain program's functions of ranks.h: MPI, and attention over its ranks.
#include <clattn/mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/names.h"
#include "tool/file.h"
#include "tool/npy.h"
#include "tool/ranks.h"
#include "tool/report.h"

int ranks_open(ranks *r, const char *command, int argc, char **argv) {
    int level = 0;
    r->count = 1;
    if (!r->wanted) return r->way ? tool_wrong(command, "--mpi-way: has no effect without --mpi") : -1;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return tool_failed(command, "--mpi: MPI did not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->count);
    return -1;
}

int ranks_agree(const ranks *r, int status) {
    int worst = status;
    if (r->wanted) MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

void ranks_close(ranks *r, int status) {
    int started = 0;
    (void)status;
    if (r->wanted && MPI_Initialized(&started) == MPI_SUCCESS && started) MPI_Finalize();
    r->wanted = false;
}

void ranks_share(const ranks *r, int64_t whole, ranks_rows *rows) {
    clattn_mpi_segment segments[2] = {{0, 0}, {0, 0}};
    *rows = (ranks_rows){.whole = whole};
    rows->count = clattn_mpi_zigzag(r->rank, r->count, whole, segments, 2);
    if (rows->count == 0) rows->count = 1; // none of them, which is said: rows that are not said are blocks
    for (int c = 0; c < rows->count; c++) {
        rows->chunks[c].start = segments[c].start, rows->chunks[c].count = segments[c].count;
        rows->rows += segments[c].count;
    }
}

static clattn_mpi_rows rows_of(const ranks_rows *rows, clattn_mpi_segment segments[2]) {
    for (int c = 0; c < rows->count; c++)
        segments[c] = (clattn_mpi_segment){rows->chunks[c].start, rows->chunks[c].count};
    return (clattn_mpi_rows){segments, rows->count};
}

// What is of one device alone.
static const char *refused(const clattn_attention_params *p) {
    const clattn_kv *kv = &p->kv;
    if (p->weights.rank || p->scores.rank) return "--weights, --scores";
    if (p->rope.layout != CLATTN_ROPE_NONE) return "--rope";
    if (kv->past_k.rank || kv->block_table.rank || kv->k_new.rank) return "a cache";
    if (p->sequences || p->cu_seqlens_q || kv->cu_seqlens_kv) return "--cu-seqlens";
    return p->splits ? "--splits" : NULL;
}

static clattn_mpi_way way_of(const ranks *r) {
    int way = CLATTN_MPI_AUTO;
    for (int n = 0; r->way && n < CLATTN_MPI_WAY_COUNT; n++)
        if (!strcmp(r->way, clattn_mpi_way_name((clattn_mpi_way)n))) way = n;
    return (clattn_mpi_way)way;
}

static clattn_status run_attend(const ranks *r, clattn_mpi *world, const ranks_job *job,
                                clattn_mpi_report *report) {
    const clattn_attention_params *p = job->attend;
    clattn_mpi_segment q[2], kv[2];
    const clattn_mpi_attention_params a = {.q = p->q,
                                           .k = p->kv.k,
                                           .v = p->kv.v,
                                           .k_scale = p->kv.k_scale,
                                           .v_scale = p->kv.v_scale,
                                           .out = p->out,
                                           .lse = p->lse,
                                           .q_rows = rows_of(&job->q, q),
                                           .kv_rows = rows_of(&job->kv, kv),
                                           .score = p->score,
                                           .kernel = p->kernel,
                                           .way = way_of(r)};
    return clattn_mpi_attention_run(world, &a, report);
}

static clattn_status run_layer(const ranks *r, clattn_mpi *world, const ranks_job *job,
                               clattn_mpi_report *report) {
    clattn_mpi_segment rows[2];
    const clattn_mpi_layer_params p = {.layer = *job->layer,
                                       .way = CLATTN_MPI_LAYER_ROWS,
                                       .rows = rows_of(&job->q, rows),
                                       .attention = way_of(r)};
    return clattn_mpi_layer_run(world, &p, report);
}

// Sums over ranks, and the slowest's times, by rank 0.
static int tell(const ranks *r, const session *s, const clattn_mpi_report *report, const char *out) {
    double mine[4] = {report->seconds, report->compute_seconds, report->transfer_seconds,
                      report->exposed_seconds},
           most[4] = {0}, bytes = (double)report->sent_bytes, all = 0;
    MPI_Reduce(mine, most, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&bytes, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (r->rank || s->options.quiet) return EXIT_DONE;
    const double hidden = most[2] > 0 ? 1 - most[3] / most[2] : 1;
    if (s->options.json)
        return report_json(json_pack("{s:s, s:i, s:s, s:s, s:I, s:f, s:f, s:I, s:s}", "device",
                                     s->capabilities->name, "ranks", r->count, "way",
                                     clattn_mpi_way_name(report->plan.way), "why", report->plan.why,
                                     "time_ns", (json_int_t)(1e9 * most[0]), "compute_ms", 1e3 * most[1],
                                     "hidden", hidden, "sent_bytes", (json_int_t)all, "out", out));
    printf("%d ranks  %s  time %.3f ms  computing %.3f ms  %.0f bytes sent  %.0f %% of transfers hidden  -> "
           "%s\n",
           r->count, report->plan.why, 1e3 * most[0], 1e3 * most[1], all, 100 * hidden, out);
    return EXIT_DONE;
}

int ranks_run(const ranks *r, session *s, const ranks_job *job) {
    const clattn_mpi_params params = {.comm = MPI_COMM_WORLD, .context = s->context, .queue = s->queue};
    const char *wrong = job->attend ? refused(job->attend) : NULL;
    clattn_mpi_report report = {.seconds = 0};
    clattn_mpi *world = NULL;
    char text[400] = "";
    const int status = ranks_agree(
        r, wrong ? tool_wrong(s->command, "%s: is not built for --mpi, whose rows are shared", wrong) : -1);
    if (status >= 0) return status;
    clattn_status done = clattn_mpi_create(&params, &world);
    if (done != CLATTN_OK) return ranks_agree(r, session_status(s, done));
    done = job->attend ? run_attend(r, world, job, &report) : run_layer(r, world, job, &report);
    clattn_mpi_last_error(world, text, sizeof text);
    clattn_mpi_destroy(world);
    if (done == CLATTN_OK) return tell(r, s, &report, job->out) == EXIT_DONE ? -1 : EXIT_FAILED;
    if (text[0]) snprintf(s->message, sizeof s->message, "%s", text);
    if (r->rank == 0) return session_status(s, done); // the same line on all
    return done == CLATTN_INVALID_ARGUMENT || done == CLATTN_UNSUPPORTED ? EXIT_WRONG : EXIT_FAILED;
}

static bool write_part(const char *name, uint64_t head, const array *mine, int axis, const ranks_rows *rows,
                       char error[512]) {
    int64_t outer = 1;
    size_t row = array_type_size(mine->type);
    const char *from = mine->data;
    int descriptor = -1;
    for (int n = 0; n < mine->rank; n++)
        if (n < axis)
            outer *= mine->shape[n];
        else if (n > axis)
            row *= (size_t)mine->shape[n];
    if (!file_shared_open(name, &descriptor, error, 512)) return false;
    bool good = true;
    for (int64_t n = 0; n < outer && good; n++)
        for (int c = 0; c < rows->count && good; c++) {
            const size_t bytes = (size_t)rows->chunks[c].count * row;
            const uint64_t at = head + (uint64_t)(n * rows->whole + rows->chunks[c].start) * row;
            good = file_shared_write(descriptor, at, from, bytes, error, 512);
            from += bytes;
        }
    char last[512];
    const bool closed = file_shared_close(descriptor, good ? error : last, 512);
    return good && closed;
}

int ranks_save(const ranks *r, session *s, const char *path, const array *mine, int axis,
               const ranks_rows *rows) {
    char error[512] = "", name[FILE_NAME_MOST] = "", head[512];
    array whole = *mine;
    size_t bytes = 0;
    if (!path) return -1;
    whole.shape[axis] = rows->whole;
    const size_t start = npy_head(&whole, head, sizeof head);
    bool good = start > 0 && array_measure(whole.type, whole.rank, whole.shape, &bytes);
    if (r->rank == 0 && good) good = file_shared_begin(path, start + bytes, name, error, sizeof error);
    const bool begun = good && r->rank == 0;
    int status = ranks_agree(r, good ? -1 : tool_failed(s->command, "%s", error));
    if (status < 0) {
        int descriptor = -1;
        MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
        good = write_part(name, start, mine, axis, rows, error);
        if (good && r->rank == 0)
            good = file_shared_open(name, &descriptor, error, sizeof error) &&
                   file_shared_write(descriptor, 0, head, start, error, sizeof error) &&
                   file_shared_close(descriptor, error, sizeof error);
        status = ranks_agree(r, good ? -1 : tool_failed(s->command, "%s", error));
    }
    if (begun && !file_shared_end(path, status < 0, error, sizeof error))
        status = tool_failed(s->command, "%s", error);
    return ranks_agree(r, status);
}
