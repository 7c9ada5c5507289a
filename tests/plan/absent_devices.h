// absent_devices.h: devices that are not available for tests, as the planner sees them: records
// from published limits, and problems to plan. The suite test_devices.c checks the plans, and
// plans.c prints them.
#ifndef CLATTN_TESTS_ABSENT_DEVICES_H
#define CLATTN_TESTS_ABSENT_DEVICES_H
#include "plan/families/family.h"

typedef struct absent_device {
    const char *word; // the name in plans.c and in the offline table
    clattn_capabilities is;
    unsigned subgroups; // supported sub-group sizes, or-ed, published or assumed
} absent_device;

extern const absent_device absent_devices[];
extern const int absent_device_count;

// The probes that the device would pass, as bits.
unsigned absent_device_proves(const absent_device *device);

typedef struct absent_problem {
    const char *word;
    problem is;
} absent_problem;

extern const absent_problem absent_problems[];
extern const int absent_problem_count;

typedef struct absent_projection {
    const char *word;
    linear_problem is;
} absent_projection;

extern const absent_projection absent_projections[];
extern const int absent_projection_count;
#endif
