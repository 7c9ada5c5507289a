// fragments.h: matrix engines that the work-items of a warp share, as the host sees them: which of them a device may have, and a probe for
// each, of float16 and of bfloat16. cl/fragments/fragments.clh has the kernels' side.
#ifndef CLATTN_PROBE_FRAGMENTS_H
#define CLATTN_PROBE_FRAGMENTS_H
#include <clattn/clattn.h>

#include "program/knobs.h"
#include "probe/probe_results.h"

// Whether the probe `id`, one of PROBES_FRAGMENTS, is worth a try, by what the device says of itself. Its compiler has the last word.
bool cla_fragments_apply(const clattn_capabilities *device, probe_id id);
// The probe's knobs. matrix_engine is a kernel's, too; 0: there is none.
knobs cla_fragments_knobs(const clattn_capabilities *device, probe_id id);
// Whether the device may have one of them.
bool cla_fragments_possible(const clattn_capabilities *device);

// The engine whose places a kernel with these knobs has: its own, or the one that is emulated.
int cla_fragments_engine(const knobs *k);

// The input of such a probe, and the result that it must give; see probe_fragments.cl.
void cla_fragments_fill_f16(uint32_t *in);
void cla_fragments_fill_bf16(uint32_t *in);
void cla_fragments_expect(const knobs *k, uint32_t *out);
void cla_wgmma_expect(const knobs *k, uint32_t *out); // see probe_wgmma.cl
double cla_fragments_flops(const knobs *k);
#endif
