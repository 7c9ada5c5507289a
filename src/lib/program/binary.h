// binary.h: what the driver makes of a program: its log, and the program as bytes.
#ifndef CLATTN_PROGRAM_BINARY_H
#define CLATTN_PROGRAM_BINARY_H
#include "program/program.h"

// The build log, which may be long, whole; which cla_host_release takes back; NULL where there is none.
char *cla_binary_log(const clattn_context *c, cl_program built);

// clBuildProgram for the context's device, and once more where the compiler fails without naming an error. PoCL's compilers in several
// processes, such as ranks on one machine, write to one cache, and about one in a thousand of them fails so; the second passes
// (https://github.com/pocl/pocl/issues/1480).
cl_int cla_binary_build(const clattn_context *c, cl_program built, const char *options);

// The binary for the context's device, which the caller releases with cla_host_release; NULL where there is none.
unsigned char *cla_binary_of(const clattn_context *c, cl_program built, size_t *bytes);

// PTX text with another target, and with what was hidden, of one byte more and ended by a zero, for the caller to release; NULL where it
// is none of that kind. A part of cla_binary_unhide.
char *cla_binary_shown(const clattn_context *c, const unsigned char *binary, size_t bytes);

// Instructions of one generation of NVIDIA's alone (wgmma) are assembled only for a target with an `a` behind its number, and the
// driver compiles OpenCL C for the one without. Where the options name such an engine, kernels have them in comments that begin
// with FRAGMENT_HIDDEN of args.h: the driver's binary, which is PTX text, gets the other target and loses the marks, and becomes
// the program in place of *built. OpenCL's error where that fails: the probe of the engine then fails, and nobody takes it.
cl_int cla_binary_unhide(const clattn_context *c, const char *options, cl_program *built);
#endif
