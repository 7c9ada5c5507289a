// copy.c: see copy.h.
#include "mpi/copy.h"

#define ALIGNED 256 // parts of a piece start at multiples of 256 bytes

size_t cla_mpi_bytes(const clattn_tensor *t) {
    size_t bytes = clattn_type_size(t->type);
    for (int axis = 0; axis < t->rank; axis++) bytes *= (size_t)t->shape[axis];
    return t->rank ? bytes : 0;
}

// Copy the rows of one head: [n, D], or [n] as n rows of one number.
static cl_int move_head(cl_command_queue queue, const clattn_tensor *t, int64_t at, char *host, bool reads) {
    const size_t size = clattn_type_size(t->type), width = t->rank == 4 ? (size_t)t->shape[3] * size : size,
                 rows = (size_t)t->shape[2], pitch = (size_t)t->stride[2] * size;
    const size_t here[3] = {0, 0, 0}, first = (size_t)at * size;
    if (rows == 1 || pitch == width) {
        return reads
                   ? clEnqueueReadBuffer(queue, t->buffer, CL_FALSE, first, rows * width, host, 0, NULL, NULL)
                   : clEnqueueWriteBuffer(queue, t->buffer, CL_FALSE, first, rows * width, host, 0, NULL,
                                          NULL);
    }
    if (pitch > width) {
        const size_t there[3] = {first % pitch, first / pitch, 0}, region[3] = {width, rows, 1};
        if (there[0] + width <= pitch)
            return reads ? clEnqueueReadBufferRect(queue, t->buffer, CL_FALSE, there, here, region, pitch, 0,
                                                   width, 0, host, 0, NULL, NULL)
                         : clEnqueueWriteBufferRect(queue, t->buffer, CL_FALSE, there, here, region, pitch, 0,
                                                    width, 0, host, 0, NULL, NULL);
    }
    // Rows that repeat, overlap, or are no rectangle of this pitch are copied one by one.
    for (size_t n = 0; n < rows; n++) {
        const size_t from = first + n * pitch;
        const cl_int code = reads ? clEnqueueReadBuffer(queue, t->buffer, CL_FALSE, from, width,
                                                        host + n * width, 0, NULL, NULL)
                                  : clEnqueueWriteBuffer(queue, t->buffer, CL_FALSE, from, width,
                                                         host + n * width, 0, NULL, NULL);
        if (code != CL_SUCCESS) return code;
    }
    return CL_SUCCESS;
}

static clattn_status move(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *t, char *host,
                          bool reads) {
    cl_int code = CL_SUCCESS;
    if (cla_mpi_bytes(t) == 0) return CLATTN_OK;
    const size_t step = cla_mpi_bytes(t) / (size_t)(t->shape[0] * t->shape[1]);
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1] && code == CL_SUCCESS; h++) {
            code = move_head(queue, t, t->offset + b * t->stride[0] + h * t->stride[1], host, reads);
            host += step;
        }
    if (code == CL_SUCCESS) code = clFlush(queue);
    return cla_mpi_cl(w, code, reads ? "reading rows" : "writing rows");
}

clattn_status cla_mpi_read(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *view, void *host) {
    return move(w, queue, view, host, true);
}

clattn_status cla_mpi_write(clattn_mpi *w, cl_command_queue queue, const clattn_tensor *view,
                            const void *host) {
    return move(w, queue, view, (char *)(uintptr_t)host, false);
}

clattn_status cla_mpi_finish(clattn_mpi *w, cl_command_queue queue) {
    return cla_mpi_cl(w, clFinish(queue), "clFinish");
}

void cla_mpi_drain(clattn_mpi *w, clattn_status status) {
    if (status == CLATTN_OK) return;
    clFinish(w->queue);
    clFinish(w->copies);
}

static const clattn_tensor *own_part(const job *j, int part) {
    const clattn_mpi_attention_params *p = j->p;
    const clattn_tensor *const own[PIECE_PARTS] = {&p->k,       &p->v,      &p->k_scale,
                                                   &p->v_scale, &p->k_zero, &p->v_zero};
    return own[part];
}

void cla_mpi_row_bytes(const job *j, size_t row[PIECE_PARTS]) {
    for (int part = 0; part < PIECE_PARTS; part++) {
        const clattn_tensor *t = own_part(j, part);
        row[part] = t->rank ? clattn_type_size(t->type) * (size_t)(t->rank == 4 ? t->shape[3] : 1) : 0;
    }
}

piece_layout cla_mpi_piece_layout(const job *j, int64_t rows) {
    const size_t n = (size_t)(j->batch * j->kv_heads) * (size_t)rows;
    size_t row[PIECE_PARTS];
    cla_mpi_row_bytes(j, row);
    piece_layout l = {.bytes = 0};
    for (int part = 0; part < PIECE_PARTS; part++) {
        l.at[part] = l.bytes;
        l.bytes += (n * row[part] + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    return l;
}

void cla_mpi_piece_views(const job *j, cl_mem buffer, int64_t rows, clattn_tensor views[PIECE_PARTS]) {
    const piece_layout l = cla_mpi_piece_layout(j, rows);
    for (int part = 0; part < PIECE_PARTS; part++) {
        const clattn_tensor *t = own_part(j, part);
        const int64_t shape[4] = {j->batch, j->kv_heads, rows, t->shape[3]};
        views[part] = (clattn_tensor){0};
        if (!t->rank) continue;
        views[part] = clattn_tensor_dense(buffer, t->type, t->rank, shape);
        views[part].offset = (int64_t)(l.at[part] / clattn_type_size(t->type));
    }
}

void cla_mpi_own_views(const job *j, int64_t local, int64_t count, clattn_tensor views[PIECE_PARTS]) {
    for (int part = 0; part < PIECE_PARTS; part++)
        views[part] = cla_mpi_rows_of(*own_part(j, part), local, count);
}
