// merge.c: partial results over ranges of keys become those of all keys, on one device, in the order of the keys, so that the same
// ranges give the same bits.
#include <string.h>

#include "base/host.h"
#include "group/piece.h"

static int in_order(const void *a, const void *b) {
    const piece *x = *(piece *const *)a, *y = *(piece *const *)b;
    for (int axis = 0; axis < BOX_AXES; axis++)
        if (x->box.at[axis] != y->box.at[axis]) return x->box.at[axis] < y->box.at[axis] ? -1 : 1;
    return 0;
}

static bool same_rows(const piece *a, const piece *b) {
    for (int axis = 0; axis < BOX_KEYS; axis++)
        if (a->box.at[axis] != b->box.at[axis]) return false;
    return true;
}

typedef struct merging {
    group_member *member;
    cl_mem buffer;
    clattn_merge_params params;
    uint64_t at[4], bytes[4]; // of out_a, lse_a, out_b, lse_b
} merging;

static clattn_status copy(const merging *g, int n, float *host, bool to_host) {
    cl_command_queue queue = g->member->queue[0];
    const cl_int code =
        to_host ? clEnqueueReadBuffer(queue, g->buffer, CL_TRUE, g->at[n], g->bytes[n], host, 0, NULL, NULL)
                : clEnqueueWriteBuffer(queue, g->buffer, CL_TRUE, g->at[n], g->bytes[n], host, 0, NULL, NULL);
    if (code == CL_SUCCESS) return CLATTN_OK;
    return cla_context_fail_opencl(g->member->context, code,
                                   to_host ? "clEnqueueReadBuffer" : "clEnqueueWriteBuffer");
}

// out_a, lse_a and out_b, lse_b of one buffer.
static clattn_status open_merging(merging *g, const piece *p, int64_t dv) {
    clattn_tensor *const views[] = {&g->params.out_a, &g->params.lse_a, &g->params.out_b, &g->params.lse_b};
    const int64_t *n = p->box.size, shape[4] = {n[0], n[1], n[2], dv};
    uint64_t all = 0;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 4; i++) {
        g->at[i] = all;
        g->bytes[i] = (uint64_t)(n[0] * n[1] * n[2]) * (i % 2 ? 1 : (uint64_t)dv) * sizeof(float);
        all += (g->bytes[i] + 255) / 256 * 256;
    }
    g->buffer = clCreateBuffer(g->member->context->opencl, CL_MEM_READ_WRITE, (size_t)all, NULL, &code);
    if (!g->buffer) return cla_context_fail_opencl(g->member->context, code, "clCreateBuffer");
    for (int i = 0; i < 4; i++) {
        *views[i] = clattn_tensor_dense(g->buffer, CLATTN_TYPE_F32, i % 2 ? 3 : 4, shape);
        views[i]->offset = (int64_t)(g->at[i] / sizeof(float));
    }
    return CLATTN_OK;
}

static clattn_status merge_all(merging *g, piece *const *pieces, int count, float *out, float *lse) {
    clattn_context *context = g->member->context;
    TRY(copy(g, 0, pieces[0]->out, false));
    TRY(copy(g, 1, pieces[0]->lse, false));
    for (int n = 1; n < count; n++) {
        TRY(copy(g, 2, pieces[n]->out, false));
        TRY(copy(g, 3, pieces[n]->lse, false));
        TRY(clattn_merge_enqueue(context, g->member->queue[0], &g->params, 0, NULL, NULL));
    }
    TRY(copy(g, 0, out, true));
    return copy(g, 1, lse, true);
}

// Pieces of the same rows; by another member where one fails.
static clattn_status merge_rows(group_call *c, piece *const *pieces, int count) {
    const size_t rows = (size_t)(pieces[0]->box.size[0] * pieces[0]->box.size[1] * pieces[0]->box.size[2]);
    const int64_t dv = c->host.kv.v.shape[3];
    const clattn_host_memory *const host = &c->group->host;
    float *out = cla_host_take(host, rows * (size_t)dv * sizeof *out),
          *lse = cla_host_take(host, rows * sizeof *lse);
    clattn_status status = CLATTN_OUT_OF_MEMORY;
    clattn_context *failed = NULL;
    if (!out || !lse) {
        cla_host_release(host, out);
        cla_host_release(host, lse);
        return cla_group_fail(c->group, status, "group: no host memory to merge partial results");
    }
    for (int d = 0; d < c->group->count && status != CLATTN_OK; d++) {
        merging g = {.member = &c->group->members[d]};
        if (g.member->status != CLATTN_OK) continue;
        failed = g.member->context;
        status = open_merging(&g, pieces[0], dv);
        if (status == CLATTN_OK) status = merge_all(&g, pieces, count, out, lse);
        if (g.buffer) {
            if (status != CLATTN_OK) clFinish(g.member->queue[0]);
            clReleaseMemObject(g.buffer);
        }
        if (status == CLATTN_OK) continue;
        g.member->status = status;
        c->handed++;
        cla_group_tell(c->group, d);
    }
    if (status == CLATTN_OK) {
        cla_host_release(host, pieces[0]->out);
        cla_host_release(host, pieces[0]->lse);
        pieces[0]->out = out, pieces[0]->lse = lse, pieces[0]->merged = true;
        return CLATTN_OK;
    }
    cla_host_release(host, out);
    cla_host_release(host, lse);
    return failed ? cla_group_fail_as(c->group, status, failed)
                  : cla_group_fail(c->group, status, "group: no device is left to merge partial results");
}

clattn_status cla_merge_pieces(group_call *c) {
    qsort(c->pieces, (size_t)c->count, sizeof *c->pieces, in_order);
    for (int first = 0, last; first < c->count; first = last) {
        last = first + 1;
        if (!c->pieces[first]->partial) continue;
        while (last < c->count && same_rows(c->pieces[first], c->pieces[last])) last++;
        TRY(merge_rows(c, c->pieces + first, last - first));
        c->merged += last - first;
    }
    return CLATTN_OK;
}
