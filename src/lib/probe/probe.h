// probe.h: probes find out what OpenCL cannot report: whether a device computes correctly with an
// engine beyond plain OpenCL C, and how fast. A probe is a small kernel whose result is known to
// the bit. It is checked first, then timed. Its result is stored in the cache folder. probes.c has
// the table of probes. The planner reads bit sets and rates.
#ifndef CLATTN_PROBE_PROBE_H
#define CLATTN_PROBE_PROBE_H
#include "device/context.h"
#include "program/kernels.h"
#include "program/knobs.h"
#include "probe/probe_results.h"
#include "probe/rates.h"

enum { PROBE_WORDS = 2112 }; // words of a probe's input, and of its result

// One row of the table. The kernel is NAME(input words, result words, rounds). With 0 rounds it
// computes the result that is compared. Otherwise it runs `round_flops` operations per round,
// enough to keep the engine busy.
typedef struct probe {
    const char *name;
    enum kernel_id kernel;
    // Called first: a compiler may crash on an instruction that its target lacks.
    bool (*applies)(const clattn_capabilities *device);
    knobs (*knobs)(const clattn_capabilities *device);
    void (*fill)(uint32_t in[PROBE_WORDS]);
    void (*expect)(const knobs *k, uint32_t out[PROBE_WORDS]);
    double (*round_flops)(const knobs *k);
    // Compiler options; NULL: PROGRAM_OPTIONS.
    const char *(*options)(const clattn_capabilities *device);
    size_t items;    // work-items of its one work-group; 0: one
    unsigned engine; // CLATTN_ENGINE_... that the context must have; 0: none
    // False if the results of cheaper probes, which are earlier rows, show that this one need not
    // run. NULL: always true.
    bool (*worth)(const clattn_capabilities *device, const probe_results *known);
    size_t memory; // extra bytes after the result, filled with the floats 1 to 16 repeated
} probe;
extern const probe cla_probes[PROBE_COUNT];

bool cla_probe_state_create(clattn_context *context);
void cla_probe_state_destroy(clattn_context *context);

// The results of the probes in the bit set `wanted`. Probes without a result run now: about 30 ms
// each on a CPU with an empty cache, mostly for compiling. Probes that plans compare are timed
// interleaved. Rates that other load disturbed (rates.h) are measured once more, and are not cached
// if still unsure. Thread-safe.
probe_results cla_probe_results(const clattn_context *context, unsigned wanted);
// As cla_probe_results, but runs no probe: returns the results that this context or the cache
// folder already has.
probe_results cla_probe_results_kept(const clattn_context *context, unsigned wanted);

// The cache key of a result. It covers the kernel's source, options, device, CPU model, driver and
// version of clattn.
void cla_probe_key(const clattn_context *context, const probe *p, const char *library,
                   uint8_t key[CACHE_KEY_BYTES]);

// Keep rates for this context, and store sure rates in the cache. Rates that plans compare are
// stored all or not at all, so that they are always measured together. `rates` has PROBE_COUNT
// entries.
void cla_probe_keep(const clattn_context *context, unsigned ids, const probe_rate *rates);

// True if earlier processes ended while they ran this probe, so it is not run again (marks in
// base/cache.h).
bool cla_probe_was_fatal(const clattn_context *context, const probe *p);

enum { PROBE_OPTIONS = 256 };
// Write the compiler options of a probe to `text`. Returns false if they do not fit.
bool cla_probe_options(const clattn_context *context, const probe *p, char text[PROBE_OPTIONS]);

// Run these probes now, without checking `applies`, and time the correct ones interleaved.
// answered[i]: the device's answer is definite, i.e. right, wrong, or rejected by its compiler.
// False after any other failure, which may not occur again.
void cla_probe_run_set(const clattn_context *context, const probe *const probes[], int count,
                       probe_rate rates[], bool answered[]);
// As cla_probe_run_set, for one probe. Returns its rate, or 0 if its result is wrong or missing.
float cla_probe_run(const clattn_context *context, const probe *p, bool *answered);
#endif
