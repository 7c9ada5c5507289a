// backward.c: the public calls of the gradients of a prefill whose rows are shared.
#include "mpi/ways.h"

clattn_status clattn_mpi_attention_backward_plan(clattn_mpi *w,
                                                 const clattn_mpi_attention_backward_params *params,
                                                 clattn_mpi_plan *plan) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open_backward(w, params, &j);
    if (status == CLATTN_OK) status = cla_mpi_measure(w);
    if (status == CLATTN_OK) status = cla_mpi_choose(&j);
    if (plan) *plan = j.plan;
    cla_mpi_job_close(&j);
    return status;
}

clattn_status clattn_mpi_attention_backward_run(clattn_mpi *w,
                                                const clattn_mpi_attention_backward_params *params,
                                                clattn_mpi_report *report) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open_backward(w, params, &j);
    if (status == CLATTN_OK) status = cla_mpi_choose(&j);
    j.report.plan = j.plan;
    if (status == CLATTN_OK)
        status = j.plan.way == CLATTN_MPI_ALL_TO_ALL ? cla_mpi_heads_run(&j) : cla_mpi_ring_run(&j);
    if (report) *report = j.report;
    cla_mpi_job_close(&j);
    return status;
}
