// test_launch.c: the way from a call to its commands, inside the library: the buffers that the pool
// lends (device/pool.h), and the shape of a launch (launch/chain.h). Whole calls are in
// test_pool.c.
#include "support/harness.h"

#include "attention/call/views.h"
#include "launch/chain.h"

#include <string.h>

static clattn_context *context;
static pool_user in_order, another, out_of_order;

static void setup(void) {
    context = harness_open((clattn_context_params){.context = harness()->opencl});
    // No command is enqueued here, so the handles need not be real.
    in_order = (pool_user){context, harness()->queue, true};
    another = (pool_user){context, (cl_command_queue)&another, true};
    out_of_order = (pool_user){context, (cl_command_queue)&out_of_order, false};
}
static void teardown(void) {
    clattn_context_destroy(context);
}

static pool_slot *scratch(const pool_user *user, uint64_t bytes) {
    pool_slot *slot = NULL;
    ck_assert_int_eq(cla_pool_scratch(user, bytes, &slot), CLATTN_OK);
    ck_assert_uint_ge(slot->bytes, bytes);
    return slot;
}
static pool_slot *table(const pool_user *user, const char *words) {
    pool_slot *slot = NULL;
    ck_assert_int_eq(cla_pool_table(user, words, strlen(words) + 1, &slot), CLATTN_OK);
    return slot;
}

// One call at a time uses a buffer. Then only the same in-order queue can use the buffer again. If
// a call enqueued nothing, any queue can use its buffer.
START_TEST(to_its_queue_again) {
    pool_slot *a = scratch(&in_order, 5000), *b = scratch(&in_order, 5000);
    ck_assert_ptr_ne(a, b);
    cla_pool_return(&in_order, a, true, NULL);
    ck_assert_ptr_eq(scratch(&in_order, 4000), a);
    cla_pool_return(&in_order, a, true, NULL);
    cla_pool_return(&in_order, b, true, NULL);
    pool_slot *c = scratch(&another, 4000), *d = scratch(&out_of_order, 4000);
    ck_assert(c != a && c != b && d != a && d != b && c != d);
    cla_pool_return(&another, c, true, NULL);
    cla_pool_return(&out_of_order, d, false, NULL);
    ck_assert_ptr_eq(scratch(&another, 4000), c);
    ck_assert_ptr_eq(scratch(&another, 4000), d);
}
END_TEST

// A buffer of an out-of-order queue is free after its last event has completed, also with an error.
START_TEST(after_its_event) {
    for (int end = CL_COMPLETE; end >= -5; end -= 5) {
        cl_event last = harness_gate();
        pool_slot *a = scratch(&out_of_order, 5000);
        cla_pool_return(&out_of_order, a, true, last);
        pool_slot *b = scratch(&out_of_order, 5000), *c = scratch(&in_order, 5000);
        ck_assert(b != a && c != a);
        harness_expect(clSetUserEventStatus(last, end), "clSetUserEventStatus");
        ck_assert_ptr_eq(scratch(&another, 5000), a);
        cla_pool_return(&another, a, false, NULL);
        cla_pool_return(&out_of_order, b, false, NULL);
        cla_pool_return(&in_order, c, false, NULL);
        clReleaseEvent(last);
    }
}
END_TEST

// Calls with equal words share a table, unless another call is using it. If there are many tables,
// new words replace old ones. Tables that the host is still copying from are not replaced.
START_TEST(tables_by_their_words) {
    char words[32] = "0";
    pool_slot *all[POOL_KEPT_TABLES], *a = table(&in_order, words);
    ck_assert(!a->stale);
    ck_assert_ptr_ne(table(&in_order, words), a);
    cla_pool_return(&in_order, a, true, NULL);
    ck_assert_ptr_eq(table(&in_order, words), a);
    cla_pool_return(&in_order, a, true, NULL);
    ck_assert_ptr_ne(table(&another, words), a);
    for (int n = 1; n < POOL_KEPT_TABLES; n++) {
        words[0]++;
        all[n] = table(&in_order, words);
        ck_assert(!all[n]->stale && all[n] != a);
    }
    for (int n = 1; n < POOL_KEPT_TABLES; n++) cla_pool_return(&in_order, all[n], true, NULL);
    pool_slot *b = table(&in_order, "9");
    ck_assert(b == a && b->stale);
    ck_assert_str_eq(b->words, "9");
    cla_pool_return(&in_order, b, true, NULL); // no command wrote the buffer
    ck_assert_ptr_eq(table(&in_order, "9"), all[1]);
    all[2]->written = harness_gate();
    b = table(&in_order, "8");
    ck_assert(b != all[2] && !b->stale);
    ck_assert_ptr_ne(table(&in_order, "2"), all[2]);
    harness_expect(clSetUserEventStatus(all[2]->written, -5), "clSetUserEventStatus");
    b = table(&in_order, "2");
    ck_assert(b != all[2] || b->stale);
}
END_TEST

// The limits of pool.h: larger buffers are created for one call.
START_TEST(limits) {
    pool_slot *all[POOL_SCRATCHES + 1];
    for (int n = 0; n <= POOL_SCRATCHES; n++) {
        all[n] = scratch(&in_order, 5000);
        ck_assert_int_eq(all[n]->spare, n == POOL_SCRATCHES);
    }
    for (int n = 0; n <= POOL_SCRATCHES; n++) cla_pool_return(&in_order, all[n], true, NULL);
    pool_slot *other = scratch(&another, 5000); // the oldest is replaced
    ck_assert(other == all[0] && !other->spare);
    cla_pool_return(&another, other, true, NULL);
    const uint64_t most = context->capabilities.max_allocation_bytes, kept = POOL_SCRATCH_BYTES + 1;
    if (most < kept) return;
    pool_slot *large = scratch(&in_order, kept);
    ck_assert(large->spare);
    cla_pool_return(&in_order, large, true, NULL);
}
END_TEST

// Work-groups are powers of a step. They have at most the next power of the items, of the requested
// size, and of the limits of device and kernel, in each dimension.
START_TEST(groups) {
    static const struct {
        size_t items[3], shape[3], step;
        uint64_t most, most_of[3];
        size_t want[3];
    } cases[] = {
        {{1000, 7, 3}, {64, 1, 1}, 2, 1024, {1024, 1024, 64}, {64, 1, 1}},
        {{1000, 7, 3}, {16, 4, 1}, 2, 1024, {1024, 1024, 64}, {16, 4, 1}},
        {{1000, 7, 3}, {16, 4, 1}, 2, 32, {1024, 1024, 64}, {16, 2, 1}},
        {{1000, 7, 3}, {64, 4, 1}, 2, 48, {1024, 1024, 64}, {32, 1, 1}},
        {{1000, 7, 3}, {64, 4, 2}, 2, 1024, {16, 2, 1}, {16, 2, 1}},
        {{3, 1, 3}, {64, 4, 1}, 2, 1024, {1024, 1024, 64}, {4, 1, 1}},
        {{1, 1, 1}, {64, 4, 1}, 2, 1024, {1024, 1024, 64}, {1, 1, 1}},
        {{1000, 7, 3}, {64, 4, 1}, 2, 1, {1024, 1024, 64}, {1, 1, 1}},
        {{1000, 7, 3}, {64, 4, 1}, 2, 0, {0, 0, 0}, {1, 1, 1}},
        {{1000, 2, 3}, {64, 4, 1}, 4, 1024, {1024, 1024, 64}, {64, 4, 1}},
        {{5, 1, 3}, {64, 4, 1}, 4, 1024, {1024, 1024, 64}, {16, 1, 1}},
        {{1000, 7, 3}, {64, 4, 1}, 4, 48, {1024, 1024, 64}, {16, 1, 1}},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        size_t got[3];
        cla_launch_group(cases[n].items, cases[n].shape, cases[n].step, cases[n].most, cases[n].most_of, got);
        for (int i = 0; i < 3; i++)
            ck_assert_msg(got[i] == cases[n].want[i], "case %zu: %zu in dimension %d", n, got[i], i);
    }
}
END_TEST

// The grid has every item and whole groups, and no more groups than needed.
START_TEST(grids) {
    program p = {.group_limit = 32};
    launch l = {.program = &p};
    const size_t items[3] = {1000, 7, 3};
    cla_launch_items(&l, context, items, (const size_t[3]){16, 4, 1});
    ck_assert_uint_le(l.local[0] * l.local[1] * l.local[2], 32);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(l.global[i] % l.local[i], 0);
        ck_assert(l.global[i] >= items[i] && l.global[i] < items[i] + l.local[i]);
    }
}
END_TEST

// The bytes of a launch's arguments must not exceed the device's limit.
START_TEST(arguments) {
    program p = {.spec = {.id = KERNEL_MERGE}};
    launch l = {.program = &p, .global = {0, 1, 1}, .local = {1, 1, 1}};
    static const char bytes[1024];
    chain c;
    ck_assert_int_eq(cla_chain_begin(&c, context, harness()->queue, 0, NULL), CLATTN_OK);
    context->capabilities.max_argument_bytes = 1024;
    cla_launch_value(&l, bytes, 1000);
    cla_launch_value(&l, bytes, 24);
    // no work-item, so nothing is launched
    ck_assert_int_eq(cla_launch_enqueue(&c, &l), CLATTN_OK);
    cla_launch_value(&l, bytes, 1);
    ck_assert_int_eq(cla_launch_enqueue(&c, &l), CLATTN_UNSUPPORTED);
    l.count = 0; // 1021 bytes, and 1032 if each argument begins at a multiple of eight
    for (int i = 0; i < 3; i++) cla_launch_value(&l, bytes, i ? 340 : 341);
    ck_assert_int_eq(cla_launch_enqueue(&c, &l), CLATTN_UNSUPPORTED);
    ck_assert_int_eq(cla_chain_end(&c, CLATTN_OK, NULL), CLATTN_OK);
}
END_TEST

static __typeof__(clGetMemObjectInfo) ask_memory;
static cl_int CL_API_CALL larger_by_4_gib(cl_mem m, cl_mem_info what, size_t size, void *to, size_t *got) {
    const cl_int code = ask_memory(m, what, size, to, got);
    if (code == CL_SUCCESS && what == CL_MEM_SIZE && to) *(size_t *)to += (size_t)4 << 30;
    return code;
}

// A device of 32 address bits refuses a buffer that it cannot address, by its name. One of 64 bits
// accepts it.
START_TEST(reach) {
    struct guarded k =
        guarded_input(harness_place(), &(struct guarded_shape){CLATTN_TYPE_F32, 1, {4}, LAYOUT_DENSE},
                      (double[]){1, 2, 3, 4});
    clattn_status status[2];
    call_views views;
    ask_memory = clGetMemObjectInfo;
    clGetMemObjectInfo = larger_by_4_gib;
    for (int n = 0; n < 2; n++) {
        context->capabilities.address_bits = n ? 64 : 32;
        cla_views_begin(&views, context);
        cla_views_add(&views, "k", &k.view, VIEW_READ);
        status[n] = cla_views_check(&views);
    }
    clGetMemObjectInfo = ask_memory;
    ck_assert_int_eq(status[0], CLATTN_UNSUPPORTED);
    ck_assert_int_eq(status[1], CLATTN_OK);
    guarded_release(&k);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {to_its_queue_again,
                                  after_its_event,
                                  tables_by_their_words,
                                  limits,
                                  groups,
                                  grids,
                                  arguments,
                                  reach,
                                  NULL};
    Suite *suite = suite_create("launch");
    tcase_add_checked_fixture(harness_add(suite, "launch", tests), setup, teardown);
    return harness_run(suite);
}
