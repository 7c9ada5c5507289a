// past.c: see past.h.
#include "onnxruntime/past.h"

#include <string.h>

void past_join(struct call *call, size_t index, const struct array *past, const clattn_tensor *rows,
               const void *data) {
    const int64_t *shape = rows->shape, before = past->data ? past->shape[2] : 0;
    const int64_t wanted[4] = {shape[0], shape[1], before + shape[2], shape[3]};
    const struct array joined = call_output(call, index, 4, wanted);
    const size_t element = clattn_type_size(rows->type), row = (size_t)shape[3] * element;
    unsigned char *to = joined.data;
    if (to == NULL) return;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++) {
            const size_t head = (size_t)(b * shape[1] + h), first = (size_t)before * row;
            if (before) memcpy(to, (const unsigned char *)past->data + head * first, first);
            to += first;
            for (int64_t n = 0; n < shape[2]; n++, to += row) {
                const int64_t at =
                    rows->offset + b * rows->stride[0] + h * rows->stride[1] + n * rows->stride[2];
                memcpy(to, (const unsigned char *)data + (size_t)at * element, row);
            }
        }
}

int64_t past_bind(struct call *call, size_t index, struct array past[2], clattn_kv *kv) {
    for (size_t n = 0; n < 2; n++) {
        const clattn_tensor *rows = n ? &kv->v : &kv->k;
        past[n] = call_input(call, index + n);
        if (past[n].data == NULL) continue;
        const int64_t wanted[4] = {rows->shape[0], rows->shape[1],
                                   n && past[0].data ? past[0].shape[2] : ANY_SIZE, rows->shape[3]};
        call_axes(call, &past[n], n ? "past_value" : "past_key", "[B, Hkv, P, D]", 4, wanted);
        if (past[n].type != rows->type)
            call_refuse(call, "%s is of the type of the new rows", n ? "past_value" : "past_key");
    }
    if ((past[0].data == NULL) != (past[1].data == NULL))
        call_refuse(call, "past_key and past_value go together");
    if (!call_good(call) || past[0].data == NULL) return 0;
    if (past[0].shape[2] > 0) {
        kv->past_k = call_view(call, &past[0]);
        kv->past_v = call_view(call, &past[1]);
    }
    return past[0].shape[2];
}
