// variant.c: choose the kernel of an attention call. In order: the path the caller selected; decode
// for few query rows; flash; the unfused path, which supports every option. Each path has its
// families in order (families.c). Tuned rows select among them and set the tile. Without a tuned
// row the first family that fits is used.
#include "plan/variant.h"

#include <limits.h>
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

#define FASTER_THAN_WIDE 1.06f // more than the noise between two measurements

// True if tiles of four vectors of rows by six keys are faster than two by eight. The tall tile
// needs fewer loads. That helps on some CPUs (Sapphire Rapids) and costs on others (Zen 5), so both
// loops are measured.
static bool prefers_tall(const plan_input *in) {
    const float *rate = in->probes.rate;
    return (in->probes.sure & PROBES_LOADS) == PROBES_LOADS && rate[PROBE_LOADS_2X8] > 0.0f &&
           rate[PROBE_LOADS_4X6] > FASTER_THAN_WIDE * rate[PROBE_LOADS_2X8];
}

static int within_int(int64_t x) {
    return x < INT_MAX ? (int)x : INT_MAX;
}

// The first tuned row that fits, for any kernel of the path that supports the problem. With
// `after`, the search starts behind that row.
static const tuned_row *find_row(const plan_input *in, const problem *p, clattn_kernel path,
                                 const tuned_row *after) {
    const tuned_key key = {.cpu = in->device->is_cpu,
                           .lanes = cla_plan_lanes_key(in),
                           .type = (int)p->type_kv,
                           .d = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v,
                           .nq = p->n_q,
                           .share = p->kv_heads ? within_int((int64_t)p->n_q * (p->heads / p->kv_heads)) : 0,
                           .band = p->band ? p->band : INT_MAX,
                           .tall = prefers_tall(in)};
    const unsigned wants = cla_problem_features(p);
    tuned_kernels kernels = {.has = {false}};
    for (int i = 0; i < cla_family_count; i++)
        if (cla_families[i]->path == path && !cla_family_missing_feature(cla_families[i], p, wants))
            kernels.has[cla_families[i]->id] = true;
    return cla_tuned_find(in->own, in->shipped, &kernels, &key, after);
}

// True if a is predicted to be faster than b. False if one of them has no prediction.
static bool is_faster(const plan_input *in, const problem *p, const variant *a, const variant *b) {
    const double time_a = cla_family_time(in, p, a), time_b = cla_family_time(in, p, b);
    return time_a > 0.0 && time_b > 0.0 && time_a < time_b;
}

// Choose the first family of the path that fits, or a later one that is predicted to be faster. On
// failure v has the last refusal. *resort: the last family whose kernel the driver rejected.
// *row_unfit: the tuned row's kernel is among the rejected ones.
static bool take_by_row(const plan_input *in, const problem *p, clattn_kernel path, const tuned_row *row,
                        variant *v, variant *resort, bool *row_unfit) {
    const unsigned wants = cla_problem_features(p);
    const char *refusal = "no kernel";
    const family *refused = NULL;
    variant next;
    bool taken = false;
    *row_unfit = false;
    for (int i = 0; i < cla_family_count; i++) {
        const family *f = cla_families[i];
        if (f->path != path || (taken && f->engine == PROBE_NONE)) continue;
        next.unfit = false;
        const char *no = cla_family_try(f, in, p, wants, row, &next);
        if (no && next.unfit) *resort = next, *row_unfit |= row && row->id == f->id;
        if (no) {
            refusal = no, refused = f;
        } else if (!taken || is_faster(in, p, &next, v)) {
            *v = next, taken = true;
        }
    }
    if (!taken) *v = (variant){.family = refused, .refusal = refusal};
    return taken;
}

// If the driver rejected the kernel of a tuned row, try the next row that fits, and finally no row.
static bool take_path(const plan_input *in, const problem *p, clattn_kernel path, variant *v,
                      variant *resort) {
    const tuned_row *row = find_row(in, p, path, NULL);
    bool taken, row_unfit;
    while ((taken = take_by_row(in, p, path, row, v, resort, &row_unfit)), row_unfit)
        row = find_row(in, p, path, row);
    return taken;
}

// With rows in vector lanes, flash is as fast as decode from 16 query rows on, so decode is used
// for up to 8. On other devices a 64-row tile would be a quarter full with 16 rows, so decode is
// used for up to 16. The second limit is an estimate.
int cla_plan_few_rows(const plan_input *in) {
    return cla_plan_has_lanes(in) ? FAMILY_FEW_ROWS / 2 : FAMILY_FEW_ROWS;
}
static bool prefers_decode(const plan_input *in, const problem *p) {
    return !p->wants_weights && p->n_q <= cla_plan_few_rows(in) && p->n_kv > 0;
}

// If the driver rejected the kernel that the caller selected, later paths replace it. No other
// reason permits that. If the driver rejected all kernels, the last one is tried again, and its
// error becomes the call's.
clattn_status cla_variant_choose(const plan_input *in, const problem *p, variant *v) {
    static const clattn_kernel paths[] = {CLATTN_KERNEL_DECODE, CLATTN_KERNEL_FLASH, CLATTN_KERNEL_UNFUSED};
    variant resort = {.family = NULL};
    const char *refusal = NULL;
    if (p->splits > 0 && p->kernel != CLATTN_KERNEL_DECODE) {
        *v = (variant){0};
        v->refusal = "splits: only the decode kernel splits keys on request";
        return CLATTN_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const bool falls = resort.family && p->splits == 0;
        if (p->kernel == CLATTN_KERNEL_AUTO ? paths[i] == CLATTN_KERNEL_DECODE && !prefers_decode(in, p)
                                            : p->kernel != paths[i] && !falls)
            continue;
        if (take_path(in, p, paths[i], v, &resort)) {
            if (paths[i] == CLATTN_KERNEL_UNFUSED) v->refusal = refusal;
            return CLATTN_OK;
        }
        refusal = v->refusal;
    }
    if (!resort.family) return CLATTN_UNSUPPORTED;
    *v = resort;
    return CLATTN_OK;
}

void cla_variant_refusal(const variant *v, char why[256]) {
    snprintf(why, 256, "%s%s%s", v->family ? clattn_kernel_name(v->family->path) : "", v->family ? ": " : "",
             v->refusal);
}

// Describe how a kernel with vectors of rows or keys computes the caller's expressions: as vectors,
// or lane by lane.
static void put_expressions(const problem *p, const variant *v, char *why, size_t size) {
    static const struct {
        int op;
        const char *name;
    } own[] = {{ARGS_SCORE_MOD, "score_mod"}, {ARGS_MASK_MOD, "mask_mod"}};
    const bool vectors = v->knobs.lanes || v->family->id == KERNEL_FLASH_MATRIX; // no LANES knob
    size_t used = 0;
    why[0] = '\0';
    for (int n = 0; n < 2 && vectors; n++) {
        const char *reason = p->lane_by_lane[n];
        if (!(p->score_ops & own[n].op) || used >= size) continue;
        const int put = reason
                            ? snprintf(why + used, size - used, "%s lane by lane (%s), ", own[n].name, reason)
                            : snprintf(why + used, size - used, "%s in vectors, ", own[n].name);
        used += put > 0 ? (size_t)put : 0;
    }
}

// True if the planner considered this path before it chose `taken`.
static bool was_tried(const plan_input *in, const problem *p, clattn_kernel path, clattn_kernel taken) {
    const bool before = p->kernel == CLATTN_KERNEL_AUTO
                            ? path != CLATTN_KERNEL_DECODE || prefers_decode(in, p)
                            : p->kernel == path || p->kernel == CLATTN_KERNEL_DECODE;
    return before &&
           (path == CLATTN_KERNEL_DECODE || (path == CLATTN_KERNEL_FLASH && taken != CLATTN_KERNEL_DECODE));
}

// List the families whose kernels the driver rejected, with its reasons, each followed by a comma
// and a space.
static void put_unfit(const plan_input *in, const problem *p, const variant *taken, char *why, size_t size) {
    size_t used = 0;
    why[0] = '\0';
    for (int i = 0; in->unfit && i < cla_family_count; i++) {
        const family *f = cla_families[i];
        variant v = {.unfit = false};
        if (!was_tried(in, p, f->path, taken->family->path)) continue;
        const char *no =
            cla_family_try(f, in, p, cla_problem_features(p), find_row(in, p, f->path, NULL), &v);
        if (!v.unfit || used >= size) continue;
        const int put = snprintf(why + used, size - used, "%s: %s, ", f->name, no);
        used += put > 0 ? (size_t)put : 0;
    }
}

void cla_variant_explain(const plan_input *in, const problem *p, const variant *v, char why[256]) {
    char text[200], unfit[140];
    put_unfit(in, p, v, unfit, sizeof unfit);
    if (v->family->path == CLATTN_KERNEL_UNFUSED) {
        const bool wanted = p->wants_weights || p->wants_scores;
        snprintf(why, 256, "unfused: %s%s%s", unfit,
                 wanted       ? "weights or scores are wanted"
                 : v->refusal ? "flash: "
                              : "as asked",
                 !wanted && v->refusal ? v->refusal : "");
        return;
    }
    char own[160];
    v->family->explain(in, v, text);
    put_expressions(p, v, own, sizeof own);
    snprintf(why, 256, "%s: %s%s%s%s%s", clattn_kernel_name(v->family->path),
             p->kernel != v->family->path ? "" : "as asked, ", unfit,
             v->unfit ? "no other kernel is left, " : "", own, text);
}

// Why a family was not chosen; NULL: it fits. If it fits, `v` receives its plan.
static const char *why_not(const plan_input *in, const problem *p, const variant *chosen, const family *f,
                           variant *v) {
    if (p->kernel != CLATTN_KERNEL_AUTO && p->kernel != f->path) return "another kernel was asked for";
    const char *refusal =
        cla_family_try(f, in, p, cla_problem_features(p), find_row(in, p, f->path, NULL), v);
    if (refusal) return refusal;
    if (f->path == CLATTN_KERNEL_DECODE && chosen->family->path != f->path && !prefers_decode(in, p))
        return "fits, but so many query rows, or weights, take the flash path";
    return NULL;
}

bool cla_variant_review(const plan_input *in, const problem *p, const variant *chosen, int *index,
                        const family **which, char why[256]) {
    while (*index < cla_family_count && cla_families[*index]->path == CLATTN_KERNEL_AUTO) ++*index;
    if (*index >= cla_family_count) return false;
    const family *f = *which = cla_families[(*index)++];
    if (f == chosen->family) {
        cla_variant_explain(in, p, chosen, why);
        return true;
    }
    variant v;
    const char *no = why_not(in, p, chosen, f, &v);
    if (no)
        snprintf(why, 256, "%s", no);
    else if (is_faster(in, p, chosen, &v))
        snprintf(why, 256, "fits, but %s is predicted to be %.1f times as fast", chosen->family->name,
                 cla_family_time(in, p, &v) / cla_family_time(in, p, chosen));
    else
        snprintf(why, 256, "fits, but %s is preferred", chosen->family->name);
    return true;
}
