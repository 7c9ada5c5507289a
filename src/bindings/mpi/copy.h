// copy.h: rows of a view to dense host memory and back, whatever the view's strides.
#ifndef CLATTN_MPI_COPY_H
#define CLATTN_MPI_COPY_H
#include "mpi/local.h"

// Enqueue, on `queue`, copies between all of view [B, H, n, D] (or [B, H, n]) and dense host memory [B, H, n, D] of its type.
clattn_status cla_mpi_read(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *view, void *host);
clattn_status cla_mpi_write(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *view,
                            const void *host);
size_t cla_mpi_bytes(const clattn_tensor *view); // of its elements, dense
clattn_status cla_mpi_finish(clattn_mpi *w, cl_command_queue queue);
// Before host memory goes: what was enqueued and not waited for, because a call failed, may still write to it.
void cla_mpi_settle(clattn_mpi *w, clattn_status status);

// Where the parts of a piece of `rows` keys lie in one block of memory, host or device alike.
typedef struct piece_layout {
    size_t at[PIECE_PARTS], bytes;
} piece_layout;
piece_layout cla_mpi_piece_layout(const job *j, int64_t rows);
// Bytes of a row of each part; 0: there is none.
void cla_mpi_row_bytes(const job *j, size_t row[PIECE_PARTS]);
// The views of such a piece in a buffer; absent parts have rank 0.
void cla_mpi_piece_views(const job *j, cl_mem buffer, int64_t rows, clattn_tensor views[PIECE_PARTS]);
// The views of this rank's own rows [local, local + count).
void cla_mpi_own_views(const job *j, int64_t local, int64_t count, clattn_tensor views[PIECE_PARTS]);
#endif
