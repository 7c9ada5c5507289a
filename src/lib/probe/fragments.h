// fragments.h: the host side of matrix engines that the work-items of a warp share: which engines a
// device may have, and a probe of each for float16 and bfloat16. The kernel side is
// cl/fragments/fragments.clh.
#ifndef CLATTN_PROBE_FRAGMENTS_H
#define CLATTN_PROBE_FRAGMENTS_H
#include <clattn/clattn.h>

#include "program/knobs.h"
#include "probe/probe_results.h"

// True if the device's properties make the probe `id`, one of PROBES_FRAGMENTS, worth running. The
// device's compiler may still reject the kernel.
bool cla_fragments_apply(const clattn_capabilities *device, probe_id id);
// The probe's knobs. Kernels also use the matrix_engine. 0: none.
knobs cla_fragments_knobs(const clattn_capabilities *device, probe_id id);
// True if the device may have any of these engines.
bool cla_fragments_possible(const clattn_capabilities *device);

// The engine whose fragment layout a kernel with these knobs uses: its own, or the emulated one.
int cla_fragments_engine(const knobs *k);

// The input of such a probe and its expected result. See probe_fragments.cl.
void cla_fragments_fill_f16(uint32_t *in);
void cla_fragments_fill_bf16(uint32_t *in);
void cla_fragments_expect(const knobs *k, uint32_t *out);
void cla_wgmma_expect(const knobs *k, uint32_t *out); // see probe_wgmma.cl
double cla_fragments_flops(const knobs *k);
#endif
