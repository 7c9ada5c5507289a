// test_group_partition.c: how a group partitions a call, without a device. Every unit goes to
// exactly one member, in proportion to the rates, along the axis that keeps all members busy.
// Pieces are whole units.
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/random.h"
#include "group/partition.h"

// The work of a causal call: row i sees i + 1 keys.
static double triangle(void *user, const box *b) {
    double rows = 0.0;
    (void)user;
    for (int64_t i = 0; i < b->size[BOX_ROWS]; i++) rows += (double)(b->at[BOX_ROWS] + i + 1);
    return rows * (double)(b->size[BOX_ITEMS] * b->size[BOX_HEADS]);
}
static double volume(void *user, const box *b) {
    (void)user;
    return (double)(b->size[0] * b->size[1]) * (double)(b->size[2] * b->size[3]);
}

#define ALL_AXES                                                                                             \
    (PARTITION_CAN_ITEMS | PARTITION_CAN_GROUPS | PARTITION_CAN_HEADS | PARTITION_CAN_ROWS |                 \
     PARTITION_CAN_KEYS)

static partition_problem problem_of(int64_t b, int64_t h, int64_t group, int64_t n, int64_t keys) {
    return (partition_problem){
        .size = {b, h, n, keys}, .group = group, .rows = 16, .can = ALL_AXES, .work = volume};
}

static partition_axis choose(const partition_problem *p, clattn_partition wanted, const double *rates,
                             int count, double *busy) {
    partition_axis axis = {CLATTN_PARTITION_AUTO, false, 0};
    bool no_memory;
    ck_assert(cla_partition_choose(p, wanted, rates, count, &axis, busy, &no_memory));
    return axis;
}

// Count the boxes of all units: each element of [B, H, rows, keys] of a small problem must be in
// exactly one box.
static void assert_covers(const partition_problem *p, const partition_axis *axis, const int64_t *cuts,
                          int count) {
    const int64_t *n = p->size, all = n[0] * n[1] * n[2] * n[3];
    unsigned char *seen = calloc((size_t)all, 1);
    ck_assert_int_eq(cuts[0], 0);
    ck_assert_int_eq(cuts[count], axis->units);
    for (int d = 0; d < count; d++) {
        box boxes[PARTITION_MOST_BOXES];
        const int boxed = cla_partition_boxes(p, axis, cuts[d], cuts[d + 1], boxes);
        for (int i = 0; i < boxed; i++) {
            const box *x = &boxes[i];
            const int64_t first = x->at[BOX_HEADS], last = first + x->size[BOX_HEADS];
            // A box has complete groups of heads, or heads of one group.
            ck_assert((first % p->group == 0 && last % p->group == 0) ||
                      first / p->group == (last - 1) / p->group);
            for (int64_t e = 0; e < volume(NULL, x); e++) {
                int64_t left = e, at[4];
                for (int a = 3; a >= 0; a--) at[a] = x->at[a] + left % x->size[a], left /= x->size[a];
                seen[((at[0] * n[1] + at[1]) * n[2] + at[2]) * n[3] + at[3]]++;
            }
        }
    }
    int64_t wrong = 0;
    while (wrong < all && seen[wrong] == 1) wrong++;
    ck_assert_msg(wrong == all, "element %lld: %d times", (long long)wrong, seen[wrong < all ? wrong : 0]);
    free(seen);
}

START_TEST(everything_once) {
    struct random random = {(uint64_t)_i + 1};
    for (int n = 0; n < 60; n++) {
        int64_t cuts[6], size[5];
        double rates[5], busy, all = 0.0;
        static const int64_t most[] = {4, 4, 4, 70, 140};
        for (int i = 0; i < 5; i++) size[i] = 1 + (int64_t)random_uniform(&random, 0, (double)most[i]);
        const partition_problem p = problem_of(size[0], size[1] * size[2], size[2], size[3], size[4]);
        const int count = 1 + (int)random_uniform(&random, 0, 5);
        for (int d = 0; d < count; d++) {
            rates[d] = random_uniform(&random, 0, 1) < 0.3 ? 0.0 : random_uniform(&random, 0.1, 4);
            all += rates[d];
        }
        if (all <= 0.0) rates[0] = 1.0;
        const clattn_partition wanted =
            (clattn_partition)(int)random_uniform(&random, 0, CLATTN_PARTITION_WHOLE);
        const partition_axis axis = choose(&p, wanted, rates, count, &busy);
        ck_assert(busy > 0.0 && busy <= 1.0 + 1e-9);
        ck_assert(cla_partition_cut(&p, &axis, 0, axis.units, rates, count, cuts));
        for (int d = 0; d < count; d++) ck_assert(rates[d] > 0.0 || cuts[d] == cuts[d + 1]);
        assert_covers(&p, &axis, cuts, count);
    }
}
END_TEST

// Causal rows are partitioned by work, so the first device has more rows.
START_TEST(by_work) {
    partition_problem p = problem_of(1, 2, 2, 16384, 16384);
    int64_t cuts[3];
    double busy;
    p.work = triangle;
    const double rates[] = {1.0, 3.0};
    const partition_axis axis = choose(&p, CLATTN_PARTITION_ROWS, rates, 2, &busy);
    ck_assert(cla_partition_cut(&p, &axis, 0, axis.units, rates, 2, cuts));
    ck_assert_int_eq(axis.units, 1024);
    ck_assert_int_eq(cuts[1], 512); // a quarter of the triangle is half of the rows
    ck_assert(busy > 0.99);
    const int64_t first = cla_partition_first(&p, &axis, 0.25, 2);
    ck_assert_int_eq(first, 512);
    ck_assert_int_eq(cla_partition_first(&p, &axis, 1e-9, 2), 2);
}
END_TEST

// By heads if that keeps all members busy, else by rows, else by keys. Only supported axes are
// used.
START_TEST(axes) {
    static const struct {
        int64_t b, h, group, n, keys;
        unsigned can;
        double rates[2];
        clattn_partition want;
        bool single;
    } all[] = {
        {1, 32, 4, 4096, 4096, ALL_AXES, {1, 1}, CLATTN_PARTITION_HEADS, false},
        {8, 4, 4, 1, 4096, ALL_AXES, {1, 3}, CLATTN_PARTITION_HEADS, false},
        {1, 32, 32, 4096, 4096, ALL_AXES, {1, 1}, CLATTN_PARTITION_HEADS, true}, // multi-query
        {1, 3, 1, 4096, 4096, ALL_AXES, {1, 1}, CLATTN_PARTITION_ROWS, false},
        {1, 2, 2, 1, 65536, ALL_AXES, {1, 4}, CLATTN_PARTITION_KEYS, false},
        {1, 1, 1, 1, 65536, ALL_AXES & ~PARTITION_CAN_KEYS, {1, 4}, CLATTN_PARTITION_HEADS, false},
        {1, 32, 4, 4096, 4096, 0, {1, 1}, CLATTN_PARTITION_WHOLE, false},
    };
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        partition_problem p = problem_of(all[n].b, all[n].h, all[n].group, all[n].n, all[n].keys);
        double busy;
        p.can = all[n].can;
        const partition_axis axis = choose(&p, CLATTN_PARTITION_AUTO, all[n].rates, 2, &busy);
        ck_assert_msg(axis.partition == all[n].want && axis.single == all[n].single, "row %zu: %s", n,
                      clattn_partition_name(axis.partition));
    }
    const partition_problem none = {.size = {1, 4, 9, 9}, .group = 1, .rows = 16, .work = volume};
    partition_axis axis;
    double busy;
    bool no_memory;
    ck_assert(!cla_partition_choose(&none, CLATTN_PARTITION_ROWS, (const double[]){1, 1}, 2, &axis, &busy,
                                    &no_memory));
}
END_TEST

// Repeated halving covers the box, down to one unit. Rows of a key/value head stay together as long
// as possible.
START_TEST(halves) {
    const partition_problem p = problem_of(3, 8, 4, 70, 200);
    box stack[1024] = {cla_partition_whole(&p)};
    double all = 0.0;
    for (int count = 1; count > 0;) {
        box x = stack[--count], second;
        while (cla_partition_halve(&p, ALL_AXES, &x, &second)) {
            ck_assert_int_lt(count, 1023);
            ck_assert(second.at[BOX_ROWS] % 16 == 0 && second.at[BOX_KEYS] % PARTITION_KEYS == 0);
            stack[count++] = second;
        }
        ck_assert(x.size[0] == 1 && x.size[1] == 1 && x.size[2] <= 16 && x.size[3] <= PARTITION_KEYS);
        all += volume(NULL, &x);
    }
    ck_assert_double_eq(all, 3.0 * 8 * 70 * 200);
    box whole = cla_partition_whole(&p), second;
    ck_assert(!cla_partition_halve(&p, 0, &whole, &second));
    whole = (box){{0, 0, 0, 0}, {1, 8, 70, 200}};
    ck_assert(cla_partition_halve(&p, PARTITION_CAN_GROUPS | PARTITION_CAN_ROWS, &whole, &second));
    ck_assert(whole.size[BOX_HEADS] == 4 && second.at[BOX_HEADS] == 4 && second.size[BOX_ROWS] == 70);
}
END_TEST

START_TEST(words) {
    ck_assert_str_eq(clattn_partition_name(CLATTN_PARTITION_AUTO), "auto");
    ck_assert_str_eq(clattn_partition_name(CLATTN_PARTITION_WHOLE), "whole");
    ck_assert_str_eq(clattn_partition_name(CLATTN_PARTITION_COUNT), "(unknown)");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("group_partition");
    TCase *group = tcase_create("partition");
    tcase_add_loop_test(group, everything_once, 0, 10);
    const TTest *const tests[] = {by_work, axes, halves, words};
    for (size_t n = 0; n < sizeof tests / sizeof tests[0]; n++) tcase_add_test(group, tests[n]);
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
