// ptx_prelude.cl: the functions of OpenCL C that the kernels of check_ptx.py call, for a clang that
// only declares them. libclc, which has them for NVIDIA, is not installed for the tests.
#define OWN __attribute__((overloadable, const, always_inline))
#define SREG(name, d)                                                                                        \
    ((d) == 0   ? __nvvm_read_ptx_sreg_##name##_x()                                                          \
     : (d) == 1 ? __nvvm_read_ptx_sreg_##name##_y()                                                          \
                : __nvvm_read_ptx_sreg_##name##_z())
size_t OWN get_local_id(uint d) {
    return SREG(tid, d);
}
size_t OWN get_group_id(uint d) {
    return SREG(ctaid, d);
}
size_t OWN get_num_groups(uint d) {
    return SREG(nctaid, d);
}
size_t OWN get_global_offset(uint d) {
    (void)d;
    return 0;
}
size_t OWN get_global_id(uint d) {
    return SREG(ctaid, d) * (size_t)SREG(ntid, d) + SREG(tid, d);
}
void __attribute__((overloadable, always_inline, convergent)) barrier(cl_mem_fence_flags flags) {
    (void)flags;
    __syncthreads();
}
float OWN fabs(float x) {
    return __builtin_fabsf(x);
}
float OWN fmax(float x, float y) {
    return __builtin_fmaxf(x, y);
}
float OWN exp2(float x) {
    return __nvvm_ex2_approx_f(x);
}
float OWN fmin(float x, float y) {
    return __builtin_fminf(x, y);
}
float OWN fma(float x, float y, float z) {
    return __builtin_fmaf(x, y, z);
}
float4 OWN fma(float4 x, float4 y, float4 z) {
    return (float4)(fma(x.s0, y.s0, z.s0), fma(x.s1, y.s1, z.s1), fma(x.s2, y.s2, z.s2),
                    fma(x.s3, y.s3, z.s3));
}
float8 OWN fma(float8 x, float8 y, float8 z) {
    return (float8)(fma(x.lo, y.lo, z.lo), fma(x.hi, y.hi, z.hi));
}
float8 __attribute__((overloadable, always_inline)) vload8(size_t i, __global const float *p) {
    p += 8 * i;
    return (float8)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}
void __attribute__((overloadable, always_inline)) vstore8(float8 x, size_t i, __local float *p) {
    p += 8 * i;
    p[0] = x.s0, p[1] = x.s1, p[2] = x.s2, p[3] = x.s3, p[4] = x.s4, p[5] = x.s5, p[6] = x.s6, p[7] = x.s7;
}
void __attribute__((overloadable, always_inline)) vstore4(uint4 x, size_t i, __global uint *p) {
    p += 4 * i;
    p[0] = x.s0, p[1] = x.s1, p[2] = x.s2, p[3] = x.s3;
}
float OWN exp(float x) {
    return __nvvm_ex2_approx_f(x * 1.44269504f);
}
float OWN log(float x) {
    return __nvvm_lg2_approx_f(x) * 0.693147181f;
}
int OWN isnan(float x) {
    return x != x;
}
int OWN isinf(float x) {
    return __builtin_fabsf(x) == INFINITY;
}
int OWN max(int x, int y) {
    return x > y ? x : y;
}
int OWN min(int x, int y) {
    return x < y ? x : y;
}
uint OWN max(uint x, uint y) {
    return x > y ? x : y;
}
uint OWN min(uint x, uint y) {
    return x < y ? x : y;
}
long OWN min(long x, long y) {
    return x < y ? x : y;
}
int OWN clamp(int x, int least, int most) {
    return min(max(x, least), most);
}
long OWN clamp(long x, long least, long most) {
    return min(x < least ? least : x, most);
}
int OWN any(int4 x) {
    return (x.x | x.y | x.z | x.w) < 0;
}
uint4 OWN select(uint4 x, uint4 y, int4 takes_y) {
    return takes_y < 0 ? y : x;
}
float4 OWN select(float4 x, float4 y, int4 takes_y) {
    return takes_y < 0 ? y : x;
}
float8 OWN select(float8 x, float8 y, int8 takes_y) {
    return takes_y < 0 ? y : x;
}
float4 OWN convert_float4(char4 x) {
    return __builtin_convertvector(x, float4);
}
float4 OWN convert_float4(int4 x) {
    return __builtin_convertvector(x, float4);
}
float8 OWN convert_float8(int8 x) {
    return __builtin_convertvector(x, float8);
}
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
float __attribute__((overloadable, always_inline)) vload_half(size_t i, const half *p) {
    return p[i];
}
float __attribute__((overloadable, always_inline)) vload_half(size_t i, __global const half *p) {
    return p[i];
}
void __attribute__((overloadable, always_inline)) vstore_half_rte(float x, size_t i, __global half *p) {
    p[i] = (half)x;
}
#pragma OPENCL EXTENSION cl_khr_fp16 : disable
