// test_errors_packed.c: refusals of packing weights, and of calls with weights that were packed for
// another tensor or device: the status, a one-line reason, and nothing enqueued. On a device
// without a packed form packing does nothing. A tuned row of the test's context forces packing on
// any device. Uses the library's internals.
#define REFUSED_PARAMS clattn_linear_params
#include "refusals/refused.h"

#include "device/context.h"

#include <stdlib.h>
#include <string.h>

static const struct test_case good = {.op = CASE_LINEAR,
                                      .name = "good",
                                      .n_q = 5,
                                      .width = 70,
                                      .head_dim = 28,
                                      .q_type = CLATTN_TYPE_BF16,
                                      .matrix_type = CLATTN_TYPE_BF16,
                                      .packs = true};
static const struct test_case good_layer = {.op = CASE_LAYER,
                                            .name = "layer",
                                            .n_q = 5,
                                            .width = 64,
                                            .heads = 2,
                                            .head_dim = 32,
                                            .packs = true,
                                            .q_type = CLATTN_TYPE_BF16,
                                            .matrix_type = CLATTN_TYPE_BF16};

// Recompute the checksum, as if clattn_linear_pack had packed other weights.
static void sum_again(clattn_packed *p) {
    const unsigned char *parts[] = {(const unsigned char *)&p->buffer, (const unsigned char *)p->layout_id};
    const size_t sizes[] = {sizeof p->buffer, 6 * sizeof *p->layout_id};
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < 2; i++)
        for (size_t n = 0; n < sizes[i]; n++) sum = (sum ^ parts[i][n]) * 0x100000001b3u;
    p->layout_id[6] = sum;
}

#define INVALID(X)                                                                                           \
    X(not_made, "packed: is not what", memset(p->packed.layout_id, 0, sizeof p->packed.layout_id))           \
    X(changed, "packed: is not what", p->packed.layout_id[2]++)                                              \
    X(moved, "packed: is not what", p->packed.layout_id[5] += 64)                                            \
    X(other_buffer, "packed: is not what", p->packed.buffer = p->x.buffer)                                   \
    X(layout, "packed: was packed by another version", (p->packed.layout_id[0]++, sum_again(&p->packed)))    \
    X(device, "packed: was packed for another device", (p->packed.layout_id[1]++, sum_again(&p->packed)))    \
    X(rows, "packed: holds a [29, 70] of bf16: w is a [28, 70] of bf16",                                     \
      (p->packed.layout_id[2]++, sum_again(&p->packed)))                                                     \
    X(columns, "packed: holds a [28, 71]", (p->packed.layout_id[3]++, sum_again(&p->packed)))                \
    X(type, "packed: holds a [28, 70] of f32", (p->packed.layout_id[4] = 0, sum_again(&p->packed)))          \
    X(leaves, "packed", (p->packed.layout_id[5] = 1 << 20, sum_again(&p->packed)))                           \
    X(negative, "packed", (p->packed.layout_id[5] = (uint64_t)1 << 63, sum_again(&p->packed)))               \
    X(shares, "packed",                                                                                      \
      (p->packed.buffer = p->out.buffer, p->packed.layout_id[5] = 0, sum_again(&p->packed)))                 \
    X(precision, "precision: 2 is none", p->precision = CLATTN_PRECISION_COUNT)                              \
    X(negative_precision, "precision", p->precision = (clattn_precision)-1)

REFUSED_TABLE(invalid, INVALID)
REFUSED_CASES(wrong_weights, invalid, good, linear, clattn_linear, CLATTN_INVALID_ARGUMENT)

// Each of a layer's four packed weights is named in its message.
START_TEST(wrong_weights_of_a_layer) {
    static const char *const names[] = {"packed_wq: ", "packed_wk: ", "packed_wv: ", "packed_wo: "};
    struct case_data *data = case_make(&good_layer);
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    clattn_packed *const all[] = {&a.layer.packed_wq, &a.layer.packed_wk, &a.layer.packed_wv,
                                  &a.layer.packed_wo};
    for (int i = 0; i < 4; i++) {
        const clattn_packed was = *all[i];
        ck_assert_ptr_nonnull(was.buffer);
        all[i]->layout_id[3]++;
        ASSERT_INVALID(names[i],
                       clattn_layer_enqueue(harness()->context, harness()->queue, &a.layer, 0, NULL, NULL),
                       names[i]);
        *all[i] = was;
    }
    a.layer.precision = CLATTN_PRECISION_COUNT;
    ASSERT_INVALID("precision",
                   clattn_layer_enqueue(harness()->context, harness()->queue, &a.layer, 0, NULL, NULL),
                   "precision: ");
    ck_assert(guarded_intact(&a.out, harness()->queue));
    case_unbind(&a);
    case_free(data);
}
END_TEST

// A context on a device with another name, driver or platform.
START_TEST(another_device) {
    struct case_data *data = case_make(&good);
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    for (int i = 0; i < 3; i++) {
        clattn_context *other =
            harness_open((clattn_context_params){.context = harness()->opencl, .log = harness_log()});
        clattn_capabilities *of = &other->capabilities;
        (i == 0 ? of->name : i == 1 ? of->driver : of->platform)[0] ^= 1;
        harness_log_clear();
        ck_assert_int_eq(clattn_linear_enqueue(other, harness()->queue, &a.linear, 0, NULL, NULL),
                         CLATTN_INVALID_ARGUMENT);
        ck_assert_msg(strstr(harness_log_text(), "another device"), "%s", harness_log_text());
        clattn_context_destroy(other);
    }
    ck_assert(guarded_intact(&a.out, harness()->queue));
    case_unbind(&a);
    case_free(data);
}
END_TEST

#define PACK_INVALID(X)                                                                                      \
    X(w_rank, "w", p.w.rank = 3)                                                                             \
    X(w_type, "w", p.w.type = CLATTN_TYPE_I32)                                                               \
    X(w_stride, "w", p.w.stride[1] = 2)                                                                      \
    X(w_empty, "w: a side is 0", p.w.shape[0] = 0)                                                           \
    X(w_leaves, "w", p.w.stride[0] = 1 << 20)                                                                \
    X(no_w, "w", p.w.buffer = NULL)                                                                          \
    X(no_buffer, "buffer: is NULL", p.buffer = NULL)                                                         \
    X(offset, "offset: ", p.offset = 32)                                                                     \
    X(negative_offset, "offset: ", p.offset = -64)                                                           \
    X(past_the_end, "buffer", p.offset = 256)                                                                \
    X(onto_w, "buffer", p.buffer = p.w.buffer)                                                               \
    X(pack_precision, "precision: ", p.precision = CLATTN_PRECISION_COUNT)

START_TEST(refused_packing) {
    struct test_case test = good;
    struct case_arrays a;
    size_t bytes = 0;
    cl_int code;
    test.packs = false;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &a);
    clattn_pack_params right = {.w = a.linear.w};
    ck_assert_int_eq(clattn_linear_packed_bytes(harness()->context, &right, &bytes), CLATTN_OK);
    right.buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    harness_expect(code, "clCreateBuffer");
#define PACK_REFUSED(name, word, wrong)                                                                      \
    {                                                                                                        \
        clattn_pack_params p = right;                                                                        \
        clattn_packed packed = {.buffer = right.buffer};                                                     \
        cl_event event = NULL;                                                                               \
        wrong;                                                                                               \
        ASSERT_INVALID(                                                                                      \
            #name, clattn_linear_pack(harness()->context, harness()->queue, &p, &packed, 0, NULL, &event),   \
            word);                                                                                           \
        ck_assert(event == NULL && packed.buffer == NULL);                                                   \
    }
    PACK_INVALID(PACK_REFUSED)
    clReleaseMemObject(right.buffer);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Packed size of each type: 2 bytes per element and term in blocks of 32 by 32, and a line of
// limits. 0 if packing gains nothing.
START_TEST(bytes_of) {
    static const struct {
        clattn_type type;
        clattn_precision precision;
        size_t bytes;
    } rows[] = {{CLATTN_TYPE_BF16, CLATTN_PRECISION_EXACT, 64 + 2 * 3 * 2048},
                {CLATTN_TYPE_BF16, CLATTN_PRECISION_SPLIT, 64 + 2 * 3 * 2048},
                {CLATTN_TYPE_F32, CLATTN_PRECISION_SPLIT, 64 + 2 * 3 * 2048 * 3},
                {CLATTN_TYPE_F32, CLATTN_PRECISION_EXACT, 0},
                {CLATTN_TYPE_F16, CLATTN_PRECISION_SPLIT, 0}};
    clattn_context *plain = harness_open((clattn_context_params){.context = harness()->opencl});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        clattn_pack_params p = {.w = clattn_tensor_dense(NULL, rows[i].type, 2, (const int64_t[]){40, 70}),
                                .precision = rows[i].precision};
        size_t bytes = 77;
        ck_assert_int_eq(clattn_linear_packed_bytes(harness()->context, &p, &bytes), CLATTN_OK);
        ck_assert_uint_eq(bytes, (rows[i].bytes + 255) / 256 * 256);
        ck_assert_int_eq(clattn_linear_packed_bytes(plain, &p, &bytes), CLATTN_OK);
        ck_assert_uint_eq(bytes, 0); // neither the device nor a tuned row has a matrix engine
    }
    clattn_context_destroy(plain);
    // More bytes than 64 bits can count.
    clattn_pack_params vast = {
        .w = clattn_tensor_dense(NULL, CLATTN_TYPE_BF16, 2, (const int64_t[]){INT32_MAX - 65536, 1 << 28})};
    size_t bytes;
    ASSERT_REFUSED("vast", clattn_linear_packed_bytes(harness()->context, &vast, &bytes),
                   CLATTN_OUT_OF_MEMORY, "workspace");
}
END_TEST

// If packing gains nothing, nothing is packed, calls use the plain weights, and the event
// completes.
START_TEST(nothing_to_pack) {
    clattn_context *plain = harness_open((clattn_context_params){.context = harness()->opencl});
    struct test_case test = good;
    struct place place = *harness_place();
    struct case_arrays a;
    cl_event event = NULL;
    clattn_packed packed = {.buffer = (cl_mem)&test};
    char why[512];
    place.context = plain;
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &a);
    ck_assert_ptr_null(a.linear.packed.buffer);
    const clattn_pack_params p = {.w = a.linear.w};
    ck_assert_int_eq(clattn_linear_pack(plain, harness()->queue, &p, &packed, 0, NULL, &event), CLATTN_OK);
    ck_assert_ptr_null(packed.buffer);
    harness_expect(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
    ck_assert_int_eq(clattn_linear_enqueue(plain, harness()->queue, &a.linear, 0, NULL, NULL), CLATTN_OK);
    ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s", why);
    case_unbind(&a);
    case_free(data);
    clattn_context_destroy(plain);
}
END_TEST

// Packing waits for an event and writes at an offset. A call on an out-of-order queue waits for the
// packing. The plain weights may change afterwards, because the call reads the packed ones.
START_TEST(waits_and_reads_packed) {
    struct test_case test = good;
    struct case_arrays a;
    size_t bytes = 0;
    char why[512];
    cl_int code;
    cl_command_queue queue = harness()->out_of_order ? harness()->out_of_order : harness()->queue;
    test.packs = false;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &a);
    clattn_pack_params p = {.w = a.linear.w, .offset = 192};
    ck_assert_int_eq(clattn_linear_packed_bytes(harness()->context, &p, &bytes), CLATTN_OK);
    p.buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes + 192, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    cl_event gate = harness_gate(), done = NULL, end = NULL;
    ck_assert_int_eq(clattn_linear_pack(harness()->context, queue, &p, &a.linear.packed, 1, &gate, &done),
                     CLATTN_OK);
    ck_assert_ptr_eq(a.linear.packed.buffer, p.buffer);
    clSetUserEventStatus(gate, CL_COMPLETE);
    // Overwrite w with zeros after it was packed.
    const uint8_t zero = 0;
    cl_event cleared;
    harness_expect(clEnqueueFillBuffer(queue, a.linear.w.buffer, &zero, 1, (size_t)a.linear.w.offset * 2,
                                       28 * 70 * 2, 1, &done, &cleared),
                   "clEnqueueFillBuffer");
    ck_assert_int_eq(clattn_linear_enqueue(harness()->context, queue, &a.linear, 1, &cleared, &end),
                     CLATTN_OK);
    harness_expect(clWaitForEvents(1, &end), "clWaitForEvents");
    struct case_result got = case_collect(&a, queue, NULL);
    got.intact = true; // w was changed by the test
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s", why);
    case_result_free(&got);
    clReleaseEvent(gate), clReleaseEvent(done), clReleaseEvent(cleared), clReleaseEvent(end);
    clReleaseMemObject(p.buffer);
    case_unbind(&a);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {wrong_weights_of_a_layer,
                                  another_device,
                                  refused_packing,
                                  bytes_of,
                                  nothing_to_pack,
                                  waits_and_reads_packed,
                                  NULL};
    Suite *suite = suite_create("errors of packed weights");
    setenv("CLATTN_TEST_ROWS", "linear_matrix :", 1);
    TCase *group = harness_add(suite, "packed", tests);
    REFUSED_LOOP(group, wrong_weights, invalid);
    return harness_run(suite);
}
