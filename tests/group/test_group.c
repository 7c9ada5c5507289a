// test_group.c: a group of devices returns the result of one device, for every option and every way
// of partitioning, on two platforms if available. The partitioning planner is in
// test_group_partition.c, other promises of the header in test_group_promises.c, failures in
// test_group_faults.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_group.h"
#include "verification/sets/hard_cases.h"
#include "verification/sets/pairs.h"
#include "group/group_fixture.h"

// ----------------------------------------------------------------------------- every option

#define SEED 1
#define LEAST 4 // fewest calls for each way of partitioning

// Covering arrays of attention with the planner's kernels, and of gradients.
enum { ATTENTION, GRADIENTS_TOO, ARRAYS };
static const char *const families[ARRAYS] = {"planner", "backward"};
static struct pairs arrays[ARRAYS];
static struct chosen { int array, row; } * chosen;
static int chosen_count;

// How a case can be partitioned: not at all; by heads; also by rows; also by keys
// (clattn_group_attention_params).
enum { WHOLE, HEADS, ROWS, KEYS, CLASSES };
static const int most[ARRAYS][CLASSES] = {{1, 2, 2, 1}, {1, 2, 0, 4}};

static int class_of(const struct test_case *t) {
    if (t->score.dropout > 0.0f || t->mods) return WHOLE;
    if (t->ragged || t->append) return HEADS;
    return t->page_size || t->has_past || t->weights || t->scores ? ROWS : KEYS;
}

// Most rows of the covering array of gradients have an option that prevents partitioning. Every
// other row runs without such options.
static struct test_case case_of(int array, int row) {
    struct test_case test = pairs_case(&arrays[array], row);
    char why[256];
    struct test_case plain = test;
    plain.mods = plain.mods_read = plain.mods_gradient = false;
    plain.blocks = plain.blocks && plain.mask.rank > 0;
    plain.score.dropout = 0.0f, plain.score.dropout_seed = 0;
    plain.ragged = CASE_DENSE;
    return array == GRADIENTS_TOO && row % 2 && case_valid(&plain, why) ? plain : test;
}

// Choose `most` cases of each class, spread over the array, or all cases.
static void choose(int of_array, bool all) {
    const struct pairs *array = &arrays[of_array];
    const int *wanted = most[of_array];
    int count[CLASSES] = {0}, seen[CLASSES] = {0};
    for (int n = 0; n < array->count; n++) {
        const struct test_case test = case_of(of_array, n);
        count[class_of(&test)]++;
    }
    for (int n = 0; n < array->count; n++) {
        const struct test_case test = case_of(of_array, n);
        const int of = class_of(&test),
                  step = count[of] > wanted[of] ? count[of] / (wanted[of] + !wanted[of]) : 1;
        if (all || (seen[of] % step == 0 && seen[of] / step < wanted[of]))
            chosen[chosen_count++] = (struct chosen){of_array, n};
        seen[of]++;
    }
    printf("%s: of %d cases %d are dealt whole, %d by heads, %d by rows besides, %d by keys besides\n",
           families[of_array], array->count, count[WHOLE], count[HEADS], count[ROWS], count[KEYS]);
}

START_TEST(pairs_agree) {
    const struct test_case test = case_of(chosen[_i].array, chosen[_i].row);
    group_assert_partitions(group_of(2), &test);
}
END_TEST

static bool open_arrays(bool all) {
    for (int n = 0; n < ARRAYS; n++)
        if (!pairs_make(families[n], SEED, &arrays[n])) return false;
    chosen = calloc((size_t)(arrays[ATTENTION].count + arrays[GRADIENTS_TOO].count), sizeof *chosen);
    for (int n = 0; n < ARRAYS && chosen != NULL; n++) choose(n, all);
    return chosen_count > 0;
}

// The covering array has few cases that can be partitioned by keys. These have options that count
// keys and rows from the first.
static const char *const keys_cases[] = {
    "attend-f32-b2-h4-hkv2-n70-nkv300-d16-causal-lse-softcap5-window40:9-alibi-sinks",
    "attend-f32-b2-h4-hkv2-n70-nkv300-d16-full-lse-maskbhqk-bias1hqk-qlen70:9-kvlen300:70",
    "attend-f32-b2-h4-hkv2-n70-nkv300-d16-causal-lse-offsets-ropehalf-positions",
    "attend-f32-b1-h4-hkv2-n3-nkv300-d16-causal-kvi8-outf16-lse-sinks-headscales-devicesinks",
    "attend-f32-b3-h4-hkv2-n5-nkv70-d96-dv32-causal-kvq4_1-lse",
    "attend-f32-b2-h4-hkv2-n5-nkv70-d32-causal-kvi8-valuesf16-lse",
    // A past is only partitioned with all of its keys, including zero points.
    "attend-f32-b3-h4-hkv2-n5-nkv77-d64-dv32-causal-kvu4-groups32-scalesf16-zeros-lse-past41",
    "attend-bf16-b2-h4-hkv2-n33-nkv77-d64-full-kvi8-groups64-zeros-lse-past41-sharedpast",
    // Every gradient is a sum over pieces, in one way of partitioning or another.
    "backward-f32-b2-h4-hkv2-n70-nkv300-d16-causal-dlse-softcap5-window40:9-biasqk-alibi-sinks-headscales",
    "backward-bf16-b2-h6-hkv2-n70-nkv300-d32-full-dlse-maskbhqk-biasb1qk-qlen70:9-kvlen300:70-ropehalf",
    "backward-f16-b1-h4-hkv1-n70-nkv300-d16-causal-gradf32-biask-sinks-offsets-ropehalf-positions-"
    "devicesinks",
};

START_TEST(keys_agree) {
    struct case_data *data = group_case(keys_cases[_i]);
    struct test_case test = data->test;
    group_assert_partitions(group_of(2), &test);
    // tensors are scattered, with other last strides where allowed
    test.layout = LAYOUT_SCATTERED;
    group_assert_partitions(group_of(2), &test);
    case_free(data);
}
END_TEST

// Each hard case of attention and of its gradients.
START_TEST(hard_cases_agree) {
    const struct test_case test = hard_case(_i);
    if (case_attends(&test) || test.op == CASE_BACKWARD) group_assert_partitions(group_of(2), &test);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const none[] = {NULL};
    (void)argv;
    if (!open_arrays(argc > 1)) return EXIT_FAILURE;
    Suite *suite = suite_create("group");
    TCase *pairs = harness_add(suite, "pairs", none);
    harness_add_loop(pairs, pairs_agree, chosen_count);
    harness_add_loop(pairs, keys_agree, sizeof keys_cases / sizeof keys_cases[0]);
    if (argc > 1) tcase_add_loop_test(harness_add(suite, "hard", none), hard_cases_agree, 0, hard_case_count);
    int status = group_run(suite);
    printf("%d cases\n", chosen_count);
    // Fail if a way of partitioning was hardly used.
    for (int partition = CLATTN_PARTITION_HEADS; partition < CLATTN_PARTITION_COUNT; partition++) {
        const long count = group_ways((clattn_partition)partition);
        printf("dealt by %s: %ld\n", clattn_partition_name((clattn_partition)partition), count);
        if (count < LEAST) status = EXIT_FAILURE;
    }
    free(chosen);
    for (int n = 0; n < ARRAYS; n++) pairs_free(&arrays[n]);
    return status;
}
