// opencl.c: see opencl.h.
#define OPENCL_OWN_NAMES
#include "mpi/opencl.h"

#include <stdatomic.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} entries[] = {
#define OPENCL_CALL(name) {#name, offsetof(mpi_opencl_calls, name)},
#include "mpi/opencl_calls.def"
#undef OPENCL_CALL
};

enum { EMPTY, FILLING, READY };

// Threads that get here first all look up the functions. One of them stores the result, and the
// others wait for it.
const mpi_opencl_calls *cla_mpi_opencl(void) {
    static mpi_opencl_calls kept;
    static atomic_int state = EMPTY;
    mpi_opencl_calls found;
    int empty = EMPTY;
    if (atomic_load(&state) == READY) return &kept;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const clattn_function function = clattn_opencl_function(entries[i].name);
        memcpy((char *)&found + entries[i].offset, &function, sizeof function);
    }
    if (atomic_compare_exchange_strong(&state, &empty, FILLING)) {
        kept = found;
        atomic_store(&state, READY);
    }
    while (atomic_load(&state) != READY) continue;
    return &kept;
}
