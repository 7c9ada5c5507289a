// binary.h: the results of a driver's build: its log, and the program's binary.
#ifndef CLATTN_PROGRAM_BINARY_H
#define CLATTN_PROGRAM_BINARY_H
#include "program/program.h"

// The whole build log. The caller releases it with cla_host_release. NULL if there is none.
char *cla_binary_log(const clattn_context *c, cl_program built);

// clBuildProgram for the context's device. Builds a second time if the compiler fails without
// naming an error. About one build in a thousand fails so when several processes, such as MPI
// ranks, write to PoCL's cache (https://github.com/pocl/pocl/issues/1480).
cl_int cla_binary_build(const clattn_context *c, cl_program built, const char *options);

// The binary for the context's device. The caller releases it with cla_host_release. NULL if there
// is none.
unsigned char *cla_binary_of(const clattn_context *c, cl_program built, size_t *bytes);

// Part of cla_ptx_enable_wgmma: returns a copy of PTX text with its target sm_NN changed to sm_NNa
// and without FRAGMENT_HIDDEN marks, NUL-terminated. The caller releases it. NULL if `binary` is
// not such text.
char *cla_ptx_patch_target(const clattn_context *c, const unsigned char *binary, size_t bytes);

// NVIDIA's compiler rejects wgmma for its default target. Kernels emit wgmma as comments that begin
// with FRAGMENT_HIDDEN (args.h). If the options select such an engine, this function edits the PTX:
// it sets the target to sm_90a, uncomments the instructions, and replaces *built. On an OpenCL
// error the engine's probe fails, and no plan uses the engine.
cl_int cla_ptx_enable_wgmma(const clattn_context *c, const char *options, cl_program *built);
#endif
