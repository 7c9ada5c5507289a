// clblast_parameters.h: the parameters of CLBlast's GEMM kernels as tuned rows name them: which there are, and what its
// kernels can do with them. It knows nothing of CLBlast itself, which compiles wrong programs from others without a word.
#ifndef CLATTN_PLAN_CLBLAST_PARAMETERS_H
#define CLATTN_PLAN_CLBLAST_PARAMETERS_H
#include <stdbool.h>
#include <stdint.h>

enum { CLBLAST_XGEMM, CLBLAST_XGEMM_DIRECT, CLBLAST_ROUTINE, CLBLAST_KERNELS };
#define CLBLAST_MOST_PARAMETERS 16

typedef struct clblast_kernel {
    const char *word;   // in a tuned row
    const char *kernel; // as CLBlast calls it
    int count;
    const char *names[CLBLAST_MOST_PARAMETERS];
} clblast_kernel;

extern const clblast_kernel cla_clblast_kernels[CLBLAST_KERNELS];

// The kernel that a word of a tuned row means; CLBLAST_KERNELS: none.
int cla_clblast_kernel_of(const char *word);
// The number of the parameter of that name; -1: there is none.
int cla_clblast_parameter_of(int kernel, const char *name);

// Why these values, -1 where one was not given, are nothing for the kernel; NULL: they are.
const char *cla_clblast_refusal(int kernel, const int values[CLBLAST_MOST_PARAMETERS]);
// Whether a device with these limits can run it.
bool cla_clblast_fits(int kernel, const int values[CLBLAST_MOST_PARAMETERS], uint64_t work_group,
                      uint64_t local_bytes);
#endif
