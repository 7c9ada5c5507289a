// clblast_parameters.h: the parameters of CLBlast's GEMM kernels that tuned rows may set, and which
// values are valid. CLBlast does not check them: with invalid values it silently compiles wrong
// programs. This file does not depend on CLBlast.
#ifndef CLATTN_PLAN_CLBLAST_PARAMETERS_H
#define CLATTN_PLAN_CLBLAST_PARAMETERS_H
#include <stdbool.h>
#include <stdint.h>

enum { CLBLAST_XGEMM, CLBLAST_XGEMM_DIRECT, CLBLAST_ROUTINE, CLBLAST_KERNELS };
#define CLBLAST_MOST_PARAMETERS 16

typedef struct clblast_kernel {
    const char *word;   // the kernel's word in a tuned row
    const char *kernel; // CLBlast's name
    int count;
    const char *names[CLBLAST_MOST_PARAMETERS];
} clblast_kernel;

extern const clblast_kernel cla_clblast_kernels[CLBLAST_KERNELS];

// Index of the kernel that this word of a tuned row names; CLBLAST_KERNELS: none.
int cla_clblast_kernel_of(const char *word);
// Index of the parameter with this name; -1: none.
int cla_clblast_parameter_of(int kernel, const char *name);

// Why the kernel cannot use these values (-1: not set); NULL: it can.
const char *cla_clblast_refusal(int kernel, const int values[CLBLAST_MOST_PARAMETERS]);
// True if a device with these limits can run the kernel.
bool cla_clblast_fits(int kernel, const int values[CLBLAST_MOST_PARAMETERS], uint64_t work_group,
                      uint64_t local_bytes);
#endif
