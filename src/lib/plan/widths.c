// widths.c: the vector width of kernels with rows in vector lanes; see variant.h.
#include "plan/variant.h"

// Required speed-up over the reported width, and over a narrower width. Narrow vectors waste less
// when there are few rows.
#define FASTER_THAN_REPORTED 1.25f
#define FASTER_THAN_NARROWER 1.1f

// Another width than the reported one needs probe results without disturbance. A wrong switch could
// cost half of the speed, and the bfloat16 dot product needs full vectors.
int cla_plan_lanes(const plan_input *in) {
    static const struct {
        int lanes;
        probe_id probe;
    } widths[] = {{4, PROBE_LANES_4}, {8, PROBE_LANES_8}, {16, PROBE_LANES_16}};
    const int width = (int)in->device->float_vector_width, reported = width >= 16  ? 16
                                                                      : width >= 8 ? 8
                                                                      : width >= 4 ? 4
                                                                                   : 0;
    int lanes = 0;
    unsigned word = 0; // probe of the reported width
    float rate = 0.0f; // rate to beat
    if (!in->device->is_cpu) return 0;
    for (int i = 0; i < 3; i++) {
        if (widths[i].lanes != reported) continue;
        if (!(in->probes.ran >> widths[i].probe & 1u)) return reported;
        if (!(in->probes.proven >> widths[i].probe & 1u)) continue;
        word = 1u << widths[i].probe;
        lanes = reported, rate = FASTER_THAN_REPORTED * in->probes.rate[widths[i].probe];
    }
    for (int i = 0; i < 3; i++) {
        const float own = in->probes.rate[widths[i].probe];
        const unsigned both = word | 1u << widths[i].probe;
        if (word && (in->probes.sure & both) != both) continue;
        if (!(in->probes.proven >> widths[i].probe & 1u) || widths[i].lanes == reported || own <= rate)
            continue;
        lanes = widths[i].lanes, rate = FASTER_THAN_NARROWER * own;
    }
    return lanes;
}

bool cla_plan_has_lanes(const plan_input *in) {
    return cla_plan_lanes(in) != 0;
}

int cla_variant_lanes(const plan_input *in) {
    const int lanes = cla_plan_lanes(in);
    return lanes ? lanes : 4;
}

int cla_plan_lanes_key(const plan_input *in) {
    const int lanes = cla_plan_lanes(in), width = (int)in->device->float_vector_width;
    // the reported width failed its probe
    if (in->device->is_cpu && !lanes) return width < 4 ? width : 1;
    return lanes && !(lanes == 16 && width > 16) ? lanes : width;
}
