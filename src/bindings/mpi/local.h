// local.h: local calls, which make up a collective one: some query rows and some keys, with
// positions in the whole sequence.
#ifndef CLATTN_MPI_LOCAL_H
#define CLATTN_MPI_LOCAL_H
#include "mpi/job.h"

// Parts of keys and values: the rows, their scales and their zero points.
enum { PIECE_K, PIECE_V, PIECE_K_SCALE, PIECE_V_SCALE, PIECE_K_ZERO, PIECE_V_ZERO, PIECE_PARTS };

// Rows and keys of one local call, and their tensors.
typedef struct local_call {
    span q, k;
    const clattn_tensor *kv; // [PIECE_PARTS]
    clattn_tensor out, lse;
    int64_t first_head, heads; // the call's heads; only in all_to_all fewer than all
    bool sinks;                // the call includes the sinks
    int mods;                  // row of numbers for the mods (mods.c); -1: none
} local_call;

// True if any row of q sees any key of k, by causality, window and lengths.
bool cla_mpi_sees(const job *j, const span *q, const span *k);
// True if any of `count` spans of rows sees k.
bool cla_mpi_any_sees(const job *j, const span *q, int count, const span *k);
// Make the call. `arrays` [3 * B] is memory that the call points to.
void cla_mpi_local(const job *j, const local_call *c, clattn_attention_params *to, int32_t *arrays);

// mods.c: rewrites mods for local calls. All rows of numbers are added before cla_mpi_mods_upload.
clattn_status cla_mpi_mods_open(job *j, int most);
// Add the mods' row of numbers for one local call. Returns the row's index; -1: the call has no
// mods.
int cla_mpi_mods_add(job *j, const span *q, const span *k, int64_t first_head);
clattn_status cla_mpi_mods_upload(job *j);
clattn_tensor cla_mpi_mods_view(const job *j, int row);

// Rows [first, first + count) of axis 2 of a view.
clattn_tensor cla_mpi_rows_of(clattn_tensor t, int64_t first, int64_t count);
#endif
