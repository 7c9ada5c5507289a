// copy.h: copies rows of a view with any strides to dense host memory, and back.
#ifndef CLATTN_MPI_COPY_H
#define CLATTN_MPI_COPY_H
#include "mpi/local.h"

// Enqueue copies on `queue` between a whole view [B, H, n, D] or [B, H, n] and dense host memory of
// the same shape and type.
clattn_status cla_mpi_read(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *view, void *host);
clattn_status cla_mpi_write(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *view,
                            const void *host);
size_t cla_mpi_bytes(const clattn_tensor *view); // bytes of its elements, dense
clattn_status cla_mpi_finish(clattn_mpi *w, cl_command_queue queue);
// After an error, wait for all enqueued commands, which may still write to host memory that is
// about to be freed.
void cla_mpi_drain(clattn_mpi *w, clattn_status status);

// Byte offsets of the parts of a piece of `rows` keys in one block of memory. Host and device use
// the same layout.
typedef struct piece_layout {
    size_t at[PIECE_PARTS], bytes;
} piece_layout;
piece_layout cla_mpi_piece_layout(const job *j, int64_t rows);
// Bytes of one row of each part; 0: the part is absent.
void cla_mpi_row_bytes(const job *j, size_t row[PIECE_PARTS]);
// Views of such a piece in a buffer. Absent parts have rank 0.
void cla_mpi_piece_views(const job *j, cl_mem buffer, int64_t rows, clattn_tensor views[PIECE_PARTS]);
// Views of this rank's own rows [local, local + count).
void cla_mpi_own_views(const job *j, int64_t local, int64_t count, clattn_tensor views[PIECE_PARTS]);
#endif
