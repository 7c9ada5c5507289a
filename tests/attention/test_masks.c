// test_masks.c: every option that changes or hides a score, alone and in pairs, with lengths, empty rows,
// taps and weights. Leaves out hostile values (test_hostile.c) and rotary embedding (test_rope.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include <stdio.h>
#include <string.h>

static const int32_t three_offsets[] = {-4, 0, 13};
static const int32_t three_q_lengths[] = {20, 0, 7};
static const int32_t three_kv_lengths[] = {9, 33, 0};

static struct test_case base(const char *name) {
    return (struct test_case){
        .name = name, .batch = 3, .heads = 4, .kv_heads = 2, .n_q = 20, .n_kv = 33, .head_dim = 32};
}

// The options of a call, numbered, so that pairs can be made of them.
enum option {
    OPTION_CAUSAL,
    OPTION_CAUSAL_BOTTOM_RIGHT,
    OPTION_CAUSAL_OFFSET,
    OPTION_WINDOW,
    OPTION_KV_LENGTHS,
    OPTION_Q_LENGTHS,
    OPTION_MASK,
    OPTION_BIAS,
    OPTION_SOFTCAP,
    OPTION_ALIBI,
    OPTION_SINKS,
    OPTION_COUNT
};

static void set_alignment(struct test_case *test, enum option option) {
    test->score.causal = true;
    if (option == OPTION_CAUSAL_BOTTOM_RIGHT) test->score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    if (option != OPTION_CAUSAL_OFFSET) return;
    test->score.alignment = CLATTN_ALIGN_OFFSET;
    case_give(test, CASE_OFFSETS, 3, three_offsets);
}

static void set(struct test_case *test, enum option option) {
    if (option <= OPTION_CAUSAL_OFFSET) set_alignment(test, option);
    if (option == OPTION_WINDOW) {
        test->score.window = true;
        test->score.window_left = 5;
        test->score.window_right = 3;
    }
    if (option == OPTION_KV_LENGTHS) case_give(test, CASE_KV_LENGTHS, 3, three_kv_lengths);
    if (option == OPTION_Q_LENGTHS) case_give(test, CASE_Q_LENGTHS, 3, three_q_lengths);
    if (option == OPTION_MASK) test->mask.rank = 4;
    if (option == OPTION_BIAS) test->bias.rank = 4;
    if (option == OPTION_SOFTCAP) test->score.softcap = 1.5f;
    if (option == OPTION_ALIBI) test->hosts |= CASE_HOST_BIT(CASE_ALIBI);
    if (option == OPTION_SINKS) test->hosts |= CASE_HOST_BIT(CASE_SINKS);
}

START_TEST(alone_and_in_pairs) {
    char name[64];
    for (int a = 0; a < OPTION_COUNT; a++) {
        for (int b = a; b < OPTION_COUNT; b++) {
            snprintf(name, sizeof name, "options %d and %d", a, b);
            struct test_case test = base(name);
            set(&test, (enum option)a);
            set(&test, (enum option)b);
            case_assert_kernels(&test);
        }
    }
}
END_TEST

START_TEST(all_at_once) {
    struct test_case test = base("all options");
    for (int option = OPTION_CAUSAL_OFFSET; option < OPTION_COUNT; option++) set(&test, (enum option)option);
    case_assert_kernels(&test);
    test.weights = true;
    case_assert_kernels(&test);
    test.n_q = 3;
    test.hosts &= ~CASE_HOST_BIT(CASE_Q_LENGTHS);
    test.weights = false;
    case_assert_kernels(&test);
}
END_TEST

// Masks and biases of every rank, repeating along each axis that may.
START_TEST(map_ranks) {
    static const struct score_map maps[] = {{.rank = 1},
                                            {.rank = 2},
                                            {.rank = 3},
                                            {.rank = 4},
                                            {.rank = 3, .repeat = MAP_REPEAT_HEADS},
                                            {.rank = 4, .repeat = MAP_REPEAT_BATCH},
                                            {.rank = 4, .repeat = MAP_REPEAT_HEADS},
                                            {.rank = 4, .repeat = MAP_REPEAT_ROWS | MAP_REPEAT_HEADS},
                                            {.rank = 2, .repeat = MAP_REPEAT_ROWS}};
    for (size_t n = 0; n < sizeof maps / sizeof maps[0]; n++) {
        struct test_case mask = base("mask rank"), bias = base("bias rank");
        mask.mask = bias.bias = maps[n];
        mask.layout = bias.layout = (enum layout)(n % LAYOUT_COUNT);
        case_assert_kernels(&mask);
        case_assert_kernels(&bias);
    }
}
END_TEST

START_TEST(bias_types) {
    for (clattn_type type = CLATTN_TYPE_F32; type <= CLATTN_TYPE_BF16; type++) {
        struct test_case test = base("bias type");
        test.bias = (struct score_map){.rank = 3, .type = type};
        case_assert_kernels(&test);
    }
}
END_TEST

// Window and ALiBi need the position of a row without causality too; -1 is unbounded on either side.
START_TEST(windows_and_alignments) {
    static const int32_t windows[][2] = {{-1, -1}, {0, 0}, {4, -1}, {-1, 2}, {40, 40}};
    for (int n = 0; n < 5 * CLATTN_ALIGN_COUNT; n++) {
        struct test_case test = base("window");
        test.score.window = true;
        test.score.window_left = windows[n % 5][0];
        test.score.window_right = windows[n % 5][1];
        test.score.alignment = (clattn_alignment)(n / 5);
        test.score.offset = n / 5 == CLATTN_ALIGN_OFFSET ? 6 : 0;
        if (n % 2) test.hosts = CASE_HOST_BIT(CASE_ALIBI);
        test.score.causal = n % 3 == 0;
        case_assert_kernels(&test);
    }
}
END_TEST

// A negative shift leaves the leading rows empty: 0, -inf, and no NaN.
START_TEST(negative_shift) {
    struct test_case test = base("more rows than keys");
    test.n_q = 33;
    test.n_kv = 17;
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    case_assert_kernels(&test);
    test.name = "negative offset";
    test.score.alignment = CLATTN_ALIGN_OFFSET;
    test.score.offset = -9;
    case_assert_kernels(&test);
    test.weights = true;
    case_assert_kernels(&test);
}
END_TEST

START_TEST(empty_rows) {
    for (int sinks = 0; sinks < 2; sinks++) {
        struct test_case test = base(sinks ? "no key, a sink" : "no key");
        test.mask.rank = 2;
        if (sinks) test.hosts = CASE_HOST_BIT(CASE_SINKS);
        struct case_data *data = case_make(&test);
        memset(data->mask, 0, 33 * 20 * sizeof *data->mask);
        data->mask[3 * 33 + 32] = 1;
        for (int n = 0; n < 3; n++) {
            data->test.kernel = case_kernel(n);
            data->test.weights = case_kernel(n) == CLATTN_KERNEL_UNFUSED;
            case_assert_data(data);
        }
        case_free(data);
    }
}
END_TEST

// A cache that fills: the alignment of lengths with bottom_right, one row at a time.
START_TEST(growing_cache) {
    static const int32_t lengths[][3] = {{1, 2, 3}, {16, 17, 32}, {33, 31, 0}};
    for (int n = 0; n < 3; n++) {
        struct test_case test = base("growing cache");
        test.n_q = 1 + n;
        test.score.causal = true;
        test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        case_give(&test, CASE_KV_LENGTHS, 3, lengths[n]);
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(weights_types) {
    for (clattn_type type = CLATTN_TYPE_F32; type <= CLATTN_TYPE_BF16; type++) {
        struct test_case test = base("weights");
        test.weights = true;
        test.weights_type = type;
        test.layout = (enum layout)(type % LAYOUT_COUNT);
        test.score.causal = true;
        case_give(&test, CASE_KV_LENGTHS, 3, three_kv_lengths);
        if (type == CLATTN_TYPE_F16) test.hosts |= CASE_HOST_BIT(CASE_SINKS);
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(score_taps) {
    for (clattn_tap tap = CLATTN_TAP_RAW; tap < CLATTN_TAP_COUNT; tap++) {
        struct test_case test = base("taps");
        test.scores = true;
        test.scores_at = tap;
        case_assert_kernels(&test);
        for (int option = OPTION_CAUSAL; option < OPTION_COUNT; option++)
            if (option != OPTION_CAUSAL_BOTTOM_RIGHT) set(&test, (enum option)option);
        test.layout = LAYOUT_PADDED;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(sixteen_bit_masks) {
    for (int option = 0; option < OPTION_COUNT; option++) {
        struct test_case test = base("16-bit");
        test.q_type = test.kv_type = test.out_type = option % 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F16;
        set(&test, (enum option)option);
        set(&test, OPTION_CAUSAL_OFFSET);
        case_assert_kernels(&test);
    }
}
END_TEST

int main(void) {
    const TTest *const options[] = {alone_and_in_pairs, all_at_once, sixteen_bit_masks, NULL};
    const TTest *const maps[] = {map_ranks, bias_types, empty_rows, NULL};
    const TTest *const positions[] = {windows_and_alignments, negative_shift, growing_cache, NULL};
    const TTest *const outputs[] = {weights_types, score_taps, NULL};
    Suite *suite = suite_create("masks");
    harness_add(suite, "options", options);
    harness_add(suite, "maps", maps);
    harness_add(suite, "positions", positions);
    harness_add(suite, "weights and taps", outputs);
    int status = harness_run(suite);
    printf("decode: %d cases passed over as unsupported\n", case_decode_skipped());
    return status;
}
