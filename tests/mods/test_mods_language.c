// test_mods_language.c: which texts of score_mod and mask_mod a context accepts: texts of the
// documented language within its limits, and with mods_unchecked any single expression of OpenCL C.
// Texts that end an expression are in test_mods.c. The behaviour of accepted texts is in
// test_mods_checked.c.
#include "support/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// buffer0: f32, one axis. buffer2: i32, two axes. No others.
static clattn_status try_texts(clattn_context *c, const char *score_mod, const char *mask_mod) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 5, 16)};
    const int64_t shape[] = {4, 7};
    p.out = p.kv.k = p.kv.v = p.q;
    p.kernel = CLATTN_KERNEL_UNFUSED;
    p.score.score_mod = score_mod, p.score.mask_mod = mask_mod;
    p.score.mod_buffers[0] = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 1, shape);
    p.score.mod_buffers[2] = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, shape);
    harness_log_clear();
    return clattn_attention_prepare(c, &p);
}

static const struct {
    const char *text, *said;
} refused[] = {
    // Texts that write, read other memory, trap, loop or call.
    {"(float)*(volatile __global const uint *)0x400000", "line 1, column 8, '*'"},
    {"(float)clattn_call->b0[j - 100000]", "'clattn_call': is no word"},
    {"(*((__global float *)clattn_call->b0) = 42.0f, score)", "column 2, '*'"},
    {"(__builtin_trap(), score)", "'__builtin_trap': is no word"},
    {"(({ while (true) {} }), score)", "column 3, '{'"},
    {"({ score })", "column 2, '{'"},
    {"own_score_mod(score, b, h, i, j, row, q_length, kv_length, clattn_call)", "'own_score_mod'"},
    {"mod_divide(i, j)", "'mod_divide'"},
    {"mod_read0(score)", "'mod_read0'"},
    {"(barrier(1), score)", "'barrier'"},
    {"((int)(long)__builtin_alloca(1 << 30), score)", "'__builtin_alloca'"},
    {"((float[1 << 20]){1.0f})[j] + score", "is a type"},
    {"score = 3.0f", "column 7, '='"},
    {"score += 3.0f", "column 7, '+='"},
    {"j++ < 3", "column 2, '++'"},
    {"--j < 3", "column 1, '--'"},
    {"j << = 3", "column 6, '='"},
    {"*&score", "column 1, '*'"},
    {"score + &score", "column 9, '&'"},
    {"sizeof(score)", "'sizeof'"},
    {"sizeof score", "'sizeof'"},
    {"sin", "in brackets"},
    {"score ? sin : cos", "in brackets"},
    {"(sin)(score)", "in brackets"},
    {"goto x", "'goto'"},
    {"get_global_id(0)", "'get_global_id'"},
    {"frexp(score, 0)", "'frexp'"},
    {"modf(score, score)", "'modf'"},
    {"vload4(0, 0).x", "'vload4'"},
    {"printf(score)", "'printf'"},
    {"atomic_add(0, 1)", "'atomic_add'"},
    {"async_work_group_copy(0, 0, 0, 0)", "'async_work_group_copy'"},
    {"_Static_assert(1)", "'_Static_assert'"},
    {"LANES", "'LANES'"},
    {"score.x = 1", "column 9, '='"},
    {"score->x", "column 6, '->'"},
    {"buffer0[j]", "read by numbers in brackets"},
    {"buffer0", "read by numbers in brackets"},
    {"(score, 1)", "column 7, ','"},
    {"score, 1", "column 6, ','"},
    {"(__global float *)0", "'__global'"},
    {"(float *)0", "is a type"},
    {"(half)score", "'half'"},
    {"(image2d_t)score", "'image2d_t'"},
    {"score :: 1", "column 7, ':'"},
    // Invalid texts and their messages.
    {"scor * 2", "(did you mean 'score'?)"},
    {"i > 0 and j > 0 ? score : 0", "'and': is no word of an expression: write &&"},
    {"(i > 0 or j > 0) * score", "'or': is no word of an expression: write ||"},
    {"not i ? score : 0", "'not': is no word of an expression: write !"},
    {"score if i > j else 0", "'if': is no word of an expression: write a ? b : c"},
    {"True ? score : 0", "'True': is no word of an expression: write true"},
    {"score - 0.1f * (q_idx - kv_idx)", "'q_idx': is no word of an expression: write i"},
    {"i - kv_idx", "'kv_idx': is no word of an expression: write j"},
    {"torch.exp(score)", "'torch': is no word of an expression: write the function alone"},
    {"score * j ** 2", "'*': is no word of an expression: write pow(x, y) in place of **"},
    {"score * (i // 2)", "// begins a comment: / divides"},
    {"score + // 2", "// begins a comment: / divides"},
    {"score *\n  missing", "line 2, column 3, 'missing'"},
    {"score +\r\n  tanH(score)",
     "line 2, column 3, 'tanH': is no word of an expression (did you mean 'tanh'?)"},
    {"score * kv_lenght", "did you mean 'kv_length'?"},
    {"score + q", "it has score, b, h, i, j, row, q_length, kv_length"},
    {"score + buffer1(j)", "'buffer1': is not given: there is no mod_buffers[1]"},
    {"score + buffer9(j)", "they are 0 to 3"},
    {"score + buffer0(b, j)", "as many numbers as mod_buffers[0] has axes: 1, not 2"},
    {"score + buffer2(b)", "axes: 2, not 1"},
    {"fmin(score)", "'fmin': takes 2 numbers, not 1"},
    {"exp(score, 2)", "takes 1 number, not 2"},
    {"exp()", "column 5, ')'"},
    {"float(j)", "is a type, which stands in brackets"},
    {"score +", "the text ends here"},
    {"j ? score", "a choice has :"},
    {"1.5.5", "is no number"},
    {"0x1e-3", "is no number"},
    {"09", "is no number"},
    {"1e", "is no number"},
    {"18446744073709551616", "is no number"},
    {"score % 3", "is for whole numbers"},
    {"ldexp(score, 2.0f)", "a whole number"},
    {"(float)(j / 0)", "divides by 0"},
    {"(float)(j % 0u)", "divides by 0"},
    {"(float)((long)j / h)", "cast both"},
    {"(int3)(1, 2, 3).hi.y", "column 17, 'hi': a part of a vector"},
    {"as_int4((int3)(1, 2, 3)).w", "'as_int4': takes a vector of three"},
    {"(float)((char4)(j) / 256).x", "cast both"},
    {"(int2)(i, j) + (int4)(j)", "column 14, '+': has parts whose types do not fit"},
    {"abs(score)", "takes whole numbers"},
    {"all((uint)j)", "takes whole numbers with a sign"},
    {"any(score)", "takes whole numbers with a sign"},
    {"any((uint2)(i, j)) + j", "takes whole numbers with a sign"},
    {"buffer0((int2)(i, j))", "is a vector"},
    {"clz(0)", "is always the same"}};

START_TEST(what_is_refused) {
    for (size_t n = 0; n < sizeof refused / sizeof refused[0]; n++)
        harness_assert_refused(refused[n].text, try_texts(harness()->context, refused[n].text, NULL),
                               CLATTN_INVALID_ARGUMENT, refused[n].said);
    harness_assert_refused("score of a mask", try_texts(harness()->context, NULL, "j < score"),
                           CLATTN_INVALID_ARGUMENT, "mask_mod: line 1, column 5, 'score'");
}
END_TEST

static void assert_taken(clattn_context *c, const char *score_mod, const char *mask_mod) {
    ck_assert_msg(try_texts(c, score_mod, mask_mod) == CLATTN_OK, "%s, %s: %s", score_mod, mask_mod,
                  harness_log_text());
}

START_TEST(what_is_taken) {
    static const char *const texts[] = {
        CLATTN_SCORE_MOD_ALIBI,
        CLATTN_SCORE_MOD_SOFTCAP(30.0f),
        "score * 2.0 + 1 /* a double */ // and all",
        "(float4)(score, 1.0f, 2.0f, 3.0f).x + ((int2)(i, j)).s1 + ((float8)(float8)(score)).hi.lo.odd",
        "score + (float)(j / (kv_length - j)) + convert_float_rte(j) + as_float(as_int(score)) + 0x1p-3f",
        "score + ldexp(fma(score, 2.0f, 1.0f), 3) + (float)(ulong)j + 017 + (float)((long)j / 3)",
        "score\r\n+ 1",
        "score + (float)((char)3e30f + convert_int(3e30f)) + buffer0((int)(float4)(3e30f).x)",
        "score + (float)mad24(i, j, (int)buffer0((int)2.5f)) + native_exp(mix(score, 1.0f, 0.5f))"};
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++)
        assert_taken(harness()->context, texts[n], NULL);
    assert_taken(harness()->context, NULL, CLATTN_MASK_MOD_DILATED_WINDOW(3, 7));
    assert_taken(harness()->context, NULL,
                 "buffer2(b, row) == buffer2(b, j) && !(isless((float)j, 3.0f) || i ^ j)");
}
END_TEST

// Any expression, but no statement.
START_TEST(unchecked) {
    clattn_context *c = harness_open(
        (clattn_context_params){.context = harness()->opencl, .mods_unchecked = true, .log = harness_log()});
    assert_taken(c, "(0, score)", "(get_local_id(0), j <= i)");
    assert_taken(c, "clattn_call->b0[0] + score", NULL);
    assert_taken(c, "score = 3.0f", NULL);
    ck_assert_int_eq(try_texts(c, "score; ", NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(try_texts(c, "score //\r); } float f() { return (1", NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(try_texts(c, "score + buffer1(h)", NULL), CLATTN_BUILD_FAILED);
    ck_assert_ptr_nonnull(strstr(harness_log_text(), "score_mod:1:9: "));
    ck_assert_int_eq(try_texts(harness()->context, "(0, score)", NULL), CLATTN_INVALID_ARGUMENT);
    clattn_context_destroy(c);
}
END_TEST

START_TEST(limits) {
    char text[5000] = "score";
    for (int n = 0; n < 511; n++) strcat(text, " + 1.f");
    assert_taken(harness()->context, text, NULL);
    strcat(text, " + 1.f");
    harness_assert_refused("1025 tokens", try_texts(harness()->context, text, NULL), CLATTN_INVALID_ARGUMENT,
                           "line 1, column 3075, '1.f': is behind the 1024 words");
    strcpy(text, "");
    for (int n = 0; n < 32; n++) strcat(text, n % 3 ? "- " : "(int)");
    strcat(text, "score");
    assert_taken(harness()->context, text, NULL);
    memmove(text + 1, text, strlen(text) + 1), text[0] = '!';
    harness_assert_refused("33 prefixes", try_texts(harness()->context, text, NULL), CLATTN_INVALID_ARGUMENT,
                           "is one of more than 32 operators and casts in a row");
    strcpy(text, "");
    for (int n = 0; n < 41; n++) strcat(text, "(");
    strcat(text, "score");
    for (int n = 0; n < 41; n++) strcat(text, ")");
    harness_assert_refused("41 brackets", try_texts(harness()->context, text, NULL), CLATTN_INVALID_ARGUMENT,
                           "column 41, '(': is in more than 40 brackets");
    memmove(text + 40, text + 41, strlen(text + 41)),
        text[strlen(text) - 2] = '\0'; // one bracket fewer on each side
    assert_taken(harness()->context, text, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("language of mods");
    harness_add(suite, "texts",
                (const TTest *const[]){what_is_refused, what_is_taken, unchecked, limits, NULL});
    return harness_run(suite);
}
