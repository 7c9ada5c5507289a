// cl_layer_faults.c: which call fails. See cl_layer.h.
#include "cl_layer/cl_layer_inside.h"

#include <pthread.h>
#include <stddef.h>

#define MOST_CALLS 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *calls[MOST_CALLS]; // since the last arm
static bool armed;
static int failing_nth, failing_code;
static struct layer_armed seen;

int layer_fault(const char *call, bool command) {
    int code = 0;
    pthread_mutex_lock(&lock);
    if (armed) {
        if (seen.calls < MOST_CALLS) calls[seen.calls] = call;
        const bool can_fail = command || failing_code != LAYER_FAILED_EVENT;
        if (++seen.calls == failing_nth && can_fail) code = failing_code, seen.hit = call;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void layer_fault_arm(int nth, int code) {
    pthread_mutex_lock(&lock);
    armed = true;
    failing_nth = nth, failing_code = code;
    seen = (struct layer_armed){0};
    pthread_mutex_unlock(&lock);
}

struct layer_armed layer_fault_disarm(void) {
    pthread_mutex_lock(&lock);
    armed = false;
    const struct layer_armed result = seen;
    pthread_mutex_unlock(&lock);
    return result;
}

const char *layer_fault_call(int nth) {
    pthread_mutex_lock(&lock);
    const bool there = nth >= 1 && nth <= seen.calls && nth <= MOST_CALLS;
    const char *call = there ? calls[nth - 1] : NULL;
    pthread_mutex_unlock(&lock);
    return call;
}
