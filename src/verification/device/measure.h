// measure.h: the one timer: a call that is run again and again until a time is spent. Leaves out what is timed.
// Used by bench, tune and the limits.
#ifndef CLATTN_EVIDENCE_DEVICE_MEASURE_H
#define CLATTN_EVIDENCE_DEVICE_MEASURE_H

#include "verification/device/guarded.h"

typedef struct measure_settings {
    int64_t repeat; // 0: as many as the time allows, at least one
    double max_ms;  // for all repeats; 0: a second, or ten where that is not enough for five
} measure_settings;

#define MEASURE_SAMPLES 64

typedef struct measure_times {
    int64_t repeats;
    double time_ns, time_ns_min, time_ns_spread; // on the device: median, least, interquartile range
    double wall_ns;                              // from enqueue to finish, median
    double samples[MEASURE_SAMPLES]; // of the device times, sorted: all, or evenly spaced quantiles
    int sample_count;
} measure_times;

// Enqueue the call once on the place's queue; the event is its last command's. False: it failed, and says so itself.
typedef bool measure_call(void *user, cl_event *event);

// Nanoseconds of a clock that only goes forward.
uint64_t measure_clock_ns(void);

// One run, to its end, that is not counted: it compiles what is not compiled, and gives a result to verify.
bool measure_once(struct place *place, measure_call *call, void *user, double *wall_ns);

// Time the call. False: it failed, or the device did (place->error).
bool measure_run(struct place *place, const measure_settings *settings, measure_call *call, void *user,
                 measure_times *times);

// Two calls in turns, the first of them first in every other round, so that what slows the machine slows both.
typedef struct measure_pair {
    measure_times times[2];
    double ratio,
        ratio_spread; // the second's time by the first's, round for round: median, interquartile range
    double ratios[MEASURE_SAMPLES]; // sorted: all, or evenly spaced quantiles
    int ratio_count;
} measure_pair;
// Each on the queue of its place, which may be one for both. False: a call failed, or a device did (its place's error).
bool measure_in_turns(struct place *const places[2], const measure_settings *settings, measure_call *call,
                      void *const users[2], measure_pair *pair);

#endif
