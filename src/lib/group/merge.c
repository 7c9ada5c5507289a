// merge.c: merges partial results over ranges of keys, on one device, in the order of the keys. So
// the same ranges always lead to the same bits.
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "group/merge.h"

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
    uint64_t at[4], bytes[4]; // in the buffer: out_a, lse_a, out_b, lse_b
} merging;

static clattn_status copy(const merging *g, int n, float *host, bool to_host) {
    cl_command_queue queue = g->member->queue[0];
    const size_t at = (size_t)g->at[n], bytes = (size_t)g->bytes[n];
    const cl_int code = to_host
                            ? clEnqueueReadBuffer(queue, g->buffer, CL_TRUE, at, bytes, host, 0, NULL, NULL)
                            : clEnqueueWriteBuffer(queue, g->buffer, CL_TRUE, at, bytes, host, 0, NULL, NULL);
    if (code == CL_SUCCESS) return CLATTN_OK;
    return cla_context_fail_opencl(g->member->context, code,
                                   to_host ? "clEnqueueReadBuffer" : "clEnqueueWriteBuffer");
}

// Allocate out_a, lse_a, out_b and lse_b in one buffer.
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
    if (all > g->member->largest)
        return cla_context_fail(g->member->context, CLATTN_OUT_OF_MEMORY,
                                "merge: %llu bytes are more than the device's largest buffer",
                                (unsigned long long)all);
    g->buffer = clCreateBuffer(g->member->context->opencl, CL_MEM_READ_WRITE, (size_t)all, NULL, &code);
    if (!g->buffer) return cla_context_fail_opencl(g->member->context, code, "clCreateBuffer");
    for (int i = 0; i < 4; i++) {
        *views[i] = clattn_tensor_dense(g->buffer, CLATTN_TYPE_F32, i % 2 ? 3 : 4, shape);
        views[i]->offset = (int64_t)(g->at[i] / sizeof(float));
    }
    return CLATTN_OK;
}

#define OUT offsetof(group_params, forward.out)
#define LSE offsetof(group_params, forward.lse)
static float *own(piece *p, size_t field) {
    return cla_piece_own(p, field)->own;
}

static clattn_status merge_all(merging *g, piece *const *pieces, int count, float *out, float *lse) {
    clattn_context *context = g->member->context;
    TRY(copy(g, 0, own(pieces[0], OUT), false));
    TRY(copy(g, 1, own(pieces[0], LSE), false));
    for (int n = 1; n < count; n++) {
        TRY(copy(g, 2, own(pieces[n], OUT), false));
        TRY(copy(g, 3, own(pieces[n], LSE), false));
        TRY(clattn_merge_enqueue(context, g->member->queue[0], &g->params, 0, NULL, NULL));
    }
    TRY(copy(g, 0, out, true));
    return copy(g, 1, lse, true);
}

// Merge pieces of the same rows. If a member fails, another one does it.
static clattn_status merge_rows(group_call *c, piece *const *pieces, int count) {
    const size_t rows = (size_t)(pieces[0]->box.size[0] * pieces[0]->box.size[1] * pieces[0]->box.size[2]);
    const int64_t dv = cla_tensor_width(&c->host.forward.kv.v);
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
        cla_host_release(host, own(pieces[0], OUT));
        cla_host_release(host, own(pieces[0], LSE));
        cla_piece_own(pieces[0], OUT)->own = out, cla_piece_own(pieces[0], LSE)->own = lse;
        pieces[0]->merged = true;
        return CLATTN_OK;
    }
    cla_host_release(host, out);
    cla_host_release(host, lse);
    return failed ? cla_group_fail_as(c->group, status, failed)
                  : cla_group_fail(c->group, status, "group: no device is left to merge partial results");
}

void cla_pieces_sort(group_call *c) {
    qsort(c->pieces, (size_t)c->count, sizeof *c->pieces, in_order);
}

clattn_status cla_merge_pieces(group_call *c) {
    cla_pieces_sort(c);
    for (int first = 0, last; first < c->count; first = last) {
        last = first + 1;
        if (!c->pieces[first]->partial) continue;
        while (last < c->count && same_rows(c->pieces[first], c->pieces[last])) last++;
        TRY(merge_rows(c, c->pieces + first, last - first));
        c->merged += last - first;
    }
    return CLATTN_OK;
}

static uint16_t narrow(float x, clattn_type type) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t size = bits & 0x7FFFFFFF, sign = bits >> 31 << 15;
    if (size > 0x7F800000) return (uint16_t)(type == CLATTN_TYPE_BF16 ? bits >> 16 | 0x40 : sign | 0x7E00);
    if (type == CLATTN_TYPE_BF16) return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7C00); // 65536 and more: infinity
    if (size < 0x38800000) {                                  // a subnormal half: units of 2^-24
        float magnitude;
        memcpy(&magnitude, &size, sizeof magnitude);
        const float shifted = magnitude + 0.5f; // the sum's last place is 2^-24
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000));
    }
    const uint32_t rebased = size - 0x38000000;
    return (uint16_t)(sign | (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13);
}

void cla_put_number(const clattn_tensor *t, int64_t element, float x) {
    if (t->type == CLATTN_TYPE_F32)
        ((float *)(void *)t->buffer)[element] = x;
    else
        ((uint16_t *)(void *)t->buffer)[element] = narrow(x, t->type);
}

static void store_row(const clattn_tensor *t, const int64_t at[3], const float *row) {
    const int64_t first = t->offset + at[0] * t->stride[0] + at[1] * t->stride[1] + at[2] * t->stride[2];
    for (int64_t d = 0; d < (t->rank == 4 ? t->shape[3] : 1); d++)
        cla_put_number(t, first + (t->rank == 4 ? d * t->stride[3] : 0), row[d]);
}

static void store(const group_call *c, piece *p) {
    const box *b = &p->box;
    const clattn_attention_params *f = &c->host.forward;
    const float *out = own(p, OUT), *lse = own(p, LSE);
    const int64_t *n = b->size, dv = cla_tensor_width(&f->kv.v), rows = n[0] * n[1] * n[2];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at[3] = {b->at[0] + r / (n[1] * n[2]), b->at[1] + r / n[2] % n[1], b->at[2] + r % n[2]};
        if (f->score.q_lengths && at[2] >= f->score.q_lengths[at[0]]) continue;
        store_row(&f->out, at, out + r * dv);
        if (f->lse.rank) store_row(&f->lse, at, lse + r);
    }
}

void cla_merge_store(const group_call *c) {
    for (int n = 0; n < c->count; n++)
        if (c->pieces[n]->merged) store(c, c->pieces[n]);
}
