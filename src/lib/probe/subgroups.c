// subgroups.c: see subgroups.h.
#include "probe/subgroups.h"

#include <string.h>

#include "args/args.h"

_Static_assert(SUBGROUPS_KHR == CLATTN_SUBGROUPS_KHR && SUBGROUPS_INTEL == CLATTN_SUBGROUPS_INTEL &&
                   SUBGROUPS_SHUFFLE_KHR == CLATTN_SUBGROUPS_SHUFFLE_KHR &&
                   SUBGROUPS_SHUFFLE_QCOM == CLATTN_SUBGROUPS_SHUFFLE_QCOM &&
                   SUBGROUPS_SIZE_INTEL == CLATTN_SUBGROUPS_SIZE_INTEL &&
                   SUBGROUPS_SIZE_QCOM == CLATTN_SUBGROUPS_SIZE_QCOM,
               "the kernels' bits are the header's");

int cla_opencl_version(const clattn_capabilities *device) {
    const char *at = device->version;
    return strncmp(at, "OpenCL ", 7) || at[7] < '1' || at[7] > '9' ? 1 : at[7] - '0';
}

const char *cla_subgroup_options(const clattn_capabilities *device) {
    if (device->subgroup_ways & CLATTN_SUBGROUPS_INTEL) return "-cl-std=CL1.2";
    if (!(device->subgroup_ways & CLATTN_SUBGROUPS_KHR) || cla_opencl_version(device) < 2) return NULL;
    return cla_opencl_version(device) == 2 ? "-cl-std=CL2.0" : "-cl-std=CL3.0";
}

bool cla_subgroup_possible(const clattn_capabilities *device, int size) {
    if (!cla_subgroup_options(device) || device->max_work_group < SUBGROUP_PROBE_ITEMS) return false;
    return !(device->subgroup_ways & CLATTN_SUBGROUPS_SIZE_INTEL) || device->subgroup_sizes & (unsigned)size;
}

int cla_subgroup_least(const clattn_capabilities *device) {
    if (device->is_cpu || !(device->subgroup_ways & CLATTN_SUBGROUPS_SIZE_INTEL)) return 0;
    for (int size = 8; size <= 64; size *= 2)
        if (device->subgroup_sizes & (unsigned)size) return size;
    return 0;
}

void cla_subgroup_knobs(const clattn_capabilities *device, int size, knobs *k) {
    k->subgroup = size;
    k->subgroup_ways = (int)(device->subgroup_ways & ~CLATTN_SUBGROUPS_MATRIX_INTEL);
}

probe_id cla_subgroup_probe(int size) {
    return size == 8    ? PROBE_SUBGROUPS_8
           : size == 16 ? PROBE_SUBGROUPS_16
           : size == 32 ? PROBE_SUBGROUPS_32
           : size == 64 ? PROBE_SUBGROUPS_64
                        : PROBE_NONE;
}

// A distinct number for each work-item. The largest of a sub-group is at an arbitrary position.
static float number(int item) {
    return (float)((item * 37 + 11) % SUBGROUP_PROBE_ITEMS);
}

static uint32_t bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

void cla_subgroup_fill(uint32_t *in) {
    for (int i = 0; i < SUBGROUP_PROBE_ITEMS; i++) in[i] = bits(number(i));
}

void cla_subgroup_expect(const knobs *k, uint32_t *out) {
    const int shuffles = SUBGROUPS_INTEL | SUBGROUPS_SHUFFLE_KHR | SUBGROUPS_SHUFFLE_QCOM;
    for (int i = 0; i < SUBGROUP_PROBE_ITEMS; i++) {
        const int first = i / k->subgroup * k->subgroup;
        float most = 0.0f, sum = 0.0f, other = 0.0f;
        for (int lane = 0; lane < k->subgroup; lane++) {
            const float x = number(first + lane);
            most = x > most ? x : most;
            sum += x;
        }
        for (int mask = 1; mask < k->subgroup && k->subgroup_ways & shuffles; mask *= 2)
            other += (float)mask * number(i ^ mask);
        out[i] = bits(most);
        out[SUBGROUP_PROBE_ITEMS + i] = bits(sum);
        out[2 * SUBGROUP_PROBE_ITEMS + i] = bits(number(first + k->subgroup / 2));
        out[3 * SUBGROUP_PROBE_ITEMS + i] = bits(other);
    }
}
