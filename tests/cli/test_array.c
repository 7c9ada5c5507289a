/* Host tensors: overflowing sizes, and conversion between 16-bit and 8-bit types and float32. Pure
 * C. */
#include "support/run_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "verification/reference/storage.h"
#include "cli/files/array.h"

/* Every 16-bit number survives conversion to float32 and back. A NaN comes back quiet. */
START_TEST(halves_survive_the_round_trip) {
    int wrong = 0;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t bits = (uint16_t)h;
        bool half_nan = (h & 0x7fff) > 0x7c00, bfloat_nan = (h & 0x7fff) > 0x7f80;
        wrong += array_f16_from_f32(array_f32_from_f16(bits)) != (half_nan ? h | 0x200 : h);
        wrong += array_bf16_from_f32(array_f32_from_bf16(bits)) != (bfloat_nan ? h | 0x40 : h);
    }
    ck_assert_int_eq(wrong, 0);
    ck_assert(array_f32_from_f16(0x3c00) == 1.0f && array_f32_from_f16(0xc000) == -2.0f);
    ck_assert(array_f32_from_f16(1) == 0x1p-24f && array_f32_from_f16(0x7bff) == 65504.0f);
    ck_assert(signbit(array_f32_from_f16(0x8000)) && array_f32_from_f16(0xfc00) == -INFINITY);
}
END_TEST

/* Between two neighbouring 16-bit numbers, the middle rounds to even, and other values to the
 * nearer one. */
static int wrong_between(uint16_t (*to)(float), uint16_t low, float low_value, float high_value) {
    float middle = (float)(((double)low_value + high_value) / 2);
    unsigned even = low % 2 ? low + 1u : low;
    return (to(middle) != even) + (to(nextafterf(middle, 0)) != low) +
           (to(nextafterf(middle, INFINITY)) != low + 1u) + (to(-middle) != (0x8000u | even));
}

START_TEST(rounding_is_to_nearest_even) {
    int wrong = 0;
    for (uint16_t h = 0; h < 0x7bff; h++)
        wrong += wrong_between(array_f16_from_f32, h, array_f32_from_f16(h),
                               array_f32_from_f16((uint16_t)(h + 1)));
    wrong += wrong_between(array_f16_from_f32, 0x7bff, 65504.0f, 65536.0f);
    for (uint16_t h = 0; h < 0x7f7f; h++)
        wrong += wrong_between(array_bf16_from_f32, h, array_f32_from_bf16(h),
                               array_f32_from_bf16((uint16_t)(h + 1)));
    ck_assert_int_eq(wrong, 0);
    ck_assert_uint_eq(array_bf16_from_f32(3.4028235e38f), 0x7f80);
    ck_assert_uint_eq(array_f16_from_f32(-INFINITY), 0xfc00);
    ck_assert_uint_eq(array_f16_from_f32(0x1p-149f), 0);
    ck_assert(isnan(array_f32_from_f16(array_f16_from_f32(NAN))));
    ck_assert(isnan(array_f32_from_bf16(array_bf16_from_f32(-NAN))));
}
END_TEST

/* Every float8 and i8 value must match the library's reference. */
START_TEST(eight_bits_are_exact) {
    static const struct {
        array_type type;
        clattn_type of;
    } rows[] = {
        {ARRAY_I8, CLATTN_TYPE_I8}, {ARRAY_F8E4M3, CLATTN_TYPE_F8E4M3}, {ARRAY_F8E5M2, CLATTN_TYPE_F8E5M2}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        array a;
        float *values;
        int numbers = 0;
        ck_assert(array_create(&a, rows[r].type, 1, (int64_t[]){256}));
        for (int b = 0; b < 256; b++) ((unsigned char *)a.data)[b] = (unsigned char)b;
        ck_assert(array_to_f32(&a, &values));
        for (int b = 0; b < 256; b++) {
            const double want = storage_load(rows[r].of, a.data, b);
            numbers += !isnan(want);
            ck_assert(isnan(want) ? isnan(values[b]) : (double)values[b] == want);
        }
        ck_assert_int_ge(numbers, 250);
        free(values);
        array_free(&a);
    }
}
END_TEST

START_TEST(measure_refuses_what_overflows) {
    const int64_t huge[] = {INT64_C(1) << 62, 4}, none[] = {0, (int64_t)(SIZE_MAX / 4 + 1), 4},
                  negative[] = {2, -1};
    size_t bytes = 1;
    ck_assert(!array_measure(ARRAY_BOOL, 2, huge, &bytes));
    ck_assert(!array_measure(ARRAY_BOOL, 3, none, &bytes));
    ck_assert(!array_measure(ARRAY_F32, 2, negative, &bytes));
    ck_assert(!array_measure(ARRAY_F32, 9, none, &bytes));
    ck_assert(!array_measure(ARRAY_TYPE_COUNT, 0, none, &bytes));
    ck_assert(array_measure(ARRAY_I64, 0, NULL, &bytes) && bytes == 8);
    ck_assert(array_measure(ARRAY_BOOL, 2, none, &bytes) && bytes == 0);
}
END_TEST

START_TEST(conversion_follows_the_type) {
    uint16_t words[] = {0x3c00, 0xc000};
    const float expected[][2] = {{1, -2}, {0.0078125f, -2}, {15360, 49152}};
    const array_type as[] = {ARRAY_F16, ARRAY_BF16, ARRAY_U16};
    array a = {.rank = 1, .shape = {2}, .data = words, .bytes = sizeof words}, back;
    for (int t = 0; t < 3; t++) {
        float *values = NULL;
        a.type = as[t];
        ck_assert(array_to_f32(&a, &values));
        ck_assert(values[0] == expected[t][0] && values[1] == expected[t][1]);
        ck_assert_int_eq(array_from_f32(&a, values, a.type, &back), t < 2);
        if (t < 2) ck_assert_mem_eq(back.data, words, sizeof words);
        array_free(&back);
        free(values);
    }
    char text[128];
    ck_assert_str_eq(array_shape_text(&a, text), "[2]");
    a.rank = 0;
    ck_assert_str_eq(array_shape_text(&a, text), "[]");
    ck_assert_str_eq(array_type_name(ARRAY_TYPE_COUNT), "unknown");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("array");
    TCase *group = tcase_create("array");
    tcase_add_test(group, halves_survive_the_round_trip);
    tcase_add_test(group, rounding_is_to_nearest_even);
    tcase_add_test(group, eight_bits_are_exact);
    tcase_add_test(group, measure_refuses_what_overflows);
    tcase_add_test(group, conversion_follows_the_type);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
