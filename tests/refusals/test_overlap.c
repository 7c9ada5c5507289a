// test_overlap.c: the function that decides whether two views share a byte, compared with marking
// every byte of both views. Needs no device.
#include "attention/call/overlap.h"
#include "attention/call/tensor.h"
#include "verification/reference/random.h"

#include "support/run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 14 };

static int64_t pick(struct random *r, int64_t below) {
    return (int64_t)random_uniform(r, 0.0, (double)below);
}

static clattn_tensor random_view(struct random *r) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BOOL};
    static const int64_t strides[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 48, 60, 64, 96, 128, 200, 256};
    clattn_tensor t = {.type = types[pick(r, 3)], .rank = 1 + (int)pick(r, 4)};
    t.offset = pick(r, 400);
    for (int i = 0; i < t.rank; i++) {
        t.shape[i] = 1 + pick(r, 5);
        t.stride[i] = strides[pick(r, sizeof strides / sizeof strides[0])];
    }
    return t;
}

static void mark(const clattn_tensor *t, size_t base, unsigned char *room, unsigned char bit) {
    const size_t size = clattn_type_size(t->type);
    for (int64_t n = 0; n < cla_tensor_count(t); n++) {
        int64_t at = t->offset, rest = n;
        for (int i = t->rank - 1; i >= 0; i--) {
            at += rest % t->shape[i] * t->stride[i];
            rest /= t->shape[i];
        }
        ck_assert_uint_le(base + ((size_t)at + 1) * size, ROOM);
        for (size_t b = 0; b < size; b++) room[base + (size_t)at * size + b] |= bit;
    }
}

START_TEST(against_marks) {
    struct random r = {77};
    static unsigned char room[ROOM];
    int found[3] = {0};
    for (int trial = 0; trial < 8000; trial++) {
        const clattn_tensor a = random_view(&r), b = random_view(&r);
        const size_t base[2] = {(size_t)pick(&r, 8), (size_t)pick(&r, 8)};
        memset(room, 0, sizeof room);
        mark(&a, base[0], room, 1);
        mark(&b, base[1], room, 2);
        bool shared = false;
        for (size_t i = 0; i < ROOM; i++) shared |= room[i] == 3;
        const byte_view va = cla_byte_view(&a, base[0]), vb = cla_byte_view(&b, base[1]);
        const overlap one = cla_overlap(&va, &vb), other = cla_overlap(&vb, &va);
        ck_assert_msg(one == other && one == (shared ? OVERLAP_SOME : OVERLAP_NONE),
                      "trial %d: %d, %d, not %d", trial, one, other, shared);
        if (va.start < vb.end && vb.start < va.end) found[one]++;
    }
    ck_assert_int_gt(found[OVERLAP_SOME], 500); // counts of views whose address ranges overlap
    ck_assert_int_gt(found[OVERLAP_NONE], 500);
}
END_TEST

// Views with a billion rows, and strides that would need an endless search. The function returns in
// time, with an answer or "unknown".
START_TEST(large_views) {
    const int64_t n = INT32_MAX, wide = (int64_t)1 << 24;
    clattn_tensor a = {.type = CLATTN_TYPE_F32, .rank = 4, .shape = {64, 64, 4096, 64}};
    memcpy(a.stride, (int64_t[]){wide * 64, wide, 256, 1}, sizeof a.stride);
    clattn_tensor b = a;
    b.offset = 64;
    byte_view x = cla_byte_view(&a, 0), y = cla_byte_view(&b, 0);
    ck_assert_int_eq(cla_overlap(&x, &y), OVERLAP_NONE);
    y = cla_byte_view(&b, (uint64_t)-4);
    ck_assert_int_eq(cla_overlap(&x, &y), OVERLAP_SOME);
    a = (clattn_tensor){
        .type = CLATTN_TYPE_BOOL, .rank = 4, .shape = {n, n, n, n}, .stride = {100003, 99991, 70001, 60007}};
    b = (clattn_tensor){
        .type = CLATTN_TYPE_BOOL, .rank = 4, .shape = {n, n, n, n}, .stride = {100019, 99989, 70003, 60013}};
    a.offset = 7;
    x = cla_byte_view(&a, 0), y = cla_byte_view(&b, 0);
    ck_assert_int_ne(cla_overlap(&x, &y), OVERLAP_NONE);
}
END_TEST

// When the search reaches its step limit, the answer is "unknown", never a guess.
START_TEST(steps_end) {
    int64_t stride[8] = {1000003, 1000033, 1000037, 1000039, 1000081, 1000099, 1000117, 1000121};
    clattn_tensor t[2] = {{.type = CLATTN_TYPE_BOOL, .rank = 4, .shape = {9, 9, 9, 9}},
                          {.type = CLATTN_TYPE_BOOL, .rank = 4, .shape = {9, 9, 9, 9}}};
    memcpy(t[0].stride, stride, sizeof t[0].stride);
    memcpy(t[1].stride, stride + 4, sizeof t[1].stride);
    t[1].offset = 500017;
    const byte_view x = cla_byte_view(&t[0], 0), y = cla_byte_view(&t[1], 0);
    ck_assert_int_ne(cla_overlap(&x, &y), OVERLAP_SOME);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("overlap");
    TCase *group = tcase_create("views");
    tcase_set_timeout(group, 60);
    tcase_add_test(group, against_marks);
    tcase_add_test(group, large_views);
    tcase_add_test(group, steps_end);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
