// pin.c: workers of PoCL keep to a core each, where the environment says so before OpenCL is first used. Left to the system,
// two of them often share one for a whole call, which then takes twice as long. The library sets no environment:
// this is the program's.
#define _GNU_SOURCE // sched_getaffinity
#include <stdlib.h>
#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

#include "tool/cli/tool.h"

#ifdef __linux__
// Worker i goes to CPU i, and PoCL 3.1 ends the process where the system refuses that: so only a process that may use every
// CPU asks for it, and none that was told another number of workers.
static bool owns_every_cpu(void) {
    const long count = sysconf(_SC_NPROCESSORS_CONF);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (count < 1 || count > CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    for (int i = 0; i < (int)count; i++)
        if (!CPU_ISSET(i, &allowed)) return false;
    return true;
}

void tool_pin_workers(void) {
    const bool told = getenv("POCL_MAX_PTHREAD_COUNT") || getenv("POCL_PTHREAD_MIN_THREADS");
    if (!told && owns_every_cpu()) setenv("POCL_AFFINITY", "1", 0); // what the user says stays
}
#else
void tool_pin_workers(void) {}
#endif
