// world.h: what the rest of the module is based on: a duplicate of the caller's communicator, this
// rank's device, its error text, and how ranks agree on a status.
#ifndef CLATTN_MPI_WORLD_H
#define CLATTN_MPI_WORLD_H
#include <clattn/mpi.h>

#include "mpi/opencl.h"

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        const clattn_status try_status = (call);                                                             \
        if (try_status != CLATTN_OK) return try_status;                                                      \
    } while (0)

#define WORLD_LINE 256
typedef struct world_word {
    int32_t status;
    char text[WORLD_LINE];
} world_word;

struct clattn_mpi {
    MPI_Comm comm;
    int rank, ranks;
    clattn_context *context;
    cl_context opencl;
    // The caller's queue, and one for copying pieces while others are computed.
    cl_command_queue queue, copies;
    clattn_host_memory memory; // allocator for host memory
    // Rates and latencies; 0: not measured yet.
    double link_bytes, link_seconds, flops, call_seconds;
    world_word *words; // [ranks]
    void *calls;       // [ranks]: memory for the first exchange of a call
    MPI_Op merge, sum; // for decode and layer; MPI_OP_NULL until needed
    char error[WORLD_LINE + 64];
};

// Record the error text. Returns the status.
clattn_status cla_mpi_fail(clattn_mpi *w, clattn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Convert a code of MPI, OpenCL or the library to a status. The text of an error is recorded.
clattn_status cla_mpi_try(clattn_mpi *w, int code, const char *what);
clattn_status cla_mpi_cl(clattn_mpi *w, cl_int code, const char *what);
clattn_status cla_mpi_library(clattn_mpi *w, clattn_status status);

// Exchange all ranks' statuses. Returns OK if all are OK. Otherwise all ranks return the first
// failed rank's status and record its text.
clattn_status cla_mpi_agree(clattn_mpi *w, clattn_status mine);
// The first status of the exchanged ones that is not OK, with its text recorded.
clattn_status cla_mpi_first_failed(clattn_mpi *w, const world_word *words, size_t stride);

#define WORLD_CALL_BYTES 512 // bytes of one rank's entry in `calls`
// Create a device buffer; NULL for 0 bytes.
clattn_status cla_mpi_buffer(clattn_mpi *w, size_t bytes, cl_mem *buffer);
void cla_mpi_release(cl_mem *buffer);
// Allocate host memory. On failure, returns NULL and sets *status to OUT_OF_MEMORY.
void *cla_mpi_host(clattn_mpi *w, size_t bytes, clattn_status *status);
void *cla_mpi_zeroed(const clattn_mpi *w, size_t count, size_t size); // NULL: no memory
void cla_mpi_free(const clattn_mpi *w, void *memory);                 // frees; NULL is allowed
#endif
