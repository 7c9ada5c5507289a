// sum.c: sums gradients to which several pieces contribute: dk and dv of partitioned rows, dq of
// partitioned keys, gradients of heads. The contributions are added in float32, in the order of the
// pieces' boxes, and the sum is rounded once. So the same boxes always lead to the same bits.
#include "base/host.h"
#include "group/merge.h"

static clattn_tensor sums_of(const group_call *c, int n) {
    const clattn_tensor *t = cla_group_view((group_params *)&c->host, &c->op->rules[n]);
    return clattn_tensor_dense(CLATTN_HOST(c->sums[n]), CLATTN_TYPE_F32, t->rank, t->shape);
}

// Add one piece's contribution, which is read sequentially.
static void add(const group_part *x, const clattn_tensor *sums, int axis, int64_t at, const float **from) {
    float *const to = (float *)(void *)sums->buffer;
    for (int64_t i = 0; i < x->shape[axis]; i++) {
        const int64_t here = at + (x->first[axis] + i) * sums->stride[axis];
        if (axis < x->rank - 1)
            add(x, sums, axis + 1, here, from);
        else
            to[here] += *(*from)++;
    }
}

clattn_status cla_sum_pieces(group_call *c) {
    cla_pieces_sort(c);
    for (int n = 0; n < c->op->rule_count; n++) {
        for (int i = 0; i < c->count; i++) {
            const group_part *x = cla_piece_own(c->pieces[i], c->op->rules[n].field);
            if (!x) continue;
            clattn_tensor sums = sums_of(c, n);
            const size_t count = (size_t)cla_tensor_count(&sums);
            if (!c->sums[n])
                c->sums[n] = cla_host_take_zeroed(&c->group->host, count ? count : 1, sizeof *c->sums[n]);
            if (!c->sums[n])
                return cla_group_fail(c->group, CLATTN_OUT_OF_MEMORY,
                                      "group: no host memory to add gradients");
            sums.buffer = CLATTN_HOST(c->sums[n]);
            const float *from = x->own;
            add(x, &sums, 0, 0, &from);
            c->merged++;
        }
    }
    return CLATTN_OK;
}

static void store(const group_part *x, const clattn_tensor *t, const clattn_tensor *sums, int axis,
                  int64_t at, int64_t of_sums) {
    for (int64_t i = x->first[axis]; i < x->first[axis] + x->shape[axis]; i++) {
        const int64_t here = at + i * t->stride[axis], from = of_sums + i * sums->stride[axis];
        if (axis < x->rank - 1)
            store(x, t, sums, axis + 1, here, from);
        else
            cla_put_number(t, here, ((const float *)(const void *)sums->buffer)[from]);
    }
}

void cla_sum_store(const group_call *c) {
    for (int n = 0; n < c->op->rule_count; n++) {
        const clattn_tensor *t = cla_group_view((group_params *)&c->host, &c->op->rules[n]);
        const clattn_tensor sums = c->sums[n] ? sums_of(c, n) : (clattn_tensor){0};
        for (int i = 0; c->sums[n] && i < c->count; i++) {
            const group_part *x = cla_piece_own(c->pieces[i], c->op->rules[n].field);
            if (x) store(x, t, &sums, 0, t->offset, 0);
        }
    }
}
