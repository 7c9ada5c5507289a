// cascade.c: see cascade.h.
#include "plan/cascade.h"

#include <stdio.h>
#include <string.h>

#include "args/args.h"
#include "plan/families/family.h"
#include "program/unfit.h"

// The cost model, in units of the time to read one byte of keys or values from memory.
// NUMBER_BYTES: multiplying one number of a key with a query row. PARTIAL_BYTES: writing and
// reading one number of a partial result. LAUNCH_BYTES: one launch. CACHED: reading from a cache.
// CPU numbers were measured (Zen 5, PoCL 3.1); GPU numbers are estimates.
#define NUMBER_BYTES_DOT 0.3
#define NUMBER_BYTES_CPU 0.6
#define NUMBER_BYTES_GPU 0.2
#define PARTIAL_BYTES_CPU 75.0
#define PARTIAL_BYTES_GPU 16.0
#define LAUNCH_BYTES_CPU ((double)(512 << 10))
#define LAUNCH_BYTES_GPU ((double)(8 << 20))
#define CACHED_BYTES ((double)(8 << 20))
#define CACHED 0.5
#define WORTH 1.5 // required ratio of savings to costs
// most bytes of partial results, unless the caller demands a cascade
#define MOST_PARTIAL_BYTES ((uint64_t)128 << 20)

problem cla_cascade_prefix(const problem *p, const cascade_input *c, cascade_fold fold) {
    const int group = p->kv_heads ? p->heads / p->kv_heads : 1, batch = p->batch, n = p->n_q;
    const int heads[CASCADE_FOLDS] = {batch, group * n, group, batch * n, 1},
              rows[CASCADE_FOLDS] = {group * n, batch, batch * n, group, batch * group * n};
    problem m = *p;
    m.batch = p->kv_heads, m.kv_heads = 1;
    m.heads = heads[fold], m.n_q = rows[fold];
    m.n_kv = c->prefix;
    m.past = false;
    m.shared_kv = c->shared_kv;
    m.type_out = CLATTN_TYPE_F32;
    return m;
}

problem cla_cascade_suffix(const problem *p, const cascade_input *c) {
    problem m = *p;
    m.n_kv -= c->prefix;
    m.past = false;
    m.shared_kv = c->own_shared_kv;
    m.type_out = CLATTN_TYPE_F32;
    return m;
}

// How often the keys are read: once per group of rows, per key/value head and item.
static double reads(const problem *p, const variant *v) {
    const int64_t group = p->kv_heads ? p->heads / p->kv_heads : 1, rows = v->rows_per_group,
                  shared = v->family->shares_heads ? group * p->n_q : p->n_q,
                  times = v->family->shares_heads ? 1 : group;
    if (v->family->path == CLATTN_KERNEL_UNFUSED || rows < 1) return (double)p->batch * (double)group;
    return (double)p->batch * (double)(times * ((shared + rows - 1) / rows));
}

static bool is_fused(const variant *v) {
    return v->family && v->family->path != CLATTN_KERNEL_UNFUSED;
}

// Choose the fold and the path that read the past the fewest times. Decode wins ties.
static bool choose_fold(const plan_input *in, const problem *p, const cascade_input *c, cascade_plan *plan) {
    const clattn_kernel paths[] = {CLATTN_KERNEL_DECODE, CLATTN_KERNEL_FLASH};
    bool found = false;
    for (int n = 0; n < 2 * CASCADE_FOLDS; n++) {
        const cascade_fold fold = (cascade_fold)(n % CASCADE_FOLDS);
        problem m = cla_cascade_prefix(p, c, fold);
        variant v;
        if (!(c->folds >> fold & 1u) ||
            (p->kernel != CLATTN_KERNEL_AUTO && p->kernel != paths[n / CASCADE_FOLDS]))
            continue;
        m.kernel = paths[n / CASCADE_FOLDS];
        if (cla_variant_choose(in, &m, &v) != CLATTN_OK || !is_fused(&v)) continue;
        const double times = reads(&m, &v) / m.batch;
        if (found && times >= plan->times) continue;
        plan->fold = fold, plan->of_prefix = v, plan->times = times, found = true;
    }
    return found;
}

static double row_bytes(const problem *p, bool shared_kv) {
    const clattn_type k = p->type_kv, v = cla_problem_type_v(p);
    return (double)p->head_dim * (double)clattn_type_size(k) / clattn_type_numbers(k) +
           (shared_kv ? 0 : p->head_dim_v) * (double)clattn_type_size(v) / clattn_type_numbers(v);
}

static uint64_t packed(const variant *v) {
    return v->packed_bytes ? v->workspace_bytes : 0;
}

// Assign the workspace: the partial results of both launches, then scratch memory that both
// launches use, one after the other.
static bool lay_out(const problem *p, cascade_plan *plan) {
    const uint64_t splits = (uint64_t)plan->of_prefix.splits +
                            (plan->has_suffix ? (uint64_t)plan->of_suffix.splits : 0),
                   prefix = packed(&plan->of_prefix),
                   suffix = plan->has_suffix ? packed(&plan->of_suffix) : 0;
    if (!cla_family_partial_bytes(p, splits, &plan->partial_bytes, &plan->partial_lse)) return false;
    plan->workspace_bytes = (plan->partial_bytes + 255) / 256 * 256 + (prefix > suffix ? prefix : suffix);
    return true;
}

// Rows that a pass computes, including empty vector lanes, which cost as much as full lanes.
static double pass_rows(const variant *v) {
    const double rows = v->rows_per_group, least = v->knobs.row_vectors ? 2.0 * v->knobs.lanes : 1.0;
    return rows > least ? rows : least;
}

// Cost of `times` passes over the past. Each pass is limited by reading or by arithmetic.
static double passes_bytes(const plan_input *in, const problem *p, const cascade_input *c, const variant *v,
                           double times) {
    const double number = !in->device->is_cpu ? NUMBER_BYTES_GPU
                          : v->knobs.dot_bf16 ? NUMBER_BYTES_DOT
                                              : NUMBER_BYTES_CPU;
    const double row = row_bytes(p, c->shared_kv), past = row * c->prefix * p->kv_heads,
                 read = past < CACHED_BYTES ? CACHED * row : row,
                 work = pass_rows(v) * number * ((double)p->head_dim + p->head_dim_v);
    return times * (read > work ? read : work) * c->prefix * p->kv_heads;
}

// True if the savings exceed the cost of the extra launch and partial results.
static bool is_worth(const plan_input *in, const problem *p, const cascade_input *c, const variant *today,
                     const cascade_plan *plan) {
    const bool cpu = in->device->is_cpu;
    const double saved = passes_bytes(in, p, c, today, plan->times_before) -
                         passes_bytes(in, p, c, &plan->of_prefix, plan->times);
    const double more = plan->of_prefix.splits + (plan->has_suffix ? plan->of_suffix.splits : 0) -
                        (today->splits > 1 ? today->splits : 0),
                 numbers = (double)p->batch * p->heads * p->n_q * ((double)p->head_dim_v + 2),
                 costs = (more > 0 ? more : 0) * numbers * (cpu ? PARTIAL_BYTES_CPU : PARTIAL_BYTES_GPU) +
                         (cpu ? LAUNCH_BYTES_CPU : LAUNCH_BYTES_GPU);
    return saved >= WORTH * costs;
}

static const char *refusal(const plan_input *in, const problem *p, const cascade_input *c,
                           const variant *today, cascade_plan *plan) {
    if (c->refusal) return c->refusal;
    if ((double)p->batch * p->heads * p->n_q > (double)ARGS_MOST_ROWS) return "its rows are too many";
    if (!c->folds) return "the strides of q, mask or bias do not let rows of several items be those of one";
    if (!choose_fold(in, p, c, plan)) return "no kernel takes the rows of all items at once";
    const problem own = cla_cascade_suffix(p, c);
    plan->has_suffix = own.n_kv > 0;
    if (plan->has_suffix &&
        (cla_variant_choose(in, &own, &plan->of_suffix) != CLATTN_OK || !is_fused(&plan->of_suffix)))
        return "no fused kernel takes the items' own keys";
    if (!lay_out(p, plan)) return "the partial results have more bytes than 64 bits count";
    plan->times_before = reads(p, today);
    if (c->asked == CLATTN_CASCADE_ALWAYS) return NULL;
    if (cla_unfit_has(in->unfit, KERNEL_COMBINE))
        return "the driver refused combine, which merges both parts";
    if (plan->partial_bytes > MOST_PARTIAL_BYTES) return "the partial results take more than 128 MiB";
    if (plan->times >= plan->times_before) return "it would be read as often";
    return is_worth(in, p, c, today, plan)
               ? NULL
               : "reading it so often costs less than a second launch and a merge";
}

clattn_status cla_cascade_choose(const plan_input *in, const problem *p, const cascade_input *c,
                                 const variant *today, cascade_plan *plan) {
    *plan = (cascade_plan){.prefix = c->prefix};
    plan->why = refusal(in, p, c, today, plan);
    plan->on = plan->why == NULL;
    return plan->on || c->asked != CLATTN_CASCADE_ALWAYS ? CLATTN_OK : CLATTN_UNSUPPORTED;
}

void cla_cascade_explain(const cascade_plan *plan, char *why, size_t size) {
    const size_t used = strlen(why);
    if (plan->on)
        snprintf(why + used, size - used, "; %d shared keys are read %.0f times by %s, not %.0f",
                 plan->prefix, plan->times, plan->of_prefix.family->name, plan->times_before);
    else if (plan->why)
        snprintf(why + used, size - used, "; each item reads the shared past: %s", plan->why);
}
