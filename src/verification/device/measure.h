// measure.h: the timer: repeat a call until a time limit. Used by bench, tune and the limits.
#ifndef CLATTN_VERIFICATION_DEVICE_MEASURE_H
#define CLATTN_VERIFICATION_DEVICE_MEASURE_H

#include "verification/device/guarded.h"

typedef struct measure_settings {
    int64_t repeat; // 0: as many as the time allows, at least one
    // Time limit for all repeats. 0: one second, or up to ten seconds if repeats are so long that
    // five need more.
    double max_ms;
} measure_settings;

#define MEASURE_SAMPLES 64

typedef struct measure_times {
    int64_t repeats;
    // Times on the device: median, minimum, interquartile range.
    double time_ns, time_ns_min, time_ns_spread;
    double wall_ns;                  // time from enqueue to finish, median
    double samples[MEASURE_SAMPLES]; // device times, sorted: all, or evenly spaced quantiles
    int sample_count;
} measure_times;

// Enqueue the call once on the place's queue. The event is that of its last command. False: the
// call failed and reported it.
typedef bool measure_call(void *user, cl_event *event);

// Nanoseconds of a monotonic clock.
uint64_t measure_clock_ns(void);

// Run once to the end, outside the statistics. This run compiles the kernels, and its result can be
// verified.
bool measure_once(struct place *place, measure_call *call, void *user, double *wall_ns);

// Time the call. False: the call failed, or the device did (place->error).
bool measure_run(struct place *place, const measure_settings *settings, measure_call *call, void *user,
                 measure_times *times);

// Two calls, interleaved. Every other round starts with the second call, so that disturbances slow
// both equally.
typedef struct measure_pair {
    measure_times times[2];
    double ratio,
        // The second call's time divided by the first's in each round: median and interquartile
        // range.
        ratio_spread;
    double ratios[MEASURE_SAMPLES]; // sorted: all, or evenly spaced quantiles
    int ratio_count;
} measure_pair;
// Time each call on the queue of its place; both may share a queue. False: a call failed, or a
// device did (its place's error).
bool measure_interleaved(struct place *const places[2], const measure_settings *settings, measure_call *call,
                         void *const users[2], measure_pair *pair);

#endif
