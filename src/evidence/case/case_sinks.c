// case_sinks.c: see case_sinks.h.
#include "evidence/case/case_sinks.h"

#include <stdlib.h>

#include "evidence/reference/reference.h"

void case_sinks_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_score *score = t->op == CASE_LAYER ? &a->layer.score : &a->params.score;
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 1, {t->heads}, t->layout};
    if (!t->device_sinks) return;
    double *values = reference_alloc(t->heads);
    for (int64_t h = 0; h < t->heads; h++) values[h] = (double)t->score.sinks[h];
    a->sinks = guarded_input(place, &shape, values);
    free(values);
    score->sinks = NULL;
    score->sinks_device = a->sinks.view;
}
