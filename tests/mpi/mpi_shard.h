// mpi_shard.h: cases of src/verification with rows distributed over ranks. Every rank creates the
// same case, keeps its own rows, and runs its part of the call. Rank 0 compares the complete result
// with the double-precision reference.
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
// Distribute rows: in blocks, zigzag, in pages of 5, in random sizes (some empty), or all to the
// last rank.
void shard_share(shard_way strategy, int rank, int ranks, int64_t n, uint64_t seed, shard_rows *to);

typedef struct shard_call {
    const char *name; // name of the case
    shard_way q, kv;
    clattn_mpi_strategy strategy;
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
    clattn_mpi_attention_backward_params backward; // for a case of gradients
} shard;

// Shared by all checks: the ranks, counts of checks, and the world that most checks use.
extern struct suite {
    clattn_mpi *world;
    int rank, ranks, checks, failures;
} suite;
// Count a check. `good` must be the same on all ranks, or false on the ranks that failed.
void suite_check(bool good, const char *what, const char *why);

// Create this rank's tensors. Outputs are empty.
void shard_open(shard *s, const shard_call *call, int rank, int ranks);
void shard_close(shard *s);
// Make the call of the case's operation.
clattn_status shard_run(clattn_mpi *world, const shard *s, bool decode, clattn_mpi_report *report);
// Run the case on all ranks and compare. Returns false with why[256], which is the same on all
// ranks.
bool shard_holds(clattn_mpi *world, const shard_call *call, clattn_mpi_report *report, char why[256]);
// Run the case several times. Returns false if the bits of this rank's outputs differ.
bool shard_repeats(clattn_mpi *world, const shard_call *call, char why[256]);
// The complete result on rank 0, with NaN for rows of no rank. With decode, this rank's own result.
struct case_result shard_collect(const shard *s, bool decode);
#endif
