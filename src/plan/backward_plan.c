// backward_plan.c: see backward_plan.h.
#include "plan/backward_plan.h"

#include <stdio.h>

#include "plan/families/family.h"

// Floats of local memory: backward.cl.
static uint64_t portable_floats(int own, int others, int d, int dv) {
    return (uint64_t)others * (uint64_t)(d + dv + 2) + 2 * (uint64_t)own * (uint64_t)(others + 1);
}

// The largest tile that local memory and work-group hold.
static const char *fit_portable(const plan_input *in, const problem *p, backward_variant *v) {
    static const struct {
        int own, others, items;
    } tiles[] = {{16, 32, 8}, {16, 16, 8}, {8, 16, 8}, {8, 8, 8}, {4, 8, 8}, {4, 4, 4}, {2, 2, 2}, {1, 1, 1}};
    const clattn_capabilities *device = in->device;
    const uint64_t most = cla_family_group_limit(in, KERNEL_BACKWARD);
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int group = tiles[i].own * tiles[i].items;
        const uint64_t bytes =
            sizeof(float) * portable_floats(tiles[i].own, tiles[i].others, p->head_dim, p->head_dim_v);
        if (bytes > device->local_memory_bytes || (uint64_t)group > most) continue;
        v->knobs.tile_q = tiles[i].own;
        v->knobs.tile_kv = tiles[i].others;
        v->knobs.row_items = tiles[i].items;
        v->work_group = group;
        v->own_rows = tiles[i].own;
        v->local_bytes = (size_t)bytes;
        snprintf(v->why, sizeof v->why,
                 "a tile of %d rows and %d others takes %llu of %llu bytes of local memory", tiles[i].own,
                 tiles[i].others, (unsigned long long)bytes, (unsigned long long)device->local_memory_bytes);
        return NULL;
    }
    return "no tile of this head size fits the device's local memory";
}

static const struct {
    const char *name;
    enum kernel_id id;
    bool one_pass;
    const char *(*fit)(const plan_input *in, const problem *p, backward_variant *v);
} families[] = {{"backward", KERNEL_BACKWARD, false, fit_portable}};

const char *cla_backward_choose(const plan_input *in, const problem *p, backward_variant *v) {
    const char *why = NULL;
    if (p->head_dim > FAMILY_MAX_HEAD || p->head_dim_v > FAMILY_MAX_HEAD)
        return "head sizes above 576 have no gradients";
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        *v = (backward_variant){.name = families[i].name,
                                .id = families[i].id,
                                .one_pass = families[i].one_pass,
                                .parts = 1,
                                .part_keys = p->n_kv};
        cla_family_data_knobs(p, &v->knobs);
        why = families[i].fit(in, p, v);
        if (!why) return NULL;
    }
    return why;
}
