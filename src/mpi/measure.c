// measure.c: what a plan reckons with: bytes a second from one rank's device to the next rank's, while all send, floating-point
// operations a second of attention, and what a message and a call take that are small. All ranks take the slowest's, and so reckon
// alike.

#include "mpi/ways.h"

enum { LINK_BYTES = 1 << 20, TIMES = 3, ROWS = 512, FEW_ROWS = 8, HEADS = 4, WIDTH = 64 };

// The shortest of some rounds: a message to the next rank from the one before, and on to the device.
static double link_round(clattn_mpi *w, char *host, cl_mem device, int bytes, clattn_status *status) {
    const int next = (w->rank + 1) % w->ranks, before = (w->rank + w->ranks - 1) % w->ranks;
    double least = 1e9;
    for (int n = 0; n <= TIMES; n++) {
        const double begin = MPI_Wtime();
        const clattn_status moved =
            cla_mpi_try(w,
                        MPI_Sendrecv(host, bytes, MPI_BYTE, next, 0, host + LINK_BYTES, bytes, MPI_BYTE,
                                     before, 0, w->comm, MPI_STATUS_IGNORE),
                        "MPI_Sendrecv");
        if (*status == CLATTN_OK) *status = moved;
        if (*status == CLATTN_OK)
            *status = cla_mpi_cl(w,
                                 clEnqueueWriteBuffer(w->copies, device, CL_TRUE, 0, (size_t)bytes,
                                                      host + LINK_BYTES, 0, NULL, NULL),
                                 "clEnqueueWriteBuffer");
        const double end = MPI_Wtime();
        if (n > 0 && end - begin < least) least = end - begin;
    }
    return least;
}

static double attention_round(clattn_mpi *w, cl_mem memory, int rows, clattn_status *status) {
    const clattn_tensor in = clattn_tensor_bhsd(memory, CLATTN_TYPE_F32, 1, HEADS, rows, WIDTH);
    clattn_attention_params call = {.q = in, .kv = {.k = in, .v = in}, .out = in};
    double least = 1e9;
    call.out.offset = (int64_t)HEADS * rows * WIDTH;
    for (int n = 0; n <= TIMES && *status == CLATTN_OK; n++) {
        const double begin = MPI_Wtime();
        *status = cla_mpi_library(w, clattn_attention_enqueue(w->context, w->queue, &call, 0, NULL, NULL));
        if (*status == CLATTN_OK) *status = cla_mpi_finish(w, w->queue);
        const double end = MPI_Wtime();
        if (n > 0 && end - begin < least) least = end - begin;
    }
    return least;
}

// The slowest rank's seconds.
static clattn_status slowest(clattn_mpi *w, double seconds[4], clattn_status status) {
    double all[4] = {0};
    TRY(cla_mpi_agree(w, status));
    TRY(cla_mpi_try(w, MPI_Allreduce(seconds, all, 4, MPI_DOUBLE, MPI_MAX, w->comm), "MPI_Allreduce"));
    const double flops = 4.0 * ROWS * ROWS * WIDTH * HEADS;
    if (w->link_seconds == 0) w->link_seconds = all[0];
    if (w->link_bytes == 0) w->link_bytes = LINK_BYTES / (all[1] > all[0] ? all[1] - all[0] : all[1]);
    if (w->flops == 0) w->flops = flops / (all[2] > all[3] ? all[2] - all[3] : all[2]);
    if (w->call_seconds == 0) w->call_seconds = all[3];
    return CLATTN_OK;
}

bool cla_mpi_measured(const clattn_mpi *w) {
    return w->link_bytes > 0 && w->link_seconds > 0 && w->flops > 0 && w->call_seconds > 0;
}

clattn_status cla_mpi_measure(clattn_mpi *w) {
    const size_t bytes = 2 * (size_t)HEADS * ROWS * WIDTH * sizeof(float);
    double seconds[4] = {0};
    clattn_status status = CLATTN_OK;
    cl_mem memory = NULL;
    if (cla_mpi_measured(w)) return CLATTN_OK;
    char *host = cla_mpi_host(w, bytes > 2 * LINK_BYTES ? bytes : 2 * LINK_BYTES, &status);
    for (size_t n = 0; host && n < bytes; n++) host[n] = 0;
    if (status == CLATTN_OK) status = cla_mpi_buffer(w, bytes, &memory);
    if (status == CLATTN_OK)
        status = cla_mpi_cl(w, clEnqueueWriteBuffer(w->queue, memory, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
                            "clEnqueueWriteBuffer");
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK) {
        seconds[0] = link_round(w, host, memory, 64, &status);
        seconds[1] = link_round(w, host, memory, LINK_BYTES, &status);
        seconds[2] = attention_round(w, memory, ROWS, &status);
        seconds[3] = attention_round(w, memory, FEW_ROWS, &status);
        status = slowest(w, seconds, status);
    }
    cla_mpi_release(&memory);
    cla_mpi_give(w, host);
    return status;
}
