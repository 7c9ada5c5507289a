// case_group.c: see case_group.h.
#include "verification/case/case_group.h"

#include <stdlib.h>

#include "verification/device/opencl.h"

static void take(struct case_group *to, const struct guarded *x, cl_command_queue queue) {
    if (x->view.buffer == NULL) return;
    to->images[to->count++] =
        (struct case_image){x->view.buffer, guarded_bytes(x, queue), x->bytes, x->place};
}

static void take_all(struct case_group *to, const struct guarded *x, int count, cl_command_queue queue) {
    for (int n = 0; n < count; n++) take(to, &x[n], queue);
}

// Replace a view's buffer by its image in host memory.
static void move(const struct case_group *host, clattn_tensor *view) {
    for (int n = 0; n < host->count; n++)
        if (view->buffer != NULL && view->buffer == host->images[n].buffer) {
            view->buffer = CLATTN_HOST(host->images[n].bytes);
            return;
        }
}

void case_group_open(const struct case_arrays *a, cl_command_queue queue, struct case_group *to) {
    *to = (struct case_group){.count = 0};
    take_all(to, a->all, CASE_TENSORS, queue);
    take_all(to, a->caches, 2, queue);
    take_all(to, a->new_rows, 2, queue);
    take_all(to, a->kv_scales, 4, queue);
    take_all(to, a->kv_zeros, 4, queue);
    take(to, &a->block_table, queue);
    take_all(to, a->mods, CLATTN_MOD_BUFFERS, queue);
    take_all(to, a->positions, 2, queue);
    take(to, &a->blocks, queue);
    take(to, &a->sinks, queue);
    take_all(to, a->cu_device, 2, queue);
    clattn_attention_backward_params *p = &to->backward.backward;
    *p = a->backward;
    p->forward = a->params;
#define VIEW(field, name, axes, use, given, mask) move(to, &p->forward.field);
#include "tables/views.def"
#define GRADIENT(field, like, of, shape, types, axes, use) move(to, &p->field);
#include "tables/views.def"
    to->params.attention = p->forward;
    to->gradients = a->op == CASE_BACKWARD;
}

clattn_status case_group_run(clattn_group *group, struct case_group *host, clattn_partition partition,
                             const double *shares, clattn_group_report *report, clattn_group_share *done) {
    host->params.partition = host->backward.partition = partition;
    host->params.shares = host->backward.shares = shares;
    return host->gradients ? clattn_group_attention_backward(group, &host->backward, report, done)
                           : clattn_group_attention(group, &host->params, report, done);
}

void case_group_close(struct case_group *host, cl_command_queue queue, bool keep) {
    for (int n = 0; n < host->count; n++) {
        const struct case_image *x = &host->images[n];
        cl_int code = CL_SUCCESS;
        if (keep && x->bytes != NULL)
            code = clEnqueueWriteBuffer(queue, x->buffer, CL_TRUE, 0, x->count, x->bytes, 0, NULL, NULL);
        if (code != CL_SUCCESS) place_broken(x->place, "clEnqueueWriteBuffer", code);
        free(x->bytes);
    }
    host->count = 0;
}
