// case_backward.c: see case_backward.h.
#include "verification/case/case_backward.h"

#include <stdlib.h>

#include "verification/device/opencl.h"

// Use the buffer's contents as the new reference for guarded_intact: the forward call has written
// out and lse, which are now inputs. Returns false if anything around the tensor changed.
static bool keep_result(struct guarded *tensor, cl_command_queue queue) {
    if (tensor->image == NULL) return true;
    double *values = reference_alloc(guarded_count(&tensor->view));
    const bool intact = guarded_read(tensor, queue, values);
    free(values);
    free(tensor->image);
    tensor->image = guarded_bytes(tensor, queue);
    return intact;
}

void case_backward_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    clattn_attention_backward_params *p = &a->backward;
    clattn_tensor *const results[GRADIENTS] = {
        &p->dq, &p->dk, &p->dv, &p->dbias, &p->dsinks, &p->dalibi_slopes, &p->dhead_scales};
    a->forward.status = clattn_attention_enqueue(place->context, place->queue, &a->params, 0, NULL, NULL);
    clFinish(place->queue); // the call may run on another queue
    const bool kept_out = a->forward.status != CLATTN_OK || keep_result(&a->out, place->queue);
    const bool kept_lse = a->forward.status != CLATTN_OK ||
                          keep_result(&a->lse, place->queue); // reads lse even if out is wrong
    a->forward.intact = kept_out && kept_lse;
    *p = (clattn_attention_backward_params){.forward = a->params, .dout = a->dout.view, .dlse = a->dlse.view};
    if (data->test.mods_gradient) p->score_mod_gradient = a->score_mod_gradient;
    for (int g = 0; g < GRADIENTS; g++) *results[g] = a->gradient[g].view;
}

clattn_status case_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                    const struct case_arrays *a, cl_event *event) {
    if (a->forward.status != CLATTN_OK) return a->forward.status;
    return clattn_attention_backward_enqueue(context, queue, &a->backward, 0, NULL, event);
}
