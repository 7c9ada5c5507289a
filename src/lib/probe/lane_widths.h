// lane_widths.h: the probes of vector widths on CPU devices: what goes into probe_lanes.cl and what must come out. A row
// of probes.c for each width.
#ifndef CLATTN_PROBE_LANE_WIDTHS_H
#define CLATTN_PROBE_LANE_WIDTHS_H
#include "probe/probe.h"

#define PROBES_LANES (1u << PROBE_TILES | 1u << PROBE_LANES_4 | 1u << PROBE_LANES_8 | 1u << PROBE_LANES_16)

// probe_tiles.cl: what a width has to beat.
#define TILES_PROBE_ITEMS 64
knobs cla_tiles_knobs(const clattn_capabilities *device);
void cla_tiles_expect(const knobs *k, uint32_t out[PROBE_WORDS]);
double cla_tiles_flops(const knobs *k);
bool cla_tiles_possible(const clattn_capabilities *device);

// A set of probes with those that one of a width needs.
unsigned cla_lanes_wanted(unsigned probes);

bool cla_lanes_possible(const clattn_capabilities *device);
// A device that reports no vectors is asked for its multiply-adds in those of four floats first: where a compiler makes
// memory of them (rusticl 22.3 on llvmpipe: 90 times slower than products through local memory), lanes kernels would be
// slow, and take it minutes to compile. Of that product's rate whole kernels reach less than lanes kernels of theirs.
#define LANES_REACH 8.0f
bool cla_lanes_worth(const clattn_capabilities *device, const probe_results *known);
knobs cla_lanes_knobs(int lanes);
void cla_lanes_fill(uint32_t in[PROBE_WORDS]);
void cla_lanes_expect(const knobs *k, uint32_t out[PROBE_WORDS]);
double cla_lanes_flops(const knobs *k);
#endif
