// test_mods.c: expressions of the caller. Options are repeated as expressions and compared with the
// same reference. The predefined texts of mods.h are compared with boolean masks. Also names, types
// and bounds of buffers, refused texts, and the compiler's messages about others. Block masks are
// in test_block_mask.c, the program in check_options.sh. Cases: tests/cases/mods.txt.
#include "support/case_list.h"
#include "support/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_case base(const char *name) {
    return (struct test_case){
        .name = name, .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 9, .n_kv = 133, .head_dim = 32};
}

// A call with a mask or bias, and a text with the same effect. `numbers` become the text's buffers.
struct said {
    struct case_data *data;
    const char *score_mod, *mask_mod;
    struct said_buffer {
        struct guarded_shape shape;
        double *numbers;
    } buffers[CLATTN_MOD_BUFFERS];
};

static void add_buffer(struct said *said, int n, clattn_type type, int rank, int64_t n0, int64_t n1,
                       int64_t n2) {
    said->buffers[n].shape = (struct guarded_shape){type, rank, {n0, n1, n2}, LAYOUT_PADDED};
    said->buffers[n].numbers =
        calloc((size_t)(n0 * (rank > 1 ? n1 : 1) * (rank > 2 ? n2 : 1)), sizeof(double));
    ck_assert_ptr_nonnull(said->buffers[n].numbers);
}

// Run the text instead of mask and bias with every kernel. A shortened suite uses one kernel, which
// alternates.
static void assert_said(struct said *said, const char *name) {
    static int turn;
    const int first = turn++ % 3, last = harness_every() > 1 ? first : first + 2;
    case_retype(said->data);
    for (int n = first; n <= last; n++) {
        const int k = n % 3;
        struct case_arrays a;
        struct guarded bound[CLATTN_MOD_BUFFERS];
        char why[512] = "";
        case_bind(said->data, harness_place(), &a);
        clattn_score *s = &a.params.score;
        a.params.kernel = case_kernel(k);
        s->mask = s->bias = (clattn_tensor){0};
        s->score_mod = said->score_mod, s->mask_mod = said->mask_mod;
        for (int i = 0; i < CLATTN_MOD_BUFFERS; i++) {
            if (!said->buffers[i].numbers) continue;
            bound[i] = guarded_input(harness_place(), &said->buffers[i].shape, said->buffers[i].numbers);
            s->mod_buffers[i] = bound[i].view;
        }
        const clattn_status status =
            clattn_attention_enqueue(harness()->context, harness()->queue, &a.params, 0, NULL, NULL);
        ck_assert_msg(status == CLATTN_OK, "%s: %s", name, harness_log_text());
        ck_assert_msg(case_holds(said->data, &a, harness()->queue, why, sizeof why), "%s, kernel %d: %s",
                      name, k, why);
        for (int i = 0; i < CLATTN_MOD_BUFFERS; i++)
            if (said->buffers[i].numbers) guarded_release(&bound[i]);
        case_unbind(&a);
    }
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) free(said->buffers[n].numbers);
    case_free(said->data);
}

enum { ROWS = 37, KEYS = 70, SHIFT = 33 };

// Row 0 has position SHIFT. Every head has the mask of its batch item.
static struct said masked(const char *text) {
    struct test_case test = base("ready text");
    test.n_q = ROWS, test.n_kv = KEYS;
    test.mask.rank = 4;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    return (struct said){.data = case_make(&test), .mask_mod = text};
}

static void fill(struct said *said, bool (*keeps)(int b, int row, int i, int j)) {
    double *to = said->data->mask;
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++)
            for (int row = 0; row < ROWS; row++)
                for (int j = 0; j < KEYS; j++) *to++ = keeps(b, row, row + SHIFT, j) ? 1 : 0;
}

static bool keeps_causal(int b, int row, int i, int j) {
    (void)b, (void)row;
    return j <= i;
}
static bool keeps_sliding(int b, int row, int i, int j) {
    (void)b, (void)row;
    return j <= i && i - j <= 11;
}
static bool keeps_dilated(int b, int row, int i, int j) {
    (void)b, (void)row;
    return j <= i && (i - j) % 3 == 0 && i - j < 21;
}
static int document(int b, int position) {
    return (position + 5 * b) / 20;
}
static bool keeps_document(int b, int row, int i, int j) {
    (void)row;
    return document(b, i) == document(b, j);
}
static bool keeps_prefix(int b, int row, int i, int j) {
    (void)row;
    return j <= i || j < 45 + b;
}
// The parent of token t in the tree is token t / 2.
static bool is_before(int t, int of) {
    for (; of > 0; of /= 2)
        if (t == of) return true;
    return t == 0;
}
static bool keeps_tree(int b, int row, int i, int j) {
    (void)b, (void)i;
    return j < SHIFT || is_before(j - SHIFT, row);
}

START_TEST(ready_masks) {
    struct said said = masked(CLATTN_MASK_MOD_CAUSAL);
    fill(&said, keeps_causal);
    assert_said(&said, "causal");
    said = masked(CLATTN_MASK_MOD_SLIDING_WINDOW(11));
    fill(&said, keeps_sliding);
    assert_said(&said, "sliding window");
    said = masked(CLATTN_MASK_MOD_DILATED_WINDOW(3, 7));
    fill(&said, keeps_dilated);
    assert_said(&said, "dilated window");
}
END_TEST

START_TEST(ready_masks_that_read) {
    struct said said = masked(CLATTN_MASK_MOD_DOCUMENT);
    fill(&said, keeps_document);
    add_buffer(&said, 0, CLATTN_TYPE_I32, 2, 2, ROWS, 0);
    add_buffer(&said, 1, CLATTN_TYPE_I32, 2, 2, KEYS, 0);
    for (int b = 0; b < 2; b++) {
        for (int row = 0; row < ROWS; row++)
            said.buffers[0].numbers[b * ROWS + row] = document(b, row + SHIFT);
        for (int j = 0; j < KEYS; j++) said.buffers[1].numbers[b * KEYS + j] = document(b, j);
    }
    assert_said(&said, "document");
    said = masked(CLATTN_MASK_MOD_PREFIX_LM);
    fill(&said, keeps_prefix);
    add_buffer(&said, 0, CLATTN_TYPE_I32, 1, 2, 0, 0);
    said.buffers[0].numbers[0] = 45, said.buffers[0].numbers[1] = 46;
    assert_said(&said, "prefix LM");
    said = masked(CLATTN_MASK_MOD_TREE);
    fill(&said, keeps_tree);
    add_buffer(&said, 0, CLATTN_TYPE_I32, 2, ROWS, 2, 0);
    for (int row = 0; row < ROWS; row++)
        for (int word = 0; word < 2; word++) {
            uint32_t bits = 0;
            for (int t = 0; t < 32 && word * 32 + t < ROWS; t++)
                bits |= (uint32_t)is_before(word * 32 + t, row) << t;
            said.buffers[0].numbers[row * 2 + word] = (double)(int32_t)bits;
        }
    assert_said(&said, "tree");
}
END_TEST

// A bias computed by the test from the same names that a text can use.
static struct said biased(const char *text) {
    struct test_case test = base("names");
    test.n_q = ROWS, test.n_kv = KEYS;
    test.bias.rank = 4;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    test.score.causal = true;
    static const int32_t q_lengths[] = {30, ROWS}, kv_lengths[] = {KEYS, 55};
    case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
    case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
    return (struct said){.data = case_make(&test), .score_mod = text};
}

static void fill_bias(struct said *said, double (*bias)(int b, int h, int row, int i, int j)) {
    static const int shifts[] = {KEYS - 30, 55 - ROWS};
    double *to = said->data->bias;
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++)
            for (int row = 0; row < ROWS; row++)
                for (int j = 0; j < KEYS; j++) *to++ = (double)(float)bias(b, h, row, row + shifts[b], j);
}

static double of_names(int b, int h, int row, int i, int j) {
    const int q_length = b ? ROWS : 30, kv_length = b ? 55 : KEYS;
    return 0.25 * b + 0.5 * h + (row * 3 + i * 5 - j * 4) / 64.0 + (q_length - kv_length) / 128.0;
}

// An index before an axis reads the first element, and an index after it the last.
static double of_bounds(int b, int h, int row, int i, int j) {
    (void)b, (void)i;
    return (h < 3 ? 0 : h) + (row < 20 ? row : 20) / 16.0 + (j < 5 ? 0 : (j < 45 ? j - 5 : 39)) / 32.0;
}

START_TEST(names_and_bounds) {
    struct said said =
        biased("score + 0.25f * (float)b + 0.5f * (float)h + (float)(row * 3 + i * 5 - j * 4) / 64.0f\n"
               "      + (float)(q_length - kv_length) / 128.0f // of the batch item");
    fill_bias(&said, of_names);
    assert_said(&said, "names");
    said = biased("score + buffer1(h * 1000 - 2000, row * 1, 0) + buffer3(j * 1 - 5)");
    fill_bias(&said, of_bounds);
    add_buffer(&said, 1, CLATTN_TYPE_F32, 3, 2, 21, 1);
    add_buffer(&said, 3, CLATTN_TYPE_F32, 1, 40, 0, 0);
    for (int row = 0; row < 21; row++) {
        said.buffers[1].numbers[row] = row / 16.0;
        said.buffers[1].numbers[21 + row] = 3 + row / 16.0;
    }
    for (int j = 0; j < 40; j++) said.buffers[3].numbers[j] = j / 32.0;
    assert_said(&said, "bounds");
}
END_TEST

// Numbers that every type represents exactly.
static double of_types(int b, int h, int row, int i, int j) {
    (void)b, (void)i, (void)row;
    return (h + j) % 2;
}

START_TEST(types_of_buffers) {
    static const clattn_type types[] = {CLATTN_TYPE_F16, CLATTN_TYPE_BF16, CLATTN_TYPE_BOOL, CLATTN_TYPE_I8,
                                        CLATTN_TYPE_I32};
    struct said said = biased("score + (float)buffer0(h, j)");
    fill_bias(&said, of_types);
    add_buffer(&said, 0, types[_i], 2, 4, KEYS, 0);
    for (int h = 0; h < 4; h++)
        for (int j = 0; j < KEYS; j++) said.buffers[0].numbers[h * KEYS + j] = (h + j) % 2;
    assert_said(&said, clattn_type_name(types[_i]));
}
END_TEST

static clattn_status try_texts(const char *score_mod, const char *mask_mod) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 5, 16)};
    p.out = p.kv.k = p.kv.v = p.q;
    p.kernel = CLATTN_KERNEL_UNFUSED;
    p.score.score_mod = score_mod, p.score.mask_mod = mask_mod;
    harness_log_clear();
    return clattn_attention_prepare(harness()->context, &p);
}

// Texts that would end the enclosing function, or that would affect the preprocessor.
START_TEST(texts_are_refused) {
    static const struct {
        const char *text, *word;
    } texts[] = {
        {"", "no expression"},
        {" /* score */ \n // score", "no expression"},
        {"score)", "column 6"},
        {"(score", "brackets are open"},
        {"score); } float own_mask_mod() { return (1", "column 6"},
        {"(score]", "column 7"},
        {"score;", "column 6"},
        {"score\n + ({ int x = 1; x })", "line 2, column 16"},
        {"score /* + 1", "column 7"},
        {"score // \\\n) {", "backslash"},
        {"score ?\?/\n", "question marks"},
        {"score\n#define LANES 3\n", "line 2, column 1"},
        {"score\n%:define LANES 3\n", "column 1"},
        {"score <% 1", "column 7"},
        {"score + buffer0<:1:>", "column 16"},
        {"score + sizeof \"x\"", "column 16"},
        {"score + '0'", "column 9"},
        {"score \001", "column 7"},
        {"score //\r + (float)(j == 3)", "carriage return"},
        {"score //\r); } __kernel void k(__global int *p) { p[0] = 1; } float f(float x) { return (x",
         "character 9"},
        {"score /* \r */", "carriage return"},
        {"score\r+ 1", "character 6: a carriage return"},
        {"score /* \v */ + 1", "vertical tab"}};
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++) {
        const clattn_status status = try_texts(texts[n].text, NULL);
        harness_assert_refused(texts[n].text, status, CLATTN_INVALID_ARGUMENT, texts[n].word);
        harness_log_clear();
        harness_assert_refused(texts[n].text, try_texts(NULL, texts[n].text), CLATTN_INVALID_ARGUMENT,
                               "mask_mod: ");
    }
    char deep[600], long_text[65600];
    memset(deep, '(', sizeof deep), deep[sizeof deep - 1] = '\0';
    harness_assert_refused("deep", try_texts(deep, NULL), CLATTN_INVALID_ARGUMENT, "column 257");
    memset(long_text, ' ', sizeof long_text), long_text[sizeof long_text - 1] = '\0';
    harness_assert_refused("long", try_texts(long_text, NULL), CLATTN_INVALID_ARGUMENT, "at most 65536");
}
END_TEST

// Texts that the compiler rejects, for example because of mismatched types. The messages refer to
// positions in the text, and the context remains usable.
START_TEST(compilers_words) {
    static const struct {
        const char *score_mod, *mask_mod, *place;
    } texts[] = {{"score *\r\n  fmin(score, (int2)(1, 2))", NULL, "score_mod:2:3"},
                 {NULL, "j <= i &&\n\n fmin(j, (int2)(1, 2)) > 0", "mask_mod:3:2"},
                 {"score +\n (int2)(1, 2, 3).x", NULL, "score_mod:2:"}};
    char line[1024];
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++) {
        ck_assert_int_eq(try_texts(texts[n].score_mod, texts[n].mask_mod), CLATTN_BUILD_FAILED);
        clattn_context_last_error(harness()->context, line, sizeof line);
        ck_assert_msg(strncmp(line, texts[n].place, strlen(texts[n].place)) == 0, "text %zu: %s", n, line);
        ck_assert_int_eq(try_texts("score * 2", NULL), CLATTN_OK);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("mods");
    TCase *results = harness_add(
        suite, "results", (const TTest *const[]){ready_masks, ready_masks_that_read, names_and_bounds, NULL});
    tcase_add_loop_test(results, types_of_buffers, 0, 5);
    harness_add(suite, "refusals", (const TTest *const[]){texts_are_refused, compilers_words, NULL});
    case_list_add(suite, "mods", "cases");
    return harness_run(suite);
}
