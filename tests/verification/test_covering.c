// test_covering.c: the covering arrays of verification/sets/pairs.h. Every possible pair is in a
// row, and a missing row is noticed. Few pairs are excluded, and every row is a case with one name.
// Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/sets/pairs.h"

#define SEED 1

static struct pairs array;

static void make(int family) {
    ck_assert_msg(pairs_make(pairs_families[family], SEED, &array), "%s", pairs_families[family]);
}

static int families(void) {
    int n = 0;
    while (pairs_families[n]) n++;
    return n;
}

START_TEST(every_pair_is_there) {
    make(_i);
    printf("%s: %d pairs in %d cases of %d configurations\n", pairs_families[_i], pairs_all(_i), array.count,
           array.configurations);
    ck_assert_int_eq(pairs_missing(&array), 0);
    const int least = pairs_options_of(_i)->least;
    ck_assert_int_ge(array.count, least);
    ck_assert_int_le(array.count, least + least / 10);
    pairs_free(&array);
}
END_TEST

// Without all rows of a pair, the pair is missing. The same holds without the last row of the
// shortest beginning that covers all.
START_TEST(missed_rows_are_noticed) {
    make(_i);
    struct pairs some = array;
    some.rows = malloc((size_t)array.count * sizeof *some.rows);
    some.count = 0;
    ck_assert_ptr_nonnull(some.rows);
    const struct pairs_row *last = &array.rows[array.count - 1];
    for (int n = 0; n < array.count; n++)
        if (array.rows[n].level[0] != last->level[0] || array.rows[n].level[4] != last->level[4])
            some.rows[some.count++] = array.rows[n];
    ck_assert_int_ge(pairs_missing(&some), 1);
    free(some.rows);
    some = array;
    int most = 0; // too few rows
    while (some.count - most > 1) {
        struct pairs half = array;
        half.count = (most + some.count) / 2;
        if (pairs_missing(&half) == 0)
            some.count = half.count;
        else
            most = half.count;
    }
    ck_assert_int_eq(pairs_missing(&some), 0);
    some.count--;
    ck_assert_int_ge(pairs_missing(&some), 1);
    ck_assert_int_gt(some.count, array.configurations / 2);
    ck_assert_int_lt(some.count, array.count);
    pairs_free(&array);
}
END_TEST

// The rules exclude few pairs of a family's values, so that exclusions cannot grow unnoticed.
START_TEST(little_is_kept_apart) {
    int all = 0;
    const struct pairs_options *o = pairs_options_of(_i);
    for (int a = 0; a < o->count; a++)
        for (int b = a + 1; b < o->count; b++)
            for (int x = 0; x < pairs_level_count(o, a); x++)
                for (int y = 0; y < pairs_level_count(o, b); y++)
                    all += pairs_has(_i, a, x) && pairs_has(_i, b, y);
    ck_assert_int_ge(pairs_all(_i), 1000);
    ck_assert_int_ge(pairs_all(_i) * 100, all * 95);
}
END_TEST

// tests/cases/masks.txt runs pairs of these options with every kernel. The covering array must
// contain the options as values, combined with all other options.
START_TEST(options_of_masks_are_values) {
    static const char *const tokens[] = {"causal",     "causal-topleft", "causal-offsets", "window5:3",
                                         "kvlen",      "qlen",           "maskbhqk",       "biasqk",
                                         "softcap1.5", "alibi",          "sinks"};
    for (size_t n = 0; n < sizeof tokens / sizeof tokens[0]; n++) {
        int found = 0;
        for (int f = 0; f < pairs_of_attention.count; f++)
            for (int x = 0; x < pairs_level_count(&pairs_of_attention, f); x++)
                found += strcmp(pairs_of_attention.factors[f].levels[x], tokens[n]) == 0;
        ck_assert_msg(found == 1, "%s is the value of %d options", tokens[n], found);
    }
}
END_TEST

START_TEST(rows_are_cases) {
    make(_i);
    for (int n = 0; n < array.count; n++) {
        char name[CASE_NAME_SIZE], why[256] = "";
        const struct test_case test = pairs_case(&array, n);
        struct test_case again;
        case_name(&test, name);
        ck_assert_msg(case_parse(name, &again, why), "%s: %s", name, why);
        const int factors = pairs_options_of(_i)->count;
        for (int f = 0; f < factors; f++)
            for (int g = f + 1; g < factors; g++)
                ck_assert_msg(pairs_meet(_i, f, array.rows[n].level[f], g, array.rows[n].level[g]), "%s",
                              name);
    }
    pairs_free(&array);
}
END_TEST

// The effect of the newer options' tokens on a case. Each value occurs: pages, a past, equal or
// different for the items or shared, appended rows, latents, sinks and lengths on the device,
// packed sequences, dropout, positions.
enum {
    PAGES,
    PAST,
    LENGTHS,
    SHARED,
    APPEND,
    LATENT,
    DROPOUT,
    POSITIONS,
    SECTIONS,
    PREFIX,
    SINKS,
    NEW_IN_PAGES,
    NEW_BEHIND_PAST,
    RAGGED, // the following options occur together with RAGGED
    PACKED_PAST,
    PACKED_POSITIONS,
    LENGTHS_ON_DEVICE,
    ALL
};
static void count_options(const struct test_case *t, int seen[ALL]) {
    const bool ragged = t->ragged != CASE_DENSE, lengths = t->hosts & CASE_HOST_BIT(CASE_KV_LENGTHS);
    const bool is[ALL] = {t->page_size > 0,
                          t->has_past,
                          t->past_count > 0,
                          t->past_shared,
                          t->append > 0,
                          t->latent,
                          t->score.dropout > 0.0f,
                          t->positions,
                          t->rope.sections[0] > 0,
                          t->cascade == CASE_CASCADE_TRY,
                          t->device_sinks,
                          t->append > 0 && t->page_size > 0,
                          t->append > 0 && t->has_past,
                          ragged,
                          ragged && t->has_past,
                          ragged && t->positions,
                          t->ragged == CASE_RAGGED_CACHE_DEVICE && lengths && t->seed % 2 == 0};
    for (int i = 0; i < ALL; i++) seen[i] += is[i];
}

static bool turns(int option) {
    return option == POSITIONS || option == SECTIONS || option == PACKED_POSITIONS;
}

// Options about the place of keys, which cases of layers and gradients do not have, except for
// caches.
static bool is_of_places(int option) {
    return option <= SHARED || option == PREFIX || option == NEW_IN_PAGES || option == NEW_BEHIND_PAST ||
           option == PACKED_PAST;
}

START_TEST(newer_options_are_there) {
    int seen[ALL] = {0};
    make(_i);
    for (int n = 0; n < array.count; n++) {
        const struct test_case t = pairs_case(&array, n);
        count_options(&t, seen);
        ck_assert_int_ge(t.n_kv, t.append);
        ck_assert(t.page_size == 0 || t.n_kv % t.page_size == 0);
    }
    for (int i = 0; i < ALL; i++) {
        const bool of_rows = !strcmp(pairs_families[_i], "rows"),
                   is_layer = !strcmp(pairs_families[_i], "layer"),
                   is_backward = !strcmp(pairs_families[_i], "backward"),
                   lacks = (of_rows && (i >= RAGGED || i == DROPOUT)) ||
                           ((is_layer || is_backward) && is_of_places(i)) || (is_layer && i == LATENT) ||
                           (is_backward && i == APPEND) ||
                           (!strcmp(pairs_families[_i], "matrix_integers") && turns(i)) ||
                           (!strcmp(pairs_families[_i], "unfused") && i == PREFIX);
        ck_assert_msg(lacks ? seen[i] == 0 : seen[i] >= pairs_options_of(_i)->least / 50,
                      "%s: option %d is in %d cases", pairs_families[_i], i, seen[i]);
    }
    pairs_free(&array);
}
END_TEST

// The sources of a layer's keys, and who appends them; also for sequences.
START_TEST(keys_of_a_layer_are_there) {
    enum { OWN, CROSS, READY, READY_CROSS, APPENDED, NOTHING_BEFORE, APPENDED_OF_Y, TO_PACKED, KINDS };
    int seen[KINDS] = {0}, layers = families() - 1;
    ck_assert_str_eq(pairs_families[layers], "layer");
    make(layers);
    for (int n = 0; n < array.count; n++) {
        const struct test_case t = pairs_case(&array, n);
        const bool own = case_is_self(&t), append = t.append > 0, made = !t.ready && !append;
        ck_assert(t.op == CASE_LAYER && (own || t.n_kv > t.append));
        ck_assert(!own || append || t.n_kv == t.n_q);
        seen[OWN] += own && made, seen[CROSS] += !own && made;
        seen[READY] += own && t.ready, seen[READY_CROSS] += !own && t.ready;
        seen[APPENDED] += own && append && t.n_kv > t.append;
        seen[NOTHING_BEFORE] += own && append && t.n_kv == t.append, seen[APPENDED_OF_Y] += !own && append;
        seen[TO_PACKED] += append && t.ragged;
    }
    for (int i = 0; i < KINDS; i++) ck_assert_msg(seen[i] >= 10, "keys of kind %d in %d cases", i, seen[i]);
    pairs_free(&array);
}
END_TEST

START_TEST(a_seed_gives_one_array) {
    struct pairs again, other, none;
    make(0);
    ck_assert(pairs_make(pairs_families[0], SEED, &again));
    ck_assert(pairs_make(pairs_families[0], SEED + 1, &other));
    ck_assert_int_eq(again.count, array.count);
    bool differs = other.count != array.count;
    for (int n = 0; n < array.count; n++) {
        ck_assert_mem_eq(again.rows[n].level, array.rows[n].level, (size_t)pairs_of_attention.count);
        differs = differs || n >= other.count ||
                  memcmp(other.rows[n].level, array.rows[n].level, (size_t)pairs_of_attention.count) != 0;
    }
    ck_assert(differs);
    ck_assert(!pairs_make("no family", SEED, &none));
    pairs_free(&again);
    pairs_free(&other);
    pairs_free(&array);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("covering arrays");
    TCase *group = tcase_create("pairs");
    tcase_set_timeout(group, 60);
    tcase_add_loop_test(group, every_pair_is_there, 0, families());
    tcase_add_loop_test(group, missed_rows_are_noticed, 0, families());
    tcase_add_loop_test(group, little_is_kept_apart, 0, families());
    tcase_add_loop_test(group, rows_are_cases, 0, families());
    tcase_add_loop_test(group, newer_options_are_there, 0, families());
    tcase_add_test(group, options_of_masks_are_values);
    tcase_add_test(group, keys_of_a_layer_are_there);
    tcase_add_test(group, a_seed_gives_one_array);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK);
}
