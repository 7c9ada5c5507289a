// linear_plan.c: choose who computes a projection, and report why. The families compute tile sizes.
#include "args/args.h"
#include "plan/families/family_fragments.h"
#include "plan/families/family_linear.h"
#include "program/unfit.h"

// True if the device has the matrix engine that the tuned row needs.
static bool has_engine(const plan_input *in, const linear_problem *p, const tuned_row *row) {
    if (row->id == KERNEL_LINEAR_FRAGMENTS) return cla_family_linear_fragments_can(in, p, &row->knobs);
    return row->id != KERNEL_LINEAR_MATRIX || row->knobs.matrix_engine != MATRIX_ENGINE_AMX ||
           in->probes.proven >> PROBE_AMX & 1u;
}

// Kernels that the driver rejected for this projection.
typedef struct gone_kernels {
    bool of[KERNEL_COUNT];
} gone_kernels;
static const gone_kernels none_gone;

// The tuned row for a projection. The lanes kernels are for CPUs only: on other devices their
// register tiles would spill in every one of thousands of work-items.
static const tuned_row *linear_row(const plan_input *in, const linear_problem *p, const tuned_rows *rows,
                                   const gone_kernels *gone) {
    const tuned_key key = {.cpu = in->device->is_cpu,
                           .lanes = cla_plan_lanes_key(in),
                           .type = (int)p->type_w,
                           .d = (int)(p->reduction < INT32_MAX ? p->reduction : INT32_MAX),
                           .nq = (int)(p->rows < INT32_MAX ? p->rows : INT32_MAX),
                           .band = INT32_MAX};
    const bool is_cpu = in->device->is_cpu;
    const tuned_kernels kernels = {
        .has = {[TUNED_CLBLAST] = true,
                [KERNEL_LINEAR_ROWS] = !gone->of[KERNEL_LINEAR_ROWS],
                [KERNEL_LINEAR_TILES] = !gone->of[KERNEL_LINEAR_TILES],
                [KERNEL_LINEAR_LANES] = is_cpu && !gone->of[KERNEL_LINEAR_LANES],
                [KERNEL_LINEAR_FEW_LANES] = is_cpu && !gone->of[KERNEL_LINEAR_FEW_LANES]}};
    tuned_kernels with_matrix = kernels;
    with_matrix.has[KERNEL_LINEAR_MATRIX] =
        !gone->of[KERNEL_LINEAR_MATRIX] && cla_family_linear_matrix_can(in, p);
    with_matrix.has[KERNEL_LINEAR_FRAGMENTS] =
        !gone->of[KERNEL_LINEAR_FRAGMENTS] && cla_family_linear_fragments_types(p);
    const tuned_row *row = cla_tuned_find(rows, NULL, &with_matrix, &key, NULL);
    return row && !has_engine(in, p, row) ? cla_tuned_find(rows, NULL, &kernels, &key, NULL) : row;
}

static bool is_clblast(const tuned_row *row) {
    return !row || row->id == TUNED_CLBLAST;
}

// linear_rows is the simplest kernel and runs on every device.
static const tuned_row *plain_row(const plan_input *in, const linear_problem *p, const gone_kernels *gone) {
    static const tuned_row rows = {.id = KERNEL_LINEAR_ROWS}, tiles = {.id = KERNEL_LINEAR_TILES};
    return p->rows <= FAMILY_FEW_ROWS || gone->of[KERNEL_LINEAR_TILES] || !cla_family_linear_tiles_fit(in)
               ? &rows
               : &tiles;
}

// The library's default, when no tuned row of the caller decides.
static const tuned_row *default_row(const plan_input *in, const linear_problem *p, const gone_kernels *gone) {
    static const tuned_row matrix = {.id = KERNEL_LINEAR_MATRIX}, fragments = {.id = KERNEL_LINEAR_FRAGMENTS};
    if (!gone->of[KERNEL_LINEAR_MATRIX] && cla_family_linear_matrix_wins(in, p)) return &matrix;
    if (!gone->of[KERNEL_LINEAR_FRAGMENTS] && cla_family_linear_fragments_wins(in, p)) return &fragments;
    return cla_plan_has_lanes(in) ? linear_row(in, p, in->shipped, gone) : plain_row(in, p, gone);
}

// Quantised weights. CLBlast would need a float32 copy of them in every call.
static bool is_quantised(const linear_problem *p) {
    return clattn_type_numbers(p->type_w) > 1 || CLATTN_TYPE_IS_SCALED(p->type_w);
}

int cla_variant_linear_measure(enum kernel_id id) {
    return id == KERNEL_LINEAR_FEW_LANES || id == KERNEL_LINEAR_ROWS ? PLAN_FEW_ROWS : PLAN_MANY_ROWS;
}

// On devices without lanes only float32 weights are open: CLBlast would need a float32 copy of
// 16-bit weights in every call.
bool cla_variant_linear_is_open(const plan_input *in, const linear_problem *p) {
    if (linear_row(in, p, in->own, &none_gone) || is_quantised(p)) return false;
    if (cla_family_linear_matrix_wins(in, p) || cla_family_linear_fragments_wins(in, p)) return false;
    return cla_plan_has_lanes(in) ? !is_clblast(default_row(in, p, &none_gone))
                                  : p->type_w == CLATTN_TYPE_F32;
}

// True if CLBlast is the default choice.
static bool prefers_clblast(const plan_input *in, const linear_problem *p) {
    const tuned_row *row = default_row(in, p, &none_gone);
    // CLBlast needs this kernel to convert its inputs to float32
    if (cla_unfit_has(in->unfit, KERNEL_CONVERT)) return false;
    if (is_clblast(row)) return true;
    if (row->id == KERNEL_LINEAR_MATRIX || row->id == KERNEL_LINEAR_FRAGMENTS || is_quantised(p))
        return false;
    const enum plan_measured known = in->measured[cla_variant_linear_measure(row->id)];
    if (cla_plan_has_lanes(in)) return known == PLAN_CLBLAST_FASTER;
    if (!in->has_clblast || p->type_w != CLATTN_TYPE_F32) return false;
    return known == PLAN_NOT_MEASURED ? p->rows > FAMILY_FEW_ROWS : known == PLAN_CLBLAST_FASTER;
}

// The caller's tuned row, else the library's, else the simplest kernel that is left.
static const tuned_row *native_row(const plan_input *in, const linear_problem *p, const gone_kernels *gone) {
    static const tuned_row any_cpu = {.id = KERNEL_LINEAR_LANES};
    const tuned_row *own = linear_row(in, p, in->own, gone), *row = own ? own : default_row(in, p, gone);
    if (!is_clblast(row)) return row;
    if (!cla_plan_has_lanes(in)) row = default_row(in, p, gone);
    if (!is_clblast(row)) return row;
    return gone->of[KERNEL_LINEAR_LANES] ? plain_row(in, p, gone) : &any_cpu;
}

static void take_row(const plan_input *in, const linear_problem *p, const tuned_row *row,
                     linear_choice *choice) {
    *choice = (linear_choice){.id = row->id,
                              .knobs = {.type_q = (int)p->type_x,
                                        .type_kv = (int)p->type_w,
                                        .type_out = (int)p->type_y,
                                        .type_bias = (int)p->type_bias,
                                        .scale_group = p->scale_group,
                                        .type_scale = p->type_scale,
                                        .zero_points = p->zero_points}};
    for (int i = 0; i < cla_family_count; i++)
        if (cla_families[i]->id == row->id && cla_families[i]->shape)
            cla_families[i]->shape(in, p, row, choice);
}

bool cla_variant_choose_linear(const plan_input *in, const linear_problem *p, bool forced,
                               linear_choice *choice) {
    const tuned_row *own = linear_row(in, p, in->own, &none_gone);
    gone_kernels gone = none_gone;
    if (!forced && (own ? is_clblast(own) : prefers_clblast(in, p))) return false;
    for (;;) {
        take_row(in, p, native_row(in, p, &gone), choice);
        if (gone.of[choice->id] || !cla_variant_linear_unfit(in, choice)) return true;
        gone.of[choice->id] = true;
    }
}

const char *cla_variant_linear_unfit(const plan_input *in, const linear_choice *choice) {
    return in->unfit ? cla_unfit_refusal(in->unfit, choice->id, &choice->knobs, choice->options, NULL) : NULL;
}

const char *cla_variant_linear_gone(const plan_input *in, const linear_problem *p, const char **kernel) {
    linear_choice choice;
    if (!in->unfit) return NULL;
    take_row(in, p, native_row(in, p, &none_gone), &choice);
    *kernel = clattn_kernel_sources[choice.id].name;
    return cla_variant_linear_unfit(in, &choice);
}

const char *cla_variant_linear_why(const plan_input *in, const linear_problem *p, bool native) {
    if (linear_row(in, p, in->own, &none_gone))
        return native ? "a tuned row of the context prefers it"
                      : "no tuned row prefers the native kernel on this device";
    const tuned_row *row = default_row(in, p, &none_gone);
    if (native && row && (row->id == KERNEL_LINEAR_MATRIX || row->id == KERNEL_LINEAR_FRAGMENTS))
        return "a matrix engine's rate promises the shortest time";
    if (!cla_variant_linear_is_open(in, p))
        return native ? "it reads such weights as they are stored"
                      : "no tuned row prefers the native kernel on this device";
    if (in->measured[cla_variant_linear_measure(row->id)]) return "measured as the faster one on this device";
    if (cla_plan_has_lanes(in)) return "a shipped row prefers it, nothing was measured";
    return native ? "few rows, or no CLBlast: nothing was measured"
                  : "many rows of float32: nothing was measured";
}
