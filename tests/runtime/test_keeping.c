// test_keeping.c: what a context copies from its parameters and stores on disk. Strings are copied,
// kernels are counted and saved, the folder keeps its limit, and plans are the same each time.
// Elsewhere: the cache's format and damage (test_cache.c), and the measurement (test_measure.c).
// POSIX only.
#include "support/case_assert.h"
#include "support/harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void setup(void) {
    snprintf(folder, sizeof folder, "/tmp/clattn-keeping-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

// Number of the folder's entries, and their bytes.
static int entries(uint64_t *bytes) {
    int count = 0;
    struct dirent *e;
    struct stat facts;
    DIR *d = opendir(folder);
    *bytes = 0;
    ck_assert_ptr_nonnull(d);
    while ((e = readdir(d)) != NULL) {
        if (!strstr(e->d_name, ".clattn")) continue;
        ck_assert_int_eq(fstatat(dirfd(d), e->d_name, &facts, 0), 0);
        *bytes += (uint64_t)facts.st_size;
        count++;
    }
    closedir(d);
    return count;
}

static clattn_context *open_context(uint64_t max_bytes) {
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .cache_dir = folder,
                                                .cache_max_bytes = max_bytes,
                                                .log = harness_log()});
}

static clattn_attention_params call_of(int64_t head_dim) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 40, head_dim)};
    p.out = p.kv.k = p.kv.v = p.q;
    p.kernel = CLATTN_KERNEL_FLASH;
    return p;
}

static void prepare(clattn_context *c, int64_t head_dim) {
    const clattn_attention_params p = call_of(head_dim);
    ck_assert_int_eq(clattn_attention_prepare(c, &p), CLATTN_OK);
}

static clattn_context_stats stats_of(clattn_context *c) {
    clattn_context_stats stats;
    clattn_context_get_stats(c, &stats);
    return stats;
}

// Strings and the struct itself are freed as soon as the context exists.
START_TEST(parameters_are_copied) {
    char *rows = strdup("flash nq=..64 :"), *path = strdup(folder);
    clattn_context_params *params = malloc(sizeof *params);
    clattn_context *c = NULL, *other = NULL;
    const clattn_attention_params p = call_of(32);
    clattn_plan plan, before;
    uint64_t bytes;
    ck_assert(rows && path && params);
    *params = (clattn_context_params){.device = harness()->device,
                                      .context = harness()->opencl,
                                      .cache_dir = path,
                                      .tuned_rows = rows,
                                      .log = harness_log()};
    ck_assert_int_eq(clattn_context_create(params, &c), CLATTN_OK);
    ck_assert_int_eq(clattn_context_create(params, &other), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_plan(other, &p, &before), CLATTN_OK);
    memset(rows, 'x', strlen(rows)), memset(path, 'x', strlen(path)), memset(params, 0xff, sizeof *params);
    free(rows), free(path), free(params);
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plan), CLATTN_OK);
    ck_assert_mem_eq(&plan, &before, sizeof plan);
    ck_assert_str_eq(plan.kernel_name, "flash");
    prepare(c, 32);
    clattn_context_destroy(c);
    clattn_context_destroy(other);
    if (harness_keeps_kernels("parameters_are_copied"))
        ck_assert_int_ge(entries(&bytes), 1); // the entries are in the named folder
}
END_TEST

// Kernels are built, then stored. A second save writes nothing. Another context builds nothing.
START_TEST(kernels_are_saved) {
    uint64_t bytes;
    if (!harness_keeps_kernels("kernels_are_saved")) return;
    clattn_context *c = open_context(0);
    ck_assert_uint_eq(stats_of(c).programs_built + stats_of(c).programs_cached, 0);
    prepare(c, 32);
    const clattn_context_stats built = stats_of(c);
    ck_assert_uint_ge(built.programs_built, 1);
    ck_assert_uint_eq(built.programs_cached, 0);
    ck_assert_uint_gt(built.build_time_ns, 0);
    ck_assert_int_eq(entries(&bytes), 0);
    clattn_context_save_kernels(c);
    const int kept = entries(&bytes);
    ck_assert_int_eq(kept, (int)built.programs_built);
    clattn_context_save_kernels(c);
    ck_assert_int_eq(entries(&bytes), kept);
    clattn_context *other = open_context(0);
    prepare(other, 32);
    ck_assert_uint_eq(stats_of(other).programs_built, 0);
    ck_assert_uint_eq(stats_of(other).programs_cached, built.programs_built);
    prepare(other, 40); // destroying a context also saves its kernels
    clattn_context_destroy(other);
    ck_assert_int_gt(entries(&bytes), kept);
    prepare(c, 32); // existing entries do not count
    const clattn_context_stats after = stats_of(c);
    ck_assert_mem_eq(&after, &built, sizeof after);
    clattn_context_destroy(c);
}
END_TEST

// The oldest entries are removed if there is no room.
START_TEST(the_folder_keeps_to_its_size) {
    uint64_t one = 0, bytes = 0;
    if (!harness_keeps_kernels("the_folder_keeps_to_its_size")) return;
    clattn_context *c = open_context(0);
    prepare(c, 32);
    clattn_context_destroy(c);
    ck_assert_int_ge(entries(&one), 1);
    const uint64_t room = one * 5 / 2;
    for (int n = 0; n < 3; n++) {
        c = open_context(room);
        prepare(c, 40 + 8 * n);
        clattn_context_destroy(c);
        ck_assert_int_ge(entries(&bytes), 1);
        ck_assert_uint_le(bytes, room);
    }
}
END_TEST

// An untrusted folder is not used at all.
START_TEST(a_folder_of_others_is_not_used) {
    uint64_t bytes;
    ck_assert_int_eq(chmod(folder, 0777), 0);
    clattn_context *c = open_context(0);
    prepare(c, 32);
    clattn_context_destroy(c);
    ck_assert_int_eq(entries(&bytes), 0);
}
END_TEST

// A plan is the same each time, with or without buffers, and builds nothing.
START_TEST(plans_are_pure) {
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    clattn_plan plans[3];
    size_t bytes, count;
    memset(plans, 0, sizeof plans);
    ck_assert(case_parse("attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-lse-ropehalf", &test, why));
    clattn_context *c = open_context(0);
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    clattn_attention_params p = arrays.params;
    p.q.buffer = p.kv.k.buffer = p.kv.v.buffer = p.out.buffer = p.lse.buffer = NULL;
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plans[0]), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_plan(c, &arrays.params, &plans[1]), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_workspace(c, &p, &bytes), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_families(c, &p, NULL, 0, &count), CLATTN_OK);
    ck_assert_uint_eq(stats_of(c).programs_built + stats_of(c).programs_cached, 0);
    ck_assert_int_eq(clattn_attention_enqueue(c, harness()->queue, &arrays.params, 0, NULL, NULL), CLATTN_OK);
    harness_finish(harness()->queue);
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plans[2]), CLATTN_OK);
    for (int n = 1; n < 3; n++) ck_assert_mem_eq(&plans[0], &plans[n], sizeof plans[0]);
    ck_assert_uint_eq(bytes, plans[0].workspace_bytes);
    case_unbind(&arrays);
    case_free(data);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("keeping");
    TCase *group = tcase_create("keeping");
    tcase_set_timeout(group, 0);
    tcase_add_checked_fixture(group, setup, teardown);
    tcase_add_test(group, parameters_are_copied);
    tcase_add_test(group, kernels_are_saved);
    tcase_add_test(group, the_folder_keeps_to_its_size);
    tcase_add_test(group, a_folder_of_others_is_not_used);
    tcase_add_test(group, plans_are_pure);
    suite_add_tcase(suite, group);
    return harness_run(suite);
}
