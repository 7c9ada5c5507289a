// test_pointers.c: tensors at addresses instead of buffers (clattn_tensor.svm, .usm): the hard
// cases and one call of each operation. Results equal those of buffers, and bytes around every view
// stay. Also refusals. If the device lacks a kind of memory, the expected result is UNSUPPORTED.
#include "support/case_assert.h"
#include "verification/sets/hard_cases.h"
#include "support/layer_client.h"
#include "support/operands.h"
#include "support/pointers.h"
#include "support/small_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_SYSTEM_CAPABILITIES 0x4194 // of cl_intel_unified_shared_memory: host memory

static struct place place_of(enum pointers_kind kind) {
    struct place place = *harness_place();
    place.memory = pointers_memory, place.release_memory = pointers_release, place.copy = pointers_copy;
    place.usm = kind >= POINTERS_USM_HOST;
    pointers_choose(kind);
    return place;
}

static void run(const struct test_case *test, enum pointers_kind kind) {
    struct place place = place_of(kind);
    struct case_data *data = case_make(test);
    struct case_arrays arrays;
    struct case_verdict verdict = {.good = true};
    char text[256];
    case_bind(data, &place, &arrays);
    const clattn_status status = case_enqueue(place.context, place.queue, &arrays, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s on %s: %s", test->name, pointers_name(kind),
                  place_message(&place, status, text));
    case_judge(data, &arrays, place.queue, &verdict);
    ck_assert_msg(verdict.good, "%s on %s: %s", test->name, pointers_name(kind), verdict.why);
    case_unbind(&arrays);
    case_free(data);
}

// CLBlast accepts only buffers, so its operands are copied.
static void run_clblast(enum pointers_kind kind) {
    static const char *const names[] = {"linear-f32-b2-h1-n9-d45-m67-full-clblast-biases",
                                        "layer-f32-b2-h4-n9-d16-m48-full-clblast"};
    struct test_case test;
    char why[256];
    for (int n = 0; harness_has_clblast() && n < 2; n++) {
        ck_assert_msg(case_parse(names[n], &test, why), "%s", why);
        test.name = names[n];
        run(&test, kind);
    }
}

// Packed weights stay in buffers. Each case uses the next kind of memory that exists.
START_TEST(cases) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    int ran = 0, turn = 0, kinds = 0;
    if (!pointers_have(kind)) return;
    for (int k = 0; k < POINTERS_KINDS; k++) {
        turn += k < _i && pointers_have((enum pointers_kind)k);
        kinds += pointers_have((enum pointers_kind)k);
    }
    for (int n = 0; n < hard_case_count; n++) {
        const struct test_case test = hard_case(n);
        if (test.packs || n % kinds != turn) continue;
        run(&test, kind);
        ran++;
    }
    ck_assert_int_ge(ran, 20);
    run_clblast(kind);
}
END_TEST

static clattn_tensor *views_of(clattn_attention_params *p, int n) {
    return n == 0 ? &p->q : n == 1 ? &p->kv.k : n == 2 ? &p->kv.v : &p->out;
}

// Every call with tensors, with some or all views at addresses: it writes the same as with buffers.
static void *to_address(clattn_tensor *view, bool usm, unsigned char values[OPERAND_BYTES]) {
    void *memory = pointers_memory(OPERAND_BYTES);
    harness_expect(
        clEnqueueReadBuffer(harness()->queue, view->buffer, CL_TRUE, 0, OPERAND_BYTES, values, 0, NULL, NULL),
        "clEnqueueReadBuffer");
    harness_expect(pointers_copy(memory, values, OPERAND_BYTES), "a copy to an address");
    *(usm ? &view->usm : &view->svm) = memory;
    view->buffer = NULL;
    return memory;
}

static void to_buffer(clattn_tensor *view, cl_mem buffer, void *memory, unsigned char values[OPERAND_BYTES]) {
    harness_expect(pointers_copy(values, memory, OPERAND_BYTES), "a copy from an address");
    harness_expect(
        clEnqueueWriteBuffer(harness()->queue, buffer, CL_TRUE, 0, OPERAND_BYTES, values, 0, NULL, NULL),
        "clEnqueueWriteBuffer");
    pointers_release(memory);
    view->svm = view->usm = NULL, view->buffer = buffer;
}

static void operate(enum operation operation, clattn_kernel kernel, bool usm, int first, int step) {
    static unsigned char values[OPERAND_BYTES];
    struct operands plain, moved;
    cl_mem buffers[OPERANDS_MOST];
    void *memory[OPERANDS_MOST];
    char why[256];
    size_t sizes[2];
    operands_make(&plain, operation, kernel);
    operands_make(&moved, operation, kernel);
    unsigned char *want = operands_results(&plain, &sizes[0]);
    for (int n = first; n < moved.count; n += step) {
        buffers[n] = moved.operand[n].view->buffer;
        memory[n] = to_address(moved.operand[n].view, usm, values);
    }
    const clattn_status status = operands_enqueue(&moved, NULL);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == CLATTN_OK, "operation %d: %s", (int)operation, why);
    harness_finish(harness()->queue);
    for (int n = first; n < moved.count; n += step)
        to_buffer(moved.operand[n].view, buffers[n], memory[n], values);
    unsigned char *got = operands_written(&moved, &sizes[1]);
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_msg(memcmp(want, got, sizes[0]) == 0, "operation %d: other results at addresses",
                  (int)operation);
    free(want), free(got);
    operands_release(&plain), operands_release(&moved);
}

START_TEST(operations) {
    static const struct {
        enum operation operation;
        clattn_kernel kernel;
    } calls[] = {{OPERATION_ATTENTION, CLATTN_KERNEL_UNFUSED},
                 {OPERATION_ATTENTION, CLATTN_KERNEL_FLASH},
                 {OPERATION_LAYER, CLATTN_KERNEL_AUTO},
                 {OPERATION_LINEAR, CLATTN_KERNEL_AUTO},
                 {OPERATION_MERGE, CLATTN_KERNEL_AUTO}};
    const enum pointers_kind kind = (enum pointers_kind)_i;
    if (!pointers_have(kind)) return;
    pointers_choose(kind);
    for (size_t n = 0; n < sizeof calls / sizeof calls[0]; n++)
        // 0: even views, 1: odd views, 2: all views have addresses
        for (int part = 0; part < 3; part++)
            operate(calls[n].operation, calls[n].kernel, kind >= POINTERS_USM_HOST, part % 2,
                    part == 2 ? 1 : 2);
}
END_TEST

START_TEST(small) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    double want, got;
    if (!pointers_have(kind)) return;
    for (int which = 0; which < SMALL_CALLS; which++) {
        struct place there = place_of(kind), *const places[2] = {harness_place(), &there};
        for (int n = 0; n < 2; n++) {
            struct small_call call;
            small_open(&call, which, places[n]);
            const clattn_status status =
                small_enqueue(&call, harness()->context, harness()->queue, 0, NULL, NULL);
            ck_assert_msg(status == CLATTN_OK, "%s: %s", small_names[which], harness_log_text());
            ck_assert_msg(small_intact(&call, harness()->queue, n ? &got : &want), "%s on %s",
                          small_names[which], n ? pointers_name(kind) : "buffers");
            small_close(&call);
        }
        ck_assert_msg(got == want, "%s on %s: other results", small_names[which], pointers_name(kind));
    }
}
END_TEST

// Weights at an address are packed like those of a buffer.
START_TEST(packing) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    static unsigned char values[OPERAND_BYTES], all[2][OPERAND_BYTES];
    size_t bytes;
    if (!pointers_have(kind)) return;
    pointers_choose(kind);
    clattn_context *c = harness_open((clattn_context_params){.context = harness()->opencl,
                                                             .tuned_rows = "linear_matrix :",
                                                             .cache_dir = getenv("CLATTN_TEST_CACHE")});
    cl_mem w = operands_buffer(CL_MEM_READ_WRITE, OPERAND_BYTES),
           to = operands_buffer(CL_MEM_READ_WRITE, OPERAND_BYTES);
    clattn_pack_params p = {.w = clattn_tensor_dense(w, CLATTN_TYPE_BF16, 2, (const int64_t[]){33, 40}),
                            .buffer = to};
    ck_assert_int_eq(clattn_linear_packed_bytes(c, &p, &bytes), CLATTN_OK);
    ck_assert(bytes > 0 && bytes <= OPERAND_BYTES);
    void *memory = NULL;
    for (int n = 0; n < 2; n++) {
        clattn_packed packed;
        if (n) memory = to_address(&p.w, kind >= POINTERS_USM_HOST, values);
        harness_expect(clEnqueueFillBuffer(harness()->queue, to, "", 1, 0, OPERAND_BYTES, 0, NULL, NULL),
                       "clEnqueueFillBuffer");
        ck_assert_int_eq(clattn_linear_pack(c, harness()->queue, &p, &packed, 0, NULL, NULL), CLATTN_OK);
        ck_assert_ptr_eq(packed.buffer, to);
        harness_expect(
            clEnqueueReadBuffer(harness()->queue, to, CL_TRUE, 0, OPERAND_BYTES, all[n], 0, NULL, NULL),
            "clEnqueueReadBuffer");
    }
    ck_assert_int_eq(memcmp(all[0], all[1], bytes), 0);
    harness_finish(harness()->queue);
    pointers_release(memory);
    clReleaseMemObject(w), clReleaseMemObject(to);
    clattn_context_destroy(c);
}
END_TEST

enum { H = 2, N = 37, D = 16, COUNT = H * N * D };

static int failing; // the OpenCL call that fails in attend(); 0: none
static struct layer_armed armed;

// Attention on one tensor, with `in` and `out` in the places of `where`, `shift` elements from the
// start. Returns its result.
static clattn_status attend(enum pointers_kind kind, int64_t shift, float got[COUNT]) {
    float values[COUNT + 8] = {0};
    const struct place place = place_of(kind);
    for (int n = 0; n < COUNT; n++) values[shift + n] = (float)(n % 13) / 8 - 0.7f;
    char *memory = pointers_memory(2 * sizeof values);
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_eq(pointers_copy(memory, values, sizeof values), CL_SUCCESS);
    clattn_tensor in = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, H, N, D), out = in;
    *(place.usm ? &in.usm : &in.svm) = memory + (size_t)shift * sizeof(float);
    *(place.usm ? &out.usm : &out.svm) = memory + sizeof values + (size_t)shift * sizeof(float);
    const clattn_attention_params p = {.q = in, .kv = {.k = in, .v = in}, .out = out};
    if (failing) layer_client()->arm(failing, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    const clattn_status status = clattn_attention_enqueue(place.context, place.queue, &p, 0, NULL, NULL);
    if (failing) armed = layer_client()->disarm();
    harness_finish(place.queue);
    ck_assert_int_eq(
        pointers_copy(got, memory + sizeof values + (size_t)shift * sizeof(float), COUNT * sizeof *got),
        CL_SUCCESS);
    pointers_release(memory);
    return status;
}

// Addresses inside an allocation, at every multiple of the element. The arguments of one launch
// have no effect on the next.
START_TEST(inside) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    float first[COUNT], got[COUNT];
    if (!pointers_have(kind)) return;
    for (int64_t shift = 0; shift < 8; shift += 1 + shift / 2) {
        ck_assert_int_eq(attend(kind, shift, got), CLATTN_OK);
        if (shift == 0) memcpy(first, got, sizeof first);
        for (int n = 0; n < COUNT; n++) ck_assert_double_eq_tol((double)got[n], (double)first[n], 1e-6);
        case_assert(
            &(struct test_case){.name = "buffers between", .n_q = N, .n_kv = N, .head_dim = D, .heads = H});
    }
}
END_TEST

static clattn_attention_params on_buffers(cl_mem buffer[2]) {
    for (int n = 0; n < 2; n++) {
        cl_int code;
        buffer[n] = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, COUNT * 4, NULL, &code);
        harness_expect(code, "clCreateBuffer");
    }
    const clattn_tensor in = clattn_tensor_bhsd(buffer[0], CLATTN_TYPE_F32, 1, H, N, D);
    return (clattn_attention_params){
        .q = in, .kv = {.k = in, .v = in}, .out = clattn_tensor_bhsd(buffer[1], CLATTN_TYPE_F32, 1, H, N, D)};
}

static void assert_refused(const char *what, const clattn_attention_params *p, clattn_status want,
                           const char *word) {
    harness_log_clear();
    harness_assert_refused(
        what, clattn_attention_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL), want, word);
}

START_TEST(refusals) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    cl_mem buffer[2];
    clattn_attention_params p = on_buffers(buffer);
    const bool usm = kind >= POINTERS_USM_HOST;
    char *memory = pointers_have(kind) ? (place_of(kind), pointers_memory(COUNT * 8)) : (char *)buffer;
    for (int n = 0; n < 4; n++) {
        clattn_tensor *t = views_of(&p, n);
        const clattn_tensor kept = *t;
        *(usm ? &t->usm : &t->svm) = memory;
        assert_refused("two", &p, CLATTN_INVALID_ARGUMENT, "give one of them");
        t->buffer = NULL;
        if (!pointers_have(kind)) {
            assert_refused("a device without", &p, CLATTN_UNSUPPORTED, usm ? "usm: " : "svm: ");
        } else {
            *(usm ? &t->usm : &t->svm) = memory + 2;
            assert_refused("between elements", &p, CLATTN_INVALID_ARGUMENT, "no multiple of");
        }
        *t = kept;
    }
    if (pointers_have(kind)) {
        clattn_tensor out = p.out;
        out.buffer = NULL;
        *(usm ? &out.usm : &out.svm) = memory;
        p.out = p.q = out;
        p.out.offset = COUNT / 2;
        assert_refused("an overlap", &p, CLATTN_INVALID_ARGUMENT, "out: overlaps q");
        p.out.offset = COUNT;
        if (usm) {
            p.out.offset++;
            assert_refused("past its end", &p, CLATTN_INVALID_ARGUMENT, "its last element ends at byte");
        }
        pointers_release(memory);
    }
    for (int n = 0; n < 2; n++) clReleaseMemObject(buffer[n]);
}
END_TEST

// A device whose USM is not all host memory: the OpenCL layer reports this for a device where it
// is.
START_TEST(foreign) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    static const cl_bitfield none = 0;
    cl_mem buffer[2];
    char text[256];
    cl_int code;
    if (kind < POINTERS_USM_HOST || !pointers_have(kind) || layer_client() == NULL) return;
    layer_client()->pretend(DEVICE_SYSTEM_CAPABILITIES, &none, sizeof none);
    clattn_context *c = harness_open((clattn_context_params){.context = harness()->opencl});
    layer_client()->pretend(0, NULL, 0);
    clattn_attention_params p = on_buffers(buffer);
    cl_context other = clCreateContext(NULL, 1, &harness()->device, NULL, NULL, &code);
    harness_expect(code, "clCreateContext");
    pointers_choose(kind);
    void *const theirs = pointers_memory_of(other, COUNT * 4), *const hosts = calloc(COUNT, 4);
    void *const wrong[] = {theirs, hosts};
    for (int n = 0; n < 2; n++) {
        p.out.buffer = NULL, p.out.usm = wrong[n];
        ck_assert_int_eq(clattn_attention_enqueue(c, harness()->queue, &p, 0, NULL, NULL),
                         CLATTN_INVALID_ARGUMENT);
        clattn_context_last_error(c, text, sizeof text);
        ck_assert_msg(strstr(text, "not in USM memory") != NULL, "%s", text);
    }
    pointers_release_of(other, theirs);
    free(hosts);
    clReleaseContext(other);
    for (int n = 0; n < 2; n++) clReleaseMemObject(buffer[n]);
    clattn_context_destroy(c);
}
END_TEST

// Handles with their lowest bits set, which no driver returns, are invalid. They must not be
// treated as addresses.
START_TEST(handles) {
    cl_mem buffer[2];
    for (int bit = 1; bit <= 3; bit++) {
        clattn_attention_params p = on_buffers(buffer);
        for (int n = 0; n <= 4; n++) {
            cl_mem *handle = n < 4 ? &views_of(&p, n)->buffer : &p.workspace, kept = *handle;
            *handle = (cl_mem)((char *)buffer[1] + bit);
            assert_refused("a handle", &p, CLATTN_INVALID_ARGUMENT, "not a memory object");
            *handle = kept;
        }
        for (int n = 0; n < 2; n++) clReleaseMemObject(buffer[n]);
    }
}
END_TEST

// Each OpenCL call that an enqueue makes fails once for lack of memory, also the functions for
// addresses. No fallback to other kernels is possible then.
START_TEST(faults) {
    const enum pointers_kind kind = (enum pointers_kind)_i;
    const char *const set =
        kind < POINTERS_USM_HOST ? "clSetKernelArgSVMPointer" : "clSetKernelArgMemPointerINTEL";
    float got[COUNT];
    char text[256];
    int hits = 0;
    if (!pointers_have(kind) || layer_client() == NULL) return;
    ck_assert_int_eq(attend(kind, 0, got), CLATTN_OK);
    for (int nth = 1;; nth++) {
        failing = nth;
        const clattn_status status = attend(kind, 0, got);
        failing = 0;
        if (armed.hit == NULL) break;
        clattn_context_last_error(harness()->context, text, sizeof text);
        ck_assert_int_ne(status, CLATTN_OK);
        ck_assert_msg(strstr(text, armed.hit) != NULL, "%s: %s", armed.hit, text);
        hits += strcmp(armed.hit, set) == 0;
    }
    ck_assert_int_eq(hits, 4);
}
END_TEST

// clattn_features and the capabilities must agree with what the suite finds itself.
START_TEST(features) {
    clattn_features f;
    ck_assert_int_eq(clattn_features_get(harness()->context, &f), CLATTN_OK);
    const clattn_capabilities *c = clattn_context_capabilities(harness()->context);
    ck_assert_int_eq(f.svm, pointers_have(POINTERS_SVM));
    ck_assert_int_eq(f.usm, pointers_have(POINTERS_USM_HOST));
    ck_assert_int_eq((c->svm & 1) != 0, pointers_have(POINTERS_SVM));
    ck_assert_int_eq((c->svm & 2) != 0, pointers_have(POINTERS_SVM_FINE));
    printf("pointers: SVM %u, USM %s\n", (unsigned)c->svm, c->usm ? "yes" : "no");
}
END_TEST

int main(void) {
    const TTest *const alone[] = {features, handles, NULL};
    const TTest *const of_each[] = {operations, small, packing, inside, refusals, foreign, faults},
                       *const compiled[] = {NULL};
    Suite *suite = suite_create("pointers");
    TCase *group = harness_add(suite, "calls", alone), *many = harness_add(suite, "cases", compiled);
    for (size_t i = 0; i < sizeof of_each / sizeof of_each[0]; i++)
        tcase_add_loop_test(group, of_each[i], 0, POINTERS_KINDS);
    tcase_add_loop_test(many, cases, 0, POINTERS_KINDS);
    return harness_run(suite);
}
