// promises.h: what OpenCL promises and some drivers do not keep, asked of the driver itself by one small kernel (probe_promises.cl).
#ifndef CLATTN_PROGRAM_PROMISES_H
#define CLATTN_PROGRAM_PROMISES_H
#include "program/program.h"

#define PROMISE_OFFSETS 1u // an offset of a launch's grid counts once, in get_global_id and get_global_offset
#define PROMISE_HALVES 2u  // float16 and float8 numbers are converted exactly, subnormal ones, too
#define PROMISE_STRUCTS 4u // arguments after a struct of 528 bytes, and the struct, arrive as they were set

// The promises that the driver breaks. The first call compiles and runs the kernel, or reads the answer from the cache folder. A driver
// that cannot run the kernel breaks none. Threads: any; two that ask at once may both run it.
unsigned cla_promises_broken(clattn_context *context);

// Whether a program with these knobs converts float16 or float8 numbers.
bool cla_promises_matter(const knobs *k);

// The option of a program whose driver converts float16 numbers wrong.
#define PROMISE_HALVES_OPTION " -DHALF_BY_BITS"
extern const char cla_promises_halves[]; // the text in front of it
#endif
