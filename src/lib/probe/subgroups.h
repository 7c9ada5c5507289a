// subgroups.h: the host side of sub-groups: which extensions a device has, which -cl-std they need,
// and a probe for each size. The kernel side is cl/tiles/subgroups.clh.
#ifndef CLATTN_PROBE_SUBGROUPS_H
#define CLATTN_PROBE_SUBGROUPS_H
#include <clattn/clattn.h>

#include "program/knobs.h"
#include "probe/probe_results.h"

// The device's major OpenCL version: 3 for "OpenCL 3.0 ...".
int cla_opencl_version(const clattn_capabilities *device);
// Compiler options for a kernel with sub-groups. NULL if the device has no sub-groups.
const char *cla_subgroup_options(const clattn_capabilities *device);
// True if the device may have sub-groups of this size, 8 to 64: the device lists the size, or
// kernels cannot require one.
bool cla_subgroup_possible(const clattn_capabilities *device, int size);
// The smallest sub-group size that a kernel can require on a device other than a CPU. 0 if kernels
// cannot require one. On such devices a sub-group shares the registers of a hardware thread. So the
// smallest size leaves most registers to each work-item: 128 of 32 bits on known devices.
int cla_subgroup_least(const clattn_capabilities *device);
#define SUBGROUP_LEAST_REGISTERS 128
// Set the knobs of a kernel with sub-groups of this size.
void cla_subgroup_knobs(const clattn_capabilities *device, int size, knobs *k);

// The probe for a size, or PROBE_NONE. PROBES_SUBGROUPS is the bit set of all sizes.
probe_id cla_subgroup_probe(int size);
#define PROBES_SUBGROUPS                                                                                     \
    (1u << PROBE_SUBGROUPS_8 | 1u << PROBE_SUBGROUPS_16 | 1u << PROBE_SUBGROUPS_32 | 1u << PROBE_SUBGROUPS_64)

// The input of such a probe and its expected result. See probe_subgroups.cl.
void cla_subgroup_fill(uint32_t *in);
void cla_subgroup_expect(const knobs *k, uint32_t *out);
#endif
