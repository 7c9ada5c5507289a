// variant.c: which kernel a call takes. The order of preference is: what the caller asks for; decode for few query rows;
// flash; the unfused path, which can do anything. On a path the families stand in order (families.c), and the tuned
// rows say which kernel of several, and its tile; without a row the portable one.
#include "plan/variant.h"

#include <stdio.h>

#include "plan/family.h"

bool cla_device_has_lanes(const clattn_capabilities *device) {
    return device->is_cpu && device->float_vector_width >= 4;
}

int cla_variant_lanes(const clattn_capabilities *device) {
    return device->float_vector_width >= 16 ? 16 : device->float_vector_width >= 8 ? 8 : 4;
}

// The first row for any kernel of the path.
static const tuned_row *find_row(const plan_input *in, const problem *p, clattn_kernel path) {
    const tuned_key key = {.cpu = in->device->is_cpu,
                           .lanes = (int)in->device->float_vector_width,
                           .type = (int)p->type_kv,
                           .d = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v,
                           .nq = p->n_q};
    unsigned kernels = 0;
    for (int i = 0; i < cla_family_count; i++)
        if (cla_families[i]->path == path) kernels |= 1u << cla_families[i]->id;
    return cla_tuned_find(in->own, in->shipped, kernels, &key);
}

// The first family of the path that fits; else false, and v has the last one's refusal.
static bool take_path(const plan_input *in, const problem *p, clattn_kernel path, variant *v) {
    const tuned_row *row = find_row(in, p, path);
    const unsigned wants = cla_family_wants(p);
    const char *refusal = "no kernel";
    const family *refused = NULL;
    for (int i = 0; i < cla_family_count; i++) {
        const family *f = cla_families[i];
        if (f->path != path) continue;
        refusal = cla_family_try(f, in, p, wants, row, v);
        if (!refusal) return true;
        refused = f;
    }
    *v = (variant){.family = refused, .refusal = refusal};
    return false;
}

// Up to eight query rows share a pass over the keys. From sixteen on, rows in lanes are as fast, and faster
// where the keys are few: 64,12,16,64 took 1.2 ms by decode and 0.5 ms by flash (PoCL 3.1, Zen 4, Nov 2026).
static bool prefers_decode(const problem *p) {
    return !p->wants_weights && p->n_q <= FAMILY_FEW_ROWS / 2 && p->n_kv > 0;
}

clattn_status cla_variant_choose(const plan_input *in, const problem *p, variant *v) {
    if (p->splits > 0 && p->kernel != CLATTN_KERNEL_DECODE) {
        *v = (variant){0};
        v->refusal = "splits: only the decode kernel splits keys on request";
        return CLATTN_UNSUPPORTED;
    }
    if (p->kernel != CLATTN_KERNEL_AUTO)
        return take_path(in, p, p->kernel, v) ? CLATTN_OK : CLATTN_UNSUPPORTED;
    if (prefers_decode(p) && take_path(in, p, CLATTN_KERNEL_DECODE, v)) return CLATTN_OK;
    if (take_path(in, p, CLATTN_KERNEL_FLASH, v)) return CLATTN_OK;
    const char *refusal = v->refusal;
    if (!take_path(in, p, CLATTN_KERNEL_UNFUSED, v)) return CLATTN_UNSUPPORTED;
    v->refusal = refusal;
    return CLATTN_OK;
}

void cla_variant_refusal(const variant *v, char why[256]) {
    snprintf(why, 256, "%s%s%s", v->family ? clattn_kernel_name(v->family->path) : "", v->family ? ": " : "",
             v->refusal);
}

void cla_variant_explain(const plan_input *in, const problem *p, const variant *v, char why[256]) {
    char text[200];
    if (v->family->path == CLATTN_KERNEL_UNFUSED) {
        const bool wanted = p->wants_weights || p->wants_scores;
        snprintf(why, 256, "unfused: %s%s",
                 wanted       ? "weights or scores are wanted"
                 : v->refusal ? "flash: "
                              : "as asked",
                 !wanted && v->refusal ? v->refusal : "");
        return;
    }
    v->family->explain(in, v, text);
    snprintf(why, 256, "%s: %s%s", clattn_kernel_name(v->family->path),
             p->kernel == CLATTN_KERNEL_AUTO ? "" : "as asked, ", text);
}

// Of a family that was not taken.
static const char *why_not(const plan_input *in, const problem *p, const variant *chosen, const family *f) {
    variant v;
    if (p->kernel != CLATTN_KERNEL_AUTO && p->kernel != f->path) return "another kernel was asked for";
    const char *refusal = cla_family_try(f, in, p, cla_family_wants(p), find_row(in, p, f->path), &v);
    if (refusal) return refusal;
    if (f->path == CLATTN_KERNEL_DECODE && chosen->family->path != f->path && !prefers_decode(p))
        return "fits, but more than 8 query rows, or weights, take the flash path";
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
    const char *no = why_not(in, p, chosen, f);
    if (no)
        snprintf(why, 256, "%s", no);
    else
        snprintf(why, 256, "fits, but %s stands before it", chosen->family->name);
    return true;
}
