// world.c: see world.h; and the life of a clattn_mpi.
#include "mpi/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clattn_status cla_mpi_fail(clattn_mpi *w, clattn_status status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(w->error, sizeof w->error, format, list);
    va_end(list);
    return status;
}

clattn_status cla_mpi_try(clattn_mpi *w, int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return CLATTN_OK;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", code);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    return cla_mpi_fail(w, CLATTN_DRIVER, "%s: %.200s", what, text);
}

clattn_status cla_mpi_cl(clattn_mpi *w, cl_int code, const char *what) {
    if (code == CL_SUCCESS) return CLATTN_OK;
    const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
                        code == CL_OUT_OF_RESOURCES || code == CL_INVALID_BUFFER_SIZE;
    return cla_mpi_fail(w, memory ? CLATTN_OUT_OF_MEMORY : CLATTN_DRIVER, "%s: OpenCL error %d", what,
                        (int)code);
}

clattn_status cla_mpi_library(clattn_mpi *w, clattn_status status) {
    if (status != CLATTN_OK) clattn_context_last_error(w->context, w->error, WORLD_LINE);
    return status;
}

clattn_status cla_mpi_first_failed(clattn_mpi *w, const world_word *words, size_t stride) {
    const world_word *first = NULL;
    int failed = 0, whose = 0;
    for (int r = 0; r < w->ranks; r++) {
        const world_word *word = (const world_word *)((const char *)words + (size_t)r * stride);
        if (word->status == CLATTN_OK) continue;
        if (!first) first = word, whose = r;
        failed++;
    }
    if (!first) return CLATTN_OK;
    char more[48] = "";
    if (failed > 1) snprintf(more, sizeof more, " (and %d other ranks)", failed - 1);
    return cla_mpi_fail(w, (clattn_status)first->status, "rank %d: %s%s", whose, first->text, more);
}

clattn_status cla_mpi_agree(clattn_mpi *w, clattn_status mine) {
    world_word word = {.status = (int32_t)mine};
    if (mine != CLATTN_OK) snprintf(word.text, sizeof word.text, "%.*s", WORLD_LINE - 1, w->error);
    TRY(cla_mpi_try(
        w, MPI_Allgather(&word, (int)sizeof word, MPI_BYTE, w->words, (int)sizeof word, MPI_BYTE, w->comm),
        "MPI_Allgather"));
    return cla_mpi_first_failed(w, w->words, sizeof *w->words);
}

clattn_status cla_mpi_buffer(clattn_mpi *w, size_t bytes, cl_mem *buffer) {
    cl_int code = CL_SUCCESS;
    *buffer = NULL;
    if (bytes == 0) return CLATTN_OK;
    const clattn_capabilities *can = clattn_context_capabilities(w->context);
    if (bytes > can->max_allocation_bytes)
        return cla_mpi_fail(w, CLATTN_OUT_OF_MEMORY,
                            "scratch memory of %zu bytes: the device's largest buffer is of %llu", bytes,
                            (unsigned long long)can->max_allocation_bytes);
    *buffer = clCreateBuffer(w->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    return cla_mpi_cl(w, code, "clCreateBuffer");
}

void cla_mpi_release(cl_mem *buffer) {
    if (*buffer) clReleaseMemObject(*buffer);
    *buffer = NULL;
}

void *cla_mpi_host(clattn_mpi *w, size_t bytes, clattn_status *status) {
    void *memory = *status == CLATTN_OK ? malloc(bytes ? bytes : 1) : NULL;
    if (!memory && *status == CLATTN_OK)
        *status = cla_mpi_fail(w, CLATTN_OUT_OF_MEMORY, "host memory of %zu bytes", bytes);
    return memory;
}

// The caller's handles, and a queue of our own on their device.
static clattn_status open_device(clattn_mpi *w, const clattn_mpi_params *p) {
    cl_command_queue_properties order = 0;
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_int code = CL_SUCCESS;
    if (!p->context || !p->queue)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "%s: is NULL", p->context ? "queue" : "context");
    w->context = p->context, w->queue = p->queue;
    w->opencl = clattn_context_opencl(p->context);
    code = clGetCommandQueueInfo(p->queue, CL_QUEUE_PROPERTIES, sizeof order, &order, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(p->queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(p->queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    TRY(cla_mpi_cl(w, code, "clGetCommandQueueInfo"));
    if (order & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "queue: is out of order: must be in order");
    if (context != w->opencl)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "queue: is of another OpenCL context");
    w->copies = clCreateCommandQueue(w->opencl, device, 0, &code);
    TRY(cla_mpi_cl(w, code, "clCreateCommandQueue"));
    if (p->link_bytes_per_second >= 0 && p->link_seconds >= 0 && p->flops_per_second >= 0 &&
        p->call_seconds >= 0)
        return CLATTN_OK;
    return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT,
                        "link_bytes_per_second, link_seconds, flops_per_second, call_seconds: "
                        "must be 0 (measured) or more");
}

clattn_status clattn_mpi_create(const clattn_mpi_params *params, clattn_mpi **world) {
    int ready = 0;
    if (!params || !world) return CLATTN_INVALID_ARGUMENT;
    *world = NULL;
    if (MPI_Initialized(&ready) != MPI_SUCCESS || !ready || params->comm == MPI_COMM_NULL)
        return CLATTN_INVALID_ARGUMENT;
    clattn_mpi *w = calloc(1, sizeof *w);
    if (!w) return CLATTN_OUT_OF_MEMORY;
    w->merge = w->sum = MPI_OP_NULL;
    if (MPI_Comm_dup(params->comm, &w->comm) != MPI_SUCCESS) {
        free(w);
        return CLATTN_DRIVER;
    }
    MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(w->comm, &w->rank);
    MPI_Comm_size(w->comm, &w->ranks);
    w->words = calloc((size_t)w->ranks, sizeof *w->words);
    w->calls = calloc((size_t)w->ranks, cla_mpi_call_bytes());
    w->link_bytes = params->link_bytes_per_second, w->link_seconds = params->link_seconds;
    w->flops = params->flops_per_second, w->call_seconds = params->call_seconds;
    int memory = w->words && w->calls, all = 0;
    clattn_status status = MPI_Allreduce(&memory, &all, 1, MPI_INT, MPI_LAND, w->comm) ? CLATTN_DRIVER
                           : all                                                       ? CLATTN_OK
                                                                                       : CLATTN_OUT_OF_MEMORY;
    if (status == CLATTN_OK) status = cla_mpi_agree(w, open_device(w, params));
    if (status != CLATTN_OK) {
        clattn_mpi_destroy(w);
        return status;
    }
    *world = w;
    return CLATTN_OK;
}

void clattn_mpi_destroy(clattn_mpi *w) {
    if (!w) return;
    if (w->copies) clReleaseCommandQueue(w->copies);
    if (w->merge != MPI_OP_NULL) MPI_Op_free(&w->merge);
    if (w->sum != MPI_OP_NULL) MPI_Op_free(&w->sum);
    MPI_Comm_free(&w->comm);
    free(w->words);
    free(w->calls);
    free(w);
}

void clattn_mpi_last_error(const clattn_mpi *w, char *text, size_t size) {
    if (text && size) snprintf(text, size, "%s", w ? w->error : "");
}
