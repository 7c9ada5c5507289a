// test_mods_vectors.c: expressions of the caller as vectors, compared with the same expressions
// lane by lane, in every kernel that has lanes. Uses a table of expressions where C and vector
// semantics differ, and random expressions. The plan must say which form runs. Texts with vector
// forms are in test_mods_forms.c, and the meaning of expressions in test_mods.c.
//
//   build/tests/test_mods_vectors 7     other random expressions
#include "support/harness.h"
#include "mods/mod_random.h"

#include "verification/device/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 6, KV_HEADS = 2, SIZE = 16, KEYS = 75, RANDOM_ONES = 8 };

// Differences between C and OpenCL vectors: a comparison is 1 in C and -1 in a vector. A vector's !
// returns -1. C's ?:, && and || test for 0, a vector's ?: tests the sign. Types follow C's rules.
static const char *const masks[] = {"(j <= i) + (j & 1) == 2",
                                    "(j < i) * 3 - 2 > 0",
                                    "-(j < i) < 0",
                                    "~(j <= i) == -2",
                                    "(j <= i) == true",
                                    "!j || !!row == (row > 20)",
                                    "(bool)(j & 6) == true",
                                    "(bool)(float)(j & 6) == (i > 3)",
                                    "(j > 4) == (row & 1)",
                                    "(uint)(j - i) < 15u",
                                    "j - i < 5u",
                                    "(j - i) / 3 == 0",
                                    "(i - j) % 4 == -1 || (i - j) % 4 == 2",
                                    "(uint)(i - j) % 5u == 1",
                                    "j >> 1 & 1",
                                    "1 << (j & 31) & 0x5A5A",
                                    "(i - j) >> 1 < -2",
                                    "0.5f * (float)(j - i)",
                                    "i - j ? j < 50 : 1",
                                    "(j & 2 ? i : j) > 30",
                                    "(j & 2 ? 7u : i - 40) > 30",
                                    "(j & 1 ? 2.5f : i) > 30",
                                    "(j < 3 || i > 25) && (j > 1 || row)",
                                    "b == 1 && (h & 1 ? j > 3 : j < 40)",
                                    "select(i, j, j & 4) > 20",
                                    "select(i, j, -(j & 1)) > 20",
                                    "(int)(0.3f * (float)(j - i)) == -1",
                                    "(float)(uint)(j - i) > 1e9f",
                                    "isnan(0.0f / (float)(j % 3)) || isinf(1.0f / (float)(j % 5))",
                                    "j < i && buffer0(b, i - j - 1) == 3",
                                    "buffer0(b, row) != buffer1(b, j)",
                                    "buffer0(buffer1(b, j), j) & 1",
                                    "buffer1(b, j - 5) == buffer1(b, j + 1000000000)",
                                    "buffer3(b, j) < buffer2(j + h)",
                                    "buffer2(2.9f * (float)j) < 0.0f",
                                    "abs_diff(i, j) > 7u",
                                    "abs(j - i) - 4 < 3",
                                    "clamp(j, 5, i) == j",
                                    "(j ^ i) & (q_length | 1)",
                                    "+j - -row > - - 40",
                                    "buffer2(b) || buffer1(b, j) > 3",
                                    "buffer3(1, b) - buffer2(3) && j > row - 20"};
static const char *const scores[] = {
    "score * (j <= i) - (j < i)",
    "j <= i",
    "j <= i ? score : -1",
    "(int)score",
    "(uint)(j & 7) * 0.25f - score",
    "score > 0 ? 0.5f * score : (j > i) + score",
    "score - (score < 0) * 2 + !score",
    "score + (b ? buffer3(h, j) : buffer2(row))",
    "-score * -2.0f - 0.25f",
    "fmin(fmax(score, -0.5f), 0.5f) * copysign(2.0f, score) / (float)(1 + (j & 3))"};
#define MASKS ((int)(sizeof masks / sizeof masks[0]))
#define SCORES ((int)(sizeof scores / sizeof scores[0]))
// the masks are split, because a text has at most 1024 tokens
#define HALVES 2
#define BATCH ((MASKS + RANDOM_ONES) / HALVES) // each batch item evaluates another expression

static uint64_t seed = 1;
static char *texts[HALVES][2][2]; // mask_mod and score_mod, as vectors and lane by lane
static int refused;               // vector forms rejected by the driver's compiler

static void add(char **at, const char *expression, int b, bool last, const char *before, const char *behind) {
    if (!last) *at += sprintf(*at, "b == %d ? ", b);
    *at += sprintf(*at, "%s(%s)%s%s", before, expression, behind, last ? "" : " : ");
}

static void make_half(struct random *r, int half) {
    char *at[2], *lanes[2];
    for (int n = 0; n < 2; n++) {
        at[n] = texts[half][n][0] = calloc((size_t)BATCH, MOD_RANDOM_SIZE);
        lanes[n] = texts[half][n][1] = calloc((size_t)BATCH, MOD_RANDOM_SIZE);
        ck_assert(at[n] != NULL && lanes[n] != NULL);
    }
    for (int b = 0; b < BATCH; b++) {
        const int mask = half * BATCH + b;
        char text[MOD_RANDOM_SIZE] = "";
        if (mask >= MASKS) mod_random(r, RANDOM_BOOL, 3, false, text);
        add(&at[0], mask < MASKS ? masks[mask] : text, b, b == BATCH - 1, "(bool)", "");
    }
    for (int b = 0; b < SCORES + RANDOM_ONES; b++) {
        char text[MOD_RANDOM_SIZE] = "";
        if (b >= SCORES) mod_random(r, RANDOM_FLOAT, 2, true, text);
        add(&at[1], b < SCORES ? scores[b] : text, b, b == SCORES + RANDOM_ONES - 1,
            b < SCORES ? "fmin(fmax((float)" : "score + fmin(fmax(0.05f * ", ", -2.0f), 2.0f)");
    }
    for (int n = 0; n < 2; n++) // the same value, but without a vector form
        sprintf(lanes[n], "%s(%s)", n ? "convert_float" : "convert_int", texts[half][n][0]);
}

static void make_texts(void) {
    struct random r = {seed};
    for (int half = 0; half < HALVES; half++) make_half(&r, half);
}

static void release_texts(void) {
    for (int n = 0; n < 4 * HALVES; n++) free(texts[n / 4][n / 2 % 2][n % 2]);
}

static void note_refusals(void *user, clattn_log_level level, const char *text) {
    const clattn_log log = harness_log();
    (void)user;
    refused += strstr(text, "refuses vectors of an expression") != NULL;
    if (level <= log.level) log.fn(log.user, level, text);
}

// Q, K, V, the four buffers, out, lse.
enum { TENSORS = 9, OUT = 7, LSE = 8 };

static struct guarded make(struct place *place, int which, clattn_type type, int rows) {
    const struct guarded_shape shapes[TENSORS] = {{type, 4, {BATCH, HEADS, rows, SIZE}, LAYOUT_DENSE},
                                                  {type, 4, {BATCH, KV_HEADS, KEYS, SIZE}, LAYOUT_DENSE},
                                                  {type, 4, {BATCH, KV_HEADS, KEYS, SIZE}, LAYOUT_DENSE},
                                                  {CLATTN_TYPE_I32, 2, {BATCH, 33}, LAYOUT_DENSE},
                                                  {CLATTN_TYPE_I32, 2, {BATCH, KEYS}, LAYOUT_DENSE},
                                                  {CLATTN_TYPE_F32, 1, {50}, LAYOUT_DENSE},
                                                  {CLATTN_TYPE_F32, 2, {8, KEYS}, LAYOUT_PADDED},
                                                  {type, 4, {BATCH, HEADS, rows, SIZE}, LAYOUT_DENSE},
                                                  {CLATTN_TYPE_F32, 3, {BATCH, HEADS, rows}, LAYOUT_DENSE}};
    const struct guarded_shape *shape = &shapes[which];
    if (which >= OUT) return guarded_output(place, shape);
    const int64_t count = guarded_shape_count(shape);
    double *values = calloc((size_t)count, sizeof *values);
    struct random r = {(uint64_t)which + 1};
    for (int64_t n = 0; values != NULL && n < count; n++) {
        values[n] = random_uniform(&r, -1.0, 1.0);
        if (shape->type == CLATTN_TYPE_I32) values[n] = (double)(int)(4.0 + 4.0 * values[n]);
    }
    const struct guarded made = guarded_input(place, shape, values);
    free(values);
    return made;
}

static const struct kernel {
    const char *row, *name;
    clattn_kernel path;
    clattn_type type;
    int rows;
} kernels[] = {{"flash_lanes :", "flash_lanes", CLATTN_KERNEL_FLASH, CLATTN_TYPE_F32, 37},
               {"flash_matrix :", "flash_matrix", CLATTN_KERNEL_FLASH, CLATTN_TYPE_BF16, 37},
               {"decode_lanes :", "decode_lanes", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3},
               {"decode_rows :", "decode_rows", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3}};

// Fail unless the plan says how its texts run. Returns false if the device has no such kernel.
static bool plan_says(clattn_context *context, const clattn_attention_params *p, const char *name,
                      bool vectors) {
    clattn_plan plan;
    ck_assert_msg(clattn_attention_plan(context, p, &plan) == CLATTN_OK, "%s", harness_log_text());
    if (strncmp(plan.kernel_name, name, strlen(name)) != 0) return false;
    ck_assert_msg((strstr(plan.why, "score_mod in vectors, mask_mod in vectors, ") != NULL) == vectors, "%s",
                  plan.why);
    ck_assert_msg((strstr(plan.why, "mask_mod lane by lane (") != NULL) == !vectors, "%s", plan.why);
    return true;
}

// Returns out and lse of the call, with the texts of one form.
static double *results(clattn_context *context, clattn_attention_params *p, const struct guarded t[TENSORS],
                       int half, int form) {
    const int64_t counts[] = {guarded_count(&t[OUT].view), guarded_count(&t[LSE].view)};
    double *got = calloc((size_t)(counts[0] + counts[1]), sizeof *got);
    p->score.mask_mod = texts[half][0][form], p->score.score_mod = texts[half][1][form];
    harness_log_clear();
    const clattn_status status = clattn_attention_enqueue(context, harness()->queue, p, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK && harness_log_count() == 0, "%s", harness_log_text());
    ck_assert(got != NULL && guarded_read(&t[OUT], harness()->queue, got) &&
              guarded_read(&t[LSE], harness()->queue, got + counts[0]));
    return got;
}

// lse depends on every score. No score is so small that one key more or less would stay within the
// tolerance. The tolerance exists because a compiler may round the surrounding kernel differently
// beside another text.
static void compare(const struct kernel *k, int half, const double *vectors, const double *lanes,
                    int64_t outs) {
    int seen = 0, equal = 0;
    for (int64_t n = 0; n < outs / SIZE; n++) {
        const int64_t b = n / k->rows / HEADS, mask = half * BATCH + b;
        const double got = vectors[outs + n], want = lanes[outs + n];
        ck_assert_msg(got == want || fabs(got - want) < 1e-6,
                      "%s, head %d, row %d: lse %.9g, lane by lane %.9g: mask %s, score %s", k->name,
                      (int)(n / k->rows % HEADS), (int)(n % k->rows), got, want,
                      mask < MASKS ? masks[mask] : "at random", b < SCORES ? scores[b] : "at random");
        seen += want > -1e30, equal += got == want;
    }
    for (int64_t n = 0; n < outs; n++)
        ck_assert_msg(fabs(vectors[n] - lanes[n]) < (k->type == CLATTN_TYPE_F32 ? 1e-6 : 1e-2),
                      "%s: out %.9g, lane by lane %.9g", k->name, vectors[n], lanes[n]);
    ck_assert_msg(2 * seen > outs / SIZE, "%s: %d rows see anything", k->name, seen);
    printf("%s: %d of %d rows have equal bits\n", k->name, equal, (int)(outs / SIZE));
}

START_TEST(as_lane_by_lane) {
    const int half = _i % HALVES;
    const struct kernel *k = &kernels[_i / HALVES];
    struct place place = *harness_place();
    place.context =
        harness_open((clattn_context_params){.context = harness()->opencl,
                                             .tuned_rows = k->row,
                                             .log = {.fn = note_refusals, .level = CLATTN_LOG_INFO}});
    struct guarded t[TENSORS];
    for (int n = 0; n < TENSORS; n++) t[n] = make(&place, n, k->type, k->rows);
    clattn_attention_params p = {.q = t[0].view, .out = t[OUT].view, .lse = t[LSE].view, .kernel = k->path};
    p.kv.k = t[1].view, p.kv.v = t[2].view;
    p.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    for (int n = 0; n < 4; n++) p.score.mod_buffers[n] = t[3 + n].view;
    p.score.mask_mod = texts[half][0][0], p.score.score_mod = texts[half][1][0];
    refused = 0;
    if (plan_says(place.context, &p, k->name, true)) {
        double *vectors = results(place.context, &p, t, half, 0),
               *lanes = results(place.context, &p, t, half, 1);
        plan_says(place.context, &p, k->name, false);
        compare(k, half, vectors, lanes, guarded_count(&p.out));
        ck_assert_msg(refused == 0, "%s: the compiler refused the vectors", k->name);
        free(vectors), free(lanes);
    } else {
        printf("%s: not on this device\n", k->name);
    }
    for (int n = 0; n < TENSORS; n++) guarded_release(&t[n]);
    clattn_context_destroy(place.context);
}
END_TEST

int main(int argc, char **argv) {
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    Suite *suite = suite_create("mods in vectors");
    TCase *all = harness_add(suite, "kernels", (const TTest *const[]){NULL});
    tcase_add_loop_test(all, as_lane_by_lane, 0, HALVES * (int)(sizeof kernels / sizeof kernels[0]));
    tcase_add_unchecked_fixture(all, make_texts, release_texts);
    return harness_run(suite);
}
