// eights.h: the probes of products of eight bytes as decode on GPUs does them (probe_eights.cl): in integers by the device's own
// instruction, whose spellings cl/base/dots.clh has, and in float32, which that has to beat. A row of probes.c for each. Plans run them:
// the text takes only what the compiler's own macros, or the compute capability, say is there.
#ifndef CLATTN_PROBE_EIGHTS_H
#define CLATTN_PROBE_EIGHTS_H
#include "probe/probe.h"

#define EIGHTS_PROBE_ITEMS 256
#define PROBES_EIGHTS (1u << PROBE_DOT_I8_OWN | 1u << PROBE_EIGHTS)

// A device that is no CPU, with as many work-items as the probe has.
bool cla_eights_apply(const clattn_capabilities *device);
knobs cla_eights_knobs(const clattn_capabilities *device);
knobs cla_eights_knobs_integers(const clattn_capabilities *device);
// The language in which the device has its integer dot product; NULL: OpenCL C 1.2.
const char *cla_eights_options(const clattn_capabilities *device);
void cla_eights_fill(uint32_t *in);
void cla_eights_expect(const knobs *k, uint32_t *out);
double cla_eights_flops(const knobs *k);
#endif
