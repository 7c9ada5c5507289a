// test_in_place.c: devices that share the host's memory, and devices that report it wrongly. Tests
// clattn_context_in_place and the flags of the context's own buffers. The suite replaces OpenCL
// functions of the loader. POSIX only.
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/next_function.h"

#include <stdlib.h>
#include <string.h>

static struct {
    bool is_gpu, unified; // what the device reports
    bool copies;          // buffers over host memory are copies of it
    int buffers;          // number of buffers created over host memory
} driver;

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size,
                                                void *value, size_t *size_ret) {
    cl_int (*real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetDeviceInfo");
    const cl_int code = real(device, what, size, value, size_ret);
    if (code == CL_SUCCESS && what == CL_DEVICE_TYPE && driver.is_gpu && value)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    if (code == CL_SUCCESS && what == CL_DEVICE_HOST_UNIFIED_MEMORY && value)
        *(cl_bool *)value = driver.unified;
    return code;
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                               void *host, cl_int *code) {
    cl_mem (*real)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    *(void **)&real = next("clCreateBuffer");
    driver.buffers += (flags & CL_MEM_USE_HOST_PTR) != 0;
    if (driver.copies && flags & CL_MEM_USE_HOST_PTR)
        flags = (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
    return real(context, flags, bytes, host, code);
}

static bool works(clattn_context *c, const unsigned char *address, size_t bytes) {
    bool in_place = true;
    ck_assert_int_eq(clattn_context_in_place(c, address, bytes, &in_place), CLATTN_OK);
    return in_place;
}

static const struct kind {
    bool is_gpu, unified, copies, in_pages, elsewhere;
} kinds[] = {
    {.is_gpu = false, .unified = true, .in_pages = true, .elsewhere = true},
    // a CPU that reports no shared memory
    {.is_gpu = false, .unified = false, .in_pages = true, .elsewhere = true},
    {.is_gpu = false, .unified = true, .copies = true},
    {.is_gpu = true, .unified = true, .in_pages = true},
    {.is_gpu = true, .unified = true, .copies = true},
    {.is_gpu = true, .unified = false},
};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

static clattn_context *open_kind(const struct kind *k, clattn_memory memory) {
    driver.is_gpu = k->is_gpu, driver.unified = k->unified, driver.copies = k->copies;
    clattn_context *c =
        harness_open((clattn_context_params){.context = harness()->opencl,
                                             .tuned_rows = "flash :\nlinear_rows :", // short builds
                                             .memory = memory,
                                             .log = harness_log()});
    ck_assert(clattn_context_capabilities(c)->unified_memory == k->unified);
    driver.buffers = 0;
    return c;
}

// The behaviour of a device decides. The tested memory does not change.
START_TEST(what_it_does_decides) {
    const struct kind *k = &kinds[_i];
    static const size_t at[] = {0, 64, 4, 1}, sizes[] = {4096, 100, 7, 0};
    unsigned char *memory = aligned_alloc(4096, 2 * 4096);
    clattn_context *c = open_kind(k, (clattn_memory){.max_bytes = 0});
    memset(memory, 77, 2 * 4096);
    for (int a = 0; a < 4; a++)
        for (int s = 0; s < 4; s++) {
            const bool want = at[a] == 0 ? k->in_pages : k->elsewhere;
            ck_assert_msg(works(c, memory + at[a], sizes[s]) == want, "at %zu, %zu bytes: %d is not so",
                          at[a], sizes[s], want);
            const int made = driver.buffers;
            ck_assert(works(c, memory + at[a], sizes[s]) == want);
            ck_assert_msg(driver.buffers == made, "it was asked again");
        }
    if (k->is_gpu && !k->unified) ck_assert_int_eq(driver.buffers, 0);
    ck_assert(!works(c, NULL, 64));
    for (int n = 0; n < 2 * 4096; n++) ck_assert_int_eq(memory[n], 77);
    clattn_context_destroy(c);
    free(memory);
}
END_TEST

static struct { int count, pinned; } made;
static cl_mem create(void *user, cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                     cl_int *code) {
    (void)user;
    made.count++;
    made.pinned += (flags & CL_MEM_ALLOC_HOST_PTR) != 0;
    return clCreateBuffer(context, flags, bytes, host, code);
}
static void release(void *user, cl_mem buffer) {
    (void)user;
    clReleaseMemObject(buffer);
}

// Tables and scratch memory request host memory on a device that shares it, and on no other device.
START_TEST(pools_ask_for_host_memory) {
    static const char *const names[] = {"layer-f32-b1-h2-n10-d16-m32-causal-native",
                                        "decode-f32-b2-h2-n1-nkv40-d16-full-kvlen30:17"};
    const struct kind *k = &kinds[_i];
    struct place place = *harness_place();
    char why[512];
    made.count = made.pinned = 0;
    clattn_context *c = place.context = open_kind(k, (clattn_memory){.create = create, .release = release});
    for (int n = 0; n < 2; n++) {
        struct test_case test;
        struct case_arrays arrays;
        ck_assert_msg(case_parse(names[n], &test, why), "%s: %s", names[n], why);
        struct case_data *data = case_make(&test);
        case_bind(data, &place, &arrays);
        ck_assert_int_eq(case_enqueue(c, place.queue, &arrays, NULL), CLATTN_OK);
        harness_finish(place.queue);
        ck_assert_msg(case_holds(data, &arrays, place.queue, why, sizeof why), "%s: %s", names[n], why);
        case_unbind(&arrays);
        case_free(data);
    }
    ck_assert_int_gt(made.count, 1);
    ck_assert_int_eq(made.pinned, k->is_gpu && k->unified ? made.count : 0);
    clattn_context_destroy(c);
}
END_TEST

START_TEST(wrong_questions) {
    bool in_place = true;
    ck_assert_int_eq(clattn_context_in_place(NULL, &in_place, 1, &in_place), CLATTN_INVALID_ARGUMENT);
    ck_assert(!in_place);
    harness_log_clear();
    harness_assert_refused("in_place", clattn_context_in_place(harness()->context, &in_place, 1, NULL),
                           CLATTN_INVALID_ARGUMENT, "in_place");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("in_place");
    TCase *group = harness_add(suite, "all", (const TTest *const[]){wrong_questions, NULL});
    tcase_add_loop_test(group, what_it_does_decides, 0, KINDS);
    tcase_add_loop_test(group, pools_ask_for_host_memory, 2, KINDS);
    return harness_run(suite);
}
