// layer_share.c: see layer_share.h.
#include "tool/layer/layer_share.h"

#include "tool/layer/layer_weights.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The n-th of `parts` blocks, of which the first are longer by one.
static void block(int64_t n, int64_t parts, int64_t all, int64_t *first, int64_t *count) {
    *first = n * (all / parts) + least(n, all % parts);
    *count = all / parts + (n < all % parts);
}

int layer_share_heads(layer_share *s, int rank, int ranks, int64_t heads, int64_t kv_heads) {
    *s = (layer_share){.wanted = true, .all = heads, .kv_all = kv_heads};
    if (heads % kv_heads)
        return tool_wrong("--kv-heads: H = %lld must be a multiple of Hkv = %lld", (long long)heads,
                          (long long)kv_heads);
    const int64_t each = heads / kv_heads;
    if (ranks <= kv_heads) {
        block(rank, ranks, kv_heads, &s->kv_first, &s->kv_count);
        s->first = s->kv_first * each, s->count = s->kv_count * each;
        return -1;
    }
    if (ranks > heads || (ranks + kv_heads - 1) / kv_heads > each)
        return tool_wrong(
            "--mpi-way heads: %d ranks are more than %lld heads on %lld key/value heads can be dealt to",
            ranks, (long long)heads, (long long)kv_heads);
    for (int64_t kv = 0; kv < kv_heads; kv++) {
        int64_t first, count;
        block(kv, kv_heads, ranks, &first, &count);
        if (rank < first || rank >= first + count) continue;
        block(rank - first, count, each, &s->first, &s->count);
        s->first += kv * each, s->kv_first = kv, s->kv_count = 1;
    }
    return -1;
}

// Parts of an axis of heads, each of so many units, as rows of the tensor.
static int parts_of(const layer_share *s, int tensor, bool packed, int64_t starts[3], int64_t counts[3],
                    int64_t *units) {
    const bool kv = tensor == LAYER_WK || tensor == LAYER_WV || tensor == LAYER_BK || tensor == LAYER_BV;
    *units = kv ? s->kv_all : s->all;
    starts[0] = kv ? s->kv_first : s->first, counts[0] = kv ? s->kv_count : s->count;
    if (!packed || (tensor != LAYER_WQ && tensor != LAYER_BQ)) return 1;
    *units = s->all + 2 * s->kv_all;
    starts[1] = s->all + s->kv_first, starts[2] = starts[1] + s->kv_all;
    counts[1] = counts[2] = s->kv_count;
    return 3;
}

int layer_share_load(const layer_share *s, const char *option, int tensor, bool packed, bool turned,
                     const load_place *place, array *a) {
    reason error;
    int64_t starts[3] = {0}, counts[3] = {0}, units = 1;
    const bool of_all = tensor == LAYER_BO || tensor == LAYER_Q_NORM || tensor == LAYER_K_NORM;
    const bool fits = place->whole.rank == (tensor < LAYER_BQ ? 2 : 1); // others are refused later
    const int axis = fits && tensor < LAYER_BQ && (tensor == LAYER_WO) != turned ? 1 : 0;
    const int parts = of_all || !fits ? 1 : parts_of(s, tensor, packed, starts, counts, &units);
    const int64_t rows = place->whole.rank ? place->whole.shape[axis] : 1;
    if (of_all || !fits) counts[0] = 1;
    if (!place->whole.rank) return tool_wrong("--%s: has no axis", option);
    if (rows % units)
        return tool_wrong("--%s: has %lld rows, which %lld heads cannot share", option, (long long)rows,
                          (long long)units);
    for (int n = 0; n < parts; n++) starts[n] *= rows / units, counts[n] *= rows / units;
    if (load_rows(place, axis, parts, starts, counts, a, error)) return -1;
    return tool_wrong("--%s: %s", option, error);
}
