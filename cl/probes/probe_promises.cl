// probe_promises.cl: does the driver do what OpenCL requires? Some do not. It runs once per device
// (src/lib/program/promises.c): 16 work-items in a grid of 4 x 2 x 2 with an offset. Each stores
// its index, converts its part of float16 and float8 numbers, and copies its part of the structs
// that follow two buffers, as in every kernel.
#include "args/promises.h"
#include "base/common.clh"

#define NUMBERS                                                                                              \
    (PROMISE_NUMBERS / PROMISE_ITEMS) // per work-item, a quarter each by vectors of 1, 4, 8 and 16
#define QUARTER (NUMBERS / 4)
#define CODES (256 / PROMISE_ITEMS)

#define CONVERT_HALVES(n, quarter)                                                                           \
    for (int i = (quarter)*QUARTER; i < ((quarter) + 1) * QUARTER; i += n) {                                 \
        const ushort##n bits = vload##n(0, from + i);                                                        \
        const float##n x = HALVES(n, bits);                                                                  \
        vstore##n(as_uint##n(x), 0, to + i);                                                                 \
        STORE_HALVES(n, x, (__global half *)(back + i));                                                     \
    }

void convert_halves(__global const ushort *from, __global uint *to, __global ushort *back) {
    for (int i = 0; i < QUARTER; i++) {
        const float x = LOAD_HALF((__global const half *)from, i);
        to[i] = as_uint(x);
        STORE_HALF(x, i, (__global half *)back);
    }
    CONVERT_HALVES(4, 1)
    CONVERT_HALVES(8, 2)
    CONVERT_HALVES(16, 3)
}

__kernel __attribute__((reqd_work_group_size(2, 1, 1))) void
probe_promises(__global const ushort *halves, __global promise_results *result, const attention_args large,
               const dropout_args small, const int last) {
    const int item = (int)get_group_id(0) * 2 + (int)get_local_id(0) +
                     4 * ((int)get_group_id(1) + 2 * (int)get_group_id(2));
    if (item < 0 || item >= PROMISE_ITEMS) return;
    result->places[item] = (uint)get_global_id(0) | (uint)get_global_id(1) << 8 |
                           (uint)get_global_id(2) << 16 |
                           (uint)(get_global_offset(0) + get_global_offset(1) + get_global_offset(2)) << 24;
    convert_halves(halves + item * NUMBERS, result->halves + item * NUMBERS, result->back + item * NUMBERS);
    for (int i = 0; i < CODES; i++) {
        __global uchar *code = &result->codes[item * CODES + i];
        *code = (uchar)halves[item * CODES + i]; // the first halves are 0 to 255
        result->e4m3[item * CODES + i] = as_uint(load_6(code, 0));
        result->e5m2[item * CODES + i] = as_uint(load_7(code, 0));
    }
    if (item == 0) result->large = large, result->small = small, result->last = last;
}
