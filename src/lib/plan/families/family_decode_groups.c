// family_decode_groups.c: few query rows over many keys, on GPUs, which hide load latency with
// other work-items. A work-group has the query rows of one key/value head, up to four per pass, and
// one range of keys. It uses sub-groups if they passed their probe.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

#define MOST_ROWS 4 // per pass
#define LEAST_GROUP 16

static const char *knobs_refusal(const knobs *row) {
    if (row->rows != 0 && row->rows != 1 && row->rows != 2 && row->rows != MOST_ROWS)
        return "asks for ROWS that are none of 1, 2, 4";
    if (row->work_group % LEAST_GROUP != 0 || row->work_group > 1024)
        return "asks for a WORK_GROUP that is no multiple of 16 up to 1024";
    if (row->subgroup & (row->subgroup - 1) || row->subgroup > 64 || row->subgroup == 2 || row->subgroup == 4)
        return "asks for a SUBGROUP that is none of 1 (no sub-groups), 8, 16, 32, 64";
    if (row->subgroup > 1 && row->work_group % row->subgroup != 0)
        return "asks for a WORK_GROUP that is no multiple of its SUBGROUP";
    if (row->dot_i8 == DOT_I8_VNNI) return "asks for a DOT_I8 that is none of 1, 3, 4";
    return NULL;
}

static int largest(int x, int y) {
    return x > y ? x : y;
}

// Rows of a pass: 1, 2 or 4, for which the kernel is compiled.
static int pass_rows(int64_t all) {
    return all <= 1 ? 1 : all <= 2 ? 2 : MOST_ROWS;
}

// Set the knobs for this group size. False if rows of K or V have too many parts for the group, or
// the group does not fit the device.
static bool fits(const plan_input *in, const problem *p, const tuned_row *row, int group, variant *v) {
    const int shuffles = SUBGROUPS_INTEL | SUBGROUPS_SHUFFLE_KHR | SUBGROUPS_SHUFFLE_QCOM;
    if ((uint64_t)group > cla_family_group_limit(in, KERNEL_DECODE_GROUPS)) return false;
    if (largest(DECODE_GROUPS_LANES(p->head_dim), DECODE_GROUPS_LANES(p->head_dim_v)) > group) return false;
    const int subgroup = cla_family_subgroup(in, row, group, v);
    const int share = v->knobs.subgroup_ways & shuffles ? subgroup : 1;
    const uint64_t bytes =
        sizeof(float) * (uint64_t)DECODE_GROUPS_LOCAL_FLOATS(group, v->knobs.rows, p->head_dim, share);
    if (bytes > cla_family_local_limit(in, KERNEL_DECODE_GROUPS)) return false;
    v->knobs.work_group = v->work_group = group;
    v->local_bytes = (size_t)bytes;
    return true;
}

// Choose the group size: usually 128; 256 for rows that need more than 64 work-items; smaller ones
// on small devices.
static bool choose_group(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    static const int groups[] = {256, 128, 64, 32, 16};
    const int lanes = largest(DECODE_GROUPS_LANES(p->head_dim), DECODE_GROUPS_LANES(p->head_dim_v));
    if (row && row->knobs.work_group) return fits(in, p, row, row->knobs.work_group, v);
    for (size_t i = lanes > 64 ? 0 : 1; i < sizeof groups / sizeof groups[0]; i++)
        if (fits(in, p, row, groups[i], v)) return true;
    return false;
}

// True if every row of K and V can be read in aligned loads of eight elements.
static bool reads_eights(const problem *p) {
    const int least_k = p->type_kv == CLATTN_TYPE_F32 ? 4 : 8,
              least_v = cla_problem_type_v(p) == CLATTN_TYPE_F32 ? 4 : 8;
    return p->head_dim % 8 == 0 && p->head_dim_v % 8 == 0 && p->align_k >= least_k && p->align_v >= least_v;
}

static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const char *refusal = cla_family_gpu_refusal(in, row, KERNEL_DECODE_GROUPS);
    const tuned_row *own = row && row->id == KERNEL_DECODE_GROUPS ? row : NULL;
    const int64_t all = (int64_t)p->n_q * (p->kv_heads ? p->heads / p->kv_heads : 1);
    if (refusal) return refusal;
    if (all > INT32_MAX - MOST_ROWS) return "query rows that share a key/value head: must be below 2^31";
    v->knobs.rows = own && own->knobs.rows ? own->knobs.rows : pass_rows(all);
    v->knobs.loads_of_8 = reads_eights(p);
    while (!choose_group(in, p, own, v)) {
        if (v->knobs.rows == 1 || (own && own->knobs.rows))
            return "no work-group reads a row of this head size in this device's local memory";
        v->knobs.rows /= 2;
    }
    cla_family_ask_subgroup(in, &v->knobs);
    if (v->knobs.loads_of_8) v->knobs.dot_i8 = cla_family_eights(in, p, own, &v->options);
    v->rows_per_group = v->knobs.rows;
    const uint64_t passes = ((uint64_t)all + (uint64_t)v->knobs.rows - 1) / (uint64_t)v->knobs.rows;
    refusal = cla_family_split(in, p, (uint64_t)p->batch * (uint64_t)p->kv_heads * passes, v);
    if (refusal) return refusal;
    const uint64_t groups = passes * (uint64_t)v->splits, most = SIZE_MAX;
    if (groups > INT32_MAX || groups * (uint64_t)v->work_group > most)
        return "passes over the query rows times splits: must be below 2^31";
    v->groups[0] = (size_t)groups, v->groups[1] = (size_t)p->kv_heads, v->groups[2] = (size_t)p->batch;
    return NULL;
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    const char *integers = cla_family_integers_word(&v->knobs);
    char subgroups[40] = "";
    (void)in;
    if (v->knobs.subgroup) snprintf(subgroups, sizeof subgroups, ", sub-groups of %d", v->knobs.subgroup);
    snprintf(why, 200, "%d query rows share a pass over the keys, in %d ranges, by groups of %d%s%s%s%s",
             v->knobs.rows, v->splits, v->work_group, subgroups, integers ? ", " : "",
             integers ? integers : "",
             v->knobs.loads_of_8 ? "" : "; rows of k or v are not aligned: read element by element");
}

const family cla_family_decode_groups = {.name = "decode_groups",
                                         .tunes = "ROWS WORK_GROUP SUBGROUP DOT_I8 ",
                                         .id = KERNEL_DECODE_GROUPS,
                                         .path = CLATTN_KERNEL_DECODE,
                                         .can = CAN_SPLIT | CAN_DROPOUT | CAN_RAGGED,
                                         .shares_heads = true,
                                         .subgroups = true,
                                         .knobs_refusal = knobs_refusal,
                                         .fit = fit,
                                         .explain = explain};
