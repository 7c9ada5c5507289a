// survey.c: see survey.h.
#include "probe/survey.h"

#include <string.h>

#include "base/host.h"

// The format of a cache entry.
typedef struct kept_survey {
    uint32_t finished, assembly;
    int64_t date;
} kept_survey;

static void survey_key(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    static const char what[] = "survey of assembly";
    cla_identity_key(&c->capabilities, c->cpu_model, what, sizeof what, key);
}

void cla_survey_read(clattn_context *c) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *bytes = NULL;
    size_t count = 0;
    kept_survey kept = {.finished = 0};
    survey_key(c, key);
    if (!cla_cache_load(c->cache, key, &bytes, &count)) return;
    if (count == sizeof kept) memcpy(&kept, bytes, sizeof kept);
    cla_host_release(&c->host, bytes);
    if (!kept.finished) return;
    c->surveyed = true;
    cla_device_add_assembly(c->device, &c->capabilities, kept.assembly);
}

void cla_survey_store(const clattn_context *c, bool finished) {
    const kept_survey kept = {finished, finished ? c->capabilities.assembly : 0, cla_os_date_s()};
    uint8_t key[CACHE_KEY_BYTES];
    survey_key(c, key);
    cla_cache_store(c->cache, key, &kept, sizeof kept);
}

static void word_fill(uint32_t in[PROBE_WORDS]) {
    in[0] = 39;
}
static void word_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    (void)k;
    out[0] = 42;
}
static knobs no_knobs(const clattn_capabilities *device) {
    (void)device;
    return (knobs){0};
}
static double one_flop(const knobs *k) {
    (void)k;
    return 1.0;
}

#define TRIAL_OF(kind, number, question)                                                                     \
    static bool kind##_applies(const clattn_capabilities *device) {                                          \
        return question;                                                                                     \
    }                                                                                                        \
    static const char *kind##_options(const clattn_capabilities *device) {                                   \
        (void)device;                                                                                        \
        return "-cl-std=CL1.2 -DASSEMBLY=" #number;                                                          \
    }
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
TRIAL_OF(X86, 1, device->is_cpu)
#else
TRIAL_OF(X86, 1, !device)
#endif
TRIAL_OF(PTX, 2, device->is_gpu)
TRIAL_OF(AMD, 4, device->is_gpu && device->wavefront_width)
#define TRIAL(kind, words)                                                                                   \
    {                                                                                                        \
        CLATTN_ASSEMBLY_##kind, {                                                                            \
            .name = words, .kernel = KERNEL_PROBE_ASSEMBLY, .applies = kind##_applies, .knobs = no_knobs,    \
            .fill = word_fill, .expect = word_expect, .round_flops = one_flop, .options = kind##_options     \
        }                                                                                                    \
    }
static const struct {
    unsigned of;
    probe probe;
} trials[] = {TRIAL(X86, "x86's inline assembly"), TRIAL(PTX, "PTX's inline assembly"),
              TRIAL(AMD, "built-in functions of AMD's compilers")};

const probe *cla_survey_trial(unsigned assembly) {
    size_t i = 0;
    while (i + 1 < sizeof trials / sizeof trials[0] && trials[i].of != assembly) i++;
    return &trials[i].probe;
}

void cla_survey_assembly(clattn_context *c) {
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        bool answered = false;
        if (c->capabilities.assembly & trials[i].of || !trials[i].probe.applies(&c->capabilities)) continue;
        const bool works = cla_probe_run(c, &trials[i].probe, &answered) > 0.0f;
        if (works) cla_device_add_assembly(c->device, &c->capabilities, trials[i].of);
        cla_log_send(&c->log, CLATTN_LOG_INFO, "survey: %s: %s", trials[i].probe.name,
                     works ? "works" : "not used");
    }
}
