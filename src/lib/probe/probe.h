// probe.h: what of a device no query tells: whether it computes with an engine beyond plain OpenCL C, and how fast.
// A probe is a small kernel run on numbers whose result is known to the bit, then timed. Its answer is kept in the
// cache folder. The table of probes is probes.c; the planner sees a bit set and rates.
#ifndef CLATTN_PROBE_PROBE_H
#define CLATTN_PROBE_PROBE_H
#include "device/context.h"
#include "program/kernels.h"
#include "program/knobs.h"
#include "probe/probe_results.h"
#include "probe/rates.h"

enum { PROBE_WORDS = 2112 }; // of a probe's input and of its result

// One row of the table. The kernel is NAME(input words, result words, rounds): with 0 rounds it computes what is
// compared, else `round_flops` operations a round, as many as keep the engine busy.
typedef struct probe {
    const char *name;
    enum kernel_id kernel;
    bool (*applies)(
        const clattn_capabilities *device); // asked first: a compiler that meets an instruction its
                                            // target lacks may end the process
    knobs (*knobs)(const clattn_capabilities *device);
    void (*fill)(uint32_t in[PROBE_WORDS]);
    void (*expect)(const knobs *k, uint32_t out[PROBE_WORDS]);
    double (*round_flops)(const knobs *k);
    const char *(*options)(const clattn_capabilities *device); // of the compiler; NULL: PROGRAM_OPTIONS
    size_t items;                                              // of its one work-group; 0: one
    unsigned engine; // CLATTN_ENGINE_...: asked only where the context has it; 0: always
    // Whether what cheaper probes found, whose rows are before, leaves it a chance; NULL: it always has one.
    bool (*worth)(const clattn_capabilities *device, const probe_results *known);
    size_t memory; // bytes behind the result's words, of the floats 1 to 16 over and over
} probe;
extern const probe cla_probes[PROBE_COUNT];

bool cla_probe_state_create(clattn_context *context);
void cla_probe_state_destroy(clattn_context *context);

// The answers of the probes in the bit set `wanted`, which run now where they have not: about 30 ms each on a CPU
// without a cache folder, in which they compile. Those that plans compare are timed in turns; what other work of the machine
// disturbed (rates.h) is measured once more, and is not kept where it is still not sure. Threads: any.
probe_results cla_probe_results(const clattn_context *context, unsigned wanted);
// The same, but that none runs: what is known here, and what the cache folder keeps of those in `wanted`.
probe_results cla_probe_results_kept(const clattn_context *context, unsigned wanted);

// Under which an answer is kept: another kernel text, option, device, CPU model, driver or version of clattn is another key.
void cla_probe_key(const clattn_context *context, const probe *p, const char *library,
                   uint8_t key[CACHE_KEY_BYTES]);

// Keep rates that were found, for this context, and for the next ones where they are sure. Rates that plans compare are kept all or
// not at all, so that they are measured in turns. `rates` has PROBE_COUNT.
void cla_probe_keep(const clattn_context *context, unsigned ids, const probe_rate *rates);

// Whether earlier processes ended while they ran it, so that it is not run again (base/cache.h, marks).
bool cla_probe_was_fatal(const clattn_context *context, const probe *p);

enum { PROBE_OPTIONS = 256 };
// The compiler's options of a probe; false where they do not fit.
bool cla_probe_options(const clattn_context *context, const probe *p, char text[PROBE_OPTIONS]);

// Run some now, whether they apply or not, and time those that are right in turns. *answered: that is the
// device's answer, right or wrong or refused by its compiler; false where something else failed, which may work the next time.
void cla_probe_run_set(const clattn_context *context, const probe *const probes[], int count,
                       probe_rate rates[], bool answered[]);
// Run one now, whether it applies or not: its rate where it is right, else 0. *answered: that is the device's answer, right
// or wrong or refused by its compiler; false where something else failed, which may work the next time.
float cla_probe_run(const clattn_context *context, const probe *p, bool *answered);
#endif
