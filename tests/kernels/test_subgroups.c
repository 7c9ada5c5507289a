// test_subgroups.c: kernels with sub-groups of each size that the device has, in each of its
// spellings, and without a requested size. The plan says that they are used, and results agree with
// the reference. The probes are in test_probe.c.
#include "support/case_assert.h"
#include "support/harness.h"

#include "probe/probe.h"
#include "program/program.h"
#include "probe/subgroups.h"

#include <stdio.h>
#include <string.h>

// Partial sums of a score in a sub-group and half in local memory; unaligned rows; a pass of two
// rows, with many options that hide keys.
static const char *const cases[] = {
    "decode-f32-b1-h4-hkv1-n1-nkv150-d128-full-decode-lse",
    "decode-f16-b1-h2-hkv1-n1-nkv150-d96-full-decode-lse-splits2",
    "decode-f32-b1-h3-hkv1-n1-nkv70-d41-dv23-full-decode-padded-lse",
    "attend-bf16-b2-h2-n2-nkv90-d64-causal-decode-lse-window40:m1-maskqk-sinks-kvlen90:33-hiddennan",
};

static const unsigned spellings[] = {
    ~0u,
    ~CLATTN_SUBGROUPS_INTEL,
    ~(CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SHUFFLE_KHR),
    ~(CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SIZE_INTEL),
};

// Run a case, which must agree with the reference. Its plan contains `word`, if there is one.
static void run(clattn_context *c, const char *name, const char *word) {
    struct test_case test;
    struct place place = *harness_place();
    struct case_arrays arrays;
    clattn_plan plan;
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    place.context = c;
    case_bind(data, &place, &arrays);
    plan.why[0] = '\0';
    if (word) ck_assert_int_eq(clattn_attention_plan(c, &arrays.params, &plan), CLATTN_OK);
    case_unbind(&arrays);
    if (word) ck_assert_msg(strstr(plan.why, word), "%s: %s", name, plan.why);
    struct case_result got = case_execute(data, &place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    ck_assert_msg(good, "%s: %s: %s", name, plan.why, why);
}

START_TEST(each_size_and_spelling) {
    const clattn_capabilities *device = clattn_context_capabilities(harness()->context);
    const unsigned ways = device->subgroup_ways & spellings[_i];
    int sized = 0;
    // Every size in the first spelling; one size in the others.
    for (int size = 8; size <= 64 && !(_i > 0 && sized > 0); size *= 2) {
        char row[64], word[32];
        snprintf(row, sizeof row, "decode_groups : SUBGROUP=%d", size);
        snprintf(word, sizeof word, "sub-groups of %d", size);
        if (!(ways & (CLATTN_SUBGROUPS_KHR | CLATTN_SUBGROUPS_INTEL))) continue;
        if (ways & CLATTN_SUBGROUPS_SIZE_INTEL && !(device->subgroup_sizes & (unsigned)size)) continue;
        const clattn_context_params params = {.device = harness()->device,
                                              .context = harness()->opencl,
                                              .log = harness_log(),
                                              .tuned_rows = row};
        clattn_context *c = NULL;
        ck_assert_int_eq(clattn_context_create(&params, &c), CLATTN_OK);
        c->capabilities.subgroup_ways = ways;
        // If no size can be requested, the probes find the compiler's choice.
        const bool proven = cla_probe_results(c, PROBES_SUBGROUPS).proven >> cla_subgroup_probe(size) & 1u;
        if (ways & CLATTN_SUBGROUPS_SIZE_INTEL) ck_assert(proven);
        sized += proven;
        for (size_t n = 0; proven && n < sizeof cases / sizeof cases[0]; n++) run(c, cases[n], word);
        clattn_context_destroy(c);
    }
    printf("spelling %#x: %d sizes\n", ways, sized);
}
END_TEST

// A kernel without sub-groups requests the size whose work-items have the most registers, if
// possible. This is GPU behaviour, executed on a CPU.
#define COMPILED_SIZE 0x410A // CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL
typedef cl_int CL_API_CALL sub_group_info(cl_kernel, cl_device_id, cl_uint, size_t, const void *, size_t,
                                          void *, size_t *);

static const char *const asking_cases[] = {
    "attend-f32-b1-h2-n70-nkv90-d64-causal-lse",
    "attend-f16-b1-h2-hkv1-n33-nkv65-d96-full-lse-softcap20-hiddennan",
    "decode-f32-b1-h4-hkv1-n1-nkv150-d128-full-decode-lse",
    "decode-bf16-b1-h20-hkv1-n1-nkv50-d32-dv24-full-decode-latent-lse",
    "linear-f16-b1-h2-n40-d32-m48-full",
    "linear-f32-b1-h1-n3-d64-m48-full",
};

// Returns how many kernels of the context requested the sub-group size. Fails unless each was
// compiled for this size.
static int count_asked(clattn_context *c, int size) {
    cl_platform_id platform = NULL;
    int found = 0;
    ck_assert_int_eq(clGetDeviceInfo(c->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL),
                     CL_SUCCESS);
    void *const address = clGetExtensionFunctionAddressForPlatform(platform, "clGetKernelSubGroupInfoKHR");
    sub_group_info *info = NULL;
    memcpy(&info, &address, sizeof info);
    ck_assert_ptr_nonnull(address);
    for (program *p = c->programs; p; p = p->next) {
        cl_kernel kernel;
        size_t compiled = 0;
        if (p->spec.knobs.subgroup_asked != size) continue;
        ck_assert_int_eq(cla_program_take_kernel(c, p, &kernel), CLATTN_OK);
        ck_assert_int_eq(info(kernel, c->device, COMPILED_SIZE, 0, NULL, sizeof compiled, &compiled, NULL),
                         CL_SUCCESS);
        ck_assert_uint_eq(compiled, (size_t)size);
        cla_program_give_kernel(p, kernel);
        found++;
    }
    return found;
}

START_TEST(asked_sizes) {
    const clattn_capabilities *device = clattn_context_capabilities(harness()->context);
    for (int size = 8; size <= 64; size *= 2) {
        const clattn_context_params params = {
            .device = harness()->device,
            .context = harness()->opencl,
            .log = harness_log(),
            .tuned_rows = "flash_tiles : SUBGROUP=1\ndecode_tiles share=16.. :\ndecode_groups : SUBGROUP=1\n"
                          "linear_tiles :\n"};
        clattn_context *c = NULL;
        if (!(device->subgroup_ways & CLATTN_SUBGROUPS_SIZE_INTEL) ||
            !(device->subgroup_sizes & (unsigned)size))
            continue;
        ck_assert_int_eq(clattn_context_create(&params, &c), CLATTN_OK);
        c->capabilities.is_cpu = false, c->capabilities.subgroup_sizes = (unsigned)size;
        // one kernel is enough for the sizes 16 and 32
        const size_t count = size == 8 || size == 64 ? sizeof asking_cases / sizeof asking_cases[0] : 1;
        for (size_t n = 0; n < count; n++) run(c, asking_cases[n], NULL);
        const int asked = count_asked(c, size);
        printf("asked for %d: %d kernels\n", size, asked);
        ck_assert_int_ge(asked, count > 1 ? 5 : 1);
        clattn_context_destroy(c);
    }
}
END_TEST

int main(void) {
    const TTest *const none[] = {NULL}, *const asking[] = {asked_sizes, NULL};
    Suite *suite = suite_create("subgroups");
    TCase *group = harness_add(suite, "decode_groups", none);
    tcase_add_loop_test(group, each_size_and_spelling, 0, sizeof spellings / sizeof spellings[0]);
    harness_add(suite, "asking", asking);
    return harness_run(suite);
}
