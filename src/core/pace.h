// pace.h: how much work one launch may be. A desktop's GPU is taken away from a launch of seconds, so that a large one is cut
// into slices of about PACE_SECONDS each, at the rate that its kernel has shown; until then at one that a device should
// exceed by far. A CPU device is cut for nobody but a caller that wants to hear of progress. Used by chain.c, and by those
// who can cut their work where a grid cannot.
#ifndef CLATTN_CORE_PACE_H
#define CLATTN_CORE_PACE_H
#include "core/context.h"
#include "core/kernels.h"

#define PACE_SECONDS 0.25
#define PACE_SHORT_SECONDS 0.01
// Before anything was measured: operations of a compute unit in a cycle. Units of GPUs do 128 to 256, a mean kernel a
// tenth of that.
#define PACE_START_FLOPS 16
#define PACE_START_MHZ 500 // of a device that does not tell

struct pace {
    os_mutex lock;
    double rate[KERNEL_COUNT]; // operations a second; 0: not measured
    double seconds;            // of a slice
    bool cuts_all;             // CPU devices, too: for tests
};

bool cla_pace_create(clattn_context *context);
void cla_pace_destroy(clattn_context *context);

double cla_pace_start_rate(const clattn_capabilities *device);
// The most operations of a launch of this kernel; INFINITY where none is too large. `heard`: the caller wants to hear of
// progress.
double cla_pace_most(clattn_context *context, enum kernel_id id, bool heard);
// A launch of so many operations took so long.
void cla_pace_learn(clattn_context *context, enum kernel_id id, double flops, double seconds);

// The grid of a launch of `flops` in parts of `step` work-items, whole groups, of at most `most` operations each where
// that can be: cut in the third dimension first, the first dimension last and only where `first` allows it. GPUs take at
// most 65,535 groups in the second and third dimension: no step is above PACE_GRID there.
#define PACE_GRID ((size_t)32768)
void cla_pace_cut(const size_t global[3], const size_t local[3], bool first, double flops, double most,
                  size_t step[3]);
// The same for rows, in whole tiles, where a row is so many operations.
int cla_pace_rows(int rows, int tile, double row_flops, double most);
#endif
