// `partition.c`: see `partition.h`.
#include "group/partition.h"

#include "base/host.h"

// A later kind of partition replaces an earlier one only if the earlier one keeps the devices busy
// for less than this fraction of the later one's share. Earlier kinds copy fewer keys.
#define GOOD_ENOUGH 0.94

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t blocks_of(int64_t n, int64_t block) {
    return (n + block - 1) / block;
}

box cla_partition_whole(const partition_problem *p) {
    box b = {{0}, {0}};
    for (int axis = 0; axis < BOX_AXES; axis++) b.size[axis] = p->size[axis];
    return b;
}

bool cla_partition_is_whole(const partition_problem *p, const box *b, int axis) {
    return b->at[axis] == 0 && b->size[axis] == p->size[axis];
}

static bool is_possible(const partition_problem *p, const partition_axis *axis) {
    const unsigned items = p->size[BOX_ITEMS] > 1 ? PARTITION_CAN_ITEMS : 0;
    const unsigned need = axis->partition == CLATTN_PARTITION_ROWS   ? PARTITION_CAN_ROWS
                          : axis->partition == CLATTN_PARTITION_KEYS ? PARTITION_CAN_KEYS
                          : axis->single ? PARTITION_CAN_HEADS | PARTITION_CAN_GROUPS | items
                                         : PARTITION_CAN_GROUPS | items;
    return axis->partition == CLATTN_PARTITION_WHOLE || (p->can & need) == need;
}

static int64_t units_of(const partition_problem *p, const partition_axis *axis) {
    if (axis->partition == CLATTN_PARTITION_ROWS) return blocks_of(p->size[BOX_ROWS], p->rows);
    if (axis->partition == CLATTN_PARTITION_KEYS) return blocks_of(p->size[BOX_KEYS], PARTITION_KEYS);
    if (axis->partition == CLATTN_PARTITION_WHOLE) return 1;
    return p->size[BOX_ITEMS] * (p->size[BOX_HEADS] / (axis->single ? 1 : p->group));
}

static box unit_box(const partition_problem *p, const partition_axis *axis, int64_t unit) {
    box b = cla_partition_whole(p);
    if (axis->partition == CLATTN_PARTITION_WHOLE) return b;
    const bool rows = axis->partition == CLATTN_PARTITION_ROWS;
    if (rows || axis->partition == CLATTN_PARTITION_KEYS) {
        const int at = rows ? BOX_ROWS : BOX_KEYS;
        const int64_t block = rows ? p->rows : PARTITION_KEYS;
        b.at[at] = unit * block;
        b.size[at] = least(block, p->size[at] - b.at[at]);
        return b;
    }
    const int64_t step = axis->single ? 1 : p->group, of_item = p->size[BOX_HEADS] / step;
    b.at[BOX_ITEMS] = unit / of_item, b.size[BOX_ITEMS] = 1;
    b.at[BOX_HEADS] = unit % of_item * step, b.size[BOX_HEADS] = step;
    return b;
}

// Prefix sums: sums[u] is the work of the units before u.
static double *add_up(const partition_problem *p, const partition_axis *axis) {
    double *sums = cla_host_take(p->host, (size_t)(axis->units + 1) * sizeof *sums);
    if (!sums) return NULL;
    sums[0] = 0.0;
    for (int64_t u = 0; u < axis->units; u++) {
        const box b = unit_box(p, axis, u);
        sums[u + 1] = sums[u] + p->work(p->user, &b);
    }
    return sums;
}

// The boundary in [first, last] whose prefix sum is nearest to `want`.
static int64_t nearest(const double *sums, int64_t first, int64_t last, double want) {
    int64_t low = first, high = last;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (sums[middle] < want)
            low = middle + 1;
        else
            high = middle;
    }
    return low > first && want - sums[low - 1] <= sums[low] - want ? low - 1 : low;
}

static void cut_sums(const double *sums, int64_t first, int64_t last, const double *rates, int count,
                     int64_t *cuts) {
    double all = 0.0, before = 0.0;
    int newest = -1;
    for (int d = 0; d < count; d++) {
        all += rates[d];
        if (rates[d] > 0.0) newest = d;
    }
    cuts[0] = first;
    for (int d = 0; d < count; d++) {
        before += rates[d];
        const double want = sums[first] + (sums[last] - sums[first]) * (before / all);
        cuts[d + 1] = d >= newest ? last : rates[d] <= 0.0 ? cuts[d] : nearest(sums, cuts[d], last, want);
    }
}

// The share of the devices' time that is used, until the device that ends last has ended.
static double busy_of(const double *sums, const int64_t *cuts, const double *rates, int count) {
    double latest = 0.0, all = 0.0;
    for (int d = 0; d < count; d++) {
        const double work = sums[cuts[d + 1]] - sums[cuts[d]];
        if (work > 0.0 && work / rates[d] > latest) latest = work / rates[d];
        all += rates[d];
    }
    return latest > 0.0 ? (sums[cuts[count]] - sums[cuts[0]]) / (all * latest) : 1.0;
}

bool cla_partition_cut(const partition_problem *p, const partition_axis *axis, int64_t first, int64_t last,
                       const double *rates, int count, int64_t *cuts) {
    double *sums = add_up(p, axis);
    if (!sums) return false;
    cut_sums(sums, first, last, rates, count, cuts);
    cla_host_release(p->host, sums);
    return true;
}

int64_t cla_partition_first(const partition_problem *p, const partition_axis *axis, double part,
                            int64_t least_units) {
    double *sums = add_up(p, axis);
    if (!sums) return 0;
    const int64_t found = nearest(sums, 0, axis->units, part * sums[axis->units]);
    cla_host_release(p->host, sums);
    return found < least_units ? least_units : found;
}

// The share of the devices' time that is used if the fastest device does everything.
static double busy_whole(const double *rates, int count) {
    double best = 0.0, all = 0.0;
    for (int d = 0; d < count; d++) {
        if (rates[d] > best) best = rates[d];
        all += rates[d];
    }
    return best / all;
}

bool cla_partition_choose(const partition_problem *p, clattn_partition wanted, const double *rates, int count,
                          partition_axis *axis, double *busy, bool *no_memory) {
    static const partition_axis ways[] = {{CLATTN_PARTITION_HEADS, false, 0},
                                          {CLATTN_PARTITION_HEADS, true, 0},
                                          {CLATTN_PARTITION_ROWS, false, 0},
                                          {CLATTN_PARTITION_KEYS, false, 0},
                                          {CLATTN_PARTITION_WHOLE, false, 1}};
    int64_t *cuts = cla_host_take(p->host, (size_t)(count + 1) * sizeof *cuts);
    bool found = false;
    *no_memory = !cuts;
    for (size_t n = 0; cuts && n < sizeof ways / sizeof ways[0]; n++) {
        partition_axis way = ways[n];
        if ((wanted != CLATTN_PARTITION_AUTO && way.partition != wanted) || !is_possible(p, &way)) continue;
        way.units = units_of(p, &way);
        if (way.units < 1) continue;
        double *sums = way.partition == CLATTN_PARTITION_WHOLE ? NULL : add_up(p, &way);
        if (!sums && way.partition != CLATTN_PARTITION_WHOLE) {
            *no_memory = true;
            break;
        }
        if (sums) cut_sums(sums, 0, way.units, rates, count, cuts);
        const double now = sums ? busy_of(sums, cuts, rates, count) : busy_whole(rates, count);
        cla_host_release(p->host, sums);
        if (!found || now * GOOD_ENOUGH > *busy) *axis = way, *busy = now;
        found = true;
    }
    cla_host_release(p->host, cuts);
    return found && !*no_memory;
}

// Boxes for heads [first, last) of items [item, item + items). Whole key/value groups form one box;
// parts of a group form others.
static int head_boxes(const partition_problem *p, int64_t item, int64_t items, int64_t first, int64_t last,
                      box *to) {
    int count = 0;
    while (first < last) {
        const int64_t ends = (first / p->group + 1) * p->group;
        int64_t next = least(ends, last);
        if (first % p->group == 0 && next == ends) next = last / p->group * p->group;
        box b = cla_partition_whole(p);
        b.at[BOX_ITEMS] = item, b.size[BOX_ITEMS] = items;
        b.at[BOX_HEADS] = first, b.size[BOX_HEADS] = next - first;
        to[count++] = b;
        first = next;
    }
    return count;
}

int cla_partition_boxes(const partition_problem *p, const partition_axis *axis, int64_t first, int64_t last,
                        box boxes[PARTITION_MOST_BOXES]) {
    if (first >= last) return 0;
    boxes[0] = unit_box(p, axis, first);
    if (axis->partition == CLATTN_PARTITION_WHOLE) return 1;
    if (axis->partition != CLATTN_PARTITION_HEADS) {
        const int at = axis->partition == CLATTN_PARTITION_ROWS ? BOX_ROWS : BOX_KEYS;
        const box end = unit_box(p, axis, last - 1);
        boxes[0].size[at] = end.at[at] + end.size[at] - boxes[0].at[at];
        return 1;
    }
    const int64_t step = axis->single ? 1 : p->group, heads = p->size[BOX_HEADS], of_item = heads / step;
    int64_t item = first / of_item, last_item = last / of_item;
    const int64_t from = first % of_item * step, to = last % of_item * step;
    if (item == last_item) return head_boxes(p, item, 1, from, to, boxes);
    int count = 0;
    if (from > 0) count += head_boxes(p, item++, 1, from, heads, boxes);
    if (last_item > item) count += head_boxes(p, item, last_item - item, 0, heads, boxes + count);
    if (to > 0) count += head_boxes(p, last_item, 1, 0, to, boxes + count);
    return count;
}

static bool halve_axis(box *b, box *second, int axis, int64_t grain) {
    if (b->size[axis] <= grain) return false;
    const int64_t half = blocks_of(blocks_of(b->size[axis], grain), 2) * grain;
    *second = *b;
    second->at[axis] += half, second->size[axis] -= half;
    b->size[axis] = half;
    return true;
}

bool cla_partition_halve(const partition_problem *p, unsigned can, box *b, box *second) {
    if (can & PARTITION_CAN_ITEMS && halve_axis(b, second, BOX_ITEMS, 1)) return true;
    if (can & PARTITION_CAN_GROUPS && b->size[BOX_HEADS] > p->group)
        return halve_axis(b, second, BOX_HEADS, p->group);
    if (can & PARTITION_CAN_HEADS && halve_axis(b, second, BOX_HEADS, 1)) return true;
    if (can & PARTITION_CAN_ROWS && halve_axis(b, second, BOX_ROWS, p->rows)) return true;
    return can & PARTITION_CAN_KEYS && halve_axis(b, second, BOX_KEYS, PARTITION_KEYS);
}
