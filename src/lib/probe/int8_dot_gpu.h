// int8_dot_gpu.h: probes for dot products of eight bytes, as decode uses them on GPUs
// (probe_eights.cl). One probe computes in integers with the device's own instruction (its forms
// are in cl/base/dots.clh). The other computes in float32 and is the rate to beat. Each is a row in
// probes.c. Plans run them on demand: the kernel uses only instructions that the compiler's macros
// or the compute capability promise.
#ifndef CLATTN_PROBE_INT8_DOT_GPU_H
#define CLATTN_PROBE_INT8_DOT_GPU_H
#include "probe/probe.h"

#define EIGHTS_PROBE_ITEMS 256
#define PROBES_EIGHTS (1u << PROBE_DOT_I8_OWN | 1u << PROBE_EIGHTS)

// True for a device that is not a CPU and whose work-groups can have the probe's size.
bool cla_eights_apply(const clattn_capabilities *device);
knobs cla_eights_knobs(const clattn_capabilities *device);
knobs cla_eights_knobs_integers(const clattn_capabilities *device);
// The compiler option for the language version with integer dot products. NULL: OpenCL C 1.2.
const char *cla_eights_options(const clattn_capabilities *device);
void cla_eights_fill(uint32_t *in);
void cla_eights_expect(const knobs *k, uint32_t *out);
double cla_eights_flops(const knobs *k);
#endif
