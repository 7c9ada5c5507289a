// attention.c: the public calls: a job, a plan, one of the ways.
#include "mpi/ring.h"

#include <stdio.h>

clattn_status clattn_mpi_attention_run(clattn_mpi *w, const clattn_mpi_attention_params *params,
                                       clattn_mpi_report *report) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open(w, params, false, &j);
    if (status == CLATTN_OK) status = cla_mpi_ring_run(&j);
    if (report) *report = j.report;
    cla_mpi_job_close(&j);
    return status;
}
