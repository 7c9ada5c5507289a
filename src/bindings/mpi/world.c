// world.c: see world.h; also creates and destroys a clattn_mpi.
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

static void *take(const clattn_host_memory *from, size_t bytes) {
    const size_t some = bytes ? bytes : 1;
    return from->allocate ? from->allocate(from->user, some) : malloc(some);
}

static void give(const clattn_host_memory *to, void *memory) {
    if (memory && to->release)
        to->release(to->user, memory);
    else
        free(memory);
}

void *cla_mpi_zeroed(const clattn_mpi *w, size_t count, size_t size) {
    void *memory = size && count > SIZE_MAX / size ? NULL : take(&w->memory, count * size);
    return memory ? memset(memory, 0, count * size) : NULL;
}

void cla_mpi_free(const clattn_mpi *w, void *memory) {
    give(&w->memory, memory);
}

void *cla_mpi_host(clattn_mpi *w, size_t bytes, clattn_status *status) {
    void *memory = *status == CLATTN_OK ? take(&w->memory, bytes) : NULL;
    if (!memory && *status == CLATTN_OK)
        *status = cla_mpi_fail(w, CLATTN_OUT_OF_MEMORY, "host memory of %zu bytes", bytes);
    return memory;
}

// Check the caller's handles, and create the module's own queue on their device.
static clattn_status open_device(clattn_mpi *w, const clattn_mpi_params *p) {
    cl_command_queue_properties order = 0;
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_int code = CL_SUCCESS;
    if (!p->host_memory.allocate != !p->host_memory.release)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "host_memory: has one of allocate and release");
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

// Check that rates are the same on all ranks. Otherwise one rank would measure, which is
// collective, and the others would not.
static clattn_status compare_rates(clattn_mpi *w) {
    const double mine[8] = {w->link_bytes,  w->link_seconds,  w->flops,  w->call_seconds,
                            -w->link_bytes, -w->link_seconds, -w->flops, -w->call_seconds};
    double most[8] = {0};
    TRY(cla_mpi_try(w, MPI_Allreduce(mine, most, 8, MPI_DOUBLE, MPI_MAX, w->comm), "MPI_Allreduce"));
    for (int n = 0; n < 4; n++)
        if (most[n] != -most[n + 4])
            return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT,
                                "link_bytes_per_second, link_seconds, flops_per_second, call_seconds: differ "
                                "between ranks: must be the same");
    return CLATTN_OK;
}

// Allocate host memory. Ranks without memory still go on to the first exchange, to report it.
static clattn_mpi *open_world(const clattn_mpi_params *p, MPI_Comm comm) {
    const bool own = p->host_memory.allocate && p->host_memory.release;
    const clattn_host_memory memory = own ? p->host_memory : (clattn_host_memory){0};
    clattn_mpi *w = take(&memory, sizeof *w);
    if (!w) return NULL;
    *w = (clattn_mpi){.comm = comm, .memory = memory, .merge = MPI_OP_NULL, .sum = MPI_OP_NULL};
    MPI_Comm_rank(w->comm, &w->rank);
    MPI_Comm_size(w->comm, &w->ranks);
    w->words = cla_mpi_zeroed(w, (size_t)w->ranks, sizeof *w->words);
    w->calls = cla_mpi_zeroed(w, (size_t)w->ranks, WORLD_CALL_BYTES);
    w->link_bytes = p->link_bytes_per_second, w->link_seconds = p->link_seconds;
    w->flops = p->flops_per_second, w->call_seconds = p->call_seconds;
    return w;
}

clattn_status clattn_mpi_create(const clattn_mpi_params *params, clattn_mpi **world) {
    int ready = 0;
    if (!params || !world) return CLATTN_INVALID_ARGUMENT;
    *world = NULL;
    if (MPI_Initialized(&ready) != MPI_SUCCESS || !ready || params->comm == MPI_COMM_NULL)
        return CLATTN_INVALID_ARGUMENT;
    MPI_Comm comm;
    if (MPI_Comm_dup(params->comm, &comm) != MPI_SUCCESS) return CLATTN_DRIVER;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    clattn_mpi *w = open_world(params, comm);
    int memory = w && w->words && w->calls, all = 0;
    clattn_status status = MPI_Allreduce(&memory, &all, 1, MPI_INT, MPI_LAND, comm) ? CLATTN_DRIVER
                           : all                                                    ? CLATTN_OK
                                                                                    : CLATTN_OUT_OF_MEMORY;
    if (status == CLATTN_OK) status = cla_mpi_agree(w, open_device(w, params));
    if (status == CLATTN_OK) status = compare_rates(w);
    if (status == CLATTN_OK)
        *world = w;
    else if (w)
        clattn_mpi_destroy(w);
    else
        MPI_Comm_free(&comm);
    return status;
}

void clattn_mpi_destroy(clattn_mpi *w) {
    if (!w) return;
    if (w->copies) clReleaseCommandQueue(w->copies);
    if (w->merge != MPI_OP_NULL) MPI_Op_free(&w->merge);
    if (w->sum != MPI_OP_NULL) MPI_Op_free(&w->sum);
    MPI_Comm_free(&w->comm);
    const clattn_host_memory memory = w->memory;
    give(&memory, w->words);
    give(&memory, w->calls);
    give(&memory, w);
}

void clattn_mpi_last_error(const clattn_mpi *w, char *text, size_t size) {
    if (text && size) snprintf(text, size, "%s", w ? w->error : "");
}
