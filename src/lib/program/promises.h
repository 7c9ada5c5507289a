// promises.h: guarantees of OpenCL that some drivers break. One small kernel (probe_promises.cl)
// tests the driver.
#ifndef CLATTN_PROGRAM_PROMISES_H
#define CLATTN_PROGRAM_PROMISES_H
#include "program/program.h"

// get_global_id and get_global_offset include a launch's global offset exactly once.
#define PROMISE_OFFSETS 1u
// float16 and float8 numbers are converted exactly, including subnormal ones.
#define PROMISE_HALVES 2u
// A struct of 528 bytes, and arguments after it, reach the kernel unchanged.
#define PROMISE_STRUCTS 4u

// The promises that the driver breaks, or-ed. The first call compiles and runs the kernel, or loads
// the result from the cache folder. If the kernel cannot run, the result is 0. Thread-safe: two
// threads may both run the kernel.
unsigned cla_promises_broken(clattn_context *context);

// True if a program with these knobs converts float16 or float8 numbers.
bool cla_promises_matter(const knobs *k);

// The option for programs whose driver converts float16 numbers wrongly.
#define PROMISE_HALVES_OPTION " -DHALF_BY_BITS"
extern const char cla_promises_halves[]; // source text that is prepended with that option
#endif
