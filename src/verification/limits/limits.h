// limits.h: the peak rates of a device, measured in this run through OpenCL:
//    multiply-adds in registers, and with the L1 loads of a matrix product
//    x86's bfloat16 dot products
//    reading from each cache and from memory
// The rates of other matrix instructions come from clattn_context_engines. Used by bench and by the
// library that Python benchmarks load.
#ifndef CLATTN_VERIFICATION_LIMITS_LIMITS_H
#define CLATTN_VERIFICATION_LIMITS_LIMITS_H

#include "verification/device/guarded.h"

// A cache, and the rate at which all cores together read from it.
struct limit_level {
    char name[16];  // "L1", "L2", ...; "cache": the largest, if the device reports only that one
    uint64_t bytes; // size of one cache; each core may have a cache of its own
    double gbytes_per_s;
    uint64_t capacity, read_bytes; // bytes of all cores' caches together, and bytes that were read
};
#define LIMIT_LEVELS 4

// The engines whose peak rates bound cases.
typedef enum limit_engine {
    LIMIT_ENGINE_FMA = 0, // float32
    LIMIT_ENGINE_DOT_BF16,
    LIMIT_ENGINE_DOT_I8,
    LIMIT_ENGINE_AMX_BF16,
    LIMIT_ENGINE_AMX_I8,
    // An engine of a GPU. Its probe runs on one work-group only, so the device's peak is unknown.
    LIMIT_ENGINE_OTHER,
    LIMIT_ENGINES
} limit_engine;

struct limits {
    double fma_gflops, read_gbytes_per_s; // 0: the measurement failed
    // Multiply-adds with the loads of a matrix product from the L1 cache, on CPU devices. 0: not
    // measured.
    double fma_loads_gflops;
    double native_fma_gflops; // peak of a loop in C, on CPU devices; 0: not measured
    // Peaks of all cores together, for engines other than float32 FMA. 0: absent or not measured.
    double engine_gflops[LIMIT_ENGINES];
    double instructions; // per cycle of a core while all cores are busy; x86; 0: not measured
    // The share of time in which busy threads, one per core, actually ran: the minimum over all
    // measurements. Measured on x86 only; 0: not measured.
    double cores_share;
    // Median time divided by minimum time of the register-only loop, in the quieter measurement. 0:
    // not measured.
    double disturbed;
    struct limit_level levels[LIMIT_LEVELS]; // caches in order of speed, the fastest first
    int level_count;
};

// Raise *found to this measurement's rates: other use of the machine can only lower a rate. Limits
// that contradict each other (limits_share.h) are measured a second time. Each kind runs for at
// most max_ms, or for one run if that is longer; 0: as long as needed.
void limits_measure(struct place *place, double max_ms, struct limits *found);

#define LIMIT_LINE 1024 // bytes of a line about limits

// One limit as repeatable work. A run is long enough that start-up time is negligible.
struct limit;
typedef enum limit_kind { LIMIT_FMA, LIMIT_FMA_LOADS, LIMIT_BF16, LIMIT_READ } limit_kind;

// LIMIT_FMA is the faster of fma() and mad(); LIMIT_FMA_LOADS is the faster of two tiles. `bytes`
// is the size for LIMIT_READ; 0: more than the caches hold. NULL: the device has no such limit, or
// place->error has the reason. The place must outlive it.
struct limit *limit_create(struct place *place, limit_kind kind, size_t bytes);
void limit_destroy(struct limit *l);
// Enqueue once.
bool limit_enqueue(struct limit *l, cl_event *event);
// Floating-point operations, or bytes, of one run.
double limit_work(const struct limit *l);

// The rate in GB/s of reading a buffer of this size repeatedly for max_ms, from the cache that it
// fits. 0: the measurement failed.
double limits_read(struct place *place, size_t bytes, double max_ms);

// Parts of limits_measure. limits_levels measures reading from each cache by all cores, and raises
// the levels of *found. Each level runs for at most max_ms; 0: as long as needed.
void limits_levels(struct place *place, double max_ms, struct limits *found);
// Bytes of the largest kind of cache, over all cores of the device; 0: unknown.
uint64_t limits_largest_cache(const struct place *place);
// The FMA peak of the cores without OpenCL (x86-64): a loop in C on `threads` threads for at most
// max_ms (0: as long as needed). It shows which share of the peak the OpenCL driver reaches. 0:
// there is no such loop. *cores_share is the share of time in which the threads ran.
double limits_native_fma_gflops(unsigned threads, double max_ms, double *cores_share);
// Instructions without effect per cycle of a core while `threads` threads run: the minimum of the
// threads.
double limits_native_instructions(unsigned threads);

#endif
