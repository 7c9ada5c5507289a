// ranks_mpi.c: the functions of ranks.h in clattn-mpi: MPI, and attention over its ranks.
//
// Ranks must never wait for each other at different steps. First, ranks_open compares the command
// and its options, which determine the exchanges. Then ranks_alike compares --cu-seqlens, the one
// file that determines them. Every step that may fail on one rank ends with ranks_agree on all
// ranks. The library's calls compare their arguments themselves.
#include <clattn/mpi.h>

#include <math.h>
#include "cli/ranks/ranks.h"
#include "cli/common/report.h"

// FNV-1a, but never 0.
static uint64_t hash_of(const void *bytes, size_t count) {
    const unsigned char *b = bytes;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t n = 0; n < count; n++) hash = (hash ^ b[n]) * 0x100000001b3u;
    return hash | 1;
}

// The request that ranks compare first. Its size is the same for every command.
typedef struct request {
    char command[24], version[24];
    uint64_t options[OPTIONS_MOST]; // 0: not given
} request;

// Device and report options may differ between ranks.
static bool is_free(const option_group *group) {
    return !strcmp(group->title, "common options");
}

static void fill_request(const command_line *line, request *mine) {
    memset(mine, 0, sizeof *mine);
    snprintf(mine->command, sizeof mine->command, "%s", line->command);
    snprintf(mine->version, sizeof mine->version, "%s", clattn_version());
    EACH_OPTION(line, group, row, n) {
        const char *value = line->values[n];
        if (value && !is_free(group))
            mine->options[n] = option_takes_file(row) ? 1 : hash_of(value, strlen(value));
    }
}

static int compare_request(const command_line *line, const request *first, const request *other, int rank) {
    if (strcmp(first->command, other->command) || strcmp(first->version, other->version))
        return tool_wrong("--mpi: rank 0 runs %s of clattn %s, rank %d %s of clattn %s: must be the same",
                          first->command, first->version, rank, other->command, other->version);
    EACH_OPTION(line, group, row, n) {
        const uint64_t a = first->options[n], b = other->options[n];
        const char *dashes = option_dashes(row);
        if (a == b) continue;
        if (a && b)
            return tool_wrong("%s%s: rank 0 and rank %d have other values: must be the same", dashes,
                              row->name, rank);
        return tool_wrong("%s%s: is given on rank %d and not on rank %d: must be on all ranks or on none",
                          dashes, row->name, a ? 0 : rank, a ? rank : 0);
    }
    return -1;
}

static int compare_requests(const ranks *r, const command_line *line) {
    request mine, *all = calloc((size_t)r->count, sizeof *all);
    int status = ranks_agree(r, all ? -1 : tool_failed("--mpi: no memory"));
    fill_request(line, &mine);
    if (status < 0) MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    for (int n = 1; n < r->count && status < 0; n++) status = compare_request(line, &all[0], &all[n], n);
    free(all);
    return ranks_agree(r, status);
}

int ranks_open(ranks *r, const command_line *line, int argc, char **argv) {
    int level = 0;
    r->count = 1;
    if (!r->wanted) return r->strategy ? tool_wrong("--mpi-way: has no effect without --mpi") : -1;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return tool_failed("--mpi: MPI did not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->count);
    tool_errors_hold();
    const int status = compare_requests(r, line);
    if (status >= 0) ranks_close(r, status);
    return status;
}

int ranks_alike(const ranks *r, const char *option, const void *bytes, size_t count) {
    uint64_t mine = bytes ? hash_of(bytes, count) : 0, first = mine;
    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return ranks_agree(r, mine == first
                              ? -1
                              : tool_wrong("--%s: rank %d has other numbers than rank 0: must be the same",
                                           option, r->rank));
}

int ranks_agree(const ranks *r, int status) {
    int worst = status, first = 0;
    if (!r->wanted) return status;
    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (worst < 0) return worst;
    const int mine = status == worst ? r->rank : r->count;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    tool_errors_release(r->rank == first);
    return worst;
}

void ranks_close(ranks *r, int status) {
    int started = 0;
    (void)status;
    if (r->wanted && MPI_Initialized(&started) == MPI_SUCCESS && started) MPI_Finalize();
    r->wanted = false;
}

int ranks_begin(ranks *r, session *s) {
    const clattn_mpi_params params = {.comm = MPI_COMM_WORLD, .context = s->context, .queue = s->queue};
    clattn_mpi *world = NULL;
    const clattn_status done = clattn_mpi_create(&params, &world);
    r->world = world;
    return ranks_agree(r, done == CLATTN_OK ? -1 : session_status(s, done));
}

void ranks_end(ranks *r) {
    clattn_mpi_destroy(r->world);
    r->world = NULL;
}

void ranks_share(const ranks *r, int64_t whole, ranks_rows *rows) {
    clattn_mpi_segment segments[2] = {{0, 0}, {0, 0}};
    *rows = (ranks_rows){.whole = whole, .file = whole};
    rows->count = clattn_mpi_zigzag(r->rank, r->count, whole, segments, 2);
    // One empty chunk: a count of 0 would mean the default, blocks.
    if (rows->count == 0) rows->count = 1;
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

static clattn_mpi_strategy way_of(const ranks *r) {
    int strategy = CLATTN_MPI_AUTO;
    for (int n = 0; r->strategy && n < CLATTN_MPI_STRATEGY_COUNT; n++)
        if (ranks_way_is(r, clattn_mpi_strategy_name((clattn_mpi_strategy)n))) strategy = n;
    return (clattn_mpi_strategy)strategy;
}

// Finish a call. The library has agreed already, but ranks_agree also makes the error line equal on
// all ranks.
static int finish(ranks *r, session *s, clattn_status done, const clattn_mpi_report *report,
                  const char *strategy, const char *why) {
    char text[400] = "";
    ranks_told *told = &r->told;
    clattn_mpi_last_error(r->world, text, sizeof text);
    if (done != CLATTN_OK && text[0]) snprintf(s->message, sizeof s->message, "%s", text);
    const int status = ranks_agree(r, done == CLATTN_OK ? -1 : session_status(s, done));
    if (status >= 0) return status;
    snprintf(told->strategy, sizeof told->strategy, "%s", strategy);
    snprintf(told->why, sizeof told->why, "%s", why);
    told->seconds += report->seconds, told->compute += report->compute_seconds;
    told->transfer += report->transfer_seconds, told->exposed += report->exposed_seconds;
    told->sent += (double)report->sent_bytes;
    return -1;
}

int ranks_attend(ranks *r, session *s, const clattn_attention_params *p, const ranks_rows *q,
                 const ranks_rows *kv, bool decode) {
    clattn_mpi_segment segments[4];
    clattn_mpi_report report = {.seconds = 0};
    const clattn_mpi_attention_params a = {.q = p->q,
                                           .k = p->kv.k,
                                           .v = p->kv.v,
                                           .k_scale = p->kv.k_scale,
                                           .v_scale = p->kv.v_scale,
                                           .k_zero = p->kv.k_zero,
                                           .v_zero = p->kv.v_zero,
                                           .out = p->out,
                                           .lse = p->lse,
                                           .q_rows = decode ? (clattn_mpi_rows){0} : rows_of(q, segments),
                                           .kv_rows = rows_of(kv, segments + 2),
                                           .score = p->score,
                                           .kernel = p->kernel,
                                           .strategy = way_of(r)};
    if (decode)
        return finish(r, s, clattn_mpi_decode_run(r->world, &a, &report), &report, "decode",
                      "decode: queries on all ranks, keys shared, one allreduce");
    const clattn_status done = clattn_mpi_attention_run(r->world, &a, &report);
    return finish(r, s, done, &report, clattn_mpi_strategy_name(report.plan.strategy), report.plan.why);
}

int ranks_layer(ranks *r, session *s, const clattn_layer_params *p, const ranks_rows *rows) {
    clattn_mpi_segment segments[2];
    clattn_mpi_report report = {.seconds = 0};
    const clattn_mpi_layer_params a = {.layer = *p,
                                       .strategy = rows ? CLATTN_MPI_LAYER_ROWS : CLATTN_MPI_LAYER_HEADS,
                                       .rows = rows ? rows_of(rows, segments) : (clattn_mpi_rows){0},
                                       .attention = way_of(r)};
    const clattn_status done = clattn_mpi_layer_run(r->world, &a, &report);
    return rows ? finish(r, s, done, &report, clattn_mpi_strategy_name(report.plan.strategy), report.plan.why)
                : finish(r, s, done, &report, "heads", "heads: shared, one allreduce of the output");
}

int ranks_verdict(const ranks *r, expect *e) {
    double mine[2] = {isnan(e->error) ? 1 : 0, isnan(e->error) ? 0 : e->error}, most[2];
    if (!e->file) return -1;
    MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    e->error = most[0] > 0 ? (double)NAN : most[1];
    return ranks_agree(r, expect_verdict(e));
}

// Print on rank 0 the sums over all ranks and the times of the slowest rank.
int ranks_tell(const ranks *r, const session *s, const char *out, const expect *e) {
    const ranks_told *t = &r->told;
    double mine[4] = {t->seconds, t->compute, t->transfer, t->exposed}, most[4] = {0},
           bytes[2] = {t->sent, r->read_bytes}, all[2] = {0};
    MPI_Reduce(mine, most, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(bytes, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (r->rank || s->options.quiet) return EXIT_DONE;
    const double hidden = most[2] > 0 ? 1 - most[3] / most[2] : 1;
    if (s->options.json) {
        json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:I, s:f, s:f, s:I, s:I, s:o}", "device",
                              s->capabilities->name, "ranks", r->count, "way", t->strategy, "why", t->why,
                              "time_ns", (json_int_t)(1e9 * most[0]), "compute_ms", 1e3 * most[1], "hidden",
                              hidden, "sent_bytes", (json_int_t)all[0], "read_bytes", (json_int_t)all[1],
                              "out", report_text(out));
        return report_json(expect_json(e, j));
    }
    printable_printf(stdout,
                     "%d ranks  %s  time %.3f ms  computing %.3f ms  %.0f bytes read  %.0f bytes sent  %.0f "
                     "%% of transfers hidden  -> %s\n",
                     r->count, t->why, 1e3 * most[0], 1e3 * most[1], all[1], all[0], 100 * hidden, out);
    expect_print(e);
    return EXIT_DONE;
}

static bool write_part(int descriptor, uint64_t head, const ranks_part *part, int axis, reason why) {
    const array *mine = part->mine;
    const ranks_rows *rows = part->rows;
    int64_t outer = 1;
    size_t row = array_type_size(mine->type);
    const char *from = mine->data;
    for (int n = 0; n < mine->rank; n++)
        if (n < axis)
            outer *= mine->shape[n];
        else if (n > axis)
            row *= (size_t)mine->shape[n];
    bool good = true;
    for (int64_t n = 0; n < outer && good; n++)
        for (int c = 0; c < rows->count && good; c++) {
            const size_t bytes = (size_t)rows->chunks[c].count * row;
            const uint64_t at = head + (uint64_t)(n * rows->file + rows->first + rows->chunks[c].start) * row;
            good = file_shared_write(descriptor, at, from, bytes, why);
            from += bytes;
        }
    return good;
}

static bool write_parts(const char *name, uint64_t head, const ranks_part *parts, int64_t count, int axis,
                        reason why) {
    int descriptor = -1;
    bool good = file_shared_open(name, &descriptor, why);
    if (!good) return false;
    for (int64_t n = 0; n < count && good; n++) good = write_part(descriptor, head, &parts[n], axis, why);
    reason last;
    const bool closed = file_shared_close(descriptor, good ? why : last);
    return good && closed;
}

int ranks_save(const ranks *r, const char *path, const array *whole, int axis, const ranks_part *parts,
               int64_t count) {
    char error[512] = "", name[FILE_NAME_MOST] = "", head[NPY_HEAD];
    size_t bytes = 0;
    if (!path) return -1;
    const size_t start = npy_head(whole, head);
    bool good = start > 0 && array_measure(whole->type, whole->rank, whole->shape, &bytes);
    if (r->rank == 0 && good) good = file_shared_begin(path, start + bytes, name, error);
    const bool begun = good && r->rank == 0;
    int status = ranks_agree(r, good ? -1 : tool_failed("%s", error));
    if (status < 0) {
        int descriptor = -1;
        MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
        good = write_parts(name, start, parts, count, axis, error);
        if (good && r->rank == 0)
            good = file_shared_open(name, &descriptor, error) &&
                   file_shared_write(descriptor, 0, head, start, error) &&
                   file_shared_close(descriptor, error);
        status = ranks_agree(r, good ? -1 : tool_failed("%s", error));
    }
    if (begun && !file_shared_end(path, status < 0, error)) status = tool_failed("%s", error);
    return ranks_agree(r, status);
}
