// ranks.h: a command run by several processes that MPI has started: which rows are whose, loading and saving those alone, and the call.
// The plain program knows no MPI: its ranks_open goes over to the program clattn-mpi, which is the same and ranks_mpi.c.
#ifndef CLATTN_TOOL_RANKS_H
#define CLATTN_TOOL_RANKS_H
#include "tool/tensors.h"

// Rows of the whole that a rank has, in two chunks at most: from either end, so that causal work is the same for all.
typedef struct ranks_rows {
    struct ranks_chunk {
        int64_t start, count;
    } chunks[2];
    int count;
    int64_t rows, whole;
} ranks_rows;

typedef struct ranks {
    bool wanted;     // --mpi
    const char *way; // --mpi-way; NULL: the cost model's
    int rank, count;
} ranks;

typedef struct ranks_job {
    const clattn_attention_params *attend; // or
    const clattn_layer_params *layer;
    ranks_rows q, kv;
    const char *out;
} ranks_job;

// --mpi and --mpi-way.
option_group ranks_group(ranks *r);
// These return -1, else the exit status; those that all ranks call return the same on all. argv: as of the sub-command.
int ranks_open(ranks *r, const char *command, int argc, char **argv);
// The worst of all ranks' statuses, on all.
int ranks_agree(const ranks *r, int status);
void ranks_share(const ranks *r, int64_t whole, ranks_rows *rows);
int ranks_run(const ranks *r, session *s, const ranks_job *job);
// An axis of whose rows each rank has some: written whole or not at all, by all ranks together.
int ranks_save(const ranks *r, session *s, const char *path, const array *mine, int axis,
               const ranks_rows *rows);
void ranks_close(ranks *r, int status);
// bench --mpi, whose options are its own.
int ranks_bench_run(int argc, char **argv);

// Load this rank's rows of a file's axis, and no others.
int ranks_load(const ranks *r, const char *command, const char *option, const char *spec, int rank, int axis,
               ranks_rows *rows, array *a);
// Keep this rank's rows of a mask or bias that was loaded whole.
int ranks_keep(const char *command, const ranks_rows *rows, array *a);
#endif
