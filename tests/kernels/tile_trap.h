// tile_trap.h: emulates x86's tile instructions on a CPU without them. Each is an illegal
// instruction there; a signal handler computes its result. So kernels with AMX run, and are
// compared with the reference, on any Linux machine with x86-64, a thousand times slower than on an
// engine. Products of unsigned bytes and of float16 are not emulated, and only one fault is: a tile
// that is used before tiles are configured.
#ifndef CLATTN_TESTS_TILE_TRAP_H
#define CLATTN_TESTS_TILE_TRAP_H
#include <stdbool.h>

// From now on, in every thread. False: impossible on this system.
bool tile_trap_set(void);
// Trapped products of bfloat16, and of signed bytes, so far; 0 if the CPU has the instructions.
long tile_trap_products(void);
long tile_trap_byte_products(void);
#endif
