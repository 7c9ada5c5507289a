// test_mods_numbers.c: integer operations of score_mod that C leaves undefined have the header's
// result. They never read outside the buffers, which end at protected pages. Runs every kernel
// family, with vectors and lane by lane. Random texts are in test_mods_checked.c and
// test_mods_vectors.c. POSIX only.
#include "support/harness.h"
#include "support/pages.h"

#include "verification/device/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, ROWS = 19, KEYS = 100, SIZE = 16, TEXT = 8192, MOST = 64 };

// Results for key 5, the only visible key. h - h and similar terms keep compilers from folding
// constants. buffer0 is {3, 5, 7, 11}.
struct expected {
    const char *text;
    double want;
};
static const struct expected of_vectors[] = {{"(j + 46336) * (j + 46336)", -2147479015.0},
                                             {"(j + 46337 + (h - h)) * (j + 46337 + (h - h)) < 0", 1},
                                             {"INT_MAX - 5 + j + 1", -2147483648.0},
                                             {"INT_MIN + 5 - j - 1", 2147483647.0},
                                             {"-(INT_MIN + 5 - j)", -2147483648.0},
                                             {"-(INT_MIN + (h - h))", -2147483648.0},
                                             {"abs(INT_MIN + j - 5)", 2147483648.0},
                                             {"abs(INT_MIN + (h - h))", 2147483648.0},
                                             {"abs(5 - j * 2)", 5},
                                             {"abs_diff(INT_MIN + j - 5, INT_MAX)", 4294967295.0},
                                             {"abs_diff((uint)j, 7u)", 2},
                                             {"(int)((float)j * 1e30f) + j", 5},
                                             {"(int)((float)(j - 5) / 0.0f) + j", 5},
                                             {"(int)((float)(h - h + 1) * 3e9f) + j", 5},
                                             {"(int)((float)j * -429496729.6f)", -2147483648.0},
                                             {"(uint)((float)j * -1e3f) + 7u", 7},
                                             {"(uint)((float)j * 8e8f)", 4e9},
                                             {"clamp(j, 9, 3)", 3},
                                             {"clamp((uint)j, 9u, 3u)", 3},
                                             {"1 << (j + 27)", 1},
                                             {"-j >> 33", -3},
                                             {"buffer0(INT_MAX - 4 + j)", 3},
                                             {"buffer0((uint)j * 800000000u)", 3},
                                             {"buffer0((j - 6) * -46341 * 46341)", 3},
                                             {"buffer0((j + 46336) * (j + 46336))", 3},
                                             {"buffer0((int)abs(INT_MIN ^ (j - 5)))", 3},
                                             {"buffer0(0.5f * (float)j)", 7},
                                             {"buffer0(1e30f * (float)j)", 3},
                                             {"buffer0(j)", 11}};
static const struct expected of_numbers[] = {
    {"buffer0((int)(long)min(((long)j + 3037000500l) * ((long)j + 3037000500l), 3l))", 11},
    {"mul24(j + 16777211, 300)", 5033164800.0 - 4294967296.0},
    {"mad24(j, 3, INT_MAX)", -2147483634.0},
    {"mul_hi(INT_MIN + j - 5, INT_MIN)", 1073741824.0},
    {"mul_hi((long)j << 61, 8l)", -3},
    {"mul_hi(-(ulong)j, -(ulong)j)", 18446744073709551606.0},
    {"mad_hi(INT_MIN, INT_MIN + j - 5, INT_MAX)", -1073741825.0},
    {"mad_sat(INT_MAX, j, j)", 2147483647.0},
    {"mad_sat(INT_MIN, j, -1)", -2147483648.0},
    {"mad_sat(LONG_MAX, (long)j, 3l)", 9223372036854775807.0},
    {"mad_sat(LONG_MIN, (long)j, 0l)", -9223372036854775808.0},
    {"mad_sat((long)j, 3l, -16l)", -1},
    {"mad_sat(ULONG_MAX, (ulong)j, 1ul)", 18446744073709551615.0},
    {"mad_sat((uchar)200, (uchar)j, (uchar)1)", 255},
    {"mad_sat((char)100, (char)-j, (char)1)", -128},
    {"convert_int_rte(0.5f * (float)j)", 2},
    {"convert_int_rtp(0.5f * (float)j)", 3},
    {"convert_int_rtn(-0.5f * (float)j)", -3},
    {"convert_int_sat(1e30f * (float)j)", 2147483647.0},
    {"convert_int_sat((float)(j - 5) / 0.0f) + j", 5},
    {"convert_uchar_sat((float)j * 100.0f)", 255},
    {"convert_char((float)j * 100.0f) + j", 5},
    {"(char)(1e5f * (float)j) + j", 5},
    {"convert_float_rtz(INT_MAX - 5 + j)", 2147483520.0},
    {"convert_float_rtp(INT_MAX - 5 + j)", 2147483648.0},
    {"convert_float_rtn(INT_MIN - 4 + j)", -2147483648.0},
    {"convert_float_rtp(INT_MIN - 4 + j)", -2147483520.0},
    {"convert_float_rtp(ULONG_MAX - (ulong)j + 5ul)", 18446744073709551616.0},
    {"convert_float_rtz((char)(j - 128))", -123},
    {"((int4)(j) * 1073741824).y", 1073741824.0},
    {"((char2)(j, 100) * (char2)(30, 2)).x", -106},
    {"(-((short3)(j) - (short)-32763)).z", -32768.0},
    {"abs((char)(j - 133))", 128},
    {"abs((int3)(INT_MIN + j - 5)).z", 2147483648.0},
    {"(long)j * LONG_MAX", 9223372036854775803.0},
    {"-(LONG_MIN + (long)j - 5l)", -9223372036854775808.0},
    {"(ushort)(j + 65530) * (ushort)(j + 65530)", -131071.0},
    {"((float4)(3, 1, 4, 1).yzxw).z", 3},
    {"clz((char)(j - 5))", 8},
    {"upsample((char)-j, (uchar)7)", -1273},
    {"rotate((char)(j - 128), (char)9)", 11},
    {"(int)((float)j * 1e10) + j", 5},
    {"(int)((float)j * 429496729.5)", 2147483647.0},
    {"(int)(float4)(3e30f).x + j", 5},
    {"min(j - 10, 2u)", 2}};

static const struct way {
    const char *rows, *name; // tuned row and kernel name; NULL: the planner's
    clattn_kernel kernel;
    clattn_type type;
    int count;
} ways[] = {{NULL, "unfused", CLATTN_KERNEL_UNFUSED, CLATTN_TYPE_F32, ROWS},
            {"flash_lanes :", "flash_lanes", CLATTN_KERNEL_FLASH, CLATTN_TYPE_F32, ROWS},
            {"flash_matrix :", "flash_matrix", CLATTN_KERNEL_FLASH, CLATTN_TYPE_BF16, 37},
            {"flash_tiles :", "flash_tiles", CLATTN_KERNEL_FLASH, CLATTN_TYPE_F32, ROWS},
            {"flash :", "flash", CLATTN_KERNEL_FLASH, CLATTN_TYPE_F32, ROWS},
            {"decode_lanes :", "decode_lanes", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3},
            {"decode_groups :", "decode_groups", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3},
            {"decode_rows :", "decode_rows", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3},
            {"flash :", "flash", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static char text[TEXT], plan_said[512], plan_kernel[64];
static const char *text_at_work(void) {
    return text;
}

enum { Q, K, V, BUFFER, OUT, LSE, TENSORS };

static void bind(struct place *place, const struct way *w, int batch, struct guarded t[TENSORS],
                 clattn_attention_params *p) {
    const struct guarded_shape q = {w->type, 4, {batch, HEADS, w->count, SIZE}, LAYOUT_DENSE},
                               k = {w->type, 4, {batch, HEADS, KEYS, SIZE}, LAYOUT_DENSE},
                               buffer = {CLATTN_TYPE_F32, 1, {4}, LAYOUT_DENSE},
                               lse = {CLATTN_TYPE_F32, 3, {batch, HEADS, w->count}, LAYOUT_DENSE};
    const double read[] = {3, 5, 7, 11};
    double *zeros = calloc((size_t)batch * HEADS * KEYS * SIZE, sizeof *zeros);
    t[Q] = guarded_input(place, &q, zeros), t[K] = guarded_input(place, &k, zeros);
    t[V] = guarded_input(place, &k, zeros), t[BUFFER] = guarded_input(place, &buffer, read);
    t[OUT] = guarded_output(place, &q), t[LSE] = guarded_output(place, &lse);
    free(zeros);
    *p = (clattn_attention_params){
        .q = t[Q].view, .out = t[OUT].view, .lse = t[LSE].view, .kernel = w->kernel};
    p->kv.k = t[K].view, p->kv.v = t[V].view;
    p->score.mod_buffers[0] = t[BUFFER].view;
    p->score.score_mod = text;
}

// Run the text with a forced kernel, and return lse. False: the device has no such kernel.
static bool run(const struct way *w, int batch, const char *mask, double *lse) {
    struct place place = *harness_place();
    struct guarded t[TENSORS];
    clattn_attention_params p;
    clattn_plan plan;
    place.context = harness_open(
        (clattn_context_params){.context = harness()->opencl, .tuned_rows = w->rows, .log = harness_log()});
    place.guard = 0, place.memory = pages_memory, place.release_memory = pages_release;
    pages_watch(text_at_work);
    bind(&place, w, batch, t, &p);
    p.score.mask_mod = mask;
    harness_log_clear();
    ck_assert_msg(clattn_attention_plan(place.context, &p, &plan) == CLATTN_OK, "%s: %s", text,
                  harness_log_text());
    const bool has = !strncmp(plan.kernel_name, w->name, strlen(w->name));
    ck_assert_msg(has || (strcmp(w->name, "unfused") && strcmp(w->name, "flash")),
                  "%s, which every device has: %s", w->name, plan.kernel_name);
    snprintf(plan_kernel, sizeof plan_kernel, "%s", plan.kernel_name);
    snprintf(plan_said, sizeof plan_said, "%s", plan.why);
    if (has) {
        ck_assert_msg(clattn_attention_enqueue(place.context, harness()->queue, &p, 0, NULL, NULL) ==
                          CLATTN_OK,
                      "%.90s: %s", text, harness_log_text());
        harness_finish(harness()->queue);
        ck_assert(guarded_read(&t[LSE], harness()->queue, lse));
    }
    for (int n = 0; n < TENSORS; n++) guarded_release(&t[n]);
    clattn_context_destroy(place.context);
    return has;
}

// Batch item b evaluates text b.
static void assert_numbers(const struct way *w, const struct expected *all, int count, bool vectors) {
    static double lse[MOST * HEADS * 64];
    char *at = text;
    for (int b = 0; b < count; b++)
        at += snprintf(at, (size_t)(text + TEXT - at), "b == %d ? (float)(%s) : ", b, all[b].text);
    snprintf(at, (size_t)(text + TEXT - at), "score");
    if (!run(w, count, "j == 5", lse)) {
        printf("%s: not on this device, which has %s\n", w->name, plan_kernel);
        return;
    }
    const bool has_lanes = strstr(w->name, "lanes") || strstr(w->name, "matrix") || strstr(w->name, "rows");
    ck_assert_msg(!has_lanes || (strstr(plan_said, "score_mod in vectors") != NULL) == vectors, "%s: %s",
                  w->name, plan_said);
    int wrong = 0;
    for (int n = 0; n < count * HEADS * w->count; n++) {
        const struct expected *x = &all[n / HEADS / w->count];
        if (fabs(lse[n] - x->want) <= 1e-6 * fabs(x->want)) continue;
        if (n % (HEADS * w->count) == 0)
            printf("%s by %s: %.9g, not %.9g\n", x->text, w->name, lse[n], x->want);
        wrong++;
    }
    ck_assert_int_eq(wrong, 0);
}

START_TEST(in_vectors) {
    assert_numbers(&ways[_i], of_vectors, (int)(sizeof of_vectors / sizeof of_vectors[0]), true);
}
END_TEST

START_TEST(one_by_one) {
    assert_numbers(&ways[_i], of_numbers, (int)(sizeof of_numbers / sizeof of_numbers[0]), false);
}
END_TEST

// Texts, each alone, that would read far outside if a compiler treats integer overflow as
// impossible.
START_TEST(inside_their_buffer) {
    static const char *const texts[] = {
        "score + buffer0((j * 46341) * (j * 46341))",
        "score + buffer0((j + 46341) * (j + 46341))",
        "score + ldexp(buffer0((j + 46341) * (j + 46341)), 1)",
        "score + buffer0((int)abs(INT_MIN ^ h))",
        "score + buffer0((int)abs(INT_MIN + (int)score))",
        "score + buffer0((int)(long)min(((long)j + 3037000500l) * ((long)j + 3037000500l), 3l))"};
    static double lse[HEADS * 64];
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++) {
        strcpy(text, texts[n]);
        if (!run(&ways[_i], 1, NULL, lse)) return;
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("numbers of mods");
    TCase *all = harness_add(suite, "numbers", (const TTest *const[]){NULL});
    tcase_add_loop_test(all, in_vectors, 0, WAYS);
    harness_add_loop(all, one_by_one, WAYS);
    harness_add_loop(all, inside_their_buffer, WAYS);
    return harness_run(suite);
}
