// partial.h: accumulates the result of this rank's rows. The first part is written in place. Each
// later part is merged into the result by the library's merge in float32, in the order of arrival.
// Rows without a part are empty.
#ifndef CLATTN_MPI_PARTIAL_H
#define CLATTN_MPI_PARTIAL_H
#include "mpi/copy.h"

typedef struct partial {
    job *j;
    const span *q; // the rows, in spans with positions of their own
    int q_count;
    span whole;  // all rows as one span, if positions do not matter
    bool *begun; // [q_count]: the span has a first part
    int *parts;  // [q_count]: number of parts expected
    clattn_tensor out, lse;
    // NULL: the caller's tensors are used, or the memory is not needed
    cl_mem out_memory, lse_memory, part_memory, part_lse_memory;
    int32_t *arrays;
    bool sinkless;  // another rank's call includes the sinks
    int calls;      // calls made so far: an index of the mods' rows of numbers (mods.c)
    cl_event event; // event of the newest command
    size_t bytes;
} partial;

// `q`: spans of this rank. `most`: upper limit for the calls of cla_mpi_partial_expect.
clattn_status cla_mpi_partial_open(partial *a, job *j, const span_list *q, int most);
// Announce keys in the order in which they will be added. Plans and compiles their calls, so that
// adding them later does not fail. NULL views: the keys are another rank's.
clattn_status cla_mpi_partial_expect(partial *a, const span *keys, const clattn_tensor views[PIECE_PARTS]);
// Allocate memory for the parts, after all are announced.
clattn_status cla_mpi_partial_ready(partial *a);
bool cla_mpi_partial_sees(const partial *a, const span *keys);
// Enqueue attention of the rows to these keys.
clattn_status cla_mpi_partial_add(partial *a, const span *keys, const clattn_tensor views[PIECE_PARTS]);
// empty: enqueue the results of rows that saw no key. end: do the same, then copy to the caller's
// tensors.
clattn_status cla_mpi_partial_empty(partial *a);
clattn_status cla_mpi_partial_end(partial *a);
void cla_mpi_partial_close(partial *a);
// Convert float32 rows to the caller's out and lse, except rows past a length. `ahead`: only
// compile the conversion.
clattn_status cla_mpi_deliver(job *j, const clattn_tensor *out, const clattn_tensor *lse, int32_t *arrays,
                              bool ahead);
#endif
