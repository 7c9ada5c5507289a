// probe_eights.cl: how fast are products of eight bytes of a key with four rows of q, as in
// decode_groups.cl: as integers by the device's instruction with DOT_I8, else in float32? The host
// compares every number. A whole work-group runs, so that other work-items hide a product's
// latency.
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif
#define LOADS_OF_8 1
#define STORAGE_EIGHTS
#define TYPE_KV 4
#define TYPE_Q 1
#include "base/dots.clh"

#define DIGITS 3
#define KEYS WORK_GROUP // one per work-item

#if DOT_I8
typedef struct row_numbers {
    uint4 low, high;
} row_numbers;
row_numbers numbers_of(float8 x) {
    row_numbers r;
    to_digits_eight(x, 1.0f, &r.low, &r.high);
    return r;
}
float product(__global const char *key, row_numbers q, float scale) {
    return dot_digits(*(__global const uint2 *)key, q.low, q.high, DIGITS) * scale;
}
#else
typedef float8 row_numbers;
row_numbers numbers_of(float8 x) {
    return x;
}
float product(__global const char *key, row_numbers q, float scale) {
    const float8 k = LOAD_EIGHT(STORE_I8, key, 0) * scale;
    const float4 x = fma(q.lo, k.lo, q.hi * k.hi);
    return (x.s0 + x.s1) + (x.s2 + x.s3);
}
#endif

// `words` has two words per key, then four rows of eight float32, then the keys' scale. With rounds
// 0, result[4 * key + row] is a product. Else each work-item adds the products of that many keys.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
probe_eights(__global const uint *words, __global uint *result, int rounds) {
    __global const float *rows = (__global const float *)(words + 2 * KEYS);
    const int item = (int)get_local_id(0);
    const float scale = rows[32];
    const row_numbers a = numbers_of(vload8(0, rows)), b = numbers_of(vload8(1, rows)),
                      c = numbers_of(vload8(2, rows)), d = numbers_of(vload8(3, rows));
    float4 sum = (float4)(0.0f);
    for (int r = 0; r < max(rounds, 1); r++) {
        __global const char *key = (__global const char *)(words + 2 * ((item + r) % KEYS));
        sum += (float4)(product(key, a, scale), product(key, b, scale), product(key, c, scale),
                        product(key, d, scale));
    }
    vstore4(as_uint4(sum), item, result);
}
