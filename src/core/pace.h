// pace.h: how much work one launch may be. A desktop's GPU is taken away from a launch of seconds, so that a large one is cut
// into slices of about PACE_SECONDS each, at the rate that its compiled kernel has shown; until then at one that a device
// should exceed by far. A CPU device is cut for nobody but a caller that wants to hear of progress. Used by chain.c, and by
// those who can cut their work where a grid cannot.
//
// A caller that hears of progress waits for each slice, which shows the rate. Of other large launches one at a time has its
// times kept by its event (chain.c says how), and nobody waits for those: the next large launch looks whether they are there.
// A launch that is short, as all are of a model that decodes, is neither cut nor timed.
#ifndef CLATTN_CORE_PACE_H
#define CLATTN_CORE_PACE_H
#include "core/context.h"

#define PACE_SECONDS 0.25
#define PACE_SHORT_SECONDS 0.01
// Before anything was measured: operations of a compute unit in a cycle. A unit of a GPU does 16 (where it is small and they
// are many) to 256; a kernel that waits for memory does a tenth of that, and a slice of eight times PACE_SECONDS is too long.
#define PACE_START_FLOPS 2
#define PACE_START_MHZ 500 // of a device that does not tell
// What a launch that does little else than to move an element counts for each.
#define PACE_MOVE_FLOPS 16.0

// What one compiled kernel does, as far as it is known.
typedef struct pace_rate {
    double flops; // operations a second; 0: not measured
} pace_rate;

struct pace {
    os_mutex lock;     // guards this and every rate, for a moment
    double seconds;    // of a slice
    bool cuts_all;     // CPU devices, too: for tests
    pace_rate clblast; // CLBlast's products, which have no program of the context's
    // One launch at a time is timed: somebody is about to, or its event is here, with what was done.
    bool taken;
    cl_event event;
    pace_rate *of;
    double flops;
    cl_command_queue queue; // keeps times, for launches of queues that keep none; NULL: not needed yet
    bool no_queue;          // the driver made none
};

bool cla_pace_create(clattn_context *context);
void cla_pace_destroy(clattn_context *context);

double cla_pace_start_rate(const clattn_capabilities *device);
// The most operations of a launch of this rate; INFINITY where none is too large. `heard`: the caller wants to hear of
// progress.
double cla_pace_most(clattn_context *context, const pace_rate *of, bool heard);
// A launch of so many operations took so long.
void cla_pace_learn(clattn_context *context, pace_rate *of, double flops, double seconds);

// Whether the caller is to time a launch now; it then says how that ended: with its event, which is retained, or NULL. What
// was timed before is learned first.
bool cla_pace_begin(clattn_context *context);
void cla_pace_end(clattn_context *context, pace_rate *of, double flops, cl_event event);
// A queue of the context's own that keeps times; NULL where the driver makes none.
cl_command_queue cla_pace_queue(clattn_context *context);

// The grid of a launch of `flops` in parts of `step` work-items, whole groups, of at most `most` operations each where
// that can be: cut in the third dimension first, the first dimension last and only where `first` allows it. GPUs take at
// most 65,535 groups in the second and third dimension: no step is above PACE_GRID there.
#define PACE_GRID ((size_t)32768)
void cla_pace_cut(const size_t global[3], const size_t local[3], bool first, double flops, double most,
                  size_t step[3]);
// The same for rows, in whole tiles, where a row is so many operations.
int64_t cla_pace_rows(int64_t rows, int tile, double row_flops, double most);
#endif
