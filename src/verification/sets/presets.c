// presets.c: see presets.h.
#include "verification/sets/presets.h"

#define PRESET(title, url, ...) {.name = (title), .source = (url), __VA_ARGS__},
const struct preset presets[] = {
#include "verification/sets/presets.def"
};
#undef PRESET

#define PRESET(title, url, ...) title,
const char *const preset_names[] = {
#include "verification/sets/presets.def"
    NULL};
#undef PRESET

void preset_apply(const struct preset *p, struct test_case *t) {
    if (t->heads == 0) t->heads = p->heads;
    if (t->kv_heads == 0) t->kv_heads = p->kv_heads;
    if (t->head_dim == 0) t->head_dim = p->head_dim;
    if (t->head_dim_v == 0) t->head_dim_v = p->head_dim_v ? p->head_dim_v : t->head_dim;
    if (case_projects(t) && t->width == 0) t->width = p->width;
    if (case_projects(t)) t->biases = t->op == CASE_LAYER ? p->biases : p->biases & 1 << LAYER_Q;
    if (t->op == CASE_LAYER) t->norm = p->norm, t->norm_epsilon = p->norm_epsilon;
    if (t->op == CASE_LINEAR) return;
    t->rope = p->rope;
    t->score.scale = p->scale, t->score.softcap = p->softcap;
    t->score.causal = true, t->score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    t->score.window = p->window > 0;
    if (p->window > 0) t->score.window_left = p->window - 1, t->score.window_right = -1;
    if (p->sinks) t->hosts |= CASE_HOST_BIT(CASE_SINKS);
}
