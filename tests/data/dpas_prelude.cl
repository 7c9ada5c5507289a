// dpas_prelude.cl: follows ptx_prelude.cl. Intel's functions in the kernels of check_ptx.py, for
// sub-groups of SUB_GROUP work-items [cl_intel_subgroups,
// cl_intel_subgroup_matrix_multiply_accumulate]. The product is an instruction that does not exist;
// ptx_dpas.py executes it.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define get_sub_group_local_id() ((uint)get_local_id(0) % SUB_GROUP)
#define get_sub_group_id() ((uint)get_local_id(0) / SUB_GROUP)
float OWN native_exp2(float x) {
    return __nvvm_ex2_approx_f(x);
}
half2 OWN convert_half2(float2 x) {
    return (half2)((half)x.x, (half)x.y);
}
#define LIST_8(constraint, x)                                                                                \
    constraint((x).s0), constraint((x).s1), constraint((x).s2), constraint((x).s3), constraint((x).s4),      \
        constraint((x).s5), constraint((x).s6), constraint((x).s7)
#define DEFINE_MAD(type, a_type, constraint)                                                                 \
    float8 __attribute__((overloadable, always_inline, convergent))                                          \
    intel_sub_group_##type##_##type##_matrix_mad_k16(a_type a, int8 b, float8 sums) {                        \
        __asm__ volatile("dpas." #type " {%0, %1, %2, %3, %4, %5, %6, %7}, "                                 \
                         "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23};" \
                         : LIST_8("+f", sums)                                                                \
                         : LIST_8(constraint, a), LIST_8("r", b));                                           \
        return sums;                                                                                         \
    }
#if SUB_GROUP == 16
DEFINE_MAD(f16, short8, "h")
DEFINE_MAD(bf16, short8, "h")
#else
DEFINE_MAD(f16, int8, "r")
DEFINE_MAD(bf16, int8, "r")
#endif
// Block reads of local memory, if cl_intel_subgroup_local_block_io is defined: number i of all
// work-items are contiguous [cl_intel_subgroups_short].
#define DEFINE_BLOCK_READ(name, type)                                                                        \
    type##8 __attribute__((overloadable, always_inline))                                                     \
    intel_sub_group_block_read##name(__local const type *p) {                                                \
        p += get_sub_group_local_id();                                                                       \
        return (type##8)(p[0], p[SUB_GROUP], p[2 * SUB_GROUP], p[3 * SUB_GROUP], p[4 * SUB_GROUP],           \
                         p[5 * SUB_GROUP], p[6 * SUB_GROUP], p[7 * SUB_GROUP]);                              \
    }
DEFINE_BLOCK_READ(8, uint)
DEFINE_BLOCK_READ(_us8, ushort)
#pragma OPENCL EXTENSION cl_khr_fp16 : disable
