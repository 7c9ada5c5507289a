// test_probe.c: probes of engines. They run only where they apply, must be right to the bit, and
// measure a rate. Stored results are in test_probe_kept.c.
#include "support/harness.h"

#include "args/args.h"
#include "args/fragments.h"
#include "device/driver_quirks.h"
#include "probe/int8_dot_gpu.h"
#include "probe/fragments.h"
#include "probe/lane_widths.h"
#include "probe/probe.h"
#include "probe/subgroups.h"
#include "support/layer_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL (~0u)

static clattn_context *open_context(const char *cache_dir) {
    return harness_open((clattn_context_params){.cache_dir = cache_dir});
}

// A proven engine has a rate, and other engines have none. Only requested probes run.
START_TEST(proven_means_a_rate) {
    clattn_context *c = open_context(NULL);
    ck_assert_uint_eq(cla_probe_results(c, 0).ran, 0);
    const probe_results fma = cla_probe_results(c, 1u << PROBE_FMA);
    ck_assert_uint_eq(fma.ran, 1u << PROBE_FMA);
    const probe_results all = cla_probe_results(c, ALL);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        const bool proven = all.proven >> id & 1u;
        ck_assert(all.ran >> id & 1u);
        ck_assert_int_eq(proven, all.rate[id] > 0.0f);
        if (!cla_probes[id].applies(clattn_context_capabilities(c))) ck_assert(!proven);
    }
    // Multiply-adds in vectors compile and are right on every device.
    if (cla_probes[PROBE_FMA].applies(clattn_context_capabilities(c))) {
        ck_assert(all.proven >> PROBE_FMA & 1u);
        ck_assert_msg(all.rate[PROBE_FMA] > 0.1f && all.rate[PROBE_FMA] < 10000.0f, "%g GFLOP/s",
                      (double)all.rate[PROBE_FMA]);
    }
    clattn_context_destroy(c);
}
END_TEST

// A wrong expectation must fail: the comparison includes every lane.
static void expect_one_off(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_probes[PROBE_FMA].expect(k, out);
    out[k->lanes - 1] ^= 1u;
}

START_TEST(wrong_is_not_proven) {
    clattn_context *c = open_context(NULL);
    probe wrong = cla_probes[PROBE_FMA];
    bool answered = false;
    if (wrong.applies(clattn_context_capabilities(c))) {
        ck_assert(cla_probe_run(c, &wrong, &answered) > 0.0f && answered);
        wrong.expect = expect_one_off;
        ck_assert(cla_probe_run(c, &wrong, &answered) == 0.0f && answered);
    }
    clattn_context_destroy(c);
}
END_TEST

static knobs knobs_emulated(const clattn_capabilities *device) {
    knobs k = cla_probes[PROBE_AMX].knobs(device);
    k.matrix_engine = MATRIX_ENGINE_EMULATION;
    return k;
}
static knobs knobs_emulated_bytes(const clattn_capabilities *device) {
    knobs k = cla_probes[PROBE_AMX_I8].knobs(device);
    k.matrix_engine = MATRIX_ENGINE_EMULATION;
    return k;
}
static void expect_one_off_tile(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_probes[k->type_kv == CLATTN_TYPE_I8 ? PROBE_AMX_I8 : PROBE_AMX].expect(k, out);
    out[63] ^= 1u;
}

// Tiles must compute what the emulation computes, on any device.
static void check_emulated(const clattn_context *c, probe emulated) {
    bool answered = false;
    ck_assert(cla_probe_run(c, &emulated, &answered) > 0.0f && answered);
    emulated.expect = expect_one_off_tile;
    ck_assert(cla_probe_run(c, &emulated, &answered) == 0.0f && answered);
}

// A context that did not request the AMX engine has none. A CPU with tiles may lack the products of
// bytes.
START_TEST(tiles) {
    clattn_context *c = open_context(NULL);
    probe floats = cla_probes[PROBE_AMX], bytes = cla_probes[PROBE_AMX_I8];
    floats.knobs = knobs_emulated, bytes.knobs = knobs_emulated_bytes;
    check_emulated(c, floats);
    check_emulated(c, bytes);
    ck_assert_uint_eq(c->engines, 0);
    ck_assert(!(cla_probe_results(c, ALL).proven & PROBES_AMX_I8));
    clattn_context_destroy(c);
    c = harness_open((clattn_context_params){.engines = CLATTN_ENGINES_ALL});
    const bool granted =
        c->capabilities.is_cpu && c->capabilities.assembly & CLATTN_ASSEMBLY_X86 && cla_os_request_amx();
    ck_assert_uint_eq(c->engines, granted ? CLATTN_ENGINE_AMX : 0);
    ck_assert_int_eq(cla_probe_results(c, ALL).proven >> PROBE_AMX & 1u, granted);
    ck_assert_int_eq(cla_probe_results(c, ALL).proven >> PROBE_AMX_I8 & 1u,
                     granted && cla_os_cpu_has_amx_i8());
    clattn_context_destroy(c);
}
END_TEST

// The linker prefers these functions to the library's own (meson.build). While `has_all` is set,
// the CPU seems to have all engines of x86.
static bool has_all;
#define IN_FRONT(type, name, all)                                                                            \
    type __real_##name(void);                                                                                \
    type __wrap_##name(void);                                                                                \
    type __wrap_##name(void) {                                                                               \
        return has_all ? (all) : __real_##name();                                                            \
    }
IN_FRONT(bool, cla_os_request_amx, true)
IN_FRONT(bool, cla_os_cpu_has_amx_i8, true)
IN_FRONT(bool, cla_os_cpu_has_dot_bf16, true)
IN_FRONT(int, cla_os_cpu_dot_i8_lanes, 16)

// Only compilers that are known to support it receive inline assembly, whatever the CPU has and the
// caller requests. Oclgrind 21.10 ends the process when it compiles the probe of AMX
// (check_oclgrind.sh runs this group under it). PoCL has another driver's name here. If it compiled
// the probes, an illegal instruction would end the process on a CPU without AMX.
START_TEST(no_assembly_for_strangers) {
    static const char stranger[] = "OpenCL 3.0 Stranger 21.10";
    const struct layer_control *layer = layer_client();
    if (layer) layer->pretend(CL_PLATFORM_VERSION, stranger, sizeof stranger);
    has_all = true;
    clattn_context *c = harness_open((clattn_context_params){.engines = CLATTN_ENGINES_ALL});
    if (layer) layer->pretend(0, NULL, 0);
    ck_assert(!layer || c->engines == 0); // the system was not called
    ck_assert(!layer || (c->capabilities.assembly == 0 && !c->capabilities.driver_known));
    c->capabilities.assembly = 0;
    c->capabilities.float_vector_width = 16; // as on a CPU with AVX-512
    c->engines = CLATTN_ENGINES_ALL;
    const unsigned of_x86 = 1u << PROBE_DOT_BF16 | 1u << PROBE_DOT_I8 | PROBES_AMX_I8;
    ck_assert_uint_eq(cla_probe_results(c, of_x86).proven & of_x86, 0);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        char options[PROBE_OPTIONS];
        if (!cla_probes[id].applies(&c->capabilities)) continue;
        ck_assert(cla_probe_options(c, &cla_probes[id], options));
        ck_assert_msg(!strstr(options, "-DDOT_BF16") && !strstr(options, "-DDOT_I8=2") &&
                          !strstr(options, "-DMATRIX_ENGINE=2") && strstr(options, "-DNO_ASSEMBLY"),
                      "%s: %s", cla_probes[id].name, options);
    }
    clattn_context_destroy(c);
    has_all = false;
}
END_TEST

// Engines whose layout the emulation has, by the table's probes and by the property that a device
// must have.
static const struct fragments_engine {
    int engine, rows; // rows: of a result
    probe_id f16, bf16;
    clattn_capabilities has;
} fragments_engines[] = {
    {MATRIX_ENGINE_MMA, 16, PROBE_MMA_F16, PROBE_MMA_BF16, {.compute_capability = 80}},
    {MATRIX_ENGINE_WMMA,
     16,
     PROBE_WMMA_F16,
     PROBE_WMMA_BF16,
     {.wavefront_width = 32, .assembly = CLATTN_ASSEMBLY_AMD}},
    {MATRIX_ENGINE_WMMA_12,
     16,
     PROBE_WMMA_F16,
     PROBE_WMMA_BF16,
     {.wavefront_width = 32, .assembly = CLATTN_ASSEMBLY_AMD}},
    {MATRIX_ENGINE_MFMA,
     32,
     PROBE_MFMA_F16,
     PROBE_MFMA_BF16,
     {.wavefront_width = 64, .assembly = CLATTN_ASSEMBLY_AMD}},
    {MATRIX_ENGINE_DPAS_8, 8, PROBE_DPAS_F16, PROBE_DPAS_BF16, {.subgroup_ways = 82, .subgroup_sizes = 56}},
    {MATRIX_ENGINE_DPAS_16, 16, PROBE_DPAS_F16, PROBE_DPAS_BF16, {.subgroup_ways = 82, .subgroup_sizes = 48}},
    {MATRIX_ENGINE_WGMMA, 64, PROBE_WGMMA_F16, PROBE_WGMMA_BF16, {.compute_capability = 90}}};
#define IS_WGMMA(e) ((e)->engine == MATRIX_ENGINE_WGMMA)
static const struct fragments_engine *emulated_engine;
static int one_off;

static knobs fragments_emulated(const clattn_capabilities *device) {
    knobs k = cla_probes[emulated_engine->f16].knobs(device);
    k.matrix_engine = MATRIX_ENGINE_EMULATION, k.emulated = emulated_engine->engine;
    return k;
}
static knobs fragments_emulated_bf16(const clattn_capabilities *device) {
    knobs k = fragments_emulated(device);
    k.type_kv = CLATTN_TYPE_BF16;
    return k;
}
static const char *fragments_options(const clattn_capabilities *device) {
    (void)device;
    return "-cl-std=CL1.2 -cl-opt-disable"; // compiles in a third of the time
}
// Change one number of the expected result: `one_off` selects the last number of one of the three
// parts. For wgmma, which has one part, it selects one of three numbers.
static void expect_one_off_fragment(const knobs *k, uint32_t out[PROBE_WORDS]) {
    const int all = PROBE_FRAGMENTS_SIDE * emulated_engine->rows;
    const int last[] = {all - 1, 2 * all - 1, 2 * all + emulated_engine->rows - 1};
    cla_probes[emulated_engine->f16].expect(k, out);
    out[IS_WGMMA(emulated_engine) ? 500 * one_off : last[one_off]] ^= 1u;
}

// Check the probes of matrix fragments in both types. The emulation has the layouts of the engines.
START_TEST(fragments) {
    const struct fragments_engine *e = emulated_engine = &fragments_engines[_i];
    clattn_context *c = open_context(NULL);
    bool answered = false;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        probe emulated = cla_probes[bf16 ? e->bf16 : e->f16];
        emulated.knobs = bf16 ? fragments_emulated_bf16 : fragments_emulated;
        emulated.options = fragments_options;
        ck_assert_msg(cla_probe_run(c, &emulated, &answered) > 0.0f && answered, "engine %d", e->engine);
        emulated.expect = expect_one_off_fragment;
        for (one_off = 0; one_off < (bf16 ? 1 : 3); one_off++)
            ck_assert(cla_probe_run(c, &emulated, &answered) == 0.0f && answered);
    }
    clattn_context_destroy(c);
}
END_TEST

static int eights_way;
static knobs eights_emulated(const clattn_capabilities *device) {
    knobs k = cla_eights_knobs(device);
    k.dot_i8 = eights_way;
    return k;
}
static void expect_one_off_eight(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_eights_expect(k, out);
    out[one_off] ^= 1u;
}
static void fill_one_off_eight(uint32_t in[PROBE_WORDS]) {
    cla_eights_fill(in);
    in[one_off] ^= 0x80u << 8 * (one_off % 4);
}

static bool has_dot_product(const clattn_context *c) {
    char list[8192] = "";
    clGetDeviceInfo(c->device, CL_DEVICE_EXTENSIONS, sizeof list, list, NULL);
    return strstr(list, "cl_khr_integer_dot_product") && cla_opencl_version(&c->capabilities) >= 3;
}

// Products of eight bytes in float32, in the emulation of integer dot products, and in Khronos' own
// if the device has them. All are right to the bit, and a wrong bit is noticed. The device acts as
// a GPU.
START_TEST(eights) {
    clattn_context *c = open_context(NULL);
    clattn_capabilities device = *clattn_context_capabilities(c);
    bool answered = false;
    static const int ways[] = {0, DOT_I8_EMULATION, DOT_I8_OWN};
    for (int i = 0; i < (has_dot_product(c) ? 3 : 2); i++) {
        probe emulated = cla_probes[PROBE_EIGHTS];
        eights_way = ways[i];
        emulated.knobs = eights_emulated, emulated.options = i < 2 ? fragments_options : cla_eights_options;
        ck_assert_msg(cla_probe_run(c, &emulated, &answered) > 0.0f && answered, "DOT_I8=%d", eights_way);
        emulated.expect = expect_one_off_eight, one_off = 4 * EIGHTS_PROBE_ITEMS - 1;
        ck_assert(cla_probe_run(c, &emulated, &answered) == 0.0f && answered);
        emulated.expect = cla_eights_expect, emulated.fill = fill_one_off_eight;
        for (one_off = 0; one_off < 8; one_off += 7)
            ck_assert(cla_probe_run(c, &emulated, &answered) == 0.0f && answered);
    }
    clattn_context_destroy(c);
    const probe *own = &cla_probes[PROBE_DOT_I8_OWN];
    device.is_cpu = true;
    ck_assert(!own->applies(&device));
    device.is_cpu = false, device.max_work_group = device.max_work_item[0] = 255;
    ck_assert(!own->applies(&device));
    device.max_work_group = device.max_work_item[0] = 256;
    ck_assert(own->applies(&device) && cla_probes[PROBE_EIGHTS].applies(&device));
    snprintf(device.version, sizeof device.version, "OpenCL 3.0 x");
    for (int capability = 60; capability < 62; capability++) {
        device.compute_capability = (uint32_t)capability;
        ck_assert_int_eq(own->knobs(&device).dot_i8, capability > 60 ? DOT_I8_PTX : DOT_I8_OWN);
        ck_assert_ptr_null(own->options(&device));
    }
    device.compute_capability = 0;
    ck_assert_str_eq(own->options(&device), "-cl-std=CL3.0");
    snprintf(device.version, sizeof device.version, "OpenCL 2.0 x");
    ck_assert_ptr_null(own->options(&device));
}
END_TEST

// The properties that a device reports select the probe, if it has enough work-items. Only NVIDIA's
// devices have two engines.
START_TEST(fragments_where_there_are_some) {
    for (size_t i = 0; i < sizeof fragments_engines / sizeof fragments_engines[0]; i++) {
        const struct fragments_engine *e = &fragments_engines[i];
        clattn_capabilities device = e->has;
        unsigned asked = 0;
        for (int many = 0; many < 2; many++) {
            device.max_work_group = many ? 128 : 64;
            for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
                if (PROBES_FRAGMENTS >> id & 1u && cla_probes[id].applies(&device)) asked |= 1u << id;
            ck_assert_uint_eq(asked,
                              many ? 1u << e->f16 | 1u << e->bf16 | (IS_WGMMA(e) ? PROBES_MMA : 0) : 0);
        }
        ck_assert_int_eq(cla_probes[e->bf16].knobs(&device).matrix_engine,
                         e->engine == MATRIX_ENGINE_WMMA_12 ? MATRIX_ENGINE_WMMA : e->engine);
        ck_assert_int_eq(cla_probes[e->f16].knobs(&device).type_kv, CLATTN_TYPE_F16);
        ck_assert_int_eq(cla_probes[e->bf16].knobs(&device).type_kv, CLATTN_TYPE_BF16);
        // One property less: an older chip, another wavefront, no extension, or no size.
        device.compute_capability -= device.compute_capability ? 5u : 0;
        device.wavefront_width /= 4, device.subgroup_ways &= ~64u;
        ck_assert(!cla_probes[e->f16].applies(&device));
        ck_assert_int_eq(cla_fragments_possible(&device), IS_WGMMA(e));
        device.subgroup_ways = e->has.subgroup_ways, device.subgroup_sizes = 32;
        ck_assert(!cla_probes[e->f16].applies(&device));
    }
    clattn_context *c = open_context(NULL);
    const clattn_capabilities *device = clattn_context_capabilities(c);
    ck_assert_int_eq((cla_probe_results(c, ALL).proven >> PROBE_MMA_F16 & 1u) != 0,
                     device->compute_capability >= 80);
    clattn_context_destroy(c);
}
END_TEST

// The public list contains what the planner uses, and at most the number of entries of the caller's
// array.
START_TEST(listed) {
    clattn_context *c = open_context(NULL);
    clattn_engine engines[PROBE_COUNT];
    size_t count = 0;
    memset(engines, 0x5a, sizeof engines);
    ck_assert_int_eq(clattn_context_engines(c, engines, 1, &count), CLATTN_OK);
    ck_assert_uint_eq(count, PROBE_COUNT - 1);
    ck_assert_int_eq(engines[1].name[0], 0x5a);
    ck_assert_int_eq(clattn_context_engines(c, engines, PROBE_COUNT, &count), CLATTN_OK);
    const probe_results found = cla_probe_results(c, ALL);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        ck_assert_str_eq(engines[id - 1].name, cla_probes[id].name);
        ck_assert_int_eq(engines[id - 1].works, found.proven >> id & 1u);
        ck_assert(engines[id - 1].gflops == found.rate[id]);
    }
    clattn_context_destroy(c);
}
END_TEST

// Vectors of each width, as the kernels use them: right on the device, and each number up to the
// last counts.
static void expect_one_off_width(const knobs *k, uint32_t out[PROBE_WORDS]) {
    int words = PROBE_WORDS;
    cla_lanes_expect(k, out);
    while (words && out[words - 1] == 0) words--;
    out[words - 1] ^= 1u;
}
static void expect_one_off_tiles(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_tiles_expect(k, out);
    out[TILES_PROBE_ITEMS - 1] ^= 1u;
}

START_TEST(widths) {
    clattn_context *c = open_context(NULL);
    for (int id = PROBE_TILES; id <= PROBE_LANES_16; id++) {
        probe p = cla_probes[id];
        bool answered = false;
        if (!p.applies(&c->capabilities)) continue;
        const float rate = cla_probe_run(c, &p, &answered);
        ck_assert_msg(rate > 0.0f && rate < 10000.0f && answered, "%s: %g", p.name, (double)rate);
        p.expect = id == PROBE_TILES ? expect_one_off_tiles : expect_one_off_width;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && answered);
    }
    clattn_context_destroy(c);
}
END_TEST

static double one_flop(const knobs *k) {
    return 1e-30 * k->lanes;
}

// If vectors are slower than tiles, no width is probed. The cheapest probes are made to say so.
START_TEST(slow_vectors_are_not_asked) {
    clattn_context *c = open_context(NULL);
    probe_results known = {.rate = {[PROBE_FMA] = 1.0f, [PROBE_TILES] = 9.0f}};
    clattn_capabilities device = c->capabilities;
    bool answered = false;
    probe fma = cla_probes[PROBE_FMA];
    fma.round_flops = one_flop;
    device.float_vector_width = 1;
    for (int id = PROBE_LANES_4; id <= PROBE_LANES_16; id++) {
        ck_assert(!cla_probes[id].worth(&device, &known));
        ck_assert(cla_probes[id].worth(&c->capabilities, &known) ==
                  (c->capabilities.float_vector_width >= 4));
    }
    if (fma.applies(&device)) {
        known.rate[PROBE_FMA] = cla_probe_run(c, &fma, &answered);
        ck_assert(!cla_lanes_worth(&device, &known));
        known.rate[PROBE_TILES] = 0.0f;
        ck_assert(cla_lanes_worth(&device, &known) == (known.rate[PROBE_FMA] > 0.0f));
    }
    clattn_context_destroy(c);
}
END_TEST

static void subgroups_one_off(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_subgroup_expect(k, out);
    out[4 * SUBGROUP_PROBE_ITEMS - 1] ^= 1u;
}

static knobs knobs_refused(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.lanes = 5}; // no kernel compiles with this number
}
static double no_flops(const knobs *k) {
    return 0.0 * k->lanes;
}

// A compiler's refusal is a result, which the cache keeps. An unmeasured rate is no result, nor is
// a failed call: here a kernel with other arguments.
START_TEST(only_answers_are_kept) {
    clattn_context *c = open_context(NULL);
    const probe fma = cla_probes[PROBE_FMA];
    bool answered = false;
    if (fma.applies(clattn_context_capabilities(c))) {
        probe p = fma;
        p.knobs = knobs_refused;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && answered);
        p = fma, p.round_flops = no_flops;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && !answered);
        p = fma, p.kernel = KERNEL_SOFTMAX;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && !answered);
    }
    clattn_context_destroy(c);
}
END_TEST

// Sub-groups of each size that the device lists, in each of its spellings, and without a requested
// size.
static const unsigned spellings[] = {
    ~0u, // all that it has
    ~CLATTN_SUBGROUPS_INTEL,
    ~(CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SHUFFLE_KHR),
    ~(CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SIZE_INTEL),
};
START_TEST(subgroups_of_each_size) {
    clattn_context *c = open_context(NULL);
    clattn_capabilities *device = &c->capabilities;
    const bool sized = device->subgroup_ways & CLATTN_SUBGROUPS_SIZE_INTEL;
    device->subgroup_ways &= spellings[_i];
    const unsigned ways = device->subgroup_ways;
    unsigned right = 0;
    for (int size = 8; size <= 64; size *= 2) {
        const probe *p = &cla_probes[cla_subgroup_probe(size)];
        bool answered = false;
        if (!p->applies(device)) continue;
        right |= cla_probe_run(c, p, &answered) > 0.0f ? (unsigned)size : 0;
        ck_assert_msg(answered, "sub-groups of %d, spelling %#x: no answer", size, ways);
        probe wrong = *p;
        wrong.expect = subgroups_one_off;
        ck_assert(cla_probe_run(c, &wrong, &answered) == 0.0f && answered);
    }
    if (ways & CLATTN_SUBGROUPS_SIZE_INTEL)
        ck_assert_msg(right == (device->subgroup_sizes & 120u), "spelling %#x: %#x of %#x are right", ways,
                      right, device->subgroup_sizes);
    else if (sized && ways) // the compiler may have chosen one of the sizes
        ck_assert_msg(right && !(right & (right - 1)), "spelling %#x: %#x are right", ways, right);
    else if (!ways)
        ck_assert_uint_eq(right, 0);
    clattn_context_destroy(c);
}
END_TEST

// A device without sub-groups is not probed: planning would build a kernel that its compiler
// refuses.
START_TEST(subgroups_where_there_are_some) {
    clattn_capabilities none = *clattn_context_capabilities(harness()->context);
    none.subgroups = false, none.subgroup_ways = 0;
    for (int size = 8; size <= 64; size *= 2) ck_assert(!cla_probes[cla_subgroup_probe(size)].applies(&none));
    clattn_capabilities some = none;
    some.subgroups = true, some.subgroup_ways = CLATTN_SUBGROUPS_KHR, some.max_work_group = 256;
    snprintf(some.version, sizeof some.version, "OpenCL 2.0 AMD-APP");
    ck_assert_str_eq(cla_subgroup_options(&some), "-cl-std=CL2.0");
    ck_assert(cla_subgroup_possible(&some, 64));
    some.subgroup_ways |= CLATTN_SUBGROUPS_SIZE_INTEL, some.subgroup_sizes = 8 | 32;
    ck_assert(cla_subgroup_possible(&some, 32) && !cla_subgroup_possible(&some, 16));
    snprintf(some.version, sizeof some.version, "OpenCL 3.0");
    ck_assert_str_eq(cla_subgroup_options(&some), "-cl-std=CL3.0");
    snprintf(some.version, sizeof some.version, "OpenCL 1.2");
    ck_assert_ptr_null(cla_subgroup_options(&some));
    some.subgroup_ways |= CLATTN_SUBGROUPS_INTEL;
    ck_assert_str_eq(cla_subgroup_options(&some), "-cl-std=CL1.2");
    some.max_work_group = 32;
    ck_assert(!cla_subgroup_possible(&some, 32));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {proven_means_a_rate,
                                  wrong_is_not_proven,
                                  tiles,
                                  fragments_where_there_are_some,
                                  widths,
                                  slow_vectors_are_not_asked,
                                  eights,
                                  listed,
                                  only_answers_are_kept,
                                  subgroups_where_there_are_some,
                                  NULL};
    Suite *suite = suite_create("probe");
    TCase *group = harness_add(suite, "probe", tests);
    tcase_add_loop_test(group, fragments, 0, sizeof fragments_engines / sizeof fragments_engines[0]);
    tcase_add_loop_test(group, subgroups_of_each_size, 0, sizeof spellings / sizeof spellings[0]);
    const TTest *const alone[] = {no_assembly_for_strangers, NULL};
    harness_add(suite, "assembly", alone);
    return harness_run(suite);
}
