// attention.c: the public calls of a prefill: a job, a plan, one of the ways.
#include "mpi/ways.h"

clattn_status clattn_mpi_attention_plan(clattn_mpi *w, const clattn_mpi_attention_params *params,
                                        clattn_mpi_plan *plan) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open(w, params, false, &j);
    if (status == CLATTN_OK) status = cla_mpi_measure(w);
    if (status == CLATTN_OK) status = cla_mpi_choose(&j);
    if (plan) *plan = j.plan;
    cla_mpi_job_close(&j);
    return status;
}

clattn_status clattn_mpi_attention_run(clattn_mpi *w, const clattn_mpi_attention_params *params,
                                       clattn_mpi_report *report) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open(w, params, false, &j);
    if (status == CLATTN_OK) status = cla_mpi_choose(&j);
    j.report.plan = j.plan;
    if (status == CLATTN_OK) {
        if (j.plan.way == CLATTN_MPI_ALL_TO_ALL)
            status = cla_mpi_heads_run(&j);
        else if (j.plan.way == CLATTN_MPI_ALL_GATHER)
            status = cla_mpi_gather_run(&j);
        else
            status = cla_mpi_ring_run(&j);
    }
    if (report) *report = j.report;
    cla_mpi_job_close(&j);
    return status;
}
