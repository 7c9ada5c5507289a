// planner.c: see planner.h.
#include "plan/planner.h"

#include "base/host.h"
#include "launch/entry.h"
#include "probe/int8_dot_gpu.h"
#include "probe/fragments.h"
#include "probe/lane_widths.h"
#include "probe/subgroups.h"
#include "plan/families/family.h"
#include "program/unfit.h"

clattn_status cla_planner_create(clattn_context *context, const char *own_rows, char why[256]) {
    struct planner *p = cla_host_take_zeroed(&context->host, 1, sizeof *p);
    why[0] = '\0';
    context->planner = p;
    if (!p) return CLATTN_OUT_OF_MEMORY;
    if (own_rows && !cla_tuned_parse_in(&context->host, own_rows, &p->own, why, 256))
        return p->own.no_memory ? CLATTN_OUT_OF_MEMORY : CLATTN_INVALID_ARGUMENT;
    if (!cla_tuned_parse_in(&context->host, clattn_tuned_rows_text, &p->shipped, why, 256))
        return CLATTN_OUT_OF_MEMORY;
    p->input = (plan_input){.device = &context->capabilities, .own = &p->own, .shipped = &p->shipped};
    return CLATTN_OK;
}

void cla_planner_destroy(clattn_context *context) {
    if (!context->planner) return;
    cla_tuned_free(&context->planner->own);
    cla_tuned_free(&context->planner->shipped);
    cla_host_release(&context->host, context->planner);
    context->planner = NULL;
}

// Vector widths are probed if the device reports fewer than four floats. Otherwise the reported
// width counts until measurements exist.
static probe_results width_results(const clattn_context *context) {
    if (context->capabilities.float_vector_width < 4 && cla_lanes_possible(&context->capabilities))
        return cla_probe_results(context, PROBES_LANES);
    return cla_probe_results_kept(context,
                                  context->no_measurements ? 0 : PROBES_LANES | PROBES_LOADS | PROBES_ASK);
}

// Copy the limits that compiled kernels and launches have shown.
static void take_limits(const clattn_context *context, plan_input *in) {
    for (int id = 0; id < KERNEL_COUNT; id++) {
        in->group_limit[id] = atomic_load_explicit(&context->planner->group_limit[id], memory_order_relaxed);
        in->own_local[id] = atomic_load_explicit(&context->planner->own_local[id], memory_order_relaxed);
    }
    in->unfit = cla_unfit_known(context);
    for (int id = 0; in->unfit && id < KERNEL_COUNT; id++) {
        const uint32_t group = cla_unfit_group(context, (enum kernel_id)id);
        if (group && (!in->group_limit[id] || group < in->group_limit[id])) in->group_limit[id] = group;
    }
}

plan_input cla_planner_linear_input(const clattn_context *context) {
    plan_input in = context->planner->input;
    in.probes = width_results(context);
    take_limits(context, &in);
    const unsigned sums = atomic_load_explicit(&context->planner->spilled_sums, memory_order_relaxed);
    in.spilled_sums = sums == PLANNER_NO_SPILLS ? 0 : sums;
    return in;
}

int cla_planner_lanes(const clattn_context *context) {
    const plan_input in = cla_planner_linear_input(context);
    return cla_variant_lanes(&in);
}

// Probe sub-groups only if some kernel may use them. On a CPU the default kernels do not, so there
// a tuned row of the caller must name such a kernel.
static bool wants_subgroups(const plan_input *in) {
    if (!in->device->subgroups) return false;
    for (int i = 0; i < cla_family_count; i++) {
        if (!cla_families[i]->subgroups) continue;
        if (!cla_plan_has_lanes(in)) return true;
        for (int r = 0; r < in->own->count; r++)
            if (in->own->rows[r].id == cla_families[i]->id) return true;
    }
    return false;
}

// Probe wgmma only if a tuned row of the caller names it.
static bool wants_wgmma(const plan_input *in) {
    for (int r = 0; r < in->own->count; r++)
        if (in->own->rows[r].id == KERNEL_FLASH_FRAGMENTS &&
            in->own->rows[r].knobs.matrix_engine == MATRIX_ENGINE_WGMMA)
            return true;
    return false;
}

static bool wants_terms(const plan_input *in) {
    for (int r = 0; r < in->own->count; r++)
        if (in->own->rows[r].knobs.bf16_terms) return true;
    return false;
}

// Check the types first: only calls whose types can gain run probes, or wait for another thread's
// probes.
plan_input cla_planner_input(clattn_context *context, const problem *p) {
    plan_input in = cla_planner_linear_input(context);
    const bool bf16 = p->type_q == CLATTN_TYPE_BF16 && p->type_kv == CLATTN_TYPE_BF16 && !p->type_v;
    const bool half = p->type_q == CLATTN_TYPE_F32 ? wants_terms(&in) : !cla_family_halves_refusal(p);
    const unsigned wanted = (bf16 ? 1u << PROBE_FMA | 1u << PROBE_DOT_BF16 | 1u << PROBE_AMX : 0) |
                            (cla_family_integer_refusal(p) ? 0 : 1u << PROBE_FMA | 1u << PROBE_DOT_I8) |
                            (cla_family_matrix_integers_refusal(p) ? 0 : 1u << PROBE_FMA | PROBES_AMX_I8) |
                            (cla_family_eights_wanted(&in, p) ? PROBES_EIGHTS : 0) |
                            (half && in.device->compute_capability ? PROBES_MMA | 1u << PROBE_TILES : 0) |
                            (half && wants_wgmma(&in) ? PROBES_WGMMA : 0) |
                            (wants_subgroups(&in) ? PROBES_SUBGROUPS : 0);
    // Engines of other vendors are not probed here, only earlier results are used. A compiler may
    // abort the process when its target lacks an instruction. Only clattn_context_engines and
    // clattn_context_measure probe these engines.
    const bool kept = half && cla_fragments_possible(in.device);
    if (wanted) in.probes = cla_probe_results(context, wanted);
    if (kept) in.probes = cla_probe_results_kept(context, PROBES_FRAGMENTS | 1u << PROBE_TILES);
    return in;
}

// Decides by what the device reports. If a probe contradicts the report, either the alignment is
// queried needlessly, or the plan assumes an alignment of 1, which always holds.
bool cla_planner_asks_alignment(const clattn_context *context) {
    const clattn_capabilities *of = &context->capabilities;
    return context->planner->own.count > 0 || !of->is_cpu || of->float_vector_width < 4;
}

// Record the largest work-group of a compiled kernel. A driver's 0 counts as 1, which every kernel
// supports. False: already known.
static bool learn_limit(clattn_context *context, enum kernel_id id, size_t items) {
    const unsigned limit = items < 1 ? 1 : items < UINT32_MAX ? (unsigned)items : UINT32_MAX;
    atomic_uint *of = &context->planner->group_limit[id];
    unsigned known = atomic_load(of);
    do {
        if (known && known <= limit) return false;
    } while (!atomic_compare_exchange_weak(of, &known, limit));
    cla_log_send(&context->log, CLATTN_LOG_INFO,
                 "kernel %s: compiled, it allows %u work-items: smaller tiles are taken",
                 clattn_kernel_sources[id].name, limit);
    return true;
}

// Compare private memory with the accumulators. True if plans change: use fewer accumulators, or
// stop checking. A driver that reports much memory even with PLANNER_FEW_SUMS accumulators counts
// registers, so its numbers are ignored from then on. Spilling means more private memory than half
// of the accumulators, or, if there are few, all of them.
static bool learn_private(clattn_context *context, enum kernel_id id, int sums, uint64_t bytes) {
    atomic_uint *of = &context->planner->spilled_sums;
    unsigned known = atomic_load(of);
    const bool few = sums <= PLANNER_FEW_SUMS;
    if (context->capabilities.is_cpu || sums <= 0 || bytes <= (few ? 4u : 2u) * (uint64_t)sums) return false;
    const unsigned wanted = few ? PLANNER_NO_SPILLS : (unsigned)sums;
    do {
        if (known == PLANNER_NO_SPILLS) return false;
        // planned already
        if (known && known <= wanted && wanted != PLANNER_NO_SPILLS) return false;
    } while (!atomic_compare_exchange_weak(of, &known, wanted));
    cla_log_send(
        &context->log, CLATTN_LOG_INFO,
        wanted == PLANNER_NO_SPILLS
            ? "kernel %s: compiled, it takes %llu bytes of private memory with %d sums: not only spilled "
              "registers"
            : "kernel %s: compiled, it takes %llu bytes of private memory with %d sums: fewer are taken",
        clattn_kernel_sources[id].name, (unsigned long long)bytes, sums);
    return true;
}

// Record local memory that the driver adds to a kernel's own (futhark#1191: 40 bytes per group).
// True if plans change.
static bool learn_local(clattn_context *context, enum kernel_id id, uint64_t planned, uint64_t bytes) {
    const uint64_t own = bytes > planned ? bytes - planned : 1;
    const unsigned wanted = own < UINT32_MAX ? (unsigned)own : UINT32_MAX;
    atomic_uint *of = &context->planner->own_local[id];
    unsigned known = atomic_load(of);
    do {
        if (wanted <= known) return false;
    } while (!atomic_compare_exchange_weak(of, &known, wanted));
    cla_log_send(&context->log, CLATTN_LOG_INFO,
                 "kernel %s: compiled, it takes %llu bytes of local memory, %u more than planned: the device "
                 "has %llu",
                 clattn_kernel_sources[id].name, (unsigned long long)bytes, wanted,
                 (unsigned long long)context->capabilities.local_memory_bytes);
    return true;
}

clattn_status cla_planner_program(clattn_context *context, const program_spec *spec, const planned_group *g,
                                  program **p) {
    TRY(cla_program_get_spec(context, spec, p));
    const uint64_t bytes = (*p)->local_bytes;
    const size_t items = g->items > 1 ? (size_t)g->items : 1;
    if (items > 1 && items > (*p)->group_limit && learn_limit(context, spec->id, (*p)->group_limit))
        return ENTRY_PLAN_AGAIN;
    if (items > 1 && items > cla_program_group(context, *p)) { // its family has no smaller tile
        const unfit_failure failure = {
            .spec = spec, .step = UNFIT_LAUNCH, .code = CL_INVALID_WORK_GROUP_SIZE, .work_group = items};
        return cla_unfit_failed(context, &failure);
    }
    if (g->local_bytes > 0 && bytes > context->capabilities.local_memory_bytes) {
        const unfit_failure failure = {.spec = spec, .step = UNFIT_INFO, .code = CL_OUT_OF_RESOURCES};
        return learn_local(context, spec->id, g->local_bytes, bytes) ? ENTRY_PLAN_AGAIN
                                                                     : cla_unfit_failed(context, &failure);
    }
    return learn_private(context, spec->id, g->sums, (*p)->private_bytes) ? ENTRY_PLAN_AGAIN : CLATTN_OK;
}

const int *cla_planner_clblast_row(const clattn_context *context, int kernel) {
    const clattn_capabilities *of = &context->capabilities;
    const plan_input in = cla_planner_linear_input(context);
    const tuned_key key = {.cpu = of->is_cpu, .lanes = cla_plan_lanes_key(&in), .band = INT32_MAX};
    tuned_kernels kernels = {.has = {false}};
    kernels.has[TUNED_CLBLAST_KERNELS + kernel] = true;
    const tuned_row *row = cla_tuned_find(&context->planner->own, NULL, &kernels, &key, NULL);
    return row ? row->clblast : NULL;
}
