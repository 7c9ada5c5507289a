// limits.h: what a device can do at most, measured on it in this run through OpenCL: multiply-adds that stay
// in registers, the same fed from the first-level cache as a matrix product must, x86's bfloat16 dot products, and reading
// from each cache and a buffer larger than all of them. Leaves out other matrix instructions: a context's engines have their rates
// (clattn_context_engines). Used by the bench and by what Python benchmarks load.
#ifndef CLATTN_EVIDENCE_LIMITS_LIMITS_H
#define CLATTN_EVIDENCE_LIMITS_LIMITS_H

#include "verification/device/guarded.h"

// A cache, and how fast all cores at once read what lies in it.
struct limit_level {
    char name[16];  // "L1", "L2", ...; "cache": the largest, where the device tells of that alone
    uint64_t bytes; // of one; cores may have one each
    double gbytes_per_s;
    uint64_t capacity, read_bytes; // of all cores' together; and how many of them were read
};
#define LIMIT_LEVELS 4

// Engines of products whose peaks bound cases.
typedef enum limit_engine {
    LIMIT_ENGINE_FMA = 0, // float32
    LIMIT_ENGINE_DOT_BF16,
    LIMIT_ENGINE_DOT_I8,
    LIMIT_ENGINE_AMX_BF16,
    LIMIT_ENGINE_AMX_I8,
    LIMIT_ENGINE_OTHER, // a GPU's: its probe runs on one work-group and measures no device's peak
    LIMIT_ENGINES
} limit_engine;

struct limits {
    double fma_gflops, read_gbytes_per_s; // 0: could not be measured
    double
        fma_loads_gflops; // with the loads of a matrix product out of the first-level cache, on CPU devices; 0: none
    double native_fma_gflops;            // a loop in C, on CPU devices; 0: none
    double engine_gflops[LIMIT_ENGINES]; // of all cores at once, beyond float32 FMA; 0: none, or not asked
    double instructions; // that one core takes a cycle while all are busy; x86; 0: not measured
    double
        cores_share; // of their time that a busy thread a core got, the least of the measurements; x86; 0: not measured
    double disturbed; // median by least time of the register-only loop, of the quieter measurement; 0: none
    struct limit_level levels[LIMIT_LEVELS]; // from the fastest on; 0 of them: none could be told or measured
    int level_count;
};

// Raises *found to what this measurement finds: another use of the machine only ever lowers one. Limits that contradict each other
// (limits_share.h) are measured once more. Each kind's runs take max_ms at
// most, or one run where that is longer, so that a slow device does not keep who measures several; 0: as long as is good.
void limits_measure(struct place *place, double max_ms, struct limits *found);

#define LIMIT_LINE 1024 // bytes of a line about limits

// One of them as work that can be run again and again, long enough that start-up does not count.
struct limit;
typedef enum limit_kind { LIMIT_FMA, LIMIT_FMA_LOADS, LIMIT_BF16, LIMIT_READ } limit_kind;

// LIMIT_FMA is the faster of fma() and mad(), LIMIT_FMA_LOADS that of two tiles of accumulators. NULL: the device has
// none, or place->error says why. bytes: of LIMIT_READ; 0: more than the caches hold. The place outlives it.
struct limit *limit_create(struct place *place, limit_kind kind, size_t bytes);
void limit_destroy(struct limit *l);
// Enqueue once.
bool limit_enqueue(struct limit *l, cl_event *event);
// Floating-point operations, or bytes, of one run.
double limit_work(const struct limit *l);

// GB/s of reading a buffer of so many bytes over and over, from where they fit; for max_ms. 0: it could not be measured.
double limits_read(struct place *place, size_t bytes, double max_ms);

// Parts of limits_measure. Reading from each cache of a device, by all its cores at once: raises the levels of *found to what this
// measurement finds; each one's runs take max_ms at most; 0: as long as is good.
void limits_levels(struct place *place, double max_ms, struct limits *found);
// Bytes of the largest cache, of all that the device's cores have of its kind; 0: unknown.
uint64_t limits_largest_cache(const struct place *place);
// The machine's cores without OpenCL (x86-64): their multiply-add peak by a loop in C with this many threads, for max_ms at most (0:
// as long as is good), which says how much of it the OpenCL driver's own peak is; 0 where there is no such loop. *cores_share: the
// part of the time in which the threads ran.
double limits_native_fma_gflops(unsigned threads, double max_ms, double *cores_share);
// Instructions that do nothing, a cycle of a core, while this many threads run; the least of the threads.
double limits_native_instructions(unsigned threads);

#endif
