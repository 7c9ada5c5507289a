// linear_plan.c: the planner's choice for one projection: who computes it. The shape of the work is its family's.
#include "plan/family.h"

static bool clblast_measured_faster(const plan_input *in, enum kernel_id id) {
    return in->measured[id == KERNEL_LINEAR_FEW_LANES ? PLAN_FEW_ROWS : PLAN_MANY_ROWS] ==
           PLAN_CLBLAST_FASTER;
}

static const tuned_row *linear_row(const plan_input *in, const linear_problem *p, const tuned_rows *rows) {
    const tuned_key key = {.cpu = in->device->is_cpu,
                           .lanes = (int)in->device->float_vector_width,
                           .type = (int)p->type_w,
                           .d = (int)(p->reduction < INT32_MAX ? p->reduction : INT32_MAX),
                           .nq = (int)(p->rows < INT32_MAX ? p->rows : INT32_MAX)};
    const unsigned kernels = 1u << KERNEL_LINEAR_LANES | 1u << KERNEL_LINEAR_FEW_LANES | 1u << TUNED_CLBLAST;
    return cla_tuned_find(rows, NULL, kernels, &key);
}

bool cla_variant_linear_is_open(const plan_input *in, const linear_problem *p) {
    const tuned_row *row = linear_row(in, p, in->shipped);
    return row && row->id != TUNED_CLBLAST && !linear_row(in, p, in->own);
}

bool cla_variant_choose_linear(const plan_input *in, const linear_problem *p, bool forced,
                               linear_choice *choice) {
    static const tuned_row any_device = {.id = KERNEL_LINEAR_LANES};
    const tuned_row *own = linear_row(in, p, in->own);
    const tuned_row *row = own ? own : linear_row(in, p, in->shipped);
    const bool to_clblast = !row || row->id == TUNED_CLBLAST;
    if (!forced && (to_clblast || (!own && clblast_measured_faster(in, row->id)))) return false;
    if (to_clblast) row = &any_device;
    *choice = (linear_choice){
        .id = row->id,
        .knobs = {.type_q = (int)p->type_x,
                  .type_kv = (int)p->type_w,
                  .type_out = (int)p->type_y,
                  .type_bias = (int)p->type_bias,
                  .lanes = row->knobs.lanes ? row->knobs.lanes : cla_variant_lanes(in->device)}};
    for (int i = 0; i < cla_family_count; i++)
        if (cla_families[i]->id == row->id && cla_families[i]->shape)
            cla_families[i]->shape(in, p, row, choice);
    return true;
}
