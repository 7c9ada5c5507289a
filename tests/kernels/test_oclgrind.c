// test_oclgrind.c: one small case of every kernel path, for running under Oclgrind, which sees races,
// divergent barriers and one element too far where a CPU driver sees nothing. Buffers end with their views
// for that. Leaves out everything that needs more than some thousand multiplications a case. Run it with
// OCLGRIND_LOG set to a file and require that file to stay empty: Oclgrind's own exit status is 0 whatever it
// finds.
#include "support/harness.h"
#include "support/case_assert.h"
#include "evidence/reference/random.h"

#include <stdio.h>
#include <string.h>

// Of test_oclgrind_layers.c.
void oclgrind_add_layers(Suite *suite);
void oclgrind_add_tiles(Suite *suite);

static struct test_case base(const char *name, int kernel) {
    struct test_case test = {.name = name, .heads = 2, .kv_heads = 1, .n_q = 9, .n_kv = 19, .head_dim = 8};
    test.kernel = (clattn_kernel)kernel;
    return test;
}

// Row counts below, at and above a tile, keys in one tile and in two.
START_TEST(plain_and_causal) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 70}, {3, 19}, {9, 19}, {16, 32}, {20, 70}};
    for (int n = 0; n < 6 * 3; n++) {
        struct test_case test = base("causal", CLATTN_KERNEL_UNFUSED + n % 3);
        test.n_q = sizes[n / 3][0];
        test.n_kv = sizes[n / 3][1];
        test.score.causal = true;
        test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        test.head_dim_v = n / 3 % 2 ? 12 : 5;
        case_assert(&test);
    }
}
END_TEST

START_TEST(every_option) {
    static const int32_t q_lengths[] = {9, 4}, kv_lengths[] = {11, 19};
    for (int kernel = CLATTN_KERNEL_UNFUSED; kernel < CLATTN_KERNEL_COUNT; kernel++) {
        struct test_case test = base("every option", kernel);
        test.batch = 2;
        test.n_q = kernel == CLATTN_KERNEL_DECODE ? 1 : 9;
        test.mask.rank = 2;
        test.bias.rank = 3;
        test.hosts = CASE_HOST_BIT(CASE_ALIBI) | CASE_HOST_BIT(CASE_SINKS);
        test.score.softcap = 3;
        test.score.window = true;
        test.score.window_left = 12;
        test.score.window_right = 5;
        case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        if (test.n_q == 9) case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
        case_assert(&test);
    }
}
END_TEST

// The same, said by expressions where they can say it, and with a block mask.
START_TEST(expressions) {
    for (int kernel = CLATTN_KERNEL_UNFUSED; kernel < CLATTN_KERNEL_COUNT; kernel++) {
        struct test_case test = base("expressions", kernel);
        test.n_q = kernel == CLATTN_KERNEL_DECODE ? 2 : 9, test.n_kv = 70;
        test.mods = true, test.blocks = kernel == CLATTN_KERNEL_FLASH;
        test.bias.rank = 3;
        test.hosts = CASE_HOST_BIT(CASE_ALIBI);
        test.score.window = true, test.score.window_left = 12, test.score.window_right = 5;
        case_assert(&test);
    }
}
END_TEST

static void drop(int kernel) {
    struct test_case test = base("dropout", kernel);
    test.n_q = kernel == CLATTN_KERNEL_DECODE ? 2 : 9, test.n_kv = 70;
    test.splits = kernel == CLATTN_KERNEL_DECODE ? 3 : 0;
    test.score.window = true, test.score.window_left = 50, test.score.window_right = 66;
    test.score.dropout = 0.4f, test.score.dropout_seed = 5;
    case_assert(&test);
}
START_TEST(dropout) {
    drop(CLATTN_KERNEL_UNFUSED);
    drop(CLATTN_KERNEL_FLASH);
}
END_TEST
START_TEST(decode_dropout) {
    drop(CLATTN_KERNEL_DECODE);
}
END_TEST

START_TEST(dropout_mask) {
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL, 4, {2, 2, 3, 19}, LAYOUT_PADDED};
    struct guarded mask = guarded_output(harness_place(), &shape);
    const clattn_dropout_mask_params p = {mask.view, 0.3f, UINT64_C(0xfedcba9876543210)};
    double got[2 * 2 * 3 * 19];
    ck_assert(clattn_dropout_mask_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
              CLATTN_OK);
    ck_assert(guarded_read(&mask, harness()->queue, got));
    for (int x = 0; x < 2 * 2 * 3 * 19; x++)
        ck_assert_int_eq(got[x] != 0,
                         philox_keeps(p.dropout, p.dropout_seed, x / 114, x / 57 % 2, x / 19 % 3, x % 19));
    guarded_release(&mask);
}
END_TEST

// Sequences over a cache or a past, wherever their lengths lie; appended rows; sinks on the device.
START_TEST(sequences_of_caches) {
    static const int32_t rows[] = {9, 0, 1}, keys[] = {18, 3, 12};
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("caches", n == 3 ? CLATTN_KERNEL_UNFUSED : CLATTN_KERNEL_FLASH);
        test.batch = 3, test.n_kv = 18;
        test.ragged = n == 3 ? CASE_RAGGED_GAPS_DEVICE : n ? CASE_RAGGED_CACHE_DEVICE : CASE_RAGGED_CACHE;
        if (n < 2) test.page_size = 6, test.append = 9, test.positions = n == 1;
        if (n >= 2) test.has_past = true, test.past = 12, test.past_count = 3;
        test.past_length[0] = 12, test.past_length[2] = 8, test.rope.layout = CLATTN_ROPE_HALF;
        if (n == 2) test.append = 9, test.past = 9, test.past_length[0] = 9; // behind it
        test.score.causal = true, test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        test.hosts |= CASE_HOST_BIT(CASE_SINKS), test.device_sinks = true;
        case_give(&test, CASE_Q_LENGTHS, 3, rows), case_give(&test, CASE_KV_LENGTHS, 3, keys);
        case_assert(&test);
    }
}
END_TEST

// Sequences of different lengths, one without rows, one without keys, wherever the arrays lie.
START_TEST(packed_sequences) {
    static const int32_t rows[] = {9, 0, 2, 1}, few_rows[] = {2, 0, 2, 1}, keys[] = {19, 3, 0, 12};
    for (int n = 0; n < 6; n++) {
        struct test_case test = base("ragged", CLATTN_KERNEL_UNFUSED + n % 3);
        const bool few = test.kernel == CLATTN_KERNEL_DECODE;
        test.batch = 4, test.n_q = few ? 2 : 9;
        test.ragged = n < 3 ? CASE_RAGGED_GAPS : CASE_RAGGED_DEVICE;
        test.rope.layout = n < 3 ? CLATTN_ROPE_NONE : CLATTN_ROPE_HALF;
        test.score.causal = true;
        test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        test.splits = few ? 2 : 0;
        case_give(&test, CASE_Q_LENGTHS, 4, few ? few_rows : rows);
        case_give(&test, CASE_KV_LENGTHS, 4, keys);
        case_assert(&test);
    }
}
END_TEST

START_TEST(sixteen_bit_types) {
    for (int n = 0; n < 6; n++) {
        struct test_case test = base("16-bit", CLATTN_KERNEL_UNFUSED + n / 2);
        test.n_q = n / 2 == 2 ? 2 : 9;
        test.q_type = test.kv_type = test.out_type = n % 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F16;
        test.layout = LAYOUT_PADDED;
        case_assert(&test);
    }
}
END_TEST

START_TEST(scaled_rows_and_heads) {
    for (int n = 0; n < 3; n++) {
        struct test_case test = base("int8, head scales", CLATTN_KERNEL_UNFUSED + n);
        test.n_q = n == 2 ? 2 : 9;
        test.kv_type = CLATTN_TYPE_I8;
        test.hosts = CASE_HOST_BIT(CASE_HEAD_SCALES);
        test.layout = LAYOUT_PADDED;
        case_assert(&test);
    }
}
END_TEST

START_TEST(outputs_of_unfused) {
    for (clattn_tap tap = CLATTN_TAP_RAW; tap < CLATTN_TAP_COUNT; tap++) {
        struct test_case test = base("taps", CLATTN_KERNEL_UNFUSED);
        test.weights = test.scores = true;
        test.weights_type = tap == CLATTN_TAP_RAW ? CLATTN_TYPE_F16 : CLATTN_TYPE_F32;
        test.scores_at = tap;
        test.score.softcap = 2;
        case_assert(&test);
    }
}
END_TEST

START_TEST(rotary) {
    for (int layout = CLATTN_ROPE_HALF; layout < CLATTN_ROPE_COUNT; layout++) {
        struct test_case test = base("rotary", CLATTN_KERNEL_FLASH);
        test.rope.layout = (clattn_rope_layout)layout;
        test.rope.rotary_dim = layout == CLATTN_ROPE_HALF ? 6 : 0;
        case_assert(&test);
        test.positions = true;
        test.rope.sections[0] = 1, test.rope.sections[1] = layout == CLATTN_ROPE_HALF ? 2 : 3;
        test.append = layout == CLATTN_ROPE_HALF ? 9 : 0;
        case_assert(&test);
    }
}
END_TEST

// Many heads on one, whose v is a view of k or not.
START_TEST(latent_heads) {
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("latent", CLATTN_KERNEL_DECODE);
        test.heads = 6, test.n_q = 3, test.n_kv = 21;
        test.head_dim = 9, test.head_dim_v = 6;
        test.latent = n < 3, test.layout = n == 1 ? LAYOUT_PADDED : LAYOUT_DENSE;
        test.kv_type = n == 2 ? CLATTN_TYPE_I8 : n == 1 ? CLATTN_TYPE_F16 : CLATTN_TYPE_F32;
        test.score.causal = true, test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        case_assert(&test);
    }
}
END_TEST

// Their options, each row's own, and their cache in pages and behind a past.
START_TEST(latent_options) {
    struct test_case test = base("latent options", CLATTN_KERNEL_DECODE);
    test.heads = 6, test.n_q = 3, test.n_kv = 20;
    test.head_dim = 9, test.head_dim_v = 6;
    test.latent = true;
    test.mask.rank = 3, test.bias.rank = 4;
    test.hosts = CASE_HOST_BIT(CASE_ALIBI) | CASE_HOST_BIT(CASE_SINKS) | CASE_HOST_BIT(CASE_HEAD_SCALES);
    test.score.dropout = 0.25f, test.score.dropout_seed = 3;
    case_assert(&test);
    test.page_size = 5, test.mods = true;
    case_assert(&test);
    test.page_size = 0, test.has_past = true, test.past = 13;
    case_assert(&test);
}
END_TEST

// Keys in past rows and new ones, some and none of each, and in pages.
START_TEST(past_and_pages) {
    static const int32_t kv_lengths[] = {19, 7};
    for (int n = 0; n < 6; n++) {
        struct test_case test = base("past, pages", CLATTN_KERNEL_UNFUSED + n / 2);
        test.batch = 2;
        if (n / 2 == 2) test.n_q = 2;
        test.score.causal = true, test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        if (n % 2) {
            test.n_kv = 21, test.page_size = 3;
            case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        } else {
            test.has_past = true, test.past = 19, test.past_count = 2, test.past_length[0] = 11;
            test.n_kv = 24;
        }
        case_assert(&test);
    }
}
END_TEST

// Positions that the cosines have no row of take the first or the last.
START_TEST(rotary_call) {
    static const double far[] = {-5, 0, 3, 99, 1e9};
    const struct guarded_shape x = {CLATTN_TYPE_F32, 4, {1, 2, 5, 8}, LAYOUT_DENSE},
                               rows = {CLATTN_TYPE_F32, 2, {4, 4}, LAYOUT_DENSE},
                               of = {CLATTN_TYPE_I32, 2, {1, 5}, LAYOUT_DENSE};
    const double zeros[80] = {0};
    struct guarded all[] = {guarded_input(harness_place(), &x, zeros), guarded_output(harness_place(), &x),
                            guarded_input(harness_place(), &rows, zeros),
                            guarded_input(harness_place(), &of, far)};
    clattn_rope_params p = {.x = all[0].view, .y = all[1].view, .cos = all[2].view, .sin = all[2].view};
    p.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .positions = all[3].view};
    ck_assert(clattn_rope_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
    p.rope.positions = p.cos = p.sin = (clattn_tensor){0};
    ck_assert(clattn_rope_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
    clFinish(harness()->queue);
    for (int n = 0; n < 4; n++) guarded_release(&all[n]);
}
END_TEST

START_TEST(appended_integers) {
    struct test_case test = base("append, int8", CLATTN_KERNEL_DECODE);
    test.n_q = 2, test.append = 2, test.kv_type = CLATTN_TYPE_I8;
    case_assert(&test);
}
END_TEST

START_TEST(split_decode) {
    struct test_case test = base("split decode", CLATTN_KERNEL_DECODE);
    test.n_q = 1;
    test.n_kv = 64;
    test.splits = 3;
    case_assert(&test);
}
END_TEST

// Of decode: rows below, at and above a pass, keys of no whole block and chunk, rows that are aligned and that are not.
START_TEST(decode_options) {
    static const int32_t q_lengths[] = {3, 1}, kv_lengths[] = {11, 33};
    static const int64_t heads[][2] = {{8, 16}, {16, 8}, {24, 5}, {5, 24}};
    for (int n = 0; n < 8; n++) {
        struct test_case test = base("decode", CLATTN_KERNEL_DECODE);
        test.n_q = n % 4 + 1, test.n_kv = n < 4 ? 40 : 33;
        test.head_dim = heads[n % 4][0], test.head_dim_v = heads[n % 4][1];
        test.score.causal = n % 2, test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        if (n >= 4) {
            test.batch = 2;
            test.n_q = 3, test.splits = n - 4;
            test.mask.rank = 2, test.bias.rank = 3;
            test.hosts = CASE_HOST_BIT(CASE_ALIBI) | CASE_HOST_BIT(CASE_SINKS);
            test.score.window = true, test.score.window_left = 12, test.score.window_right = 5;
            test.score.softcap = 3;
            case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
            case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
        }
        case_assert(&test);
    }
}
END_TEST

START_TEST(decode_types) {
    static const clattn_type types[] = {CLATTN_TYPE_F16, CLATTN_TYPE_BF16, CLATTN_TYPE_I8};
    for (int n = 0; n < 6; n++) {
        struct test_case test = base("decode, 16-bit", CLATTN_KERNEL_DECODE);
        test.n_q = 2;
        test.kv_type = types[n % 3];
        test.q_type = test.out_type = types[n % 3] == CLATTN_TYPE_I8 ? CLATTN_TYPE_F32 : types[n % 3];
        test.layout = n < 3 ? LAYOUT_DENSE : LAYOUT_PADDED;
        case_assert(&test);
    }
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const attention[] = {plain_and_causal,
                                      every_option,
                                      dropout,
                                      dropout_mask,
                                      expressions,
                                      packed_sequences,
                                      sequences_of_caches,
                                      sixteen_bit_types,
                                      scaled_rows_and_heads,
                                      outputs_of_unfused,
                                      rotary,
                                      NULL};
    const TTest *const decode[] = {decode_options, decode_types, past_and_pages, latent_heads,
                                   latent_options, split_decode, decode_dropout, appended_integers,
                                   rotary_call,    NULL};
    Suite *suite = suite_create("small cases");
    harness_set_guard(0);
    if (argc > 1 && strcmp(argv[1], "tiles") == 0) {
        oclgrind_add_tiles(suite);
        return harness_run(suite);
    }
    if (argc < 2 || strcmp(argv[1], "projections") != 0) {
        harness_add(suite, "attention", attention);
        harness_add(suite, "decode", decode);
    }
    oclgrind_add_layers(suite);
    int status = harness_run(suite);
    printf("decode: %d cases were not run\n", case_decode_skipped());
    return status;
}
