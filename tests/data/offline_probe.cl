// offline_probe.cl: checks the counts of check_offline.sh. Has a private array that no compiler
// keeps in registers, and a loop with at least 75 % multiply-adds.
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
offline_probe(__global float *x, __global const int *at, const int n) {
    __global float *y = x + get_global_id(0);
    __global const int *mine = at + get_global_id(0);
#ifdef PROBE_SCRATCH
    float a[256];
    for (int i = 0; i < 256; i++) a[i] = y[i * n];
    for (int i = 0; i < n; i++) a[mine[i] & 255] += a[mine[i + 1] & 255];
    *y = a[mine[n] & 255];
#else
    float4 a = vload4(0, y), b = vload4(1, y), c = vload4(2, y), d = vload4(3, y);
    for (int i = 0; i < n; i++) {
        const float4 f = a, g = b;
        a = fma(f, g, c), b = fma(f, g, d), c = fma(a, g, d), d = fma(b, f, c);
        a = fma(a, c, d), b = fma(b, d, c), c = fma(c, a, b), d = fma(d, b, a);
    }
    vstore4(a + b + c + d, 0, y);
#endif
}
