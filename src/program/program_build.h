// program_build.h: the two slow halves of a program: making it, and keeping its binary. Used by program.c alone.
#ifndef CLATTN_PROGRAM_PROGRAM_BUILD_H
#define CLATTN_PROGRAM_PROGRAM_BUILD_H
#include "program/program.h"

// Compile p->spec or load it, and make the kernel object. *cached: it came from the cache.
clattn_status cla_program_build(clattn_context *context, program *p, bool *cached, uint64_t *time_ns);

// Keep the binary in the cache, where the context has one.
void cla_program_store(clattn_context *context, cl_program built, const uint8_t key[32]);
#endif
