// tile_trap.h: x86's tile instructions on a CPU without them: each one is an illegal instruction
// there, whose signal is caught, and what it should do is done. So that kernels with AMX run, and
// are compared with the reference, anywhere on Linux and x86-64; a thousand times slower than an
// engine, and no word about its speed. Leaves out products of unsigned bytes and of float16, and
// every fault that an instruction may have but one: a tile that is used before tiles are
// configured.
#ifndef CLATTN_TESTS_TILE_TRAP_H
#define CLATTN_TESTS_TILE_TRAP_H
#include <stdbool.h>

// From now on, in every thread. False: not on this system.
bool tile_trap_set(void);
// Products of bfloat16, and of signed bytes, that were trapped so far; 0 where the CPU has done
// them itself.
long tile_trap_products(void);
long tile_trap_byte_products(void);
#endif
