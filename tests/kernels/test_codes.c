// test_codes.c: every finite code of float8, and subnormal float16 numbers of either sign, are
// loaded exactly. Each number is the value of a key that has the whole weight. So the result is
// this number. check_drivers.sh also runs the suite on a driver that flushes subnormal numbers
// (cl_layer/drivers/mali.driver).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/harness.h"

enum { HEADS = 4, WIDTH = 64, CODES = HEADS * WIDTH };

// The number of a code: sign, exponent, `mantissa` bits.
static double number(int code, int sign, int mantissa, int bias) {
    const int size = code & (sign - 1), exponent = size >> mantissa, fraction = size & ((1 << mantissa) - 1);
    const double x = exponent ? ldexp(fraction + (1 << mantissa), exponent - bias - mantissa)
                              : ldexp(fraction, 1 - bias - mantissa);
    return code & sign ? -x : x;
}

static double value_of(clattn_type type, int code) {
    if (type == CLATTN_TYPE_F16) return number((code & 1 ? 0x8000 : 0) | (code * 4 + 1), 0x8000, 10, 15);
    if (type == CLATTN_TYPE_F8E4M3) return (code & 0x7f) == 0x7f ? 0.0 : number(code, 0x80, 3, 7);
    return (code & 0x7f) >= 0x7c ? 0.0 : number(code, 0x80, 2, 15);
}

static const struct {
    clattn_type type, out;
    clattn_kernel kernel;
} calls[] = {
    {CLATTN_TYPE_F16, CLATTN_TYPE_F16, CLATTN_KERNEL_AUTO},
    {CLATTN_TYPE_F16, CLATTN_TYPE_F32, CLATTN_KERNEL_UNFUSED},
    {CLATTN_TYPE_F8E4M3, CLATTN_TYPE_F32, CLATTN_KERNEL_AUTO},
    {CLATTN_TYPE_F8E5M2, CLATTN_TYPE_F32, CLATTN_KERNEL_FLASH},
};

START_TEST(come_out) {
    const clattn_type type = calls[_i].type;
    struct place *place = harness_place();
    double values[CODES], got[CODES], ones[HEADS] = {1, 1, 1, 1};
    for (int i = 0; i < CODES; i++) values[i] = value_of(type, i);
    const struct guarded_shape row = {type, 4, {1, HEADS, 1, WIDTH}, LAYOUT_DENSE},
                               scale = {CLATTN_TYPE_F32, 3, {1, HEADS, 1}, LAYOUT_DENSE};
    struct guarded_shape query = row, result = row;
    query.type = type == CLATTN_TYPE_F16 ? type : CLATTN_TYPE_F32, result.type = calls[_i].out;
    struct guarded q = guarded_input(place, &query, values), kv = guarded_input(place, &row, values),
                   out = guarded_output(place, &result), scales = guarded_input(place, &scale, ones);
    clattn_attention_params p = {
        .q = q.view, .kv = {.k = kv.view, .v = kv.view}, .out = out.view, .kernel = calls[_i].kernel};
    if (type != CLATTN_TYPE_F16) p.kv.k_scale = p.kv.v_scale = scales.view;
    ck_assert_msg(clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
                      CLATTN_OK,
                  "%s", harness_log_text());
    ck_assert(guarded_read(&out, harness()->queue, got));
    for (int i = 0; i < CODES; i++)
        ck_assert_msg(got[i] == values[i], "call %d: code %d: %g in place of %g", _i, i, got[i], values[i]);
    guarded_release(&q), guarded_release(&kv), guarded_release(&out), guarded_release(&scales);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("codes");
    TCase *group = harness_add(suite, "codes", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, come_out, 0, sizeof calls / sizeof calls[0]);
    return harness_run(suite);
}
