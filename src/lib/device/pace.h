// pace.h: how much work one launch may be. A desktop's GPU is taken away from a launch of seconds, so that a large one is cut
// into slices of about PACE_SECONDS each, at the rate that its compiled kernel has shown; until then at one that a device
// should exceed by far. A CPU device is cut for nobody but a caller that wants to hear of progress. Used by chain.c, and by
// those who can cut their work where a grid cannot.
//
// A caller that hears of progress waits for each slice, which shows the rate. Of other large launches one at a time has an
// event, for which nobody waits: the next large launch looks whether it is complete. Where the queue keeps times, they show the
// rate; elsewhere the time since the launch was enqueued shows what the rate is at least, which is nearly all of it where the
// caller waits for a call before it makes the next, and little where many are on their way. A launch that is short, as all are
// of a model that decodes, is neither cut nor timed.
#ifndef CLATTN_DEVICE_PACE_H
#define CLATTN_DEVICE_PACE_H
#include "device/context.h"

#define PACE_SECONDS 0.25
#define PACE_SHORT_SECONDS 0.01
#define PACE_LEAST_SHARE 0.0004 // of a slice: a launch that is timed takes longer
// Before anything was measured: operations of a compute unit in a cycle. A unit of a GPU does 16 (where it is small and they
// are many) to 256; a kernel that waits for memory does a tenth of that, and a slice of eight times PACE_SECONDS is too long.
#define PACE_START_FLOPS 2
#define PACE_START_MHZ 500 // of a device that does not tell
// Operations that are counted for each element in a launch that does little else than move it.
#define PACE_MOVE_FLOPS 16.0

// The rate of one compiled kernel, as far as it is known.
typedef struct pace_rate {
    double flops; // operations a second; 0: not measured
} pace_rate;

// A launch whose event tells how long it took.
typedef struct pace_timed {
    cl_event event; // retained; NULL: there is none
    pace_rate *of;
    double flops;
    uint64_t start_ns; // when it was enqueued; 0: its event keeps times
} pace_timed;

struct pace {
    os_mutex lock;     // guards this and every rate, for a moment
    double seconds;    // of a slice
    bool cuts_all;     // CPU devices, too: for tests
    pace_rate clblast; // CLBlast's products, which have no program of the context's
    bool taken;        // somebody is about to time a launch
    pace_timed timed;  // the last that was
};

bool cla_pace_create(clattn_context *context);
void cla_pace_destroy(clattn_context *context);

double cla_pace_start_rate(const clattn_capabilities *device);
// The most operations of a launch of this rate; INFINITY where none is too large. `heard`: the caller wants to hear of
// progress.
double cla_pace_most(clattn_context *context, const pace_rate *of, bool heard);
// A launch of so many operations took so long, or `at_most` so long.
void cla_pace_learn(clattn_context *context, pace_rate *of, double flops, double seconds, bool at_most);

// Whether the caller is to time a launch now; it then says how that ended: with its event, which is retained, or NULL. What
// was timed before is learned first.
bool cla_pace_begin(clattn_context *context);
void cla_pace_end(clattn_context *context, const pace_timed *timed);

// A rate is about to go: nothing is learned of it any more.
void cla_pace_forget(clattn_context *context, const pace_rate *of);

// The grid of a launch of `flops` in parts of `step` work-items, whole groups, of at most `most` operations each where
// that can be: cut in the third dimension first, the first dimension last and only where `first` allows it. GPUs take at
// most 65,535 groups in the second and third dimension: no step is above PACE_GRID there.
#define PACE_GRID ((size_t)32768)
void cla_pace_cut(const size_t global[3], const size_t local[3], bool first, double flops, double most,
                  size_t step[3]);
// The same for rows, in whole tiles, where a row is so many operations.
int64_t cla_pace_rows(int64_t rows, int tile, double row_flops, double most);
#endif
