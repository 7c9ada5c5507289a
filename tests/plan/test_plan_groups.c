// test_plan_groups.c: plans of decode_groups on synthetic devices. The kernel fits the device, runs
// on a CPU with vectors only if a row names it, and uses the probed sub-groups. Other families are
// in test_plan.c.
#include "args/args.h"
#include "probe/subgroups.h"

#include "plan/plan_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static tuned_rows none;

// A GPU with these limits.
static clattn_capabilities gpu(uint64_t group, uint64_t local) {
    return (clattn_capabilities){.is_gpu = true,
                                 .compute_units = 16,
                                 .float_vector_width = 1,
                                 .max_work_group = group,
                                 .max_work_item = {group, group, 64},
                                 .local_memory_bytes = local,
                                 .global_memory_bytes = (uint64_t)1 << 32,
                                 .max_allocation_bytes = (uint64_t)1 << 30,
                                 .max_argument_bytes = 1024};
}

// A decode call: `group` query heads read each of four key/value heads.
static problem decode(int n_q, int group, int d, int dv) {
    return (problem){.batch = 1,
                     .heads = 4 * group,
                     .kv_heads = 4,
                     .n_q = n_q,
                     .n_kv = 5000,
                     .head_dim = d,
                     .head_dim_v = dv,
                     .align_q = 16,
                     .align_k = 16,
                     .align_v = 16};
}

static variant plan(const plan_input *in, const problem *p) {
    variant v;
    ck_assert_int_eq(cla_variant_choose(in, p, &v), CLATTN_OK);
    return v;
}

static void check_shape(const plan_input *in, const problem *p, const variant *v) {
    const int rows = v->knobs.rows, group = v->work_group, all = p->n_q * p->heads / p->kv_heads;
    const uint64_t passes = (uint64_t)(all + rows - 1) / (uint64_t)rows;
    ck_assert(rows == 1 || rows == 2 || rows == 4);
    ck_assert_int_lt(rows, 2 * all);
    ck_assert_uint_le((uint64_t)group, in->device->max_work_group);
    ck_assert_uint_le(v->local_bytes, in->device->local_memory_bytes);
    ck_assert_int_eq(group % 16, 0);
    ck_assert_int_le(DECODE_GROUPS_LANES(p->head_dim), group);
    ck_assert_int_le(DECODE_GROUPS_LANES(p->head_dim_v), group);
    ck_assert_int_ge(DECODE_GROUPS_CHUNK(group, p->head_dim), DECODE_GROUPS_BLOCK(group, p->head_dim));
    ck_assert_int_eq(DECODE_GROUPS_CHUNK(group, p->head_dim) % DECODE_GROUPS_BLOCK(group, p->head_dim), 0);
    ck_assert_uint_eq(v->groups[0], passes * (uint64_t)v->splits);
    ck_assert_uint_eq(v->groups[1], (uint64_t)p->kv_heads);
    ck_assert_uint_eq(v->groups[2], (uint64_t)p->batch);
    ck_assert_int_ge((int64_t)v->splits * v->split_keys, p->n_kv);
    ck_assert_int_lt((int64_t)(v->splits - 1) * v->split_keys, p->n_kv);
}

// Every head size up to 256 on small devices. Larger heads if they fit.
START_TEST(fits_small_devices) {
    static const uint64_t locals[] = {16384, 32768, 49152, 65536}, groups[] = {64, 128, 256, 1024};
    for (int n = 0; n < 16; n++) {
        const clattn_capabilities device = gpu(groups[n % 4], locals[n / 4]);
        const plan_input in = {.device = &device, .own = &none, .shipped = &shipped};
        for (int d = 1; d <= 576; d += d < 20 ? 1 : 7)
            for (int way = 0; way < 3; way++) {
                const problem p = decode(1 + d % 16, 1 + d % 9, way == 2 ? 64 : d, way == 1 ? 64 : d);
                const variant v = plan(&in, &p);
                if (d <= 256 && v.family->id != KERNEL_DECODE_TILES)
                    ck_assert_int_eq(v.family->id, KERNEL_DECODE_GROUPS);
                if (v.family->id == KERNEL_DECODE_TILES) ck_assert_int_ge(p.n_q * p.heads / p.kv_heads, 16);
                if (v.family->id == KERNEL_DECODE_GROUPS) check_shape(&in, &p, &v);
            }
    }
    const clattn_capabilities large = gpu(1024, 65536);
    const plan_input in = {.device = &large, .own = &none, .shipped = &shipped};
    const problem p = decode(1, 15, 576, 512);
    ck_assert_int_eq(plan(&in, &p).family->id, KERNEL_DECODE_GROUPS);
}
END_TEST

// A compiled kernel that allows fewer work-items than its device gets a smaller group, or another
// kernel is chosen.
START_TEST(keeps_to_the_compiled_limit) {
    const clattn_capabilities device = gpu(1024, 65536);
    plan_input in = {.device = &device, .own = &none, .shipped = &shipped};
    const problem p = decode(1, 4, 128, 128);
    ck_assert_int_eq(plan(&in, &p).work_group, 128);
    in.group_limit[KERNEL_DECODE_GROUPS] = 100;
    ck_assert_int_eq(plan(&in, &p).work_group, 64);
    in.group_limit[KERNEL_DECODE_GROUPS] = 16;
    ck_assert_int_eq(plan(&in, &p).work_group, 16);
    in.group_limit[KERNEL_DECODE_GROUPS] = 15;
    ck_assert_int_eq(plan(&in, &p).family->id, KERNEL_FLASH);
}
END_TEST

// Decode runs up to sixteen rows. From sixteen rows of all heads on it uses tiles. There are enough
// ranges for all compute units, or as many as requested.
START_TEST(rows_and_ranges) {
    const clattn_capabilities device = gpu(256, 65536);
    const plan_input in = {.device = &device, .own = &none, .shipped = &shipped};
    for (int n_q = 1; n_q <= 16; n_q++) {
        problem p = decode(n_q, 2, 128, 128);
        if (n_q >= 8) {
            ck_assert_int_eq(plan(&in, &p).family->id, KERNEL_DECODE_TILES);
            p.score_ops = ARGS_MASK;
        }
        const variant v = plan(&in, &p);
        ck_assert_int_eq(v.family->id, KERNEL_DECODE_GROUPS);
        ck_assert_int_eq(v.knobs.rows, n_q > 1 ? 4 : 2);
        check_shape(&in, &p, &v);
        const uint64_t groups = v.groups[0] * v.groups[1] * v.groups[2];
        ck_assert_uint_ge(groups, v.splits < 5000 / 256 ? 4 * device.compute_units : 1);
        p.kernel = CLATTN_KERNEL_DECODE, p.splits = 7;
        const variant asked = plan(&in, &p);
        ck_assert_int_eq(asked.family->id, KERNEL_DECODE_GROUPS);
        ck_assert_int_eq(asked.splits, 7);
        check_shape(&in, &p, &asked);
    }
    const problem prefill = decode(17, 2, 128, 128);
    ck_assert_int_ne(plan(&in, &prefill).family->path, CLATTN_KERNEL_DECODE);
}
END_TEST

// Rows that are unaligned, or no multiple of a load, are read element by element, and the reason
// says so.
START_TEST(alignment_is_told) {
    static const struct {
        int d, dv, align_k, align_v;
        clattn_type type;
        int eights;
    } cases[] = {
        {128, 128, 16, 16, CLATTN_TYPE_F16, 1}, {128, 128, 8, 8, CLATTN_TYPE_F16, 1},
        {128, 128, 4, 8, CLATTN_TYPE_F16, 0},   {128, 128, 8, 4, CLATTN_TYPE_BF16, 0},
        {128, 128, 4, 4, CLATTN_TYPE_F32, 1},   {128, 128, 2, 4, CLATTN_TYPE_F32, 0},
        {128, 128, 8, 8, CLATTN_TYPE_I8, 1},    {128, 128, 4, 4, CLATTN_TYPE_I8, 0},
        {100, 128, 16, 16, CLATTN_TYPE_F32, 0}, {128, 20, 16, 16, CLATTN_TYPE_F32, 0},
    };
    const clattn_capabilities device = gpu(256, 65536);
    const plan_input in = {.device = &device, .own = &none, .shipped = &shipped};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p = decode(1, 4, cases[i].d, cases[i].dv);
        char why[256];
        p.align_k = cases[i].align_k, p.align_v = cases[i].align_v, p.type_kv = cases[i].type;
        const variant v = plan(&in, &p);
        cla_variant_explain(&in, &p, &v, why);
        ck_assert_int_eq(v.knobs.loads_of_8, cases[i].eights);
        ck_assert_msg((strstr(why, "not aligned") == NULL) == v.knobs.loads_of_8, "%s", why);
    }
}
END_TEST

// A CPU with vectors uses this kernel only if a caller's row names it. A CPU without vectors always
// uses it.
START_TEST(for_devices_that_are_no_cpu) {
    clattn_capabilities cpu = gpu(4096, 1 << 20);
    tuned_rows own;
    char why[256];
    cpu.is_gpu = false, cpu.is_cpu = true, cpu.float_vector_width = 16;
    plan_input in = {.device = &cpu, .own = &none, .shipped = &shipped};
    const problem p = decode(1, 4, 128, 128);
    ck_assert_int_eq(plan(&in, &p).family->id, KERNEL_DECODE_LANES);
    ck_assert(cla_tuned_parse("decode_groups nq=1 : ROWS=2 WORK_GROUP=64\n", &own, why, sizeof why));
    in.own = &own;
    const variant v = plan(&in, &p);
    ck_assert_int_eq(v.family->id, KERNEL_DECODE_GROUPS);
    ck_assert_int_eq(v.knobs.rows, 2);
    ck_assert_int_eq(v.work_group, 64);
    const problem other = decode(2, 4, 128, 128);
    ck_assert_int_eq(plan(&in, &other).family->id, KERNEL_DECODE_LANES);
    cla_tuned_free(&own);
    in.own = &none, cpu.float_vector_width = 1;
    ck_assert_int_eq(plan(&in, &p).family->id, KERNEL_DECODE_GROUPS);
    // A row that names another kernel of the path is used, on any device.
    ck_assert(cla_tuned_parse("flash :\n", &own, why, sizeof why));
    in.own = &own;
    ck_assert_str_eq(plan(&in, &p).family->name, "decode_portable");
    cla_tuned_free(&own);
}
END_TEST

// Sub-group sizes: sixteen is preferred, only probed sizes are used, a row can request a size. Also
// the language version that they need.
START_TEST(subgroups_as_probed) {
    static const struct {
        int sizes, asked, want;
    } cases[] = {{0, 0, 0},   {8, 0, 8},  {32, 0, 32},    {64 | 8, 0, 64},      {8 | 16 | 32, 0, 16},
                 {16, 32, 0}, {16, 1, 0}, {8 | 16, 8, 8}, {8 | 16 | 64, 64, 64}};
    clattn_capabilities device = gpu(256, 65536);
    device.subgroups = true, device.subgroup_ways = CLATTN_SUBGROUPS_KHR | CLATTN_SUBGROUPS_SHUFFLE_KHR;
    snprintf(device.version, sizeof device.version, "OpenCL 2.0 x");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_input in = {.device = &device, .own = &none, .shipped = &shipped};
        const problem p = decode(1, 4, 128, 128);
        tuned_rows own;
        char row[64], why[256];
        snprintf(row, sizeof row, "decode_groups : SUBGROUP=%d\n", cases[i].asked);
        ck_assert(cla_tuned_parse(row, &own, why, sizeof why));
        if (cases[i].asked) in.own = &own;
        in.probes.ran = PROBES_SUBGROUPS;
        for (int size = 8; size <= 64; size *= 2)
            if (cases[i].sizes & size) in.probes.proven |= 1u << cla_subgroup_probe(size);
        const variant v = plan(&in, &p);
        cla_tuned_free(&own);
        ck_assert_int_eq(v.family->id, KERNEL_DECODE_GROUPS);
        ck_assert_int_eq(v.knobs.subgroup, cases[i].want);
        ck_assert_int_eq(v.knobs.subgroup_ways, cases[i].want ? (int)device.subgroup_ways : 0);
        if (cases[i].want)
            ck_assert_str_eq(v.options, "-cl-std=CL2.0");
        else
            ck_assert_ptr_null(v.options);
        cla_variant_explain(&in, &p, &v, why);
        ck_assert_int_eq(strstr(why, "sub-groups of") != NULL, cases[i].want != 0);
    }
}
END_TEST

// Integer products need whole aligned rows of int8, i4, u4 or block keys. The choice depends on the
// probed rates of both ways, or on a row. A row of this family without DOT_I8 also decides: no
// integers.
enum {
    Q8 = CLATTN_TYPE_Q8_0,
    I8 = CLATTN_TYPE_I8,
    F16 = CLATTN_TYPE_F16,
    Q4 = CLATTN_TYPE_Q4_1,
    U4 = CLATTN_TYPE_U4,
    F8 = CLATTN_TYPE_F8E4M3
};
static const struct {
    int kv, d, align, compute_capability;
    float integers, floats; // rates; integers 0: not proven
    const char *row, *version;
    int want;
    const char *options;
} integers[] = {
    {I8, 128, 16, 90, 3, 2, "", "OpenCL 3.0 CUDA", DOT_I8_PTX, NULL},
    {I8, 128, 16, 60, 3, 2, "", "OpenCL 3.0 CUDA", DOT_I8_OWN, NULL},
    {I8, 64, 8, 0, 3, 2, "", "OpenCL 3.0 x", DOT_I8_OWN, "-cl-std=CL3.0"},
    {Q8, 64, 16, 0, 3, 2, "", "OpenCL 2.0 x", DOT_I8_OWN, NULL},
    {I8, 64, 4, 0, 3, 2, "", "OpenCL 2.0 x", 0, NULL},
    {I8, 100, 16, 0, 3, 2, "", "OpenCL 2.0 x", 0, NULL},
    {F16, 64, 16, 0, 3, 2, "", "OpenCL 2.0 x", 0, NULL},
    {Q4, 64, 16, 0, 3, 2, "", "OpenCL 2.0 x", DOT_I8_OWN, NULL},
    {U4, 64, 16, 0, 3, 2, "", "OpenCL 2.0 x", DOT_I8_OWN, NULL},
    {F8, 64, 16, 0, 3, 2, "", "OpenCL 2.0 x", 0, NULL},
    {I8, 64, 16, 0, 2, 3, "", "OpenCL 3.0 x", 0, NULL},
    {I8, 64, 16, 0, 0, 2, "", "OpenCL 3.0 x", 0, NULL},
    {I8, 64, 16, 0, 3, 2, "decode_groups :", "OpenCL 3.0 x", 0, NULL},
    {I8, 64, 16, 0, 2, 3, "decode_groups : DOT_I8=3", "OpenCL 3.0 x", DOT_I8_OWN, "-cl-std=CL3.0"},
    {I8, 64, 16, 0, 0, 3, "decode_groups : DOT_I8=3", "OpenCL 3.0 x", 0, NULL},
    {I8, 64, 16, 0, 0, 3, "decode_groups : DOT_I8=1", "OpenCL 3.0 x", DOT_I8_EMULATION, NULL},
    {F8, 64, 16, 0, 0, 3, "decode_groups : DOT_I8=1", "OpenCL 3.0 x", 0, NULL}};
START_TEST(integers_as_probed) {
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        clattn_capabilities device = gpu(256, 65536);
        problem p = decode(1, 4, integers[i].d, integers[i].d);
        const unsigned ran = 1u << PROBE_DOT_I8_OWN | 1u << PROBE_EIGHTS;
        tuned_rows own;
        char why[256];
        device.compute_capability = (uint32_t)integers[i].compute_capability;
        snprintf(device.version, sizeof device.version, "%s", integers[i].version);
        p.type_kv = (clattn_type)integers[i].kv, p.align_k = p.align_v = integers[i].align;
        ck_assert(cla_tuned_parse(integers[i].row, &own, why, sizeof why));
        const plan_input in = {
            .device = &device,
            .own = &own,
            .shipped = &shipped,
            .probes = {ran,
                       ran & ~(integers[i].integers > 0.0f ? 0u : 1u << PROBE_DOT_I8_OWN),
                       ran,
                       {[PROBE_DOT_I8_OWN] = integers[i].integers, [PROBE_EIGHTS] = integers[i].floats}}};
        const variant v = plan(&in, &p);
        cla_tuned_free(&own);
        ck_assert_int_eq(v.family->id, KERNEL_DECODE_GROUPS);
        ck_assert_msg(v.knobs.dot_i8 == integers[i].want, "case %zu: DOT_I8 is %d", i, v.knobs.dot_i8);
        ck_assert_pstr_eq(v.options, integers[i].options);
        cla_variant_explain(&in, &p, &v, why);
        ck_assert_msg((strstr(why, "integer") != NULL) == (integers[i].want != 0), "%s", why);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {fits_small_devices, keeps_to_the_compiled_limit, rows_and_ranges,
                                  alignment_is_told,  for_devices_that_are_no_cpu, subgroups_as_probed,
                                  integers_as_probed};
    return PLAN_SUITE_RUN("plan_groups", tests);
}
