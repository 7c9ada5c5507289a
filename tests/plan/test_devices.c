// test_devices.c: plans for absent devices. Every device gets a kernel within its limits and a
// reason for every problem. Also tests compiled kernels that allow fewer work-items than the
// device, and devices that passed every probe.
#include "plan/absent_devices.h"
#include "args/args.h"
#include "device/driver_quirks.h"
#include "plan/plan_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kernel_of(const variant *v) {
    return clattn_kernel_sources[v->family->id].name;
}

// Returns true for a kernel whose work-item uses all vector registers of a CPU core.
static bool is_of_cpus(enum kernel_id id) {
    const char *name = clattn_kernel_sources[id].name, *end = strstr(name, "_lanes");
    return end && end[6] == '\0';
}

// A device without probes, with the probes that it would pass, or with all probes passed.
enum { NOT_PROBED, PROBED, ALL_PROVEN };

// The device's compiled kernels allow `limit` work-items. 0: unknown.
static plan_input make_input(const absent_device *device, int probes, uint32_t limit) {
    plan_input in = {.device = &device->is, .shipped = &shipped, .has_clblast = true};
    in.probes.proven = probes == ALL_PROVEN ? (1u << PROBE_COUNT) - 1
                       : probes == PROBED   ? absent_device_proves(device)
                                            : 0;
    in.probes.ran = in.probes.sure = in.probes.proven;
    for (int id = 0; id < KERNEL_COUNT; id++) in.group_limit[id] = limit;
    return in;
}

static void check_group(const plan_input *in, const variant *v, const char *what) {
    const uint64_t most = cla_family_group_limit(in, v->family->id);
    ck_assert_msg(v->work_group >= 1 && (uint64_t)v->work_group <= most,
                  "%s: a work-group of %d, at most %llu", what, v->work_group, (unsigned long long)most);
    ck_assert_msg(v->local_bytes <= in->device->local_memory_bytes,
                  "%s: %zu bytes of local memory, at most %llu", what, v->local_bytes,
                  (unsigned long long)in->device->local_memory_bytes);
}

// The grid of a fused kernel: the device counts work-items, and the kernel counts groups. In the
// second and third dimension a group has one work-item. chain.c enqueues parts of the grid.
static void check_grid(const plan_input *in, const variant *v, const char *what) {
    const uint64_t most = in->device->address_bits == 32 ? UINT32_MAX : SIZE_MAX;
    for (int i = 0; i < 3; i++) {
        const uint64_t group = i == 0 ? (uint64_t)v->work_group : 1;
        ck_assert_msg(v->groups[i] <= INT32_MAX && v->groups[i] <= most / group,
                      "%s: %zu work-groups of %d in dimension %d", what, v->groups[i], v->work_group, i);
    }
}

// Every key is in one range, and no range is empty.
static void check_splits(const problem *p, const variant *v, const char *what) {
    const int64_t reach = (int64_t)v->splits * v->split_keys;
    ck_assert_msg(v->splits >= 1 && reach >= p->n_kv && (v->splits == 1 || reach - v->split_keys < p->n_kv),
                  "%s: %d ranges of %d keys", what, v->splits, v->split_keys);
    const int64_t rows = (int64_t)p->batch * p->heads * p->n_q;
    const uint64_t partial =
        v->splits == 1 ? 0
                       : (uint64_t)v->splits * (uint64_t)rows * sizeof(float) * ((uint64_t)p->head_dim_v + 2);
    ck_assert_msg(v->family->path == CLATTN_KERNEL_UNFUSED || v->workspace_bytes >= partial,
                  "%s: %llu bytes of workspace", what, (unsigned long long)v->workspace_bytes);
}

static void check_plan(const plan_input *in, const problem *p, const variant *v, const char *what) {
    char why[256] = "", options[1024];
    check_group(in, v, what);
    check_splits(p, v, what);
    ck_assert_msg(in->device->is_cpu || !is_of_cpus(v->family->id), "%s: %s", what, kernel_of(v));
    ck_assert_msg(cla_knobs_print(&v->knobs, options, sizeof options), "%s: options that do not fit", what);
    cla_variant_explain(in, p, v, why);
    ck_assert_msg(strlen(why) > 12 && strstr(why, clattn_kernel_name(v->family->path)) == why, "%s: '%s'",
                  what, why);
    if (v->family->path == CLATTN_KERNEL_UNFUSED) return;
    check_grid(in, v, what);
    ck_assert_msg(v->knobs.head_dim == p->head_dim && v->knobs.head_dim_v == p->head_dim_v &&
                      v->knobs.score_ops == p->score_ops && v->knobs.type_kv == (int)p->type_kv,
                  "%s: %s", what, options);
}

// AUTO always finds a kernel. A forced kernel may be refused, with a reason.
static bool plan(const plan_input *in, const problem *p, variant *v, const char *what) {
    char why[256] = "";
    const clattn_status status = cla_variant_choose(in, p, v);
    if (status == CLATTN_OK) return true;
    ck_assert_msg(status == CLATTN_UNSUPPORTED && p->kernel != CLATTN_KERNEL_AUTO, "%s: no kernel", what);
    cla_variant_refusal(v, why);
    ck_assert_msg(strlen(why) > 12, "%s: refused without a reason", what);
    return false;
}

// All problems on all devices.
static void check_all(int probes, uint32_t limit) {
    char what[200];
    int planned = 0;
    for (int d = 0; d < absent_device_count; d++)
        for (int i = 0; i < absent_problem_count; i++) {
            const plan_input in = make_input(&absent_devices[d], probes, limit);
            const problem *p = &absent_problems[i].is;
            variant v;
            snprintf(what, sizeof what, "%s on %s, probes %d, kernels of %u", absent_problems[i].word,
                     absent_devices[d].word, probes, limit);
            if (!plan(&in, p, &v, what)) continue;
            check_plan(&in, p, &v, what);
            planned++;
        }
    ck_assert_int_ge(planned, 40 * absent_device_count);
}

START_TEST(every_device) {
    ck_assert_int_ge(absent_problem_count, 40);
    ck_assert_int_ge(absent_device_count, 12);
    check_all(NOT_PROBED, 0);
}
END_TEST

START_TEST(probes_passed) {
    int with = 0;
    for (int d = 0; d < absent_device_count; d++) with += absent_device_proves(&absent_devices[d]) != 0;
    ck_assert_int_ge(with, 6);
    check_all(PROBED, 0);
    check_all(ALL_PROVEN, 0);
}
END_TEST

// A compiled kernel allows fewer work-items than its device. The plan has smaller tiles, down to
// one work-item.
START_TEST(kernels_that_allow_less) {
    static const uint32_t limits[] = {512, 128, 100, 64, 32, 8, 1};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        check_all(NOT_PROBED, limits[i]);
        check_all(PROBED, limits[i]);
    }
}
END_TEST

// The plan is a function of its input: another device name does not change it, and neither does
// planning twice.
START_TEST(names_decide_nothing) {
    for (int d = 0; d < absent_device_count; d++)
        for (int i = 0; i < absent_problem_count; i++) {
            absent_device other = absent_devices[d];
            snprintf(other.is.name, sizeof other.is.name, "CPU");
            snprintf(other.is.vendor, sizeof other.is.vendor, "another");
            snprintf(other.is.driver, sizeof other.is.driver, "0");
            const plan_input in = make_input(&absent_devices[d], PROBED, 0),
                             in_other = make_input(&other, PROBED, 0);
            variant a, b;
            const clattn_status status = cla_variant_choose(&in, &absent_problems[i].is, &a);
            ck_assert_int_eq(cla_variant_choose(&in_other, &absent_problems[i].is, &b), status);
            if (status != CLATTN_OK) continue;
            ck_assert(a.family == b.family && cla_knobs_equal(&a.knobs, &b.knobs) && a.splits == b.splits &&
                      a.work_group == b.work_group && a.local_bytes == b.local_bytes);
        }
}
END_TEST

// One kernel is chosen, and each other kernel has a reason why not.
START_TEST(every_family_explains) {
    for (int d = 0; d < absent_device_count; d++)
        for (int i = 0; i < absent_problem_count; i++) {
            const plan_input in = make_input(&absent_devices[d], PROBED, 0);
            const problem *p = &absent_problems[i].is;
            const family *f;
            char why[256];
            variant v;
            int index = 0, chosen = 0;
            if (cla_variant_choose(&in, p, &v) != CLATTN_OK) continue;
            while (cla_variant_review(&in, p, &v, &index, &f, why)) {
                ck_assert_msg(strlen(why) > 5, "%s of %s on %s", f->name, absent_problems[i].word,
                              absent_devices[d].word);
                chosen += f == v.family;
            }
            ck_assert_int_eq(chosen, 1);
        }
}
END_TEST

static void check_projection(const plan_input *in, const absent_projection *p, bool forced,
                             const char *device, int *fragments) {
    linear_choice c = {.id = KERNEL_COUNT};
    char options[1024];
    if (!cla_variant_choose_linear(in, &p->is, forced, &c)) {
        ck_assert_msg(!forced && in->has_clblast, "%s on %s: no kernel", p->word, device);
        return;
    }
    const uint64_t most = cla_family_group_limit(in, c.id);
    ck_assert_msg(in->device->is_cpu || !is_of_cpus(c.id), "%s on %s%s: %s", p->word, device,
                  forced ? ", asked for" : "", clattn_kernel_sources[c.id].name);
    ck_assert_msg(c.work_group >= 0 && (uint64_t)c.work_group <= most && c.column_tile > 0,
                  "%s on %s: a work-group of %d, at most %llu", p->word, device, c.work_group,
                  (unsigned long long)most);
    ck_assert(c.id != KERNEL_LINEAR_FRAGMENTS || c.local_bytes <= in->device->local_memory_bytes);
    ck_assert(cla_knobs_print(&c.knobs, options, sizeof options));
    ck_assert_int_gt(strlen(cla_variant_linear_why(in, &p->is, true)), 12);
    *fragments += c.id == KERNEL_LINEAR_FRAGMENTS;
}

// With and without CLBlast, with AUTO and forced, and with compiled kernels that allow fewer
// work-items.
START_TEST(projections) {
    static const uint32_t limits[] = {0, 128, 64, 32, 1};
    int fragments = 0;
    for (int d = 0; d < absent_device_count; d++)
        for (int i = 0; i < absent_projection_count; i++)
            for (int n = 0; n < 4 * 5; n++) {
                plan_input in = make_input(&absent_devices[d], PROBED, limits[n / 4]);
                in.has_clblast = n & 2;
                check_projection(&in, &absent_projections[i], n & 1, absent_devices[d].word, &fragments);
            }
    // seven devices have engines, and five projections use them
    ck_assert_int_ge(fragments, 7 * 5 * 4);
}
END_TEST

// For each platform: whether clattn reads its binaries, uses its sub-groups, and knows that it
// supports inline assembly. The complete version number decides.
static const struct {
    const char *platform;
    bool asked, grouped, x86, ptx; // binaries; sub-groups; x86 and PTX inline assembly
} platforms[] = {
    {"Portable Computing Language, OpenCL 3.0 PoCL 3.1+debian  Linux, None+Asserts, RELOC, LLVM 14.0.6",
     false, true, true, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 4.0  Linux, Release, LLVM 15.0.7, SLEEF", false, false,
     true, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 5.0+debian  Linux, None+Asserts, LLVM 16.0.6", false,
     false, true, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 6.0  Linux, Debian, RELOC, LLVM 18.1.8", false, false,
     true, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 6.1-pre main-0-gabc  Linux", false, false, true, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 7.0  Linux, Debian, RELOC, LLVM 19.1.7", false, true, true,
     false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 7.1  Linux", false, true, true, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 10.4  Linux", false, true, false, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 60.0  Linux", false, true, false, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 99999999999995.0", true, true, false, false},
    {"PoCL of somebody, OpenCL 3.0 PoCL 5.0", false, false, true, false},
    {"PoCL of somebody", true, true, false, false},
    {"Portable Computing Language, OpenCL 1.2 pocl 1.1 None+Asserts, LLVM 6.0.0", true, true, true, false},
    {"Intel(R) OpenCL, OpenCL 3.0 LINUX", true, true, true, false},
    {"NVIDIA CUDA, OpenCL 3.0 CUDA 12.4.131", true, true, false, true},
    {"rusticl, OpenCL 3.0 ", true, true, false, false},
    {"", true, true, false, false},
    {"Oclgrind, OpenCL 1.2 (Oclgrind 21.10)", true, true, false, false},
    {"Intel(R) OpenCL, OpenCL 3.1 LINUX", true, true, true, false},
    {"Intel(R) OpenCL Graphics, OpenCL 3.0 ", true, true, false, false},
    {"Portable Computing Language, OpenCL 3.0 PoCL 6.0  Linux, RELOC, LLVM 18.1.8, CUDA, POCL_DEBUG", false,
     false, true, false},
    {"clvk, OpenCL 3.0 CLVK on Vulkan v1.3.275 driver 4206816", true, true, false, false},
    {"Apple, OpenCL 1.2 (Apr 18 2023 18:13:25)", true, true, false, false},
    {"AMD Accelerated Parallel Processing, OpenCL 2.1 AMD-APP (3590.0)", true, true, false, false},
};

START_TEST(defects) {
    for (size_t i = 0; i < sizeof platforms / sizeof platforms[0]; i++) {
        const char *platform = platforms[i].platform;
        clattn_capabilities device = {.name = ""};
        bool known;
        snprintf(device.platform, sizeof device.platform, "%s", platform);
        const unsigned assembly = cla_known_assembly(&device, &known);
        ck_assert_msg(!(assembly & CLATTN_ASSEMBLY_X86) != platforms[i].x86, "%s: x86", platform);
        ck_assert_msg(!(assembly & CLATTN_ASSEMBLY_PTX) != platforms[i].ptx, "%s: PTX", platform);
        ck_assert_msg(!(assembly & CLATTN_ASSEMBLY_AMD) != (strstr(platform, "AMD-APP") != NULL), "%s",
                      platform);
        ck_assert_msg(known == (platforms[i].x86 || platforms[i].ptx), "%s: known", platform);
        ck_assert_msg(!cla_defect(DEFECT_OF_BINARIES, &device) == platforms[i].asked, "%s", platform);
        ck_assert_msg(!cla_defect(DEFECT_OF_SUBGROUPS, &device) == platforms[i].grouped, "%s", platform);
    }
}
END_TEST

// Adreno's compilers before E031.38.11 crash on the sub-group probe. Either of the driver's version
// strings may contain the compiler's version.
START_TEST(old_compilers) {
    static const struct {
        bool grouped;
        const char *text;
    } cases[] = {
        {false, "OpenCL 3.0 QUALCOMM build: 0615.0 Compiler E031.38.10.00"},
        {false, "OpenCL 2.0 QUALCOMM build: ... Compiler E031.37.07.00"},
        {false, "OpenCL 3.0 QUALCOMM build: 1 Compiler E031.8.00"},
        {false, "OpenCL 3.0 QUALCOMM build: 1 Compiler E031.38.01"},
        {true, "OpenCL 3.0 QUALCOMM build: 0615.0 Compiler E031.38.11.14"},
        {true, "OpenCL 3.0 QUALCOMM build: 0808.0.6 Compiler E031.49.02.00"},
        {true, "OpenCL 3.0 QUALCOMM build: 0808.0.6 Compiler E031.100.02"},
        {true, "DX.18.10.00"},
        {true, "Compiler E031."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int place = 0; place < 3; place++) {
            clattn_capabilities device = {.name = ""};
            bool known;
            snprintf(place == 0   ? device.platform
                     : place == 1 ? device.version
                                  : device.driver,
                     sizeof device.version, "%s", cases[i].text);
            ck_assert_msg(!cla_defect(DEFECT_OF_SUBGROUPS, &device) == cases[i].grouped, "%s", cases[i].text);
            ck_assert(!cla_known_assembly(&device, &known) && !known);
        }
}
END_TEST

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

// Returns true if an embedded kernel text has inline assembly that PoCL's CPU devices would
// compile. PTX is never compiled for a CPU. Kernels of tiles have 4 or 8 lanes (knobs.def), groups
// of select.clh have 4, and all assembly is for 16.
static bool has_assembler(const char *text) {
    const bool vectors = strstr(text, "#define STORAGE_VECTORS") != NULL,
               tiles = strstr(text, "#define LANES MICRO_ROWS") != NULL ||
                       strstr(text, "#if WORK_GROUP > 1 && LANES != 4") != NULL;
    bool found = false;
    int off = 0; // depth of nested blocks inside an excluded #if
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
        const bool out = begins(line, "#ifdef STORAGE_VECTORS")
                             ? !vectors
                             : begins(line, "#if MATRIX_ENGINE != MATRIX_ENGINE_EMULATION") ||
                                   begins(line, "#if MATRIX_ENGINE == MATRIX_ENGINE_WGMMA") ||
                                   begins(line, "#if DOT_I8 == DOT_I8_PTX") ||
                                   (tiles && (begins(line, "#if LANES == 16") || begins(line, "#if DOT_")));
        if (begins(line, "#if")) off += off > 0 || out;
        if (begins(line, "#endif") || begins(line, "#else")) off -= off > 0 && (line[2] == 'n' || off == 1);
        const char *at = strstr(line, "__asm__"), *end = strchr(line, '\n');
        found = found || (off == 0 && at && (!end || at < end));
    }
    return found;
}

// Returns true if the kernel, which is last in the text, declares work-groups of one work-item.
// ROW_GROUP comes from cla_program_get_group, which test_program.c checks.
static bool says_one(const char *text) {
    static const char one[] = "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))";
    const char *last = text;
    for (const char *at = text; (at = strstr(at, "__kernel ")) != NULL; at++) last = at;
    return strncmp(last, one, sizeof one - 1) == 0 || strncmp(last, "__kernel ROW_GROUP ", 19) == 0;
}

// Apply `ask` to each kernel's text.
static void ask_texts(bool (*ask)(const char *text), bool answers[KERNEL_COUNT]) {
    for (int id = 0; id < KERNEL_COUNT; id++) {
        const struct kernel_source *source = &clattn_kernel_sources[id];
        char *text = calloc(source->bytes + 1, 1);
        ck_assert_ptr_nonnull(text);
        memcpy(text, source->text, source->bytes);
        answers[id] = ask(text);
        free(text);
    }
}

// Fail unless each planned kernel with assembly has work-groups of one work-item.
static void check_assembler(const plan_input *in, const bool *has, bool *planned) {
    for (int i = 0; i < absent_problem_count; i++) {
        variant v;
        if (cla_variant_choose(in, &absent_problems[i].is, &v) != CLATTN_OK || !has[v.family->id]) continue;
        ck_assert_msg(v.work_group == 1 && v.local_bytes == 0, "%s for %s: %d work-items, %zu bytes",
                      kernel_of(&v), absent_problems[i].word, v.work_group, v.local_bytes);
        if (v.family->path != CLATTN_KERNEL_UNFUSED) planned[v.family->id] = true;
    }
    for (int i = 0; i < absent_projection_count; i++) {
        linear_choice c;
        if (!cla_variant_choose_linear(in, &absent_projections[i].is, true, &c) || !has[c.id]) continue;
        ck_assert_msg(c.work_group <= 1 && c.local_bytes == 0, "%s for %s: %d work-items",
                      clattn_kernel_sources[c.id].name, absent_projections[i].word, c.work_group);
        planned[c.id] = true;
    }
}

// PoCL 4 to 6 crash when inline assembly runs in work-groups of more than one work-item
// (device/driver_quirks.c). Kernels with assembly must be planned with groups of one, also by tuned
// rows. Probes and steps, which have no plan, must declare the group in their text.
START_TEST(assembler_in_groups_of_one) {
    bool has[KERNEL_COUNT], says[KERNEL_COUNT], planned[KERNEL_COUNT] = {false};
    int count = 0;
    ask_texts(has_assembler, has);
    ask_texts(says_one, says);
    for (int id = 0; id < KERNEL_COUNT; id++) count += has[id];
    ck_assert(has[KERNEL_DECODE_LANES] && has[KERNEL_FLASH_MATRIX] && has[KERNEL_PROBE_DOT_BF16]);
    ck_assert(!has[KERNEL_FLASH_TILES] && !has[KERNEL_SOFTMAX] && count >= 10);
    for (int id = -1; id < KERNEL_COUNT; id++) {
        char row[64], why[256];
        tuned_rows own;
        snprintf(row, sizeof row, "%s :\n", id < 0 ? "flash_lanes" : clattn_kernel_sources[id].name);
        if (id >= 0 && (!has[id] || !cla_tuned_parse(row, &own, why, sizeof why))) continue;
        for (int n = 0; n < 4 * (absent_device_count + 1); n++) {
            const int d = n / 4;
            plan_input in = {.device = d ? &absent_devices[d - 1].is : &wide_cpu, .shipped = &shipped};
            in.own = id < 0 ? NULL : &own, in.has_clblast = n & 1;
            in.probes.proven = in.probes.ran = in.probes.sure = n & 2 ? (1u << PROBE_COUNT) - 1 : 0;
            check_assembler(&in, has, planned);
        }
        if (id >= 0) cla_tuned_free(&own);
    }
    for (int id = 0; id < KERNEL_COUNT; id++)
        ck_assert_msg(!has[id] || planned[id] || says[id], "%s: may be launched in larger groups",
                      clattn_kernel_sources[id].name);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {every_device,
                                  probes_passed,
                                  kernels_that_allow_less,
                                  names_decide_nothing,
                                  every_family_explains,
                                  projections,
                                  defects,
                                  old_compilers,
                                  assembler_in_groups_of_one};
    return PLAN_SUITE_RUN("devices", tests);
}
