// launch_slicing.h: limits the work of one launch. Desktop systems reset a GPU whose launch runs
// for seconds, so a large launch is cut into slices of about PACE_SECONDS each. The slice size
// follows the rate that the compiled kernel has shown. Before the first measurement it follows a
// rate far below any real device. Launches on CPU devices are cut only for a caller that wants
// progress callbacks. `chain.c` uses this, and so does code that cuts work in ways that a grid
// cannot express.
//
// With progress callbacks the host waits for each slice, and so measures its rate. Otherwise one
// large launch at a time has an event, without a wait. The next large launch checks whether the
// event is complete. If the queue has profiling enabled, the event has exact times. Otherwise the
// time since the launch was enqueued yields a lower bound of the rate. The bound is close if the
// caller waits for each call, and loose if many calls are queued. Short launches are neither cut
// nor timed, for example all launches of decode.
#ifndef CLATTN_DEVICE_LAUNCH_SLICING_H
#define CLATTN_DEVICE_LAUNCH_SLICING_H
#include "device/context.h"

#define PACE_SECONDS 0.25
#define PACE_SHORT_SECONDS 0.01
#define PACE_LEAST_SHARE 0.0004 // share of a slice: shorter times are ignored
// The assumed rate before any measurement: operations of a compute unit per cycle. GPU units do 16
// to 256. Memory-bound kernels reach a tenth of that, so 2 keeps even their slices short enough.
#define PACE_START_FLOPS 2
#define PACE_START_MHZ 500 // for a device that reports no clock
// Operations counted for each element of a launch that mostly copies.
#define PACE_MOVE_FLOPS 16.0

// The measured rate of one compiled kernel.
typedef struct pace_rate {
    double flops; // operations per second; 0: not measured
} pace_rate;

// A launch that is timed by its event.
typedef struct pace_timed {
    cl_event event; // retained; NULL: none
    pace_rate *of;
    double flops;
    uint64_t start_ns; // when it was enqueued; 0: the event has profiling times
} pace_timed;

struct pace {
    os_mutex lock;     // guards this struct and every rate; held briefly
    double seconds;    // target length of a slice
    bool cuts_all;     // tests only: also cut launches on CPU devices
    pace_rate clblast; // rate of CLBlast's products, which have no program in the context
    bool taken;        // a thread is about to time a launch
    pace_timed timed;  // the last timed launch
};

bool cla_pace_create(clattn_context *context);
void cla_pace_destroy(clattn_context *context);

double cla_pace_start_rate(const clattn_capabilities *device);
// The largest number of operations in one launch at this rate. INFINITY: unlimited. `heard`: the
// caller wants progress callbacks.
double cla_pace_most(clattn_context *context, const pace_rate *of, bool heard);
// Record the `seconds` that a launch of `flops` operations ran. With `at_most` they are an upper
// bound.
void cla_pace_learn(clattn_context *context, pace_rate *of, double flops, double seconds, bool at_most);

// True if the caller must time its next launch. The caller then calls cla_pace_end with its event,
// which cla_pace_end retains, or with NULL. First records the previously timed launch, if it has
// ended.
bool cla_pace_begin(clattn_context *context);
void cla_pace_end(clattn_context *context, const pace_timed *timed);

// A rate is about to be freed. A timed launch that refers to it is dropped.
void cla_pace_forget(clattn_context *context, const pace_rate *of);

// Cut the grid of a launch of `flops` operations into parts of `step` work-items, in whole
// work-groups. Each part has at most `most` operations if possible. The third dimension is cut
// first. The first dimension is cut last, and only with `first`. GPUs allow 65,535 groups in
// dimensions 2 and 3, so no step exceeds PACE_GRID there.
#define PACE_GRID ((size_t)32768)
void cla_pace_cut(const size_t global[3], const size_t local[3], bool first, double flops, double most,
                  size_t step[3]);
// Cut `rows` rows of row_flops operations each into launches of at most `most` operations. Returns
// rows per launch, a multiple of `tile`.
int64_t cla_pace_rows(int64_t rows, int tile, double row_flops, double most);
#endif
