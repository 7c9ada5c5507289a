// test_mods_forms.c: vector forms of the caller's expressions, without a device. Checks which texts
// have one and the reasons why others do not. All predefined texts have one, and no text crashes
// the translator. Results of vector forms are in test_mods_vectors.c. Uses the translator, from the
// static library.
#include "verification/reference/random.h"

#include "attention/mods/mod_vector.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// buffer0: f32, two axes. buffer1: i32, two axes. buffer2: i32, one axis. No buffer3.
static mod_source source_of(const char *text, bool is_mask) {
    return (mod_source){
        .text = text,
        .is_mask = is_mask,
        .buffers = {{2, CLATTN_TYPE_F32}, {2, CLATTN_TYPE_I32}, {1, CLATTN_TYPE_I32}, {0, CLATTN_TYPE_F32}}};
}

// The vector form, which must exist for every number of lanes or for none. The caller frees it.
// NULL: why[] has the reason.
static char *form_of(const mod_source *s, int lanes, char why[MOD_WHY]) {
    char *form = cla_mod_vector(NULL, s, lanes, why);
    ck_assert_msg((form != NULL) == (why[0] == '\0'), "%.60s: '%s'", s->text, why);
    ck_assert_msg(strchr(why, '\n') == NULL && strlen(why) < MOD_WHY, "%.60s: '%s'", s->text, why);
    return form;
}
static void assert_form(const char *text, bool is_mask, const char *reason) {
    const mod_source s = source_of(text, is_mask);
    for (int lanes = 1; lanes <= MOD_LANES_MOST; lanes++) {
        char why[MOD_WHY];
        char *form = form_of(&s, lanes, why);
        ck_assert_msg((form != NULL) == (reason == NULL), "%.60s: %s", text,
                      form ? "is made vectors of" : why);
        ck_assert_msg(!reason || strstr(why, reason), "%.60s: '%s', not '%s'", text, why,
                      reason ? reason : "");
        free(form);
    }
}

START_TEST(ready_texts) {
    static const char *const scores[] = {"score - buffer2(h) * (float)abs(i - j)",
                                         CLATTN_SCORE_MOD_SOFTCAP(20.0f), CLATTN_SCORE_MOD_DISTANCE_BIAS};
    static const char *const masks[] = {
        CLATTN_MASK_MOD_CAUSAL,
        CLATTN_MASK_MOD_SLIDING_WINDOW(128),
        CLATTN_MASK_MOD_DILATED_WINDOW(3, 7),
        "buffer1(b, row) == buffer1(b, j)",
        "j <= i || j < buffer2(b)",
        "j < kv_length - q_length || (buffer1(row, (j - kv_length + q_length) / 32)"
        " >> ((j - kv_length + q_length) % 32) & 1) != 0"};
    for (size_t n = 0; n < sizeof scores / sizeof scores[0]; n++) assert_form(scores[n], false, NULL);
    for (size_t n = 0; n < sizeof masks / sizeof masks[0]; n++) assert_form(masks[n], true, NULL);
}
END_TEST

static const struct {
    const char *text, *reason;
    bool is_mask;
} texts[] = {{"score * 2", NULL, false},
             {"score * 0x1Fu + 1e-3f - .5f /* of */ // all", NULL, false},
             {"score * 2.0", "without f is a double: '2.0'", false},
             {"score * 0x1p3f", "a double", false},
             {"score + 4294967295", "not an int or uint: '4294967295'", false},
             {"score + 09", "is no number", false},
             {"score + 0x", "is no number", false},
             {"score + 0x1FFFFFFFF", "not an int or uint", false},
             {"score + 0xFFFFFFFFu + 017 + 0 + 2147483647", NULL, false},
             {"score + 1L", "not an int or uint", false},
             {"(0, score)", "',' an operator or ) is missing", false},
             {"score, 1", "',' is behind the expression's end", false},
             {"j = i", "'=' is behind the expression's end", true},
             {"j++ < i", "'++' is behind", true},
             {"--j < i", "'--' a number, a name", true},
             {"score += 1", "'+=' is behind", false},
             {"(float4)(score).x", "a vector type", false},
             {"((int)j).x", "a part of a vector", true},
             {"buffer1[0]", "read by numbers in brackets", true},
             {"buffer1(b)", "'buffer1' takes as many numbers", true},
             {"buffer1(b, j, 0)", "'buffer1' takes as many numbers", true},
             {"buffer3(b)", "'buffer3' is not given", true},
             {"buffer7(b)", "'buffer7' is not given", true},
             {"get_global_id(0) < j", "'get_global_id' is no word", true},
             {"score > 0", "'score' is no word", true},
             {"fma(score, 2.0f, 1.0f)", "not known in vectors: 'fma'", false},
             {"tanh(score)", NULL, false},
             {"exp((float)j) > 2.0f", "a mask depends on the last bit of 'exp'", true},
             {"0.5f * (float)j - 1.0f > 2.0f", "last bit of a product in '-'", true},
             {"1.0f - -(float)((float)i * 0.3f) > 2.0f", "last bit of a product in '-'", true},
             {"0.5f * (float)j > 2.0f", NULL, true},
             {"0.5f * score + 1.0f", NULL, false},
             {"fmin(score, 1)", "mixed types in 'fmin'", false},
             {"min(j, 2u)", "mixed types in 'min'", true},
             {"fabs(j)", "mixed types", true},
             {"score % 2", "'%' is for whole numbers", false},
             {"~score", "'~' is for whole numbers", false},
             {"j ? i", "a choice has : between", true},
             {"(j", "an operator or ) is missing", true},
             {"j <", "the text ends", true},
             {"", "the text ends", true},
             // Operations that may trap stay scalar, as C evaluates them.
             {"j / 3 == i % 7", NULL, true},
             {"j / b == 1", NULL, true},
             {"b / (i + j) == 1", "an integer division by what differs", true},
             {"i > j && j / b == 1 && i / b == 1", "&& or || may guard", true},
             {"i > j ? j / b : i / b", "a choice may guard", true},
             {"i + j > 3 || 4 / b", "&& or || may guard", true},
             {"b != 0 && 4 / b == 1 && i > j", NULL, true},
             {"j / -1 == i", NULL, true},
             {"i > j && j / 0 == 1 && i / 0 == 1", "&& or || may guard", true},
             // Indices are clamped to the axes, whatever their values.
             {"i > j && buffer1(b, i - 1000 * j) == 3", NULL, true}};

START_TEST(what_is_not_for_vectors) {
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++)
        assert_form(texts[n].text, texts[n].is_mask, texts[n].reason);
}
END_TEST

// Test a text of `times` times `part` between `before` and `behind`.
static void assert_repeated(const char *before, const char *part, int times, const char *behind,
                            const char *reason) {
    const size_t size = strlen(part), room = strlen(before) + size * (size_t)times + strlen(behind) + 1;
    char *text = malloc(room), *at = text;
    ck_assert_ptr_nonnull(text);
    at += sprintf(at, "%s", before);
    for (int n = 0; n < times; n++) at += sprintf(at, "%s", part);
    sprintf(at, "%s", behind);
    assert_form(text, false, reason);
    free(text);
}

START_TEST(long_and_deep) {
    static const char *const deep[][3] = {{"", "(", "score"},    {"", "- ", "score"},   {"", "!", "score"},
                                          {"", "(int)", "j"},    {"", "min(1,", "2"},   {"", "j ? ", "1"},
                                          {"", "buffer2(", "1"}, {"", "1+(", "1"},      {"", "1<2*(", "1"},
                                          {"", "(((((((", "("},  {"", "j ? i : ", "1"}, {"", "- - ", "1"}};
    for (size_t n = 0; n < sizeof deep / sizeof deep[0]; n++) {
        assert_repeated(deep[n][0], deep[n][1], 9000, deep[n][2], "is behind the 1024 words");
        if (n < 9 && n != 3)
            assert_repeated(deep[n][0], deep[n][1], 60, deep[n][2],
                            n == 1 || n == 2 ? "one of more than 32" : "in more than 40");
    }
    assert_repeated("", "(int)", 33, "j", "one of more than 32");
    assert_repeated("", "(int)", 32, "j", NULL);
    assert_repeated("((((((((((", "- ", 31, "j", "in more than 40");
    assert_repeated("", "score + ", 512, "1", "is behind the 1024 words");
    assert_repeated("", "score + ", 511, "1", NULL);
    assert_repeated("", "score < ", 511, "1", "nested too deep");
    assert_repeated("", "j && ", 511, "1", NULL);
    assert_repeated("", "b ? 1 : ", 200, "j", NULL);
    assert_repeated("score", " ", 60000, "", NULL);
    assert_repeated("score", "/* ( */", 9000, "", NULL);
    assert_repeated("", "x", 60000, "", "is no word");
    assert_repeated("score + ", "1", 60000, "", "is no number");
    assert_repeated("score + 1", "e", 60000, "", "is no number");
    assert_repeated("", "score * ", 500, "1", NULL);
    assert_repeated("", "score > 3 ? 2 : ", 60, "1", "nested too deep");
}
END_TEST

START_TEST(any_tokens) {
    static const char *const tokens[] = {
        "score",    "b",       "h",      "i",     "j",        "row",        "kv_length", "1",
        "0",        "2.5f",    "0x",     "1e",    "1e+",      "0xFFu",      "9u",        ".",
        ".5f",      "..",      "'",      "\"",    "(",        "(",          "(",         ")",
        ")",        ")",       ",",      "?",     ":",        "&&",         "||",        "!",
        "~",        "-",       "+",      "*",     "/",        "%",          "<<",        ">>",
        "<",        ">=",      "==",     "!=",    "&",        "|",          "^",         "=",
        "->",       "++",      "--",     "+=",    "[",        "]",          "{",         "}",
        ";",        "/*",      "*/",     "//",    "\n",       " ",          " ",         "\t",
        "(int)",    "(float)", "(uint)", "(bool", "min(",     "max(i,",     "abs(",      "select(",
        "clamp(j,", "isnan(",  "tanh(",  "pow(",  "buffer0(", "buffer1(b,", "buffer2(",  "buffer3(",
        "buffer9(", "buffer",  "int",    "\x80",  "\x01",     "_",          "$",         "#",
        "\\"};
    struct random r = {(uint64_t)_i + 1};
    int forms = 0;
    for (int n = 0; n < 20000; n++) {
        char text[512] = "", why[MOD_WHY];
        const int count = 1 + (int)random_uniform(&r, 0, _i ? 40 : 7);
        for (int k = 0; k < count; k++)
            strcat(text, tokens[(int)random_uniform(&r, 0, (double)(sizeof tokens / sizeof tokens[0]))]);
        // exact size, so that sanitizers see a read past the end
        char *exact = malloc(strlen(text) + 1);
        ck_assert_ptr_nonnull(exact);
        strcpy(exact, text);
        const mod_source s = source_of(exact, n & 1);
        char *form = form_of(&s, 1 + n % MOD_LANES_MOST, why);
        forms += form != NULL;
        free(form);
        free(exact);
    }
    ck_assert(_i || forms > 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("mods as vectors");
    TCase *all = tcase_create("all");
    suite_add_tcase(suite, all);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, ready_texts);
    tcase_add_test(all, what_is_not_for_vectors);
    tcase_add_test(all, long_and_deep);
    tcase_add_loop_test(all, any_tokens, 0, 2);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
