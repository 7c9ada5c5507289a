// job.h: one shared call after its first exchange: what all ranks have, as every rank knows it. Leaves out the local calls that it is
// made of (local.h) and how keys travel.
#ifndef CLATTN_MPI_JOB_H
#define CLATTN_MPI_JOB_H
#include "tables/score.def"

#include "args/args.h"
#include "mpi/world.h"

// Rows [start, start + count) of the whole, which are rows [local, local + count) of whose they are.
typedef struct span {
    int64_t start, count, local;
} span;
typedef struct span_list {
    span *spans;
    int32_t count;
    int64_t rows; // of the rank, in all
} span_list;

typedef struct job {
    clattn_mpi *w;
    const clattn_mpi_attention_params *p;
    const clattn_mpi_attention_backward_params *b; // whose forward *p is; NULL: no gradients are asked for
    bool decode;
    int64_t batch, heads, kv_heads, head_dim, head_dim_v;
    int64_t n_q, n_kv; // of the whole
    span_list *q, *kv; // [ranks]; of decode q is one list, every rank's
    span *memory;      // of all lists
    int64_t *shift;    // [B]: query row i stands at i + shift
    bool positional;   // results depend on where rows and keys stand
    size_t largest;    // the least of all ranks' largest buffers
    clattn_mpi_plan plan;
    clattn_mpi_report report;
    // The texts that score_mod, its derivative and mask_mod become, and a row of numbers for each local call: see mods.c.
    char *score_mod, *mask_mod, *score_mod_gradient;
    int mod_slot;
    int32_t *mod_rows; // [mod_most, mod_width]
    int mod_width, mod_count, mod_most;
    cl_mem mod_buffer;
    size_t mod_bytes; // of it
} job;

// Check this rank's call, compare it with the others', and learn their rows. All ranks return alike.
clattn_status cla_mpi_job_open(clattn_mpi *w, const clattn_mpi_attention_params *p, bool decode, job *j);
// The same of gradients.
clattn_status cla_mpi_job_open_backward(clattn_mpi *w, const clattn_mpi_attention_backward_params *b, job *j);
void cla_mpi_job_close(job *j);
// check.c: what can be wrong of one rank's arguments.
clattn_status cla_mpi_check(clattn_mpi *w, const clattn_mpi_attention_params *p, bool decode);
clattn_status cla_mpi_check_gradients(clattn_mpi *w, const clattn_mpi_attention_backward_params *b);
// Which gradients are asked for, of which types, and by which text: what all ranks must have alike.
uint64_t cla_mpi_gradients_hash(const clattn_mpi_attention_backward_params *b);
// A hash of host arrays and texts, which all ranks must have alike.
uint64_t cla_mpi_score_hash(const clattn_mpi_attention_params *p);
// By what the options that are given differ, as "tables/score.def" has it.
unsigned cla_mpi_score_differs(const clattn_score *score);

bool cla_mpi_given(const clattn_tensor *t);
#endif
