// attention.c: the public calls of a prefill with rows on several ranks, and of its gradients. Each
// opens a job, plans it, and runs one of the three ways.
#include "mpi/ways.h"

// Plan a job that was opened with `status`, and close it.
static clattn_status plan(clattn_mpi *w, job *j, clattn_status status, clattn_mpi_plan *to) {
    if (status == CLATTN_OK) status = cla_mpi_measure(w);
    if (status == CLATTN_OK) status = cla_mpi_choose(j);
    if (to) *to = j->plan;
    cla_mpi_job_close(j);
    return status;
}

static clattn_status run(job *j, clattn_status status, clattn_mpi_report *report) {
    if (status == CLATTN_OK) status = cla_mpi_choose(j);
    j->report.plan = j->plan;
    if (status == CLATTN_OK) {
        if (j->plan.strategy == CLATTN_MPI_ALL_TO_ALL)
            status = cla_mpi_heads_run(j);
        else if (j->plan.strategy == CLATTN_MPI_ALL_GATHER)
            status = cla_mpi_gather_run(j);
        else
            status = cla_mpi_ring_run(j);
    }
    if (report) *report = j->report;
    cla_mpi_job_close(j);
    return status;
}

clattn_status clattn_mpi_attention_plan(clattn_mpi *w, const clattn_mpi_attention_params *params,
                                        clattn_mpi_plan *to) {
    job j;
    return w ? plan(w, &j, cla_mpi_job_open(w, params, false, &j), to) : CLATTN_INVALID_ARGUMENT;
}

clattn_status clattn_mpi_attention_run(clattn_mpi *w, const clattn_mpi_attention_params *params,
                                       clattn_mpi_report *report) {
    job j;
    return w ? run(&j, cla_mpi_job_open(w, params, false, &j), report) : CLATTN_INVALID_ARGUMENT;
}

clattn_status clattn_mpi_attention_backward_plan(clattn_mpi *w,
                                                 const clattn_mpi_attention_backward_params *params,
                                                 clattn_mpi_plan *to) {
    job j;
    return w ? plan(w, &j, cla_mpi_job_open_backward(w, params, &j), to) : CLATTN_INVALID_ARGUMENT;
}

clattn_status clattn_mpi_attention_backward_run(clattn_mpi *w,
                                                const clattn_mpi_attention_backward_params *params,
                                                clattn_mpi_report *report) {
    job j;
    return w ? run(&j, cla_mpi_job_open_backward(w, params, &j), report) : CLATTN_INVALID_ARGUMENT;
}
