// test_buffers.c: kinds of buffers: parts of larger ones (clCreateSubBuffer), the caller's memory
// (CL_MEM_USE_HOST_PTR), and driver memory that the host sees (CL_MEM_ALLOC_HOST_PTR). Every tensor
// of a call has such a buffer, also the workspace, and the results are those of ordinary buffers.
// The program's own clCreateBuffer replaces the loader's. Refusals of shared memory are elsewhere.
// POSIX only.
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { ORDINARY, PART, HOST_POINTER, HOST_ALLOCATED, KINDS };
static const char *const kind_names[KINDS] = {"ordinary", "part of a buffer", "on a host pointer",
                                              "allocated for the host"};
static enum kind kind; // kind of the buffers that the suite creates
static int made;       // number of created buffers that are not ordinary
static cl_mem parent;  // buffer of the newest part, which keeps it alive
static size_t taken;   // bytes of ordinary buffers

static cl_mem real_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
    static cl_mem (*real)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clCreateBuffer");
    return real(context, flags, size, host, code);
}

static size_t alignment(void) {
    cl_uint bits = 0;
    harness_expect(
        clGetDeviceInfo(harness()->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL),
        "clGetDeviceInfo");
    return bits / 8 > 4096 ? bits / 8 : 4096;
}

// In the middle of a buffer whose bytes are NaN in every type.
static cl_mem make_part(cl_context context, size_t size, const void *host) {
    const size_t edge = alignment(), whole = edge + size + edge;
    const cl_buffer_region region = {edge, size};
    cl_int code;
    char *bytes = malloc(whole);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0xff, whole);
    if (host) memcpy(bytes + edge, host, size);
    parent = real_buffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, whole, bytes, &code);
    harness_expect(code, "clCreateBuffer");
    cl_mem part = clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    harness_expect(code, "clCreateSubBuffer");
    clReleaseMemObject(parent);
    free(bytes);
    return part;
}

static void CL_CALLBACK give_back(cl_mem buffer, void *memory) {
    (void)buffer;
    free(memory);
}

static cl_mem make_on_host(cl_context context, size_t size, const void *host) {
    cl_int code;
    char *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    ck_assert_ptr_nonnull(memory);
    if (host) memcpy(memory, host, size);
    cl_mem buffer = real_buffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, memory, &code);
    harness_expect(code, "clCreateBuffer");
    harness_expect(clSetMemObjectDestructorCallback(buffer, give_back, memory), "destructor");
    return buffer;
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size,
                                               void *host, cl_int *code) {
    if (kind == ORDINARY) {
        taken += size;
        return real_buffer(context, flags, size, host, code);
    }
    made++;
    if (code) *code = CL_SUCCESS;
    if (kind == PART) return make_part(context, size, host);
    if (kind == HOST_POINTER) return make_on_host(context, size, host);
    return real_buffer(context, flags | CL_MEM_ALLOC_HOST_PTR, size, host, code);
}

static cl_mem make_workspace(size_t bytes) {
    cl_int code;
    cl_mem buffer = bytes ? clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code) : NULL;
    if (bytes) harness_expect(code, "clCreateBuffer");
    return buffer;
}

// Memory that a call with a workspace may still allocate: a few words for each batch item, head or
// frequency. A projection needs none, and a layer in one launch a table. CLBlast is not limited.
#define SMALL_LAYER_BYTES 624
static size_t may_take(const struct test_case *test) {
    if (test->projection == CLATTN_PROJECTION_CLBLAST) return SIZE_MAX;
    const size_t one_launch = test->op == CASE_LAYER ? SMALL_LAYER_BYTES : 0;
    return test->op == CASE_LINEAR
               ? 0
               : one_launch + 16 * (size_t)(test->batch + test->heads + test->head_dim / 2);
}

// The case's own buffers have the kind under test. Buffers of the library do not.
static void run_case(const char *name) {
    struct test_case test;
    struct case_arrays arrays;
    char why[512] = "";
    size_t bytes = 0;
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    if (test.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) return;
    struct case_data *data = case_make(&test);
    clattn_context *c = harness()->context;
    const enum kind wanted = kind;
    made = 0;
    case_bind(data, harness_place(), &arrays);
    ck_assert_int_eq(arrays.op == CASE_LAYER    ? clattn_layer_workspace(c, &arrays.layer, &bytes)
                     : arrays.op == CASE_LINEAR ? clattn_linear_workspace(c, &arrays.linear, &bytes)
                                                : clattn_attention_workspace(c, &arrays.params, &bytes),
                     CLATTN_OK);
    cl_mem workspace = make_workspace(bytes);
    arrays.params.workspace = arrays.layer.workspace = arrays.linear.workspace = workspace;
    ck_assert_int_ge(made, wanted == ORDINARY ? 0 : 3);
    kind = ORDINARY;
    harness_log_clear();
    taken = 0;
    const clattn_status status = case_enqueue(c, harness()->queue, &arrays, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s, %s: %s", name, kind_names[wanted], harness_log_text());
    ck_assert_msg(taken <= may_take(&test), "%s took %zu bytes beside its workspace", name, taken);
    ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s, %s: %s", name,
                  kind_names[wanted], why);
    if (workspace) clReleaseMemObject(workspace);
    case_unbind(&arrays);
    case_free(data);
    kind = wanted;
}

static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-unfused-lse-weights-biasqk",
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-padded-lse-maskbhqk-ropehalf",
    "attend-bf16-b1-h4-n9-nkv70-d40-dv24-full-flash-bshd-lse-alibi-sinks",
    "decode-f16-b2-h4-hkv2-n1-nkv300-d32-full-decode-splits3",
    "linear-f32-b1-h2-n20-d32-m64-full-native",
    "linear-f32-b1-h2-n20-d32-m64-full-clblast",
    "layer-bf16-b1-h4-hkv2-n9-d16-m48-causal-native-biases",
    "layer-f32-b2-h2-n20-d32-m64-full-native-biases",
    "layer-f16-b1-h4-hkv2-n9-d16-m48-causal-clblast"};
#define NAMES ((int)(sizeof names / sizeof names[0]))

START_TEST(calls) {
    kind = (enum kind)(_i / NAMES);
    run_case(names[_i % NAMES]);
    kind = ORDINARY;
}
END_TEST

// Both halves of a merge.
START_TEST(merges) {
    struct test_case test;
    char why[512] = "";
    struct case_arrays arrays[2];
    clattn_context *c = harness()->context;
    cl_command_queue queue = harness()->queue;
    ck_assert(case_parse("attend-f32-b2-h4-n9-nkv32-d32-full-lse", &test, why));
    struct case_data *data = case_make(&test);
    kind = (enum kind)_i;
    for (int n = 0; n < 2; n++) {
        case_bind(data, harness_place(), &arrays[n]);
        clattn_attention_params *p = &arrays[n].params;
        p->kv.k.shape[2] = p->kv.v.shape[2] = 16;
        p->kv.k.offset += 16 * 32 * n, p->kv.v.offset += 16 * 32 * n;
        ck_assert_int_eq(clattn_attention_enqueue(c, queue, p, 0, NULL, NULL), CLATTN_OK);
    }
    kind = ORDINARY;
    const clattn_merge_params merge = {arrays[0].params.out, arrays[0].params.lse, arrays[1].params.out,
                                       arrays[1].params.lse};
    ck_assert_int_eq(clattn_merge_enqueue(c, queue, &merge, 0, NULL, NULL), CLATTN_OK);
    ck_assert_msg(case_holds(data, &arrays[0], queue, why, sizeof why), "%s: %s", kind_names[_i], why);
    for (int n = 0; n < 2; n++) case_unbind(&arrays[n]);
    case_free(data);
}
END_TEST

// A view ends with its part, not with the buffer that contains the part.
START_TEST(no_view_leaves_its_part) {
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    ck_assert(case_parse("attend-f32-b1-h2-n9-nkv33-d32-full", &test, why));
    struct case_data *data = case_make(&test);
    kind = PART;
    harness_set_guard(0);
    case_bind(data, harness_place(), &arrays);
    harness_set_guard(PLACE_GUARD);
    kind = ORDINARY;
    clattn_tensor *views[] = {&arrays.params.q, &arrays.params.kv.k, &arrays.params.kv.v, &arrays.params.out};
    for (int n = 0; n < 4; n++) {
        static const char *const words[] = {"q: ", "k: ", "v: ", "out: "};
        views[n]->offset++;
        harness_log_clear();
        harness_assert_refused(
            words[n],
            clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL),
            CLATTN_INVALID_ARGUMENT, words[n]);
        views[n]->offset--;
    }
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const alone[] = {no_view_leaves_its_part, NULL};
    Suite *suite = suite_create("buffers");
    TCase *group = harness_add(suite, "buffers", alone);
    tcase_add_loop_test(group, calls, 0, KINDS * NAMES);
    tcase_add_loop_test(group, merges, 0, KINDS);
    return harness_run(suite);
}
