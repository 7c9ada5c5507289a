// promises.h: the result of probe_promises.cl, for the kernel and the host.
#ifndef CLATTN_ARGS_PROMISES_H
#define CLATTN_ARGS_PROMISES_H
#include "args/args.h"

#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
typedef ushort promise_half;
typedef uchar promise_code;
#else
typedef uint16_t promise_half;
typedef uint8_t promise_code;
#endif

#define PROMISE_ITEMS 16
#define PROMISE_NUMBERS 2048 // all subnormal float16 numbers of either sign
typedef struct promise_results {
    attention_args large;
    dropout_args small;
    args_u32 last, places[PROMISE_ITEMS];
    args_u32 halves[PROMISE_NUMBERS], e4m3[256], e5m2[256]; // bits of float32 numbers
    promise_half back[PROMISE_NUMBERS];
    promise_code codes[256];
} promise_results;
#endif
