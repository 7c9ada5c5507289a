// test_places.c: places of a context: parts of a device (clCreateSubDevices), the caller's
// cl_context with several devices, and several contexts on one device. Also the lists and
// descriptions of devices. PoCL is configured with two devices. Threads are in test_threads.c.
// POSIX only.
#include "support/case_assert.h"
#include "support/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 };

static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-lse", "attend-f32-b1-h2-n20-nkv33-d32-full-unfused",
    "decode-f32-b1-h4-hkv2-n1-nkv70-d32-causal", "layer-f32-b1-h2-n20-d32-m64-full-native",
    "layer-f32-b1-h2-n20-d32-m64-full-clblast"};

static clattn_context *open_context(cl_device_id device, cl_context opencl) {
    clattn_context *c = NULL;
    const clattn_context_params params = {
        .device = device, .context = opencl, .cache_dir = getenv("CLATTN_TEST_CACHE"), .log = harness_log()};
    const clattn_status status = clattn_context_create(&params, &c);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    return c;
}

static cl_command_queue open_queue(cl_context opencl, cl_device_id device) {
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(opencl, device, 0, &code);
    harness_expect(code, "clCreateCommandQueue");
    return queue;
}

// Run a case on this context and compare.
static void run_case(clattn_context *c, const char *name, const char *where) {
    struct test_case test;
    struct place place = *harness_place();
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    if (test.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) return;
    place.context = c;
    place.opencl = clattn_context_opencl(c);
    place.device = clattn_context_device(c);
    place.queue = open_queue(place.opencl, place.device);
    struct case_data *data = case_make(&test);
    struct case_result got = case_execute(data, &place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    clReleaseCommandQueue(place.queue);
    ck_assert_msg(good, "%s, %s: %s", where, name, why);
}

static void run_all(clattn_context *c, const char *where) {
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) run_case(c, names[n], where);
}

// Create sub-devices of one compute unit each. Returns their number; 0: the device cannot be
// divided.
static cl_uint divide(cl_device_id parts[MOST]) {
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id all[256];
    cl_uint count = 0, units = clattn_context_capabilities(harness()->context)->compute_units;
    if (units < 2 || units > 256 ||
        clCreateSubDevices(harness()->device, how, 256, all, &count) != CL_SUCCESS)
        return 0;
    for (cl_uint n = 0; n < count; n++) {
        if (n < MOST)
            parts[n] = all[n];
        else
            clReleaseDevice(all[n]);
    }
    return count < MOST ? count : MOST;
}

// A context that clattn created keeps the part alive.
START_TEST(part_of_a_device) {
    cl_device_id parts[MOST];
    clattn_capabilities facts;
    const cl_uint count = divide(parts);
    if (!count) printf("the device cannot be divided\n");
    for (cl_uint n = 0; n < count; n++) {
        ck_assert_int_eq(clattn_device_describe(parts[n], &facts), CLATTN_OK);
        ck_assert_uint_eq(facts.compute_units, 1);
        clattn_context *c = n < 1 ? open_context(parts[n], NULL) : NULL;
        clReleaseDevice(parts[n]);
        if (!c) continue;
        ck_assert_uint_eq(clattn_context_capabilities(c)->compute_units, 1);
        run_all(c, "part of a device");
        clattn_context_destroy(c);
    }
}
END_TEST

static cl_uint whole_devices(cl_device_id devices[MOST]) {
    cl_platform_id platform;
    cl_uint count = 0;
    harness_expect(clGetDeviceInfo(harness()->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL),
                   "platform");
    harness_expect(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count), "clGetDeviceIDs");
    return count < MOST ? count : MOST;
}

static cl_uint references(cl_context opencl) {
    cl_uint count = 0;
    harness_expect(clGetContextInfo(opencl, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL),
                   "clGetContextInfo");
    return count;
}

static void assert_other_queue_refused(clattn_context *c, cl_command_queue queue) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    char why[256];
    ck_assert(case_parse(names[0], &test, why));
    place.context = c, place.opencl = clattn_context_opencl(c);
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &arrays);
    const clattn_status status = clattn_attention_enqueue(c, queue, &arrays.params, 0, NULL, NULL);
    ck_assert_int_eq(status, CLATTN_INVALID_ARGUMENT);
    clattn_context_last_error(c, why, sizeof why);
    ck_assert_msg(strstr(why, "queue: ") && strstr(why, "device"), "%s", why);
    case_unbind(&arrays);
    case_free(data);
}

// A context on each of two devices of one cl_context.
static void share_context(const cl_device_id devices[2], const char *where) {
    cl_int code;
    clattn_context *on[2];
    cl_context both = clCreateContext(NULL, 2, devices, NULL, NULL, &code);
    harness_expect(code, "clCreateContext");
    const cl_uint before = references(both);
    for (int n = 0; n < 2; n++) on[n] = open_context(devices[n], both);
    const cl_uint held = references(both);
    ck_assert_uint_gt(held, before); // clattn has references of its own
    for (int n = 0; n < 2; n++)
        ck_assert(clattn_context_opencl(on[n]) == both && clattn_context_device(on[n]) == devices[n]);
    // the functions return objects without retaining them
    ck_assert_uint_eq(references(both), held);
    for (int n = 0; n < 2; n++) {
        cl_command_queue other = open_queue(both, devices[1 - n]);
        assert_other_queue_refused(on[n], other);
        clReleaseCommandQueue(other);
    }
    clReleaseContext(both);
    for (int n = 0; n < 2; n++) run_all(on[n], where);
    for (int n = 0; n < 2; n++) clattn_context_destroy(on[n]);
}

START_TEST(several_devices_in_one_context) {
    cl_device_id devices[MOST];
    if (whole_devices(devices) >= 2) share_context(devices, "one of two devices");
    const cl_uint count = divide(devices);
    if (count >= 2) share_context(devices, "one of two parts");
    for (cl_uint n = 0; n < count; n++) clReleaseDevice(devices[n]);
}
END_TEST

// A cl_context without the device is refused, and no reference to it remains.
START_TEST(a_context_without_the_device) {
    cl_device_id devices[MOST];
    cl_int code;
    clattn_context *none = (clattn_context *)(void *)devices;
    if (whole_devices(devices) < 2) return;
    cl_context one = clCreateContext(NULL, 1, &devices[0], NULL, NULL, &code);
    harness_expect(code, "clCreateContext");
    const cl_uint before = references(one);
    const clattn_context_params params = {.device = devices[1], .context = one, .log = harness_log()};
    harness_log_clear();
    ck_assert_int_eq(clattn_context_create(&params, &none), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(harness_log_text(), "cl_context"));
    ck_assert_uint_eq(references(one), before);
    clReleaseContext(one);
}
END_TEST

// Contexts on one device are independent, in any order of destruction.
START_TEST(contexts_side_by_side) {
    clattn_context *c[3];
    char text[64];
    for (int n = 0; n < 3; n++) c[n] = open_context(harness()->device, n ? NULL : harness()->opencl);
    ck_assert(clattn_context_opencl(c[1]) != clattn_context_opencl(c[2]));
    ck_assert_int_eq(clattn_attention_prepare(c[0], NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_uint_eq(clattn_context_last_error(c[1], text, sizeof text), 0);
    for (int n = 0; n < 3; n++) run_all(c[n], "side by side");
    clattn_context_destroy(c[1]);
    run_case(c[0], names[3], "after another one");
    clattn_context_destroy(c[0]);
    run_all(c[2], "after two others");
    clattn_context_destroy(c[2]);
    run_case(harness()->context, names[0], "after all others");
}
END_TEST

// Devices are in the loader's order. The count is the number of all devices, and at most the given
// number is written.
START_TEST(device_lists) {
    clattn_device devices[64];
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    size_t all = 0, again = 0, at = 0;
    ck_assert_int_eq(clattn_device_list(devices, 64, &all, NULL), CLATTN_OK);
    ck_assert(all > 0 && all <= 64);
    harness_expect(clGetPlatformIDs(16, platforms, &platform_count), "clGetPlatformIDs");
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id ids[64];
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 64, ids, &count) != CL_SUCCESS) continue;
        for (cl_uint n = 0; n < count; n++, at++)
            ck_assert(devices[at].platform == platforms[p] && devices[at].device == ids[n]);
    }
    ck_assert_uint_eq(at, all);
    for (size_t room = 0; room <= all; room++) {
        clattn_device few[65] = {0};
        ck_assert_int_eq(clattn_device_list(few, room, &again, NULL), CLATTN_OK);
        ck_assert_uint_eq(again, all);
        for (size_t n = 0; n < 65; n++) ck_assert_int_eq(few[n].device != NULL, n < room);
    }
    harness_log_clear();
    const clattn_log log = harness_log();
    ck_assert_int_eq(clattn_device_list(NULL, 1, &again, &log), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_list(devices, 1, NULL, &log), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(harness_log_count(), 2);
}
END_TEST

static uint64_t asked(cl_device_info what) {
    uint64_t value = 0;
    harness_expect(clGetDeviceInfo(harness()->device, what, sizeof value, &value, NULL), "clGetDeviceInfo");
    return value;
}

static void text_is(const char *text, cl_device_info what) {
    char all[1024] = "", *start = all;
    harness_expect(clGetDeviceInfo(harness()->device, what, sizeof all, all, NULL), "clGetDeviceInfo");
    while (*start == ' ') start++;
    for (size_t n = strlen(start); n && start[n - 1] == ' '; n--) start[n - 1] = '\0';
    ck_assert_str_eq(text, start);
}

// A description contains what the driver reports, and a context has the same.
START_TEST(capabilities) {
    clattn_capabilities c;
    memset(&c, 0, sizeof c);
    ck_assert_int_eq(clattn_device_describe(harness()->device, &c), CLATTN_OK);
    ck_assert_mem_eq(&c, clattn_context_capabilities(harness()->context), sizeof c);
    text_is(c.name, CL_DEVICE_NAME);
    text_is(c.vendor, CL_DEVICE_VENDOR);
    text_is(c.driver, CL_DRIVER_VERSION);
    text_is(c.version, CL_DEVICE_VERSION);
    ck_assert_uint_eq(c.compute_units, asked(CL_DEVICE_MAX_COMPUTE_UNITS));
    ck_assert_uint_eq(c.address_bits, asked(CL_DEVICE_ADDRESS_BITS));
    ck_assert_uint_eq(c.max_work_group, asked(CL_DEVICE_MAX_WORK_GROUP_SIZE));
    ck_assert_uint_eq(c.local_memory_bytes, asked(CL_DEVICE_LOCAL_MEM_SIZE));
    ck_assert_uint_eq(c.global_memory_bytes, asked(CL_DEVICE_GLOBAL_MEM_SIZE));
    ck_assert_uint_eq(c.max_allocation_bytes, asked(CL_DEVICE_MAX_MEM_ALLOC_SIZE));
    ck_assert_uint_eq(c.max_argument_bytes, asked(CL_DEVICE_MAX_PARAMETER_SIZE));
    ck_assert_int_eq(c.is_cpu, (asked(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0);
    ck_assert_int_eq(c.is_gpu, (asked(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0);
    ck_assert(c.available && c.little_endian && c.float_vector_width >= 1);
    ck_assert_int_eq(c.local_memory_is_local, asked(CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {part_of_a_device,
                                  several_devices_in_one_context,
                                  a_context_without_the_device,
                                  contexts_side_by_side,
                                  device_lists,
                                  capabilities,
                                  NULL};
    if (!getenv("POCL_DEVICES") && setenv("POCL_DEVICES", "pthread pthread", 1) != 0) return HARNESS_BROKEN;
    Suite *suite = suite_create("places");
    harness_add(suite, "places", tests);
    return harness_run(suite);
}
