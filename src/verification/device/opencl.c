// opencl.c: see opencl.h.
#define OPENCL_OWN_NAMES
#include "verification/device/opencl.h"

#include <stdatomic.h>
#include <string.h>

static void look_up(evidence_opencl_calls *found) {
    clattn_function function;
#define OPENCL_CALL(name)                                                                                    \
    function = clattn_opencl_function(#name);                                                                \
    memcpy(&found->name, &function, sizeof function);
#include "verification/device/opencl_calls.def"
#undef OPENCL_CALL
}

enum { EMPTY, FILLING, READY };

// Return the function table. Concurrent first callers all look the functions up; one of them stores
// its result, and the others wait for it.
const evidence_opencl_calls *evidence_opencl(void) {
    static evidence_opencl_calls kept;
    static atomic_int state = EMPTY;
    evidence_opencl_calls found;
    int empty = EMPTY;
    if (atomic_load(&state) == READY) return &kept;
    look_up(&found);
    if (atomic_compare_exchange_strong(&state, &empty, FILLING)) {
        kept = found;
        atomic_store(&state, READY);
    }
    while (atomic_load(&state) != READY) continue;
    return &kept;
}
