// tile_trap.c: see tile_trap.h.
#define _GNU_SOURCE
#include "kernels/tile_trap.h"

#if defined(__linux__) && defined(__x86_64__) && defined(__LP64__)
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { ROW_BYTES = 64, ROWS = 16, TILES = 8 };

// A thread's state of the engine.
static _Thread_local struct {
    bool configured;
    int rows[TILES], bytes[TILES]; // rows of a tile, and bytes of one row
    unsigned char data[TILES][ROWS][ROW_BYTES];
} engine;
static atomic_long products, byte_products;

// An instruction: Intel's Software Developer's Manual, volume 2, sections 2.1.5 (ModR/M, SIB) and
// 2.3.5 (VEX).
typedef struct instruction {
    int opcode, prefix, reg, rm, third; // prefix: 0 none, 2 F3, 3 F2; third: VEX.vvvv
    bool memory;
    unsigned char *address;
    int64_t stride;
    int length;
} instruction;

static int64_t register_of(const ucontext_t *u, int number) {
    static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return u->uc_mcontext.gregs[places[number]];
}

static bool decode_memory(const ucontext_t *u, const unsigned char *at, instruction *i) {
    const int mod = at[4] >> 6, high_index = (~at[1] >> 6 & 1) << 3, high_base = (~at[1] >> 5 & 1) << 3;
    int base = at[4] & 7, index = 4, scale = 0, next = 5;
    int64_t offset = 0;
    if (base == 4) base = at[5] & 7, index = (at[5] >> 3 & 7) | high_index, scale = at[5] >> 6, next = 6;
    if (mod == 0 && base == 5) return false; // no base, or relative to the instruction
    if (mod == 1) offset = (int8_t)at[next];
    if (mod == 2) {
        int32_t wide;
        memcpy(&wide, at + next, sizeof wide);
        offset = wide;
    }
    i->length = next + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
    i->stride = index == 4 ? 0 : register_of(u, index) * ((int64_t)1 << scale);
    i->address = (unsigned char *)(intptr_t)(register_of(u, base | high_base) + offset);
    return true;
}

static bool decode(const ucontext_t *u, instruction *i) {
    const unsigned char *at = (const unsigned char *)(intptr_t)u->uc_mcontext.gregs[REG_RIP];
    // Three bytes of VEX, the map 0F38, W0, 128 bits.
    if (at[0] != 0xc4 || (at[1] & 31) != 2 || (at[2] & 0x84) != 0) return false;
    *i = (instruction){
        .opcode = at[3], .prefix = at[2] & 3, .reg = at[4] >> 3 & 7, .rm = at[4] & 7, .length = 5};
    i->third = ~(at[2] >> 3) & 7;
    i->memory = at[4] >> 6 != 3;
    return !i->memory || decode_memory(u, at, i);
}

static void configure(const unsigned char *from) {
    memset(&engine, 0, sizeof engine);
    engine.configured = from[0] == 1;
    for (int t = 0; t < TILES; t++)
        engine.bytes[t] = from[16 + 2 * t] | from[17 + 2 * t] << 8, engine.rows[t] = from[48 + t];
}

static void load(const instruction *i) {
    memset(engine.data[i->reg], 0, sizeof engine.data[i->reg]);
    for (int r = 0; r < engine.rows[i->reg]; r++)
        memcpy(engine.data[i->reg][r], i->address + r * i->stride, (size_t)engine.bytes[i->reg]);
}
static void store(const instruction *i) {
    for (int r = 0; r < engine.rows[i->reg]; r++)
        memcpy(i->address + r * i->stride, engine.data[i->reg][r], (size_t)engine.bytes[i->reg]);
}

// Subnormal inputs and outputs are 0.
static float flushed(float x) {
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}
static float number(const unsigned char *row, int n) {
    const uint32_t bits = (uint32_t)row[2 * n + 1] << 24 | (uint32_t)row[2 * n] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return flushed(x);
}

// TDPBF16PS: even and odd numbers have sums of their own, which are then added. Products are exact
// in float64.
static void multiply(int c, int a, int b) {
    static _Thread_local double x[ROWS][2 * ROWS], y[ROWS][2 * ROWS];
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < 2 * ROWS; n++) {
            x[r][n] = (double)number(engine.data[a][r], n);
            y[r][n] = (double)number(engine.data[b][r], n);
        }
    for (int m = 0; m < engine.rows[c]; m++)
        for (int n = 0; n < engine.bytes[c] / 4; n++) {
            float sum[2] = {0.0f, 0.0f}, old;
            for (int k = 0; k < engine.bytes[a] / 4; k++)
                for (int odd = 0; odd < 2; odd++)
                    sum[odd] = (float)((double)sum[odd] + x[m][2 * k + odd] * y[k][2 * n + odd]);
            memcpy(&old, engine.data[c][m] + 4 * n, sizeof old);
            old = flushed(flushed(old) + flushed(sum[0] + sum[1]));
            memcpy(engine.data[c][m] + 4 * n, &old, sizeof old);
        }
    atomic_fetch_add(&products, 1);
}

// TDPBSSD: signed bytes by fours, in 32-bit sums that wrap around.
static void multiply_bytes(int c, int a, int b) {
    for (int m = 0; m < engine.rows[c]; m++)
        for (int n = 0; n < engine.bytes[c] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, engine.data[c][m] + 4 * n, sizeof sum);
            for (int x = 0; x < engine.bytes[a]; x++) {
                const int of_a = (int8_t)engine.data[a][m][x],
                          of_b = (int8_t)engine.data[b][x / 4][4 * n + x % 4];
                sum += (uint32_t)(of_a * of_b);
            }
            memcpy(engine.data[c][m] + 4 * n, &sum, sizeof sum);
        }
    atomic_fetch_add(&byte_products, 1);
}

static bool execute(const instruction *i) {
    if (i->opcode == 0x49 && i->prefix == 0) {
        if (i->memory)
            configure(i->address); // LDTILECFG
        else
            memset(&engine, 0, sizeof engine); // TILERELEASE
        return true;
    }
    if (!engine.configured) return false;
    if (i->opcode == 0x49 && i->prefix == 3 && !i->memory) // TILEZERO
        memset(engine.data[i->reg], 0, sizeof engine.data[i->reg]);
    else if (i->opcode == 0x4b && i->prefix == 3 && i->memory)
        load(i); // TILELOADD
    else if (i->opcode == 0x4b && i->prefix == 2 && i->memory)
        store(i); // TILESTORED
    else if (i->opcode == 0x5c && i->prefix == 2 && !i->memory)
        multiply(i->reg, i->rm, i->third);
    else if (i->opcode == 0x5e && i->prefix == 3 && !i->memory)
        multiply_bytes(i->reg, i->rm, i->third);
    else
        return false;
    return true;
}

// Other illegal instructions are executed again, and end the process as usual.
static void on_illegal(int signal_number, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    instruction i = {0};
    (void)info;
    if (decode(u, &i) && execute(&i))
        u->uc_mcontext.gregs[REG_RIP] += i.length;
    else
        (void)signal(signal_number, SIG_DFL);
}

bool tile_trap_set(void) {
    struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    return sigemptyset(&action.sa_mask) == 0 && sigaction(SIGILL, &action, NULL) == 0;
}
long tile_trap_products(void) {
    return atomic_load(&products);
}
long tile_trap_byte_products(void) {
    return atomic_load(&byte_products);
}
#else
bool tile_trap_set(void) {
    return false;
}
long tile_trap_products(void) {
    return 0;
}
long tile_trap_byte_products(void) {
    return 0;
}
#endif
