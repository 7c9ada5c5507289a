// probe_subgroups.cl: do sub-groups have the size that is asked for, and do their operations compute what they should?
// Built with the options of the families that use them. Whole numbers: every result is exact, in any order.
#include "base/common.clh"
#include "tiles/subgroups.clh"

#define ITEMS SUBGROUP_PROBE_ITEMS

// words: a float for each of ITEMS work-items. With 0 rounds the result has four parts of ITEMS floats: of the item's
// sub-group the maximum, the sum and the float of lane SUBGROUP / 2; and 1, 2, 4, ... times those of the lanes whose
// numbers differ by 1, 2, 4, ...; 0 where there are no shuffles. A size that is not SUBGROUP gives zeros.
// Else so many rounds of one sum.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUBGROUP_SIZED void
probe_subgroups(__global const uint *words, __global uint *result, int rounds) {
    const int item = SUBGROUP_ITEM;
    const bool sized = get_max_sub_group_size() == SUBGROUP && get_sub_group_size() == SUBGROUP &&
                       SUBGROUP_COUNT == ITEMS / SUBGROUP && item < ITEMS;
    const float x = as_float(words[item % ITEMS]);
    float most = subgroup_max(x), sum = subgroup_sum(x), middle = subgroup_broadcast(x, SUBGROUP / 2),
          other = 0.0f;
#if SUBGROUP_SHUFFLES
    for (int mask = 1; mask < SUBGROUP; mask *= 2) other += (float)mask * subgroup_xor(x, mask);
#endif
    for (int r = 0; r < rounds; r++) sum = subgroup_sum(sum * (1.0f / SUBGROUP));
    if (item >= ITEMS) return;
    result[item] = sized ? as_uint(most) : 0u;
    result[ITEMS + item] = sized ? as_uint(sum) : 0u;
    result[2 * ITEMS + item] = sized ? as_uint(middle) : 0u;
    result[3 * ITEMS + item] = sized ? as_uint(other) : 0u;
}
