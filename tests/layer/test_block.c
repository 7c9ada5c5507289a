// test_block.c: norms with a residual and a sum, activations and gates, embedding rows, argmax and
// samples, compared with their formulas in double precision. Covers types, layouts, widths with and
// without a tail, in-place results, numbers that are not finite, and sizes of 0. Operations with
// work-groups also run as a GPU: the suite's own clGetDeviceInfo shadows the loader's. Rejected
// calls are in test_errors_block.c.
#define _GNU_SOURCE
#include "support/arrays.h"
#include "support/harness.h"
#include "attention/no_cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/guarded.h"
#include "verification/reference/random.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))
enum { BATCH = 2, ROWS = 3, TABLE = 11, MOST_WIDTH = 531, MOST = BATCH * ROWS * MOST_WIDTH };

// Types of x, of the residual or the table, of the weights and of the result. The last mix is a
// decoder's residual stream.
static const struct mix {
    clattn_type x, residual, weight, out;
} mixes[] = {{CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32},
             {CLATTN_TYPE_F16, CLATTN_TYPE_F16, CLATTN_TYPE_F32, CLATTN_TYPE_F16},
             {CLATTN_TYPE_BF16, CLATTN_TYPE_F16, CLATTN_TYPE_BF16, CLATTN_TYPE_F32},
             {CLATTN_TYPE_F32, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16}};
enum { MIXES = COUNT(mixes) };
static const int widths[] = {1, 3, 16, 47, 64, 256, MOST_WIDTH};

static void assert_ok(clattn_status status) {
    ck_assert_msg(status == CLATTN_OK, "%s: %s", clattn_status_name(status), harness_log_text());
}

// Fail unless each number equals the wanted one within `bound` and its type's rounding. If the
// wanted number is not finite, the result must not be finite either.
static void assert_near(const char *name, const array *got, const double *want, const double *bound) {
    const clattn_type type = got->memory.view.type;
    double *is = reference_alloc(guarded_count(&got->memory.view) + 1);
    ck_assert_msg(guarded_read(&got->memory, harness()->queue, is), "%s: something around it changed", name);
    for (int64_t n = 0; n < guarded_count(&got->memory.view); n++) {
        const double rounded = storage_round(type, want[n]),
                     most = bound[n] + 1.01 * storage_roundoff(type) * (fabs(want[n]) + bound[n]) +
                            1e-7 * (type == CLATTN_TYPE_F16);
        ck_assert_msg(isnan(want[n])       ? isnan(is[n])
                      : !isfinite(rounded) ? is[n] == rounded
                                           : fabs(is[n] - want[n]) <= most,
                      "%s: number %lld is %.9g, not %.9g within %.3g", name, (long long)n, is[n], want[n],
                      most);
    }
    free(is);
}

static void assert_intact(const char *name, const array *read) {
    ck_assert_msg(!read->values || guarded_intact(&read->memory, harness()->queue), "%s: an input changed",
                  name);
}

// ------------------------------------------------------------------------------------------------
// norm ---
enum norm_place { APART, IN_X, IN_RESIDUAL };

typedef struct norm_case {
    clattn_norm_params params; // without views
    struct mix types;
    int width;
    enum layout layout;
    bool adds, sums, weighs, shifts;
    enum norm_place out_in, sum_in;
    char name[96];
} norm_case;

static norm_case norm_case_of(int n) {
    norm_case c = {.types = mixes[n % MIXES]};
    c.width = widths[n % COUNT(widths)], c.layout = (enum layout)(n % LAYOUT_COUNT);
    c.params.kind = n / 4 % 2 ? CLATTN_NORM_KIND_LAYER : CLATTN_NORM_KIND_RMS;
    c.adds = n % 11 != 3, c.sums = c.adds && n / 4 % 4 < 3;
    c.weighs = n % 5 != 1, c.shifts = n % 3 == 2, c.params.plus_one = c.weighs && n % 7 == 2;
    c.params.epsilon = n % 6 == 4 ? 0.25f : 0;
    c.out_in = c.types.out != c.types.x ? APART : (enum norm_place)(n / 5 % 3),
    c.sum_in = (enum norm_place)(n / 4 % 3);
    if (!c.adds && c.out_in == IN_RESIDUAL) c.out_in = IN_X;
    if (c.out_in == IN_RESIDUAL && c.types.residual != c.types.out) c.out_in = APART;
    if (c.sums && (c.sum_in == c.out_in || (c.sum_in == IN_RESIDUAL && c.types.residual != c.types.x)))
        c.sum_in = APART;
    snprintf(c.name, sizeof c.name, "norm case %d: %s of %d%s%s", n, c.params.kind ? "layer" : "rms", c.width,
             c.adds ? ", residual" : "", c.sums ? ", sum" : "");
    return c;
}

// Compute one row's wanted norm of h, and the error bound of single precision.
static void norm_row(const norm_case *c, const double *h, const double *weight, const double *bias,
                     double *want, double *bound) {
    double mean = 0, squares = 0, largest = 0;
    const bool layer = c->params.kind == CLATTN_NORM_KIND_LAYER;
    const double epsilon = c->params.epsilon > 0 ? (double)c->params.epsilon : layer ? 1e-5 : 1e-6;
    for (int d = 0; d < c->width; d++)
        mean += layer ? h[d] / c->width : 0, largest = fmax(largest, fabs(h[d]));
    for (int d = 0; d < c->width; d++) squares += (h[d] - mean) * (h[d] - mean);
    const double by = 1 / sqrt(squares / c->width + epsilon);
    for (int d = 0; d < c->width; d++) {
        const double w = (c->weighs ? weight[d] : 1) + c->params.plus_one, b = c->shifts ? bias[d] : 0;
        want[d] = (h[d] - mean) * by * w + b;
        bound[d] = 6 * 0x1p-23 * (fabs(w) * by * largest + fabs(b));
    }
}

typedef struct norm_arrays {
    array x, residual, sum, out, weight, bias;
} norm_arrays;

static norm_arrays norm_bind(norm_case *c, struct random *random) {
    const struct guarded_shape rows = {c->types.x, 3, {BATCH, ROWS, c->width}, c->layout},
                               out = {c->types.out, 3, {BATCH, ROWS, c->width}, c->layout},
                               residual = {c->types.residual, 3, {BATCH, ROWS, c->width}, c->layout},
                               width = {c->types.weight, 1, {c->width}, c->layout};
    clattn_norm_params *p = &c->params;
    norm_arrays a = {.x = array_given(random, &rows, 2, c->out_in == IN_X || (c->sums && c->sum_in == IN_X))};
    if (c->adds)
        a.residual = array_given(random, &residual, 2,
                                 c->out_in == IN_RESIDUAL || (c->sums && c->sum_in == IN_RESIDUAL));
    if (c->weighs) a.weight = array_given(random, &width, 1, false);
    if (c->shifts) a.bias = array_given(random, &width, 1, false);
    if (c->sums && c->sum_in == APART) a.sum = array_empty(&rows);
    if (c->out_in == APART) a.out = array_empty(&out);
    p->x = a.x.memory.view, p->residual = a.residual.memory.view;
    p->weight = a.weight.memory.view, p->bias = a.bias.memory.view;
    const clattn_tensor *const places[] = {&a.out.memory.view, &p->x, &p->residual};
    p->out = *places[c->out_in];
    if (c->sums) p->sum = c->sum_in == APART ? a.sum.memory.view : *places[c->sum_in];
    return a;
}

// The stored h is rounded to x's type. Before that, a float32 sum of two 16-bit numbers may be half
// an ulp off.
static void norm_run(norm_case *c) {
    struct random random = {(uint64_t)c->width + 1};
    norm_arrays a = norm_bind(c, &random);
    double *h = reference_alloc(MOST), *want = reference_alloc(MOST), *bound = reference_alloc(MOST);
    const int count = BATCH * ROWS * c->width;
    array *const places[] = {&a.out, &a.x, &a.residual};
    assert_ok(clattn_norm_enqueue(on, harness()->queue, &c->params, 0, NULL, NULL));
    for (int n = 0; n < count; n++) h[n] = a.x.values[n] + (c->adds ? a.residual.values[n] : 0);
    for (int n = 0; n < count; n++) bound[n] = 0x1p-23 * fabs(h[n]);
    if (c->sums) {
        array *sum = c->sum_in == APART ? &a.sum : places[c->sum_in];
        assert_near(c->name, sum, h, bound);
        ck_assert(guarded_read(&sum->memory, harness()->queue, h)); // as stored
    }
    for (int n = 0; n < count; n += c->width)
        norm_row(c, h + n, a.weight.values, a.bias.values, want + n, bound + n);
    assert_near(c->name, places[c->out_in], want, bound);
    if (c->out_in != IN_X && !(c->sums && c->sum_in == IN_X)) assert_intact(c->name, &a.x);
    if (c->out_in != IN_RESIDUAL && !(c->sums && c->sum_in == IN_RESIDUAL))
        assert_intact(c->name, &a.residual);
    assert_intact(c->name, &a.weight), assert_intact(c->name, &a.bias);
    array_release(&a.x), array_release(&a.residual), array_release(&a.sum), array_release(&a.out),
        array_release(&a.weight), array_release(&a.bias);
    free(h), free(want), free(bound);
}

START_TEST(norms) {
    bool places[3][3] = {{false}};
    for (int n = 0; n < 280; n++) {
        if (!harness_takes(n)) continue;
        norm_case c = norm_case_of(n);
        places[c.out_in][c.sums ? c.sum_in : APART] = true;
        norm_run(&c);
    }
    ck_assert(harness_every() > 1 || (places[IN_X][IN_RESIDUAL] && places[IN_RESIDUAL][IN_X] &&
                                      places[IN_X][APART] && places[APART][IN_X]));
}
END_TEST

// A NaN, an infinity or a row of zeros affects only its own row.
START_TEST(rows_are_apart) {
    enum { WIDTH = 20 };
    struct random random = {5};
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 3, {1, 4, WIDTH}, LAYOUT_DENSE};
    double x[4 * WIDTH], want[4 * WIDTH], bound[4 * WIDTH];
    for (int n = 0; n < 4 * WIDTH; n++)
        x[n] = n / WIDTH == 3 ? 0 : storage_round(CLATTN_TYPE_F32, random_uniform(&random, -1, 1));
    x[3] = (double)NAN, x[2 * WIDTH + 17] = (double)INFINITY;
    for (int kind = 0; kind < 2; kind++) {
        struct guarded in = guarded_input(harness_place(), &shape, x);
        array out = array_empty(&shape);
        norm_case c = {.width = WIDTH,
                       .params = {in.view, .out = out.memory.view, .kind = (clattn_norm_kind)kind}};
        assert_ok(clattn_norm_enqueue(on, harness()->queue, &c.params, 0, NULL, NULL));
        for (int n = 0; n < 4; n++)
            norm_row(&c, x + n * WIDTH, NULL, NULL, want + n * WIDTH, bound + n * WIDTH);
        // norm_row's fmax drops NaN, so the wanted row is set here. An infinity divided by itself
        // is NaN. The rest of the row is 0, or NaN for a norm with a mean.
        for (int d = 0; d < WIDTH; d++) {
            bound[2 * WIDTH + d] = 0;
            if (kind == 0) want[2 * WIDTH + d] = d == 17 ? (double)NAN : 0;
        }
        assert_near("rows apart", &out, want, bound);
        guarded_release(&in), array_release(&out);
    }
}
END_TEST

// ------------------------------------------------------------------------------------------
// activation --- The argument of exp() is not x itself for some activations. Returns the argument's
// error in roundings, which is also the result's relative error.
static double argument_error(double x, clattn_activation how) {
    const double a = fmin(fabs(x), 10);
    return how == CLATTN_ACTIVATION_GELU         ? 2 * a * a
           : how == CLATTN_ACTIVATION_GELU_TANH  ? 2 * a + a * a * a / 4
           : how == CLATTN_ACTIVATION_GELU_QUICK ? 2 * fmin(fabs(x), 100)
                                                 : 0;
}

// Hard inputs, used as the first numbers of a row.
static const double hard[] = {0,
                              -0.0,
                              1,
                              -1,
                              5.5,
                              -5.5,
                              12,
                              -12,
                              60,
                              -60,
                              100,
                              -100,
                              1e30,
                              -1e30,
                              3e38,
                              -3e38,
                              1e-30,
                              -1e-30,
                              (double)INFINITY,
                              (double)NAN,
                              -87.5,
                              -88.5,
                              88.5};

static void activation_run(int n, clattn_activation how, bool gates, bool in_place) {
    struct random random = {(uint64_t)n};
    const int width = widths[n % COUNT(widths)], count = BATCH * ROWS * width;
    const clattn_type type = mixes[n % MIXES].x, out_type = in_place ? type : mixes[n % MIXES].out;
    const struct guarded_shape rows = {type, 3, {BATCH, ROWS, width}, (enum layout)(n % LAYOUT_COUNT)},
                               of_out = {
                                   out_type, 3, {BATCH, ROWS, width}, (enum layout)((n + 1) % LAYOUT_COUNT)};
    array x = array_given(&random, &rows, 6, in_place), up = {0}, out = {0};
    double *want = reference_alloc(MOST), *bound = reference_alloc(MOST);
    char name[64];
    snprintf(name, sizeof name, "activation %d, case %d", (int)how, n);
    if (gates) up = array_given(&random, &rows, 2, false);
    guarded_release(&x.memory);
    for (int i = 0; i < COUNT(hard) && i < width; i++) x.values[i] = storage_round(type, hard[i]);
    x.memory = in_place ? guarded_in_out(harness_place(), &rows, x.values)
                        : guarded_input(harness_place(), &rows, x.values);
    if (!in_place) out = array_empty(&of_out);
    const array *result = in_place ? &x : &out;
    const clattn_activation_params p = {x.memory.view, up.memory.view, result->memory.view, how};
    for (int i = 0; i < count; i++) {
        const double y = reference_activation(x.values[i], how), by = gates ? up.values[i] : 1;
        want[i] = storage_round(CLATTN_TYPE_F32, y) * by;
        bound[i] = isfinite(y) ? 0x1p-22 * (6 + argument_error(x.values[i], how)) * fabs(y * by) + 1e-36 : 0;
        if (!isfinite(want[i]) && isfinite(storage_round(CLATTN_TYPE_F32, y))) bound[i] = 0;
    }
    assert_ok(clattn_activation_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
    assert_near(name, result, want, bound);
    if (!in_place) assert_intact(name, &x);
    assert_intact(name, &up);
    array_release(&x), array_release(&up), array_release(&out);
    free(want), free(bound);
}

START_TEST(activations) {
    for (int how = 0; how < CLATTN_ACTIVATION_COUNT; how++)
        for (int n = 0; n < 18; n++)
            if (harness_takes(18 * how + n))
                activation_run(n + how, (clattn_activation)how, n % 2 || how == CLATTN_ACTIVATION_NONE,
                               n % 3 == 1);
}
END_TEST

// Both halves of one projection's rows are inputs, and the result overwrites the first half.
START_TEST(halves_of_one_projection) {
    enum { WIDTH = 40 };
    struct random random = {8};
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, 2 * WIDTH}, LAYOUT_PADDED};
    array both = array_given(&random, &shape, 3, true);
    double want[BATCH * ROWS * 2 * WIDTH], bound[BATCH * ROWS * 2 * WIDTH];
    clattn_activation_params p = {.x = both.memory.view, .activation = CLATTN_ACTIVATION_SILU};
    p.x.shape[2] = WIDTH, p.up = p.x, p.up.offset += WIDTH, p.out = p.x;
    for (int i = 0; i < BATCH * ROWS * 2 * WIDTH; i++) {
        const bool gate = i % (2 * WIDTH) < WIDTH;
        want[i] = gate ? reference_activation(both.values[i], p.activation) * both.values[i + WIDTH]
                       : both.values[i];
        bound[i] = gate ? 1e-5 * fabs(want[i]) : 0;
    }
    assert_ok(clattn_activation_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
    assert_near("halves", &both, want, bound);
    array_release(&both);
}
END_TEST

// -------------------------------------------------------------------------------- embedding and
// argmax ---
START_TEST(embeddings) {
    for (int n = 0; n < 51; n++) {
        if (!harness_takes(n)) continue;
        struct random random = {(uint64_t)n};
        const clattn_type type = n < 45 ? mixes[n % MIXES].x : (clattn_type)(CLATTN_TYPE_Q8_0 + (n - 45) / 2);
        const int width = n < 45 ? widths[n % COUNT(widths)] : 32 + 192 * (n % 2);
        const enum layout layout = (enum layout)(n % LAYOUT_COUNT);
        const struct guarded_shape of_ids = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, layout_loose(layout)},
                                   of_table = {type, 2, {TABLE, width / clattn_type_numbers(type)}, layout},
                                   of_out = {mixes[n % MIXES].out, 3, {BATCH, ROWS, width}, layout};
        array table = array_given(&random, &of_table, 1, false), out = array_empty(&of_out);
        const double ids[BATCH * ROWS] = {3, TABLE - 1, 0, -1, TABLE, n % 2 ? INT32_MIN : INT32_MAX};
        struct guarded id = guarded_input(harness_place(), &of_ids, ids);
        double *want = reference_alloc(MOST), *bound = reference_alloc(MOST), by = n % 2 ? 1 : 2.5;
        const clattn_embedding_params p = {id.view, table.memory.view, out.memory.view, n % 2 ? 0 : 2.5f};
        for (int i = 0; i < BATCH * ROWS * width; i++) {
            const double row = ids[i / width];
            want[i] = row < 0 || row >= TABLE ? 0 : table.values[(int)row * width + i % width] * by;
            // q4_1 adds an offset
            bound[i] = n % 2 && n < 45 ? 0 : 0x1p-23 * (fabs(want[i]) + (n < 45 ? 0 : 1));
        }
        assert_ok(clattn_embedding_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
        assert_near("embedding", &out, want, bound);
        assert_intact("embedding", &table);
        ck_assert(guarded_intact(&id, harness()->queue));
        array_release(&table), array_release(&out), guarded_release(&id), free(want), free(bound);
    }
}
END_TEST

static int argmax_of(const double *x, int width) {
    int best = 0;
    for (int i = 1; i < width && !isnan(x[best]); i++)
        if (isnan(x[i]) || x[i] > x[best]) best = i;
    return best;
}

START_TEST(greatest) {
    for (int n = 0; n < 42; n++) {
        if (!harness_takes(n)) continue;
        struct random random = {(uint64_t)n + 40};
        const int width = widths[n % COUNT(widths)];
        const enum layout layout = (enum layout)(n % LAYOUT_COUNT);
        const struct guarded_shape shape = {mixes[n % 3].x, 3, {BATCH, ROWS, width}, layout},
                                   places = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, layout_loose(layout)};
        array x = array_given(&random, &shape, 4, false), out = array_empty(&places);
        double want[BATCH * ROWS], bound[BATCH * ROWS] = {0};
        guarded_release(&x.memory);
        for (int i = 0; i < width; i++) {
            double *at = x.values + i;
            if (n % 2) at[0] = floor(at[0]); // the maximum occurs several times
            at[width] = -(double)INFINITY;
            if (i >= width / 2) at[2 * width] = (double)NAN; // a lane meets several NaNs
            if (i == width / 3) at[3 * width] = (double)INFINITY;
            at[4 * width] = i == width - 1 ? 9 : at[4 * width];
        }
        x.memory = guarded_input(harness_place(), &shape, x.values);
        for (int i = 0; i < BATCH * ROWS; i++) want[i] = argmax_of(x.values + i * width, width);
        array lengths = array_given(&random, &places, 100, false);
        clattn_argmax_params p = {.x = x.memory.view, .out = out.memory.view};
        if (n % 3 == 1) p.lengths = lengths.memory.view;
        assert_ok(clattn_argmax_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
        assert_near("argmax", &out, want, bound);
        assert_intact("argmax", &x);
        for (int i = 0; i < BATCH * ROWS; i++) want[i] = lengths.values[i] + (n % 3 == 1);
        assert_near("lengths", &lengths, want, bound);
        array_release(&x), array_release(&out), array_release(&lengths);
    }
}
END_TEST

// ----------------------------------------------------------------------------------------------
// sample --- Returns the number that decides which place is chosen, as block.h defines it.
static double drawn_by(const clattn_sample_params *p, double x, int b, int n, int v) {
    const uint32_t key[2] = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)},
                   counter[4] = {(uint32_t)v / 4, (uint32_t)n, UINT32_MAX, (uint32_t)b};
    uint32_t words[4];
    philox(counter, key, words);
    return x / (double)p->temperature - log(-log(((words[v % 4] >> 9) + 0.5) / 0x1p23));
}

static int falling(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Returns the smallest logit of a row that the filters keep, by sorting. With a positive slack,
// returns the smallest one kept if probabilities were a little larger.
static double least_left(const clattn_sample_params *p, const double *row, int width, double slack) {
    double sorted[MOST_WIDTH], weight[MOST_WIDTH], all = 0, sum = 0, least = -(double)INFINITY;
    int count = width;
    memcpy(sorted, row, (size_t)width * sizeof *row);
    qsort(sorted, (size_t)width, sizeof *sorted, falling);
    if (p->top_k > 0 && p->top_k < width)
        for (count = p->top_k; count < width && sorted[count] == sorted[count - 1];) count++;
    for (int i = 0; i < count; i++) all += weight[i] = exp((sorted[i] - sorted[0]) / (double)p->temperature);
    for (int i = 0; i < count; i++) {
        if (p->top_p > 0 && p->top_p < 1 && sum >= ((double)p->top_p + slack) * all && sorted[i] < least)
            break;
        if (weight[i] < (double)p->min_p - slack) break;
        sum += weight[i], least = sorted[i];
    }
    return least;
}

static void sample_run(const clattn_sample_params *of, clattn_type type, int width, enum layout layout) {
    struct random random = {of->seed + 3};
    const struct guarded_shape shape = {type, 3, {BATCH, ROWS, width}, layout},
                               places = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, layout_loose(layout)};
    array x = array_given(&random, &shape, 4, false), out = array_empty(&places);
    clattn_sample_params p = *of;
    double got[BATCH * ROWS];
    p.x = x.memory.view, p.out = out.memory.view;
    assert_ok(clattn_sample_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
    ck_assert(guarded_read(&out.memory, harness()->queue, got));
    for (int r = 0; r < BATCH * ROWS; r++) {
        const double *row = x.values + r * width, least = least_left(&p, row, width, -1e-5),
                     surely = least_left(&p, row, width, 1e-5);
        double most = -(double)INFINITY;
        ck_assert_msg(got[r] >= 0 && got[r] < width, "row %d of %d: place %g", r, width, got[r]);
        const double is = drawn_by(&p, row[(int)got[r]], r / ROWS, r % ROWS, (int)got[r]);
        for (int v = 0; v < width; v++)
            if (row[v] >= fmax(least, surely)) most = fmax(most, drawn_by(&p, row[v], r / ROWS, r % ROWS, v));
        ck_assert_msg(row[(int)got[r]] >= fmin(least, surely), "row %d of %d: place %g is not left", r, width,
                      got[r]);
        ck_assert_msg(is >= most - 1e-4 * (1 + fabs(most)), "row %d of %d: place %g has %g, another has %g",
                      r, width, got[r], is, most);
    }
    assert_intact("sample", &x);
    array_release(&x), array_release(&out);
}

START_TEST(samples) {
    static const clattn_sample_params ways[] = {
        {.temperature = 1},
        {.temperature = 0.3f, .top_k = 5},
        {.temperature = 1.5f, .top_p = 0.6f},
        {.temperature = 2, .min_p = 0.2f},
        {.temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f},
        {.temperature = 1, .top_k = 1},
        {.temperature = 1, .top_p = 1e-6f},
        {.temperature = 1e-30f, .top_p = 0.5f},
        {.temperature = 1e30f, .top_k = 100000, .top_p = 1}};
    for (int n = 0; n < 7 * COUNT(ways); n++) {
        if (!harness_takes(n)) continue;
        clattn_sample_params p = ways[n % COUNT(ways)];
        p.seed = (uint64_t)n * UINT64_C(0x1234567890ab);
        sample_run(&p, mixes[n % 3].x, widths[n / 3 % COUNT(widths)], (enum layout)(n % LAYOUT_COUNT));
    }
}
END_TEST

// Sampled frequencies follow the probabilities: many rows with equal logits. With 7 degrees of
// freedom chi-squared exceeds 29.9 once in 10,000 runs.
START_TEST(samples_by_probability) {
    enum { DRAWS = 4000, PLACES = 8 };
    static const double logits[PLACES] = {0.5, -1, 2, 0, 1, -3, 1.5, -0.25};
    double got[DRAWS], all = 0, chi = 0;
    int count[PLACES] = {0};
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 3, {1, 1, PLACES}, LAYOUT_DENSE},
                               places = {CLATTN_TYPE_I32, 2, {1, DRAWS}, LAYOUT_DENSE};
    struct guarded x = guarded_input(harness_place(), &shape, logits),
                   out = guarded_output(harness_place(), &places);
    clattn_sample_params p = {x.view, out.view, .temperature = 0.7f, .seed = 11};
    p.x.shape[1] = DRAWS, p.x.stride[1] = 0; // all rows share one row of logits
    assert_ok(clattn_sample_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
    ck_assert(guarded_read(&out, harness()->queue, got));
    for (int n = 0; n < DRAWS; n++) count[(int)got[n]]++;
    for (int v = 0; v < PLACES; v++) all += exp(logits[v] / 0.7);
    for (int v = 0; v < PLACES; v++) {
        const double wanted = DRAWS * exp(logits[v] / 0.7) / all;
        chi += (count[v] - wanted) * (count[v] - wanted) / wanted;
    }
    ck_assert_msg(chi < 29.9, "chi-squared is %g", chi);
    guarded_release(&x), guarded_release(&out);
}
END_TEST

// The first NaN, an infinity, and rows that are all -inf.
START_TEST(samples_of_no_numbers) {
    enum { WIDTH = 37 };
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 3, {1, 4, WIDTH}, LAYOUT_PADDED},
                               places = {CLATTN_TYPE_I32, 2, {1, 4}, LAYOUT_DENSE};
    double x[4 * WIDTH], got[4];
    for (int n = 0; n < 4 * WIDTH; n++) x[n] = n / WIDTH == 2 ? -(double)INFINITY : n % 5;
    x[20] = x[30] = (double)NAN, x[WIDTH + 9] = x[3 * WIDTH + 9] = (double)INFINITY;
    x[3 * WIDTH + 4] = -(double)INFINITY;
    struct guarded in = guarded_input(harness_place(), &shape, x),
                   out = guarded_output(harness_place(), &places);
    for (int way = 0; way < 4; way++) {
        clattn_sample_params p = {in.view, out.view, .temperature = 1};
        p.top_k = way % 2 ? 3 : 0, p.top_p = way / 2 ? 0.5f : 0, p.min_p = way == 3 ? 0.1f : 0;
        assert_ok(clattn_sample_enqueue(on, harness()->queue, &p, 0, NULL, NULL));
        ck_assert(guarded_read(&out, harness()->queue, got));
        ck_assert_msg(got[0] == 20 && got[1] == 9 && got[3] == 9, "%g, %g, %g", got[0], got[1], got[3]);
        ck_assert(got[2] >= 0 && got[2] < WIDTH);
    }
    guarded_release(&in), guarded_release(&out);
}
END_TEST

// No work, and buffers may be NULL.
START_TEST(sizes_of_zero) {
    const int64_t rows[] = {2, 0, 8}, ids[] = {2, 0}, table[] = {0, 8};
    const clattn_tensor x = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, rows),
                        i = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, ids),
                        t = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, table);
    clattn_context *c = on;
    cl_command_queue q = harness()->queue;
    assert_ok(clattn_norm_enqueue(c, q, &(clattn_norm_params){.x = x, .out = x}, 0, NULL, NULL));
    assert_ok(clattn_activation_enqueue(
        c, q, &(clattn_activation_params){.x = x, .out = x, .activation = CLATTN_ACTIVATION_SILU}, 0, NULL,
        NULL));
    assert_ok(clattn_embedding_enqueue(c, q, &(clattn_embedding_params){i, t, x, 0}, 0, NULL, NULL));
    assert_ok(clattn_argmax_enqueue(c, q, &(clattn_argmax_params){.x = x, .out = i}, 0, NULL, NULL));
    assert_ok(clattn_sample_enqueue(c, q, &(clattn_sample_params){x, i, .temperature = 1}, 0, NULL, NULL));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {norms,
                                  rows_are_apart,
                                  activations,
                                  halves_of_one_projection,
                                  embeddings,
                                  greatest,
                                  samples,
                                  samples_by_probability,
                                  samples_of_no_numbers,
                                  sizes_of_zero,
                                  NULL};
    const TTest *const in_groups[] = {norms, rows_are_apart, greatest, samples, samples_of_no_numbers, NULL};
    Suite *suite = suite_create("block");
    tcase_add_unchecked_fixture(harness_add(suite, "as the device is", tests), begin_cpu, NULL);
    tcase_add_unchecked_fixture(harness_add(suite, "as no CPU", in_groups), begin_gpu, end_gpu);
    return harness_run(suite);
}
