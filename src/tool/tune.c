// tune.c: clattn tune: which kernel and knobs are fastest on this device. Every candidate is forced by a
// tuned row of its own, verified on hard cases against the double-precision reference, then timed; the
// winners are printed as rows that a context takes (clattn_context_params.tuned_rows) and that can be
// committed to src/plan/tuned_rows.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "evidence/hard_cases.h"
#include "tool/file.h"
#include "tool/verify_case.h"

// What is compared: (vectors of rows, keys in registers, keys of a tile), legal for any LANES.
static const struct {
    int row_vectors, key_block, tile_kv;
} candidates[] = {{1, 8, 64}, {2, 4, 64}, {2, 6, 96},  {2, 8, 64}, {2, 8, 128},
                  {3, 8, 64}, {4, 4, 64}, {4, 4, 128}, {4, 6, 96}, {5, 4, 64}};
#define CANDIDATES ((int)(sizeof candidates / sizeof candidates[0]))

// The problem classes that get a row each; a representative is timed.
static const struct {
    const char *condition;
    int batch, heads, n;
} classes[] = {{"nq=..16", 8, 12, 16}, {"nq=17..96", 2, 12, 77}, {"nq=97..", 1, 8, 1024}};
#define CLASSES ((int)(sizeof classes / sizeof classes[0]))

static const char *const type_names[] = {"f32", "f16", "bf16"};

typedef struct tune {
    const char *out;
    bool quick;
    common_options common;
    char text[16384]; // the rows
    size_t used;
} tune;

static bool take_tune(void *target, int id, const char *value, char why[256]) {
    tune *t = target;
    (void)why;
    if (id == 600) t->out = value;
    if (id == 601) t->quick = true;
    return true;
}

// Every case without extras has one head size, so that one program serves verification and timing.
static bool without_extras(const struct test_case *c) {
    const unsigned lengths = CASE_HOST_BIT(CASE_Q_LENGTHS) | CASE_HOST_BIT(CASE_KV_LENGTHS);
    return !case_projects(c) && c->head_dim == 64 && c->head_dim_v == 64 && c->layout == LAYOUT_DENSE &&
           !c->mask.rank && !c->bias.rank && !c->weights && !c->scores && !c->splits && !c->rope.layout &&
           !(c->hosts & ~lengths) && c->score.softcap == 0.0f && c->q_type == c->kv_type;
}

static bool verified(session *s, clattn_type type, clattn_kernel kernel) {
    for (int i = 0; i < hard_case_count; i++) {
        struct test_case c = hard_case(i);
        char why[256];
        if (!without_extras(&c)) continue;
        c.q_type = c.kv_type = c.out_type = type;
        if (verify_run(s, &c, kernel, why) == VERIFY_FAIL) {
            fprintf(stderr, "clattn tune: %s failed: %s\n", c.name, why);
            return false;
        }
    }
    return true;
}

static double median_of(double *x, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && x[j] < x[j - 1]; j--) {
            const double y = x[j];
            x[j] = x[j - 1], x[j - 1] = y;
        }
    return x[n / 2];
}

// Median time of a class's representative in ns; 0 where it does not run.
static double timed(session *s, clattn_type type, int class, clattn_kernel kernel) {
    const int64_t b = classes[class].batch, h = classes[class].heads, n = classes[class].n, d = 64;
    const size_t bytes = (size_t)(b * h * n * d) * clattn_type_size(type);
    cl_mem buffers[4] = {NULL};
    double times[9], best = 0.0;
    void *zeros = calloc(1, bytes); // the time does not depend on the values
    bool ok = zeros != NULL;
    for (int i = 0; i < 4 && ok; i++) ok = session_buffer(s, zeros, bytes, &buffers[i]) < 0;
    const clattn_attention_params p = {.q = clattn_tensor_bhsd(buffers[0], type, b, h, n, d),
                                       .kv.k = clattn_tensor_bhsd(buffers[1], type, b, h, n, d),
                                       .kv.v = clattn_tensor_bhsd(buffers[2], type, b, h, n, d),
                                       .out = clattn_tensor_bhsd(buffers[3], type, b, h, n, d),
                                       .kernel = kernel};
    for (int i = -2; i < 9 && ok; i++) { // two runs to warm up
        const uint64_t start = tool_time_ns();
        ok = clattn_attention_enqueue(s->context, s->queue, &p, 0, NULL, NULL) == CLATTN_OK &&
             session_finish(s) < 0;
        if (i >= 0) times[i] = (double)(tool_time_ns() - start);
    }
    if (ok) best = median_of(times, 9);
    for (int i = 0; i < 4; i++)
        if (buffers[i]) clReleaseMemObject(buffers[i]);
    free(zeros);
    return best;
}

typedef struct winner {
    char row[256];
    double time_ns;
} winner;

// Try one row on every class of a type, and keep it where it wins. Returns -1, or the exit status where the
// device is gone.
static int try_row(tune *t, const char *row, clattn_type type, winner *winners) {
    session s = {0};
    char text[300];
    snprintf(text, sizeof text, "%s\n", row);
    if (isatty(2)) fprintf(stderr, "\r%s %s\033[K", type_names[type], row);
    const int status = session_open_rows(&s, "tune", &t->common, text);
    if (status >= 0) return status;
    if (verified(&s, type, CLATTN_KERNEL_FLASH))
        for (int i = 0; i < CLASSES; i++) {
            const double time_ns = timed(&s, type, i, CLATTN_KERNEL_FLASH);
            if (time_ns > 0.0 && (winners[i].time_ns == 0.0 || time_ns < winners[i].time_ns)) {
                snprintf(winners[i].row, sizeof winners[i].row, "%s", row);
                winners[i].time_ns = time_ns;
            }
        }
    session_close(&s);
    return -1;
}

static void add_line(tune *t, const char *line) {
    const int n = snprintf(t->text + t->used, sizeof t->text - t->used, "%s\n", line);
    if (n > 0 && (size_t)n < sizeof t->text - t->used) t->used += (size_t)n;
}

static void add_winners(tune *t, clattn_type type, const winner *winners, bool is_cpu, int lanes) {
    for (int i = 0; i < CLASSES; i++) {
        char line[512];
        const char *colon = strchr(winners[i].row, ':');
        if (!colon) continue;
        const double flops =
            4.0 * classes[i].batch * classes[i].heads * (double)classes[i].n * classes[i].n * 64;
        snprintf(line, sizeof line, "%.*scpu=%d lanes=%d type=%s %s %s  # %.0f GFLOP/s",
                 (int)(colon - winners[i].row), winners[i].row, is_cpu, lanes, type_names[type],
                 classes[i].condition, colon, flops / winners[i].time_ns);
        add_line(t, line);
    }
}

static int tune_type(tune *t, clattn_type type, bool is_cpu, int lanes) {
    winner winners[CLASSES] = {{{0}, 0.0}};
    int status = try_row(t, "flash :", type, winners);
    for (int i = 0; i < CANDIDATES && status < 0; i++) {
        char row[256];
        if (t->quick && i % 3 != 1) continue;
        snprintf(row, sizeof row, "flash_lanes : LANES=%d ROW_VECTORS=%d KEY_BLOCK=%d TILE_KV=%d", lanes,
                 candidates[i].row_vectors, candidates[i].key_block, candidates[i].tile_kv);
        status = try_row(t, row, type, winners);
    }
    if (isatty(2)) fprintf(stderr, "\r\033[K");
    if (status < 0) add_winners(t, type, winners, is_cpu, lanes);
    return status;
}

// The median of seven runs after two; 0: it failed.
static double time_linear(session *s, const clattn_linear_params *p) {
    double all[7];
    for (int i = -2; i < 7; i++) {
        const uint64_t start = tool_time_ns();
        if (clattn_linear_enqueue(s->context, s->queue, p, 0, NULL, NULL) != CLATTN_OK ||
            session_finish(s) >= 0)
            return 0.0;
        if (i >= 0) all[i] = (double)(tool_time_ns() - start);
    }
    return median_of(all, 7);
}

// One projection: CLBlast against the native kernel, a row for the faster.
static int tune_projection(tune *t, bool is_cpu, int lanes) {
    enum { N = 256, M = 512 };
    const int64_t rows[3] = {1, N, M}, square[2] = {M, M};
    session s = {0};
    cl_mem x = NULL, w = NULL, out = NULL;
    float *zeros = calloc((size_t)M * M, sizeof *zeros);
    int status = zeros ? session_open(&s, "tune", &t->common) : EXIT_FAILED;
    if (status < 0) status = session_buffer(&s, zeros, (size_t)M * M * sizeof *zeros, &w);
    if (status < 0) status = session_buffer(&s, zeros, (size_t)N * M * sizeof *zeros, &x);
    if (status < 0) status = session_buffer(&s, zeros, (size_t)N * M * sizeof *zeros, &out);
    clattn_linear_params p = {.x = clattn_tensor_dense(x, CLATTN_TYPE_F32, 3, rows),
                              .w = clattn_tensor_dense(w, CLATTN_TYPE_F32, 2, square),
                              .out = clattn_tensor_dense(out, CLATTN_TYPE_F32, 3, rows),
                              .projection = CLATTN_PROJECTION_CLBLAST};
    const double clblast = status < 0 ? time_linear(&s, &p) : 0.0;
    p.projection = CLATTN_PROJECTION_NATIVE;
    const double native = status < 0 ? time_linear(&s, &p) : 0.0;
    if (x) clReleaseMemObject(x);
    if (w) clReleaseMemObject(w);
    if (out) clReleaseMemObject(out);
    session_close(&s);
    free(zeros);
    if (status >= 0) return status;
    char line[256];
    snprintf(line, sizeof line,
             "%s cpu=%d lanes=%d nq=41.. :  # %d x %d x %d: CLBlast %.2f ms, native %.2f ms (0: it failed)",
             native > 0.0 && (clblast == 0.0 || native < clblast) ? "linear_lanes" : "clblast", is_cpu, lanes,
             N, M, M, clblast / 1e6, native / 1e6);
    if (clblast > 0.0 || native > 0.0) add_line(t, line);
    return -1;
}

static int run_tune(tune *t) {
    session s = {0};
    char line[700], error[512];
    int status = session_open(&s, "tune", &t->common);
    if (status >= 0) return status;
    const uint32_t width = s.capabilities->float_vector_width;
    const bool is_cpu = s.capabilities->is_cpu;
    const int lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4;
    snprintf(line, sizeof line, "# %s, %s, clattn %s", s.capabilities->name, s.capabilities->driver,
             clattn_version());
    session_close(&s);
    add_line(t, line);
    for (int type = CLATTN_TYPE_F32; type <= CLATTN_TYPE_BF16 && status < 0; type++)
        status = tune_type(t, (clattn_type)type, is_cpu, lanes);
    if (status < 0) status = tune_projection(t, is_cpu, lanes);
    if (status >= 0) return status;
    if (fputs(t->text, stdout) < 0 || fflush(stdout) != 0) return EXIT_FAILED;
    if (t->out && !file_write_whole(t->out, t->text, t->used, error, sizeof error))
        return tool_failed("tune", "%s", error);
    return EXIT_DONE;
}

int tool_tune(int argc, char **argv) {
    static tune t; // large
    static const option_row rows[] = {
        {"out", "FILE", 600, "write the rows here, too: a text for clattn_context_params.tuned_rows"},
        {"quick", NULL, 601, "a third of the candidates"}};
    const option_group groups[] = {{"tune", rows, 2, take_tune, &t}, common_group(&t.common)};
    command_line line = {"tune",
                         "find the fastest legal variants of this device, as rows for the planner",
                         "clattn tune --device cpu --out rows.txt",
                         groups,
                         2,
                         0,
                         {NULL},
                         0};
    const int status = options_parse(&line, argc, argv);
    return status >= 0 ? status : run_tune(&t);
}
