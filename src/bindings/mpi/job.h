// job.h: a collective call after its first exchange: all ranks' sizes and rows, known to every
// rank. local.h has the local calls that it consists of.
#ifndef CLATTN_MPI_JOB_H
#define CLATTN_MPI_JOB_H
#include "tables/score.def"

#include "args/args.h"
#include "mpi/world.h"

// Rows [start, start + count) of the sequence, which are rows [local, local + count) of their
// rank's tensor.
typedef struct span {
    int64_t start, count, local;
} span;
typedef struct span_list {
    span *spans;
    int32_t count;
    int64_t rows; // all rows of the rank
} span_list;

typedef struct job {
    clattn_mpi *w;
    const clattn_mpi_attention_params *p;
    // The gradients' parameters, whose `forward` is *p; NULL: no gradients.
    const clattn_mpi_attention_backward_params *b;
    bool decode;
    int64_t batch, heads, kv_heads, head_dim, head_dim_v;
    int64_t n_q, n_kv; // rows and keys of the whole sequence
    span_list *q, *kv; // [ranks]; in decode all ranks have the same list in q
    span *memory;      // the spans of all lists
    int64_t *shift;    // [B]: query row i has position i + shift
    bool positional;   // results depend on positions of rows and keys
    size_t largest;    // smallest of all ranks' limits of a buffer
    clattn_mpi_plan plan;
    clattn_mpi_report report;
    // Rewritten texts of score_mod, its derivative and mask_mod, and a row of numbers for each
    // local call (mods.c).
    char *score_mod, *mask_mod, *score_mod_gradient;
    int mod_slot;
    int32_t *mod_rows; // [mod_most, mod_width]
    int mod_width, mod_count, mod_most;
    cl_mem mod_buffer;
    size_t mod_bytes; // size of mod_buffer
} job;

// Check this rank's call, compare it with the other ranks', and learn their rows. All ranks return
// the same status.
clattn_status cla_mpi_job_open(clattn_mpi *w, const clattn_mpi_attention_params *p, bool decode, job *j);
// As cla_mpi_job_open, for gradients.
clattn_status cla_mpi_job_open_backward(clattn_mpi *w, const clattn_mpi_attention_backward_params *b, job *j);
void cla_mpi_job_close(job *j);
// Check one rank's arguments (check.c).
clattn_status cla_mpi_check(clattn_mpi *w, const clattn_mpi_attention_params *p, bool decode);
clattn_status cla_mpi_check_gradients(clattn_mpi *w, const clattn_mpi_attention_backward_params *b);
// A hash of the requested gradients, their types and their text, which must be the same on all
// ranks.
uint64_t cla_mpi_gradients_hash(const clattn_mpi_attention_backward_params *b);
// A hash of host arrays and texts, which must be the same on all ranks.
uint64_t cla_mpi_score_hash(const clattn_mpi_attention_params *p);
// Flags of "tables/score.def" that say what the call's options depend on.
unsigned cla_mpi_score_differs(const clattn_score *score);

bool cla_mpi_given(const clattn_tensor *t);
#endif
