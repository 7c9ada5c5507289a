// local.h: the local calls that a shared one is made of: some query rows and some keys, whose positions are those of the whole.
#ifndef CLATTN_MPI_LOCAL_H
#define CLATTN_MPI_LOCAL_H
#include "mpi/job.h"

// What a row of keys and values is made of: the rows, their scales and their zero points.
enum { PIECE_K, PIECE_V, PIECE_K_SCALE, PIECE_V_SCALE, PIECE_K_ZERO, PIECE_V_ZERO, PIECE_PARTS };

// Rows and keys of one local call, and the tensors that hold them.
typedef struct local_call {
    span q, k;
    const clattn_tensor *kv; // [PIECE_PARTS]
    clattn_tensor out, lse;
    int64_t first_head, heads; // of the whole: of all-to-all alone some
    bool sinks;                // they are one key more, which is this call's
    int mods;                  // its row of numbers; -1: none
} local_call;

// Whether any row of q sees any key of k, by causality, window and lengths.
bool cla_mpi_sees(const job *j, const span *q, const span *k);
// Whether any of `count` spans of rows does.
bool cla_mpi_any_sees(const job *j, const span *q, int count, const span *k);
// The call; `arrays` [3 * B] is of what the call points to.
void cla_mpi_local(const job *j, const local_call *c, clattn_attention_params *to, int32_t *arrays);

// mods.c: texts in which names are of the whole. Rows of numbers are added before cla_mpi_mods_upload.
clattn_status cla_mpi_mods_open(job *j, int most);
int cla_mpi_mods_add(job *j, const span *q, const span *k, int64_t first_head); // its row; -1: no mods
clattn_status cla_mpi_mods_upload(job *j);
clattn_tensor cla_mpi_mods_view(const job *j, int row);

// Elements of views: rows [first, first + count) of axis 2.
clattn_tensor cla_mpi_rows_of(clattn_tensor t, int64_t first, int64_t count);
#endif
