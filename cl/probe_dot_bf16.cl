// probe_dot_bf16.cl: does the device's compiler take x86's bfloat16 instructions, and do they compute what they should?
// Built and run once per context before a kernel with DOT_BF16 is chosen; the host compares every number.
#define LANES 16
#include "lanes.clh"

// out[0..16): a[2i]*b[2i] + a[2i+1]*b[2i+1]; out[16..32): the floats x and y as bfloat16 pairs (x low, y high).
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
probe_dot_bf16(__global const uint *a, __global const uint *b, __global const float *x,
               __global const float *y, __global uint *out) {
    float16 sum = (float16)(0.0f);
    const uint16 pa = vload16(0, a), pb = vload16(0, b);
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(pa), "v"(pb));
    vstore16(as_uint16(sum), 0, out);

    const float16 lo = vload16(0, x), hi = vload16(0, y);
    uint16 words, pairs;
    // Word 2i is word i of x, word 2i+1 is word i of y.
    const uint16 zip = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (uint16)(16u << 16) +
                       ((uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) << 16);
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(words) : "v"(hi), "v"(lo));
    __asm__("vpermw %2, %1, %0" : "=v"(pairs) : "v"(zip), "v"(words));
    vstore16(pairs, 1, out);
}
