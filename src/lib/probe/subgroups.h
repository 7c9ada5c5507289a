// subgroups.h: sub-groups as the host sees them: which spelling a device has (cl/tiles/subgroups.clh has the kernels' side),
// which -cl-std that needs, and a probe for each size.
#ifndef CLATTN_PROBE_SUBGROUPS_H
#define CLATTN_PROBE_SUBGROUPS_H
#include <clattn/clattn.h>

#include "program/knobs.h"
#include "probe/probe_results.h"

// The language that it compiles, of "OpenCL 3.0 ..." 3.
int cla_opencl_version(const clattn_capabilities *device);
// The compiler's options for a kernel with sub-groups; NULL where the device has none.
const char *cla_subgroup_options(const clattn_capabilities *device);
// Whether the device may have sub-groups of this size, 8 to 64: it lists it, or it cannot be asked for a size.
bool cla_subgroup_possible(const clattn_capabilities *device, int size);
// The least size that can be asked for on a device that is no CPU, 0 where none can. Such devices share the registers of a
// hardware thread among a sub-group: of the least size each work-item has the most, 128 of 32 bits on those that there are.
int cla_subgroup_least(const clattn_capabilities *device);
#define SUBGROUP_LEAST_REGISTERS 128
// The knobs that a kernel with sub-groups of this size needs.
void cla_subgroup_knobs(const clattn_capabilities *device, int size, knobs *k);

// The probe of a size, PROBE_NONE where there is none, and those of all sizes as a bit set.
probe_id cla_subgroup_probe(int size);
#define PROBES_SUBGROUPS                                                                                     \
    (1u << PROBE_SUBGROUPS_8 | 1u << PROBE_SUBGROUPS_16 | 1u << PROBE_SUBGROUPS_32 | 1u << PROBE_SUBGROUPS_64)

// The input of such a probe, and the result that it must give; see probe_subgroups.cl.
void cla_subgroup_fill(uint32_t *in);
void cla_subgroup_expect(const knobs *k, uint32_t *out);
#endif
