// case_kv.c: see case_kv.h. Types whose every element says its own number need nothing here.
#include "evidence/case_kv.h"

const char *const case_kv_types[] = {"f32", "f16", "bf16", NULL};

void case_kv_store(struct case_data *data) {
    (void)data;
}

static struct guarded bind(const struct case_data *data, struct place *place, int tensor) {
    const struct guarded_shape shape = case_shape(&data->test, tensor);
    return guarded_input(place, &shape, data->input[tensor]);
}

void case_kv_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    a->k = bind(data, place, CASE_K);
    a->v = bind(data, place, CASE_V);
    a->params.kv.k = a->k.view;
    a->params.kv.v = a->v.view;
}
