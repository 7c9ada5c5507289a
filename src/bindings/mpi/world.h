// world.h: the ranks: a duplicate of the caller's communicator, this rank's device, its one line of error, and how ranks agree on a
// status. Everything else of the module stands on it. Leaves out what is computed.
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
    cl_command_queue queue, copies; // the caller's; our own, for pieces that travel while others are computed
    clattn_host_memory memory;      // of the host
    double link_bytes, link_seconds, flops, call_seconds; // rates a second; 0: not measured yet
    world_word *words;                                    // [ranks]
    void *calls;       // [ranks]: the first exchange of a call, so that it needs no memory
    MPI_Op merge, sum; // of decode and layer; MPI_OP_NULL until they are needed
    char error[WORLD_LINE + 64];
};

// Keep the line; returns the status.
clattn_status cla_mpi_fail(clattn_mpi *w, clattn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// A code of MPI, OpenCL or the library as a status; the text of an error is kept.
clattn_status cla_mpi_try(clattn_mpi *w, int code, const char *what);
clattn_status cla_mpi_cl(clattn_mpi *w, cl_int code, const char *what);
clattn_status cla_mpi_library(clattn_mpi *w, clattn_status status);

// All ranks tell their status. OK where all are; else the first rank's that is not, and its line, on all.
clattn_status cla_mpi_agree(clattn_mpi *w, clattn_status mine);
// The first that is not OK of words that were exchanged.
clattn_status cla_mpi_first_failed(clattn_mpi *w, const world_word *words, size_t stride);

#define WORLD_CALL_BYTES 512 // of one rank in `calls`
// A device buffer; NULL for no bytes.
clattn_status cla_mpi_buffer(clattn_mpi *w, size_t bytes, cl_mem *buffer);
void cla_mpi_release(cl_mem *buffer);
void *cla_mpi_host(clattn_mpi *w, size_t bytes, clattn_status *status); // NULL, and OUT_OF_MEMORY
void *cla_mpi_zeroed(const clattn_mpi *w, size_t count, size_t size);   // NULL: there is none
void cla_mpi_give(const clattn_mpi *w, void *memory);                   // back; NULL is allowed
#endif
