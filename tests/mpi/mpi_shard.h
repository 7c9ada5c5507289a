// mpi_shard.h: a case of src/verification whose rows are partitioned over ranks. Every rank makes
// the same case, keeps its own rows, and runs its part of the call. Rank 0 compares the whole
// result with the float64 reference.
#ifndef CLATTN_TESTS_MPI_SHARD_H
#define CLATTN_TESTS_MPI_SHARD_H

#include <clattn/mpi.h>

#include "verification/case/case_check.h"

#define SHARD_SEGMENTS 4096

typedef enum shard_way {
    SHARD_BLOCKS,
    SHARD_ZIGZAG,
    SHARD_PAGES,
    SHARD_RAGGED,
    SHARD_LAST,
    SHARD_WAYS
} shard_way;

typedef struct shard_rows {
    clattn_mpi_segment segments[SHARD_SEGMENTS];
    clattn_mpi_rows rows;
    int64_t count;
} shard_rows;
// Rows of a rank: blocks, zigzag, pages of 5, random sizes (some 0), or all on the last rank.
void shard_share(shard_way way, int rank, int ranks, int64_t n, uint64_t seed, shard_rows *to);

typedef struct shard_call {
    const char *name; // of the case
    shard_way q, kv;
    clattn_mpi_way way;
    int64_t piece_rows;
    bool decode;
} shard_call;

typedef struct shard {
    struct case_data *data;
    struct case_arrays whole;
    shard_rows q, kv;
    // q, k, v, their scales and zero points, out, lse, mask, bias; dout, dlse, results
    cl_mem memory[22];
    int count;
    clattn_mpi_attention_params params;
    clattn_mpi_attention_backward_params backward; // of a case of gradients
} shard;

// The common state of all checks: ranks, counts of checks, and the usual world.
extern struct suite {
    clattn_mpi *world;
    int rank, ranks, checks, failures;
} suite;
// `good` must be equal on all ranks, or false only on those that failed.
void suite_check(bool good, const char *what, const char *why);

// This rank's part; its outputs are empty.
void shard_open(shard *s, const shard_call *call, int rank, int ranks);
void shard_close(shard *s);
// The call of the case's operation.
clattn_status shard_run(clattn_mpi *world, const shard *s, bool decode, clattn_mpi_report *report);
// Run it on all ranks and compare. False: why[256] has the reason, the same on all ranks.
bool shard_holds(clattn_mpi *world, const shard_call *call, clattn_mpi_report *report, char why[256]);
// Run it several times. False: the bits of this rank's outputs differed.
bool shard_repeats(clattn_mpi *world, const shard_call *call, char why[256]);
// The whole result on rank 0, NaN where no rank has a row; for decode this rank's own.
struct case_result shard_collect(const shard *s, bool decode);
#endif
