// tuned_find.c: the first row that fits a device and a problem; see tuned.h.
#include "plan/rows/tuned.h"

static bool holds(const tuned_row *r, const tuned_key *key) {
    const int x[CONDITION_COUNT] = {
#define CONDITION(word, field, what) key->field,
#include "plan/conditions.def"
#undef CONDITION
    };
    for (int i = 0; i < CONDITION_COUNT; i++)
        if (x[i] < r->when[i].least || x[i] > r->when[i].most) return false;
    return true;
}

_Static_assert(TUNED_CLBLAST_KERNELS + CLBLAST_KERNELS <= 64, "all kernels of rows are bits of a uint64_t");

static const tuned_row *find_in(const tuned_rows *rows, uint64_t kernels, const tuned_key *key) {
    for (int i = 0; rows && i < rows->count; i++) {
        const tuned_row *r = &rows->rows[i];
        if ((kernels >> r->id & 1) && holds(r, key)) return r;
    }
    return NULL;
}

const tuned_row *cla_tuned_find(const tuned_rows *own, const tuned_rows *shipped, uint64_t kernels,
                                const tuned_key *key) {
    const tuned_row *r = find_in(own, kernels, key);
    return r ? r : find_in(shipped, kernels, key);
}
