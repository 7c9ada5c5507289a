// probe_assembly.cl: does the device's compiler accept instructions beyond OpenCL C? The survey
// (src/lib/probe/survey.c) runs it before any other kernel with such instructions. Some compilers
// crash the process here.
#ifndef ASSEMBLY
#define ASSEMBLY 0 // CLATTN_ASSEMBLY_... of the public header
#endif

// result[0] = words[0] + rounds + 3.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
probe_assembly(__global const uint *words, __global uint *result, int rounds) {
    uint x = words[0] + (uint)rounds;
#if ASSEMBLY == 1
    __asm__ volatile("addl $3, %0" : "+r"(x));
#elif ASSEMBLY == 2
    __asm__ volatile("add.u32 %0, %0, 3;" : "+r"(x));
#elif ASSEMBLY == 4
    x = __builtin_amdgcn_readfirstlane(x) + 3;
#else
    x += 3;
#endif
    result[0] = x;
}
