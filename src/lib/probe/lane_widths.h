// lane_widths.h: probes of vector widths on CPU devices: the input and the expected result of
// probe_lanes.cl. Each width is a row in probes.c.
#ifndef CLATTN_PROBE_LANE_WIDTHS_H
#define CLATTN_PROBE_LANE_WIDTHS_H
#include "probe/probe.h"

#define PROBES_LANES (1u << PROBE_TILES | 1u << PROBE_LANES_4 | 1u << PROBE_LANES_8 | 1u << PROBE_LANES_16)

// Products through local memory (probe_tiles.cl): the rate that a vector width must beat.
#define TILES_PROBE_ITEMS 64
knobs cla_tiles_knobs(const clattn_capabilities *device);
void cla_tiles_expect(const knobs *k, uint32_t out[PROBE_WORDS]);
double cla_tiles_flops(const knobs *k);
bool cla_tiles_possible(const clattn_capabilities *device);

// Add the probes that a width's probe depends on to the set.
unsigned cla_lanes_wanted(unsigned probes);

bool cla_lanes_possible(const clattn_capabilities *device);
// Before a device that reports no vectors runs a width's probe, its multiply-adds in vectors of
// four floats are compared with tiled products. Some compilers put vectors in memory (rusticl 22.3
// on llvmpipe: 90 times slower). Kernels in lanes would then be slow and compile for minutes. The
// factor allows for tiled kernels that reach less of their rate.
#define LANES_REACH 8.0f
bool cla_lanes_worth(const clattn_capabilities *device, const probe_results *known);
knobs cla_lanes_knobs(int lanes);
void cla_lanes_fill(uint32_t in[PROBE_WORDS]);
void cla_lanes_expect(const knobs *k, uint32_t out[PROBE_WORDS]);
double cla_lanes_flops(const knobs *k);
#endif
