// probe_subgroups.cl: do sub-groups have the requested size, and are their operations right? It is
// built with the options of the families that use them. Numbers are integers, so every result is
// exact in any order.
#include "base/common.clh"
#include "tiles/subgroups.clh"

#define ITEMS SUBGROUP_PROBE_ITEMS

// `words` has a float per work-item. With `rounds` 0, the result has four parts of ITEMS floats, or
// zeros if the size is not SUBGROUP:
//   the maximum of the item's sub-group
//   its sum
//   the float of its lane SUBGROUP / 2
//   the sum over mask = 1, 2, 4, ... of mask times the float of lane ^ mask; 0 without shuffles
// Else it runs that many rounds of one sum.
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
