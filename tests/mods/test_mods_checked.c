// test_mods_checked.c: the language of score_mod and mask_mod on a device. Random expressions with
// all words compile, and access only their buffers, which end at protected pages. Divisions that C
// leaves undefined have the header's result and never end the process, with or without a driver's
// signal handler. The largest texts compile on a small stack. Refused texts are in
// test_mods_language.c. POSIX only. Uses the table of words, from the static library.
//
//   build/tests/test_mods_checked 7         other expressions
//   build/tests/test_mods_checked 7 2000    2000 expressions, and no other test
#include "support/harness.h"
#include "mods/mod_texts.h"
#include "support/pages.h"

#include "verification/device/guarded.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 24, HEADS = 2, ROWS = 19, KEYS = 37, SIZE = 16, BUFFERS = CLATTN_MOD_BUFFERS, TENSORS = 5 };

static uint64_t seed = 1;
static struct mod_texts texts;
static char mask_text[MOD_TEXT_SIZE], score_text[MOD_TEXT_SIZE];
static const char *text_at_work(void) {
    return mask_text;
}

// Q, K, V, out, lse and the buffers of the texts, in memory between protected pages.
struct bound {
    struct guarded tensors[TENSORS + BUFFERS];
    clattn_attention_params params;
};

static const struct guarded_shape *buffer_shape(int round, int n) {
    static const struct guarded_shape shapes[][BUFFERS] = {{{CLATTN_TYPE_F32, 2, {3, 5}, LAYOUT_DENSE},
                                                            {CLATTN_TYPE_I32, 1, {7}, LAYOUT_DENSE},
                                                            {CLATTN_TYPE_BOOL, 3, {2, 1, 9}, LAYOUT_DENSE},
                                                            {CLATTN_TYPE_F16, 4, {1, 2, 1, 3}, LAYOUT_DENSE}},
                                                           {{CLATTN_TYPE_I8, 1, {33}, LAYOUT_DENSE},
                                                            {CLATTN_TYPE_BF16, 2, {5, 37}, LAYOUT_PADDED},
                                                            {CLATTN_TYPE_I32, 2, {19, 37}, LAYOUT_DENSE},
                                                            {CLATTN_TYPE_F32, 1, {1}, LAYOUT_DENSE}}};
    return &shapes[round / 12 % 2][n];
}

static void bind(struct bound *b, struct place *place, int rows, int round) {
    const struct guarded_shape q = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, rows, SIZE}, LAYOUT_DENSE},
                               k = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, KEYS, SIZE}, LAYOUT_DENSE},
                               lse = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, rows}, LAYOUT_DENSE};
    double *values = calloc(BATCH * HEADS * KEYS * SIZE, sizeof *values);
    struct random r = {7};
    for (int n = 0; n < BATCH * HEADS * KEYS * SIZE; n++) values[n] = random_uniform(&r, -1.0, 1.0);
    b->tensors[0] = guarded_input(place, &q, values), b->tensors[1] = guarded_input(place, &k, values);
    b->tensors[2] = guarded_input(place, &k, values), b->tensors[3] = guarded_output(place, &q);
    b->tensors[4] = guarded_output(place, &lse);
    for (int n = 0; n < 1000; n++) values[n] = (double)(int)(9.0 * values[n]);
    for (int n = 0; n < BUFFERS; n++)
        b->tensors[TENSORS + n] = guarded_input(place, buffer_shape(round, n), values + 17 * n);
    free(values);
    b->params = (clattn_attention_params){
        .q = b->tensors[0].view, .out = b->tensors[3].view, .lse = b->tensors[4].view};
    b->params.kv.k = b->tensors[1].view, b->params.kv.v = b->tensors[2].view;
    for (int n = 0; n < BUFFERS; n++) b->params.score.mod_buffers[n] = b->tensors[TENSORS + n].view;
}

static void unbind(struct bound *b) {
    for (int n = 0; n < TENSORS + BUFFERS; n++) guarded_release(&b->tensors[n]);
}

static void run(struct bound *b) {
    harness_log_clear();
    const clattn_status status =
        clattn_attention_enqueue(harness()->context, harness()->queue, &b->params, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s\nmask: %s\nscore: %s", harness_log_text(),
                  b->params.score.mask_mod, b->params.score.score_mod);
    harness_finish(harness()->queue);
}

// Run one round of texts. The kernel alternates. Half of the rounds have vector forms. The guard
// page alternates between both sides. Returns the number of texts.
static int run_texts(int round) {
    static const struct {
        clattn_kernel kernel;
        int rows;
    } ways[] = {{CLATTN_KERNEL_FLASH, ROWS}, {CLATTN_KERNEL_UNFUSED, ROWS}, {CLATTN_KERNEL_DECODE, 3}};
    struct place place = *harness_place();
    struct bound b;
    place.guard = 0, place.memory = pages_memory, place.release_memory = pages_release;
    pages_watch(text_at_work);
    pages_turn(round / 6 % 2);
    bind(&b, &place, ways[round % 3].rows, round);
    texts.random.state = seed + (uint64_t)round, texts.in_vectors = round / 3 % 2;
    for (int n = 0; n < BUFFERS; n++) {
        texts.source.buffers[n].rank = buffer_shape(round, n)->rank;
        texts.source.buffers[n].type = buffer_shape(round, n)->type;
    }
    texts.source.is_mask = true;
    const int masks = mod_texts_make(&texts, BATCH, mask_text);
    texts.source.is_mask = false;
    const int scores = mod_texts_make(&texts, BATCH, score_text);
    ck_assert_int_gt(masks + scores, 12);
    b.params.kernel = ways[round % 3].kernel;
    b.params.score.mask_mod = mask_text, b.params.score.score_mod = score_text;
    clattn_plan plan;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &b.params, &plan), CLATTN_OK);
    if (texts.in_vectors && strstr(plan.kernel_name, "_lanes"))
        ck_assert_msg(strstr(plan.why, "score_mod in vectors, mask_mod in vectors") != NULL, "%s", plan.why);
    run(&b);
    unbind(&b);
    return masks + scores;
}

START_TEST(inside_their_memory) {
    run_texts(_i);
}
END_TEST

static int wanted; // number of texts
START_TEST(many_inside_their_memory) {
    int made = 0;
    for (int round = 0; made < wanted; round++) made += run_texts(round);
    printf("%d texts\n", made);
}
END_TEST

START_TEST(all_words_were_used) {
    for (size_t n = 0; n < cla_mod_word_count; n++)
        ck_assert_msg(texts.used[n] || cla_mod_words[n].kind == WORD_TYPE, "%s", cla_mod_words[n].name);
}
END_TEST

// Each row sees one key, so lse is the score that the text returns.
static void assert_lse(const char *text, clattn_kernel kernel, double want) {
    struct bound b;
    bind(&b, harness_place(), kernel == CLATTN_KERNEL_DECODE ? 3 : ROWS, 0);
    double *lse = calloc(BATCH * HEADS * ROWS, sizeof *lse);
    b.params.kernel = kernel;
    b.params.score.score_mod = text, b.params.score.mask_mod = "j == 5";
    run(&b);
    ck_assert(guarded_read(&b.tensors[4], harness()->queue, lse));
    for (int n = 0; n < 3; n++)
        ck_assert_msg(fabs(lse[n] - want) < 1e-6 * fabs(want), "%s by %s: %.9g, not %.9g", text,
                      clattn_kernel_name(kernel), lse[n], want);
    free(lse);
    unbind(&b);
}

// j is 5, as a constant that the compiler knows and as a variable, with and without vectors. A
// driver's signal handler may keep a process alive, so the test also replaces the handler, as an
// application might.
START_TEST(divisions) {
    static const struct {
        const char *text;
        double want;
    } all[] = {{"(float)((j + 2) / (h - h))", 7},
               {"(float)((j + 2) % (h - h) + 1)", 1},
               {"(float)((j + 2) / (q_length * 0) + (uint)j / (uint)(b - b) + 3 % (j - j))", 12},
               {"(float)((INT_MIN + j - 5) / (b - b - 1))", -2147483648.0},
               {"(float)((INT_MIN + j - 5) % (b - b - 1) + 1)", 1},
               {"(float)(INT_MIN / -1)", -2147483648.0},
               {"(float)((j + 2) / (1 - 1))", 7},
               {"fma((float)((j + 2) / (j - 5)), 1.0f, 0.0f)", 7},
               {"(float)((j + 2) / (j - 4))", 7},
               {"(float)((int)3e30f + j)", 5},
               {"(float)((uint)(0.0f - 1.0f) + 7u)", 7}};
    void (*before)(int) = signal(SIGFPE, SIG_DFL);
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++)
        assert_lse(all[n].text, n % 2 ? CLATTN_KERNEL_DECODE : CLATTN_KERNEL_FLASH, all[n].want);
    assert_lse(all[0].text, CLATTN_KERNEL_UNFUSED, all[0].want);
    signal(SIGFPE, before);
}
END_TEST

// The deepest and the longest texts: `part` repeated before `middle`, and `behind` repeated after
// it.
static const struct {
    const char *before, *part, *middle, *behind, *after;
    int times;
} largest[] = {{"", "(", "j", ")", "", MOD_NESTED},
               {"", "min(1, ", "j", ")", "", MOD_NESTED},
               {"", "i / (h + ", "j", ")", "", MOD_NESTED},
               {"", "abs(h - ", "j", ")", "", MOD_NESTED},
               {"", "min(i, h * ", "j", ")", "", MOD_NESTED},
               {"", "clamp(i + j, 3, h * ", "j", ")", "", MOD_NESTED},
               {"", "mad_sat(i, j, h - ", "j", ")", "", MOD_NESTED},
               {"", "buffer1(1.5f * h + ", "j", ")", "", MOD_NESTED},
               {"", "convert_int_rte(score + ", "j", ")", "", MOD_NESTED},
               {"", "(int)(score + ", "j", ")", "", MOD_NESTED / 2},
               {"", "h * (j - i * (", "j", "))", "", MOD_NESTED / 2},
               {"", "- ", "j", "", "", MOD_PREFIXES},
               {"", "(float)", "j", "", "", MOD_PREFIXES},
               {"((((((((", "(int)", "j", "", "))))))))", MOD_NESTED - 8},
               {"", "- ", "score", "", "", 25}, // the deepest nesting as vectors
               {"", "j ? ", "i", " : 1", "", MOD_NESTED},
               {"", "b < 3 ? 2 : ", "j", "", "", (MOD_TOKENS - 1) / 6},
               {"", "j + ", "j", "", "", (MOD_TOKENS - 1) / 2},
               {"", "j && ", "i", "", "", (MOD_TOKENS - 1) / 2},
               {"", "score * ", "2", "", "", (MOD_TOKENS - 1) / 2}};
enum { LARGEST = sizeof largest / sizeof largest[0] };

static void *run_thread(void *b) {
    run(b);
    return NULL;
}

START_TEST(on_a_small_stack) {
    struct bound b;
    char text[MOD_TEXT_SIZE] = "";
    pthread_attr_t attributes;
    pthread_t thread;
    bind(&b, harness_place(), ROWS, 0);
    strcpy(text, largest[_i].before);
    for (int n = 0; n < largest[_i].times; n++) strcat(text, largest[_i].part);
    strcat(text, largest[_i].middle);
    for (int n = 0; n < largest[_i].times; n++) strcat(text, largest[_i].behind);
    strcat(text, largest[_i].after);
    b.params.score.score_mod = text, b.params.kernel = CLATTN_KERNEL_FLASH;
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, 512 << 10), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, run_thread, &b), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    unbind(&b);
}
END_TEST

int main(int argc, char **argv) {
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    if (argc > 2) wanted = atoi(argv[2]);
    Suite *suite = suite_create("checked mods");
    TCase *words = harness_add(suite, "words", (const TTest *const[]){NULL});
    if (wanted)
        tcase_add_test(words, many_inside_their_memory);
    else
        tcase_add_loop_test(words, inside_their_memory, 0, 12);
    tcase_add_test(words, all_words_were_used);
    if (wanted) return harness_run(suite);
    harness_add(suite, "divisions", (const TTest *const[]){divisions, NULL});
    TCase *limits = harness_add(suite, "limits", (const TTest *const[]){NULL});
    harness_add_loop(limits, on_a_small_stack, LARGEST);
    return harness_run(suite);
}
