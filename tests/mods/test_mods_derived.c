// test_mods_derived.c: derivatives of score_mod, without a device. Each must match the differences
// of its text in double precision. Also the form of some derivatives, texts without a derivative
// and the reported place, and caching in a context. A derivative is always a valid text, or the
// text is refused. Uses the library's own functions, from the static library. Kernels with
// derivatives are in test_mods_gradients.c.
#include "mods/mod_slopes.h"
#include "mods/mod_texts.h"

#include "attention/mods/mod_derive.h"
#include "attention/mods/mod_vector.h"
#include "attention/mods/mods.h"
#include "base/host.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double buffer_element = 0.75;

static char *derived(const mod_source *source) {
    mod_fault fault;
    char *text = cla_mod_derive(NULL, source, &fault);
    ck_assert_msg(text != NULL, "%s: %s, at %.20s", source->text, fault.why, fault.at ? fault.at : "-");
    return text;
}

// Compare the derivative text with the difference quotient.
static void assert_slope(const mod_source *source, const char *gradient, const struct mod_value_at *at) {
    mod_source of = *source;
    of.text = gradient;
    const double want = mod_slope_of(source, at), got = mod_value_of(&of, at);
    ck_assert_msg(fabs(got - want) <= 1e-7 * fmax(1.0, fabs(want)), "%s at %g: %s is %.12g, not %.12g",
                  source->text, at->score, gradient, got, want);
}

START_TEST(as_differences) {
    for (int n = 0; n < mod_slope_count; n++) {
        const mod_source source = mod_slope_source(mod_slope_texts[n].text);
        char *const text = derived(&source);
        for (int k = 0; k < MOD_SLOPE_SCORES; k++)
            for (int j = 1; j < 3; j++) {
                const struct mod_value_at at = {mod_slope_score(&mod_slope_texts[n], k), 2, j,
                                                buffer_element};
                assert_slope(&source, text, &at);
            }
        free(text);
    }
}
END_TEST

static const struct {
    const char *text, *derivative;
} written[] = {
    {"score", "1.0f"},
    {"-score", "-1.0f"},
    {"3.0f - score * 2", "-(float)2"},
    {"j * 2 + i", "0.0f"},
    {"(int)score", "0.0f"},
    {"floor(score) + buffer1((int)score)", "0.0f"},
    {"pow(score, 2.0f)", "(2.0f == 0.0f ? 0.0f : 2.0f * pow(score, 2.0f - 1.0f))"},
    {"(20.0f) * tanh(score / (20.0f))",
     "(20.0f) * (1.0f - tanh(score / (20.0f)) * tanh(score / (20.0f))) / (20.0f)"},
    {"score - buffer1(h) * (float)abs(i - j)", "1.0f"},
    {"score*/* twice */score // so\n + 1", "score + score"},
    {"sin(score + score * j)", "cos(score + score * j) * (1.0f + (float)j)"},
    {"-cos(score - 2 * score)", "sin(score - 2 * score) * (1.0f - (float)2)"},
    {"sqrt(fmax(score, 0.0f))", "fmax(score, 0.0f) == score ? 0.5f * rsqrt(fmax(score, 0.0f)) : 0.0f"},
    {"j > i ? score : i > 3 ? 2 * score : 3", "j > i ? 1.0f : i > 3 ? (float)2 : 0.0f"},
    {"1 - (j > i ? score : 3)", "j > i ? -1.0f : 0.0f"},
    {"score - (j > i ? score : 3)", "1.0f + (j > i ? -1.0f : 0.0f)"},
    {"clamp(score, -1.0f, 1.0f)", "score < (-1.0f) ? 0.0f : score > 1.0f ? 0.0f : 1.0f"},
    {"fabs(3.0f * score)", "(3.0f * score) == 0.0f ? 0.0f : copysign(1.0f, 3.0f * score) * 3.0f"},
    {"as_int(score) < 0 ? score : 0", "as_int(score) < 0 ? 1.0f : 0.0f"},
    {"lgamma(floor(score)) + score", "1.0f"},
    {"((float2)(j, i)).x * score", "(((float2)(j, i)).x)"}};

START_TEST(as_written) {
    for (size_t n = 0; n < sizeof written / sizeof written[0]; n++) {
        const mod_source source = mod_slope_source(written[n].text);
        char *const text = derived(&source);
        ck_assert_msg(!strcmp(text, written[n].derivative), "%s: %s, not %s", written[n].text, text,
                      written[n].derivative);
        free(text);
    }
}
END_TEST

// At a kink the derivative is one of the two one-sided values. A branch that is not evaluated
// contributes 0, even if it is infinite.
START_TEST(at_kinks) {
    static const struct {
        const char *text;
        double score, want;
    } kinks[] = {{"fabs(score)", 0, 0},
                 {"sqrt(fabs(score))", 0, 0},
                 {"clamp(score, -1.0f, 1.0f)", 1, 1},
                 {"clamp(score, -1.0f, 1.0f)", -1, 1},
                 {"fmin(score, 2 * score)", 0, 1},
                 {"fmax(2 * score, score)", 0, 2},
                 {"fmin(NAN, score)", 3, 1},
                 {"fmax(score, NAN)", 3, 1},
                 {"sqrt(fmax(score, 0.0f))", -2, 0},
                 {"log(score > 0 ? score : 0.0f)", -1, 0},
                 {"fmax(log(fmax(score, 0.0f)), -9.0f)", -1, 0},
                 {"tanh(sqrt(clamp(score, 0.0f, 1.0f)) + sqrt(fdim(score, 2.0f)))", -1, 0},
                 {"sqrt(fmax(score, 0.0f) * 2.0f + fmax(3.0f * score, 0.0f))", -1, 0},
                 {"pow(score, 0.0f)", 0, 0},
                 {"pow(score, 2.0f)", -3, -6},
                 {"pow(0.0f, score)", 2, 0},
                 {"hypot(score, 0.0f)", 0, 0},
                 {"atan2(score, 0.0f)", 0, 0},
                 {"copysign(score, -1.0f)", 0, 0},
                 {"fdim(score, 1.0f)", 1, 0},
                 {"INFINITY * (float)(int)score + score", 0, 1}};
    for (size_t n = 0; n < sizeof kinks / sizeof kinks[0]; n++) {
        const mod_source source = mod_slope_source(kinks[n].text);
        char *const text = derived(&source);
        mod_source of = source;
        of.text = text;
        const double got = mod_value_of(&of, &(struct mod_value_at){kinks[n].score, 2, 1, 1});
        ck_assert_msg(got == kinks[n].want, "%s at %g: %s is %g, not %g", kinks[n].text, kinks[n].score, text,
                      got, kinks[n].want);
        free(text);
    }
}
END_TEST

static const struct {
    const char *text, *at, *why;
} refused[] = {{"score + lgamma(score)", "lgamma(score)", "has no derivative here"},
               {"tgamma(score) * 2", "tgamma", "has no derivative here"},
               {"1 + nextafter(score, 0.0f)", "nextafter", "has no derivative here"},
               {"bitselect(score, 1.0f, 2.0f)", "bitselect", "has no derivative here"},
               {"2 * ((float2)(score, 1)).x", ".x", "is a vector that depends on score"},
               {"((float2)(j, i) * score).y", ".y", "is a vector that depends on score"},
               {"as_float(as_int(score) & 0x7FFFFFFF)", "as_float", "reads the bits"},
               {"score + (float)(as_int(score) >> 23)", "as_int", "reads the bits"},
               {"j > i ? score : exp(lgamma(2 * score))", "lgamma", "has no derivative here"}};

START_TEST(which_have_none) {
    for (size_t n = 0; n < sizeof refused / sizeof refused[0]; n++) {
        const mod_source source = mod_slope_source(refused[n].text);
        mod_fault fault;
        ck_assert_msg(!cla_mod_derive(NULL, &source, &fault), "%s", refused[n].text);
        ck_assert_msg(strstr(fault.why, refused[n].why), "%s: %s", refused[n].text, fault.why);
        ck_assert_msg(fault.at && !strncmp(fault.at, refused[n].at, strlen(refused[n].at)), "%s: at %s",
                      refused[n].text, fault.at);
    }
}
END_TEST

static bool names(const char *text, const char *word) {
    const size_t size = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += size)
        if ((at == text || !strchr("_abcdefghijklmnopqrstuvwxyz", at[-1])) && at[size] == '(') return true;
    return false;
}

START_TEST(every_function) {
    for (size_t n = 0; n < cla_mod_word_count; n++) {
        const mod_word *w = &cla_mod_words[n];
        if (w->kind != WORD_FUNCTION ||
            (w->shape != MOD_FLOATS && w->shape != MOD_SAME && w->shape != MOD_POWERS &&
             w->shape != MOD_SELECT && w->shape != MOD_QUIET))
            continue;
        bool found = false;
        for (int k = 0; k < mod_slope_count; k++) found |= names(mod_slope_texts[k].text, w->name);
        for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++)
            found |= names(refused[k].text, w->name);
        ck_assert_msg(found, "%s", w->name);
    }
}
END_TEST

// Repeat `part` and `close` `times` times.
static char *repeated(const char *before, const char *part, int times, const char *behind,
                      const char *close) {
    const size_t size = strlen(before) + (strlen(part) + strlen(close)) * (size_t)times + strlen(behind) + 1;
    char *text = calloc(size, 1);
    ck_assert_ptr_nonnull(text);
    strcat(text, before);
    for (int n = 0; n < times; n++) strcat(text, part);
    strcat(text, behind);
    for (int n = 0; n < times; n++) strcat(text, close);
    return text;
}

START_TEST(long_and_deep) {
    static const struct {
        const char *part, *behind, *close;
        int times;
        bool good;
    } all[] = {{"score + ", "1", "", 511, true},         {"score * ", "score", "", 20, true},
               {"score * ", "score", "", 511, false},    {"sin(", "score", ")", 20, true},
               {"sin(", "score", ")", 39, false},        {"-(", "score", ")", 19, true},
               {"j > 3 ? score : ", "1", "", 140, true}, {"j > 3 ? 2 * score : ", "1", "", 120, false},
               {"fmax(1.0f,", "score", ")", 30, false},  {"fabs(", "score", ")", 36, false},
               {"tanh(score + ", "1", ")", 12, true},    {"score / ", "score", "", 300, false},
               {"pow(score, ", "2", ")", 37, false}};
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        char *const text = repeated("", all[n].part, all[n].times, all[n].behind, all[n].close);
        const mod_source source = mod_slope_source(text);
        mod_fault fault;
        char *const gradient = cla_mod_derive(NULL, &source, &fault);
        ck_assert_msg((gradient != NULL) == all[n].good, "%s: %s", all[n].part,
                      gradient ? gradient : fault.why);
        ck_assert_msg(gradient ||
                          (!fault.at && strstr(fault.why, "its derivative has more than the 1024 words")),
                      "%s: %s", all[n].part, fault.why);
        free(gradient);
        free(text);
    }
    char *const blank = repeated("score", " ", 60000, " * score * score * score", "");
    const mod_source source = mod_slope_source(blank);
    char *const gradient = derived(&source);
    ck_assert_msg(strlen(gradient) < 300, "%s", gradient);
    free(gradient);
    free(blank);
}
END_TEST

// For random texts with all words: the derivative is a valid text, and has a vector form if the
// text has one.
START_TEST(any_text) {
    struct mod_texts texts = {.random = {(uint64_t)_i + 1}};
    texts.source = mod_slope_source(NULL);
    texts.source.buffers[2].rank = 3, texts.source.buffers[2].type = CLATTN_TYPE_I32;
    int good = 0;
    for (int n = 0; n < 300; n++) {
        char text[MOD_TEXT_SIZE];
        mod_texts_make(&texts, 1, text);
        mod_source source = texts.source;
        source.text = text;
        mod_fault fault;
        char why[MOD_WHY];
        char *const gradient = cla_mod_derive(NULL, &source, &fault);
        if (!gradient) {
            ck_assert_msg(fault.why[0] && (!fault.at || (fault.at >= text && fault.at < text + strlen(text))),
                          "%s", text);
            continue;
        }
        good++;
        source.text = gradient;
        for (int lanes = 1; lanes <= MOD_LANES_MOST; lanes++) {
            char *const form = cla_mod_vector(NULL, &source, lanes, why);
            ck_assert_msg(form || why[0], "%s", gradient);
            free(form);
        }
        free(gradient);
    }
    ck_assert_int_gt(good, 100);
}
END_TEST

static char said[1024];
static void keep_line(void *user, clattn_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static void open_context(clattn_context *c) {
    *c = (clattn_context){.log = {.fn = keep_line, .level = CLATTN_LOG_DEBUG}};
    ck_assert(cla_os_mutex_init_two(&c->error_lock, &c->program_lock));
    said[0] = '\0';
}
static void close_context(clattn_context *c) {
    cla_mods_release(c);
    cla_os_mutex_destroy(&c->error_lock);
    cla_os_mutex_destroy(&c->program_lock);
}

START_TEST(once_for_a_context) {
    clattn_context c;
    mods_found found, again, given, none;
    open_context(&c);
    clattn_score score = {.score_mod = "tanh(score)"};
    ck_assert_int_eq(cla_mods_find_gradient(&c, &score, NULL, &found), CLATTN_OK);
    ck_assert_int_eq(cla_mods_find_gradient(&c, &score, "2.0f * score", &given), CLATTN_OK);
    ck_assert_int_eq(cla_mods_find(&c, &score, &none), CLATTN_OK);
    ck_assert_int_eq(cla_mods_find_gradient(&c, &score, NULL, &again), CLATTN_OK);
    ck_assert_ptr_eq(found.inserted, again.inserted);
    ck_assert(strstr(found.inserted, "(1.0f - tanh(score) * tanh(score))") != NULL);
    ck_assert(strstr(given.inserted, "2.0f * score") != NULL && given.inserted != found.inserted);
    ck_assert(strstr(none.inserted, "gradient") == NULL);
    score = (clattn_score){.mask_mod = "j <= i"};
    ck_assert_int_eq(cla_mods_find_gradient(&c, &score, NULL, &found), CLATTN_OK);
    ck_assert(strstr(found.inserted, "gradient") == NULL);
    close_context(&c);
}
END_TEST

START_TEST(what_is_said) {
    static const struct {
        const char *text, *line;
        bool any;
    } all[] = {{"2 * score +\n  lgamma(score)",
                "score_mod: line 2, column 3, 'lgamma': has no derivative here: give its derivative as "
                "score_mod_gradient",
                false},
               {"score * sub_group_reduce(score)",
                "score_mod: line 1, column 9, 'sub_group_reduce': is no word", true},
               {"sin(score", "score_mod: line 1, column 10: the text ends", true}};
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        clattn_context c;
        mods_found found;
        open_context(&c);
        c.mods_unchecked = all[n].any;
        const clattn_score score = {.score_mod = all[n].text};
        const clattn_status status = cla_mods_find_gradient(&c, &score, NULL, &found);
        ck_assert_msg(strstr(said, all[n].line), "%s: %s", all[n].text, said);
        ck_assert_int_eq(status, n == 2 ? CLATTN_INVALID_ARGUMENT : CLATTN_UNSUPPORTED);
        ck_assert(n == 2 || strstr(said, "give its derivative as score_mod_gradient"));
        ck_assert(strchr(said, '\n') == NULL);
        close_context(&c);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("derivatives of score_mod");
    TCase *all = tcase_create("all");
    suite_add_tcase(suite, all);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, as_differences);
    tcase_add_test(all, as_written);
    tcase_add_test(all, at_kinks);
    tcase_add_test(all, which_have_none);
    tcase_add_test(all, every_function);
    tcase_add_test(all, long_and_deep);
    tcase_add_loop_test(all, any_text, 0, 3);
    tcase_add_test(all, once_for_a_context);
    tcase_add_test(all, what_is_said);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
