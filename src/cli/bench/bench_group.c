// bench_group.c: see bench.h.
#include "cli/bench/bench.h"

#include "verification/case/case_group.h"
#include "verification/limits/model.h"

#define LEARNS 3 // calls in which the group learns its devices' rates
#define TRIES 3  // runs of each device alone to find the fastest

// One side of the comparison: the whole group, or a group of one device, on the same host memory.
typedef struct side {
    clattn_group *group;
    struct case_group *host;
    clattn_group_report report;
    clattn_group_share shares[SEVERAL_MOST];
    clattn_status status;
} side;

// A measure_call without an event: the call has finished when it returns, and its time is wall
// time.
static bool run_side(void *user, cl_event *event) {
    side *x = user;
    *event = NULL;
    x->status = clattn_group_attention(x->group, &x->host->params, &x->report, x->shares);
    return x->status == CLATTN_OK;
}

static bench_status failed(several *all, const side *x, char why[256]) {
    const session *s = &all->sessions[0];
    snprintf(why, 256, "%.255s", s->message[0] ? s->message : clattn_status_text(x->status));
    return x->status == CLATTN_UNSUPPORTED ? BENCH_UNSUPPORTED : BENCH_FAIL;
}

// Verify the group's result. Closing frees the host memory, and opening allocates it anew.
static bench_status check(several *all, bench_call *p, side *group, bench_row *row) {
    struct case_verdict verdict;
    const cl_command_queue queue = all->sessions[0].queue;
    const clattn_partition deal = group->host->params.partition;
    case_group_close(group->host, queue, true);
    case_judge(p->data, &p->arrays, queue, &verdict);
    case_group_open(&p->arrays, queue, group->host);
    group->host->params.partition = deal;
    row->error_nmse = verdict.nmse;
    if (verdict.good) return BENCH_OK;
    snprintf(row->why, sizeof row->why, "the result is wrong: %.230s", verdict.why);
    return BENCH_FAIL;
}

static bench_status learn(several *all, const bench *b, bench_call *p, side *group, bench_row *row) {
    cl_event none;
    for (int n = 0; n < LEARNS; n++)
        if (!run_side(group, &none)) return failed(all, group, row->why);
    return b->settings.check ? check(all, p, group, row) : BENCH_OK;
}

static bench_status find_fastest(several *all, bench_call *p, side *alone, char kernel[32], char why[256]) {
    static const measure_settings few = {.repeat = TRIES};
    double least = 0.0;
    int best = -1;
    cl_event none;
    for (int n = 0; n < all->count; n++) {
        measure_times times;
        alone->group = all->alone[n];
        if (!run_side(alone, &none) || !measure_run(&p->place, &few, run_side, alone, &times)) continue;
        if (best < 0 || times.wall_ns < least) best = n, least = times.wall_ns;
    }
    if (best < 0) return failed(all, alone, why);
    alone->group = all->alone[best];
    snprintf(kernel, 32, "%d: %.19s", best, all->sessions[best].capabilities->name);
    return BENCH_OK;
}

static bench_status take_turns(several *all, const bench *b, bench_call *p, side sides[2], bench_pair *pair) {
    struct place *const places[2] = {&p->place, &p->place};
    void *const users[2] = {&sides[0], &sides[1]};
    measure_pair pairs;
    if (!measure_interleaved(places, &b->settings.measure, run_side, users, &pairs))
        return failed(all, sides[0].status != CLATTN_OK ? &sides[0] : &sides[1], pair->row.why);
    bench_take_times(&pair->row, &pairs.times[0]);
    bench_take_times(&pair->other, &pairs.times[1]);
    pair->ratio = compare_ratio_paired(pairs.ratios, pairs.ratio_count);
    int used = snprintf(pair->row.kernel, sizeof pair->row.kernel, "%s",
                        clattn_partition_name(sides[0].report.partition));
    for (int n = 0; n < all->count && used < (int)sizeof pair->row.kernel; n++)
        used += snprintf(pair->row.kernel + used, sizeof pair->row.kernel - (size_t)used, " %.0f%%",
                         100.0 * sides[0].shares[n].share);
    return BENCH_OK;
}

static bench_status measure_pair_of(several *all, const bench *b, const bench_case *c, bench_pair *pair) {
    struct case_group host;
    bench_call p;
    side sides[2] = {{.group = all->group, .host = &host}, {.host = &host}};
    all->sessions[0].message[0] = '\0';
    if (!case_attends(&pair->row.c.test) || c->test.composed) {
        snprintf(pair->row.why, sizeof pair->row.why, "several devices support only attention");
        return BENCH_UNSUPPORTED;
    }
    bench_status status = bench_call_create(&p, &all->sessions[0], c, pair->row.kernel, pair->row.why);
    if (status == BENCH_OK) {
        case_group_open(&p.arrays, all->sessions[0].queue, &host);
        host.params.partition = all->partition;
        status = learn(all, b, &p, &sides[0], &pair->row);
        if (status == BENCH_OK) status = find_fastest(all, &p, &sides[1], pair->other.kernel, pair->row.why);
        if (status == BENCH_OK) status = take_turns(all, b, &p, sides, pair);
        case_group_close(&host, all->sessions[0].queue, false);
    }
    pair->row.peak_bytes = p.bytes;
    bench_call_destroy(&p);
    return status;
}

static void run_case(bench *b, several *all, int i) {
    char name[CASE_NAME_SIZE];
    bench_pair pair = {.row = {.c = b->cases[i], .error_nmse = -1.0},
                       .other = {.c = b->cases[i], .error_nmse = -1.0}};
    pair.row.c.test = pair.other.c.test = case_complete(&b->cases[i].test);
    progress_at(&b->progress, (double)i, case_name(&pair.row.c.test, name));
    pair.row.status = measure_pair_of(all, b, &b->cases[i], &pair);
    progress_wipe(&b->progress);
    bench_count(b, &pair.row);
    bench_table_add_pair(b->table, "--devices N, the fastest alone", &pair);
}

// Append the word, cut to the space that is left.
static void add_word(char *text, size_t size, const char *word) {
    const size_t used = strlen(text);
    if (snprintf(text + used, size - used, " + %s", word) < 0) text[used] = '\0';
}

// Add the group to the table as one device with the sum of the devices' capabilities.
static void add_device(bench *b, const several *all) {
    static const struct limits none;
    clattn_capabilities sum = *all->sessions[0].capabilities;
    for (int n = 1; n < all->count; n++) {
        const clattn_capabilities *c = all->sessions[n].capabilities;
        add_word(sum.name, sizeof sum.name, c->name);
        add_word(sum.driver, sizeof sum.driver, c->driver);
        add_word(sum.platform, sizeof sum.platform, c->platform);
        sum.compute_units += c->compute_units;
        sum.global_memory_bytes += c->global_memory_bytes;
        sum.is_cpu = sum.is_cpu && c->is_cpu, sum.is_gpu = sum.is_gpu && c->is_gpu;
    }
    bench_table_add_device(b->table, &sum, &none);
}

int bench_run_group(bench *b) {
    static several all; // static: sessions must not move
    if (b->options || b->other || b->baselines.count)
        return tool_wrong("--devices: measures pairs of its own: no --options, --against or --baselines is "
                          "accepted with it");
    const int status = several_open(&all, &b->several, &b->common, true);
    if (status >= 0) return status;
    add_device(b, &all);
    progress_begin(&b->progress, b->common.quiet, (double)b->case_count, 0.0);
    for (int i = 0; i < b->case_count && !interrupt_asked(); i++) run_case(b, &all, i);
    several_close(&all);
    return -1;
}
