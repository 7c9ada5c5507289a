// test_rows.c: random tuned rows. If the parser accepts a row, the kernel must compile and its
// results must be right. A row that the kernel cannot run must be refused. Uses the parser, from
// the static library.
//
//   build/tests/test_rows 100     accept 100 rows for each kernel, with other numbers
#include "support/case_assert.h"
#include "verification/reference/random.h"
#include "plan/rows/tuned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rows_of_each = 2;
static struct random numbers = {.state = 1};

// A kernel, its knobs, and cases that run with such a row: many and few rows of a tile, and heads
// with RoPE.
static const struct {
    const char *kernel, *knobs, *cases[2];
} kernels[] = {
    {"flash_lanes",
     "LANES ROW_VECTORS KEY_BLOCK TILE_KV ",
     {"attend-f32-b1-h2-n50-nkv77-d24-dv40-causal-flash-lse-alibi-seed3", NULL}},
    {"flash_tiles",
     "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK ",
     {"attend-f32-b1-h2-n50-nkv77-d24-dv40-causal-flash-lse-alibi-seed9",
      "attend-f16-b1-h2-n20-nkv150-d40-dv136-full-flash-lse-seed10"}},
    {"flash_matrix",
     "TILE_KV ",
     {"attend-bf16-b1-h4-hkv2-n50-nkv177-d24-dv40-causal-flash-lse-alibi-seed9", NULL}},
    {"decode_lanes",
     "LANES ROWS KEY_BLOCK ",
     {"attend-f32-b1-h6-hkv2-n3-nkv100-d40-dv24-causal-decode-lse-seed4", NULL}},
    {"decode_rows",
     "LANES ROW_VECTORS KEY_BLOCK TILE_KV TILE_Q ",
     {"attend-f32-b1-h14-hkv2-n3-nkv100-d40-dv24-causal-decode-latent-lse-seed4", NULL}},
    {"decode_groups",
     "ROWS WORK_GROUP SUBGROUP ",
     {"attend-f32-b1-h6-hkv2-n3-nkv100-d40-dv24-causal-decode-lse-seed9",
      "attend-f16-b1-h4-hkv1-n1-nkv300-d64-full-decode-lse-splits2-seed10"}},
    {"linear_lanes",
     "LANES ROW_VECTORS COLUMN_BLOCK COLUMN_TILE ROW_PANELS REDUCTION_TILE ",
     {"linear-f32-b1-h2-n70-d24-m50-full-native-biases-seed5",
      "layer-f32-b1-h2-n70-d24-m50-full-native-ropehalf-seed6"}},
    {"linear_few_lanes",
     "LANES ROW_BLOCK COLUMN_BLOCK COLUMN_TILE ",
     {"linear-f32-b1-h3-n5-d17-m50-full-native-biases-seed7",
      "layer-f32-b1-h2-n5-d24-m50-full-native-ropehalf-seed8"}},
    {"linear_rows",
     "WORK_GROUP ROW_ITEMS ROW_BLOCK ",
     {"linear-bf16-b1-h3-n5-d17-m50-full-native-biases-seed9",
      "layer-f32-b1-h2-n21-d24-m64-full-native-ropehalf-seed10"}},
    {"linear_tiles",
     "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK ",
     {"linear-bf16-b1-h3-n70-d17-m50-full-native-biases-seed11",
      "layer-f32-b1-h2-n70-d24-m64-full-native-ropehalf-seed12"}},
};
#define KERNELS ((int)(sizeof kernels / sizeof kernels[0]))

// Half of the knobs are omitted. The others have typical values, their neighbours, and absurd
// values.
static void random_row(int kernel, char row[512]) {
    static const int values[] = {0,  1,  2,  3,  4,  4,  5,  6,  7,  8,   8,   9,   10,   12,   16,
                                 16, 17, 24, 32, 33, 48, 60, 64, 96, 128, 256, 512, 1024, 65536};
    char all[128];
    snprintf(all, sizeof all, "%s", kernels[kernel].knobs);
    int used = snprintf(row, 512, "%s :", kernels[kernel].kernel);
    for (char *knob = strtok(all, " "); knob != NULL; knob = strtok(NULL, " ")) {
        const int value =
            values[(int)random_uniform(&numbers, 0, (double)(sizeof values / sizeof values[0]))];
        if (random_uniform(&numbers, 0, 2) < 1)
            used += snprintf(row + used, 512 - (size_t)used, " %s=%d", knob, value);
    }
}

static bool accepted(const char *row) {
    tuned_rows rows;
    char why[256];
    if (!cla_tuned_parse(row, &rows, why, sizeof why)) return false;
    cla_tuned_free(&rows);
    return true;
}

static void run(const char *row, const char *name) {
    struct test_case test;
    struct place place = *harness_place();
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    const clattn_context_params params = {
        .device = harness()->device, .context = harness()->opencl, .log = harness_log(), .tuned_rows = row};
    const clattn_status created = clattn_context_create(&params, &place.context);
    ck_assert_msg(created == CLATTN_OK, "%s: %s", row, harness_log_text());
    struct case_data *data = case_make(&test);
    struct case_result got = case_execute(data, &place);
    const bool good = !harness_compiles_right(place.context, row) || case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    clattn_context_destroy(place.context);
    ck_assert_msg(good, "%s: %s: %s", row, name, why);
}

// Runs until enough rows were accepted and at least one was refused. Without a refusal the parser
// checks nothing.
START_TEST(accepted_rows) {
    int taken = 0, refused = 0;
    while ((taken < rows_of_each || refused == 0) && taken + refused < 1000 * rows_of_each) {
        char row[512];
        random_row(_i, row);
        const bool good = accepted(row);
        refused += !good, taken += good;
        for (int n = 0; good && taken <= rows_of_each && n < 2; n++)
            if (kernels[_i].cases[n] != NULL) run(row, kernels[_i].cases[n]);
    }
    ck_assert_msg(taken >= rows_of_each && refused > 0, "%s: %d rows were accepted, %d refused",
                  kernels[_i].kernel, taken, refused);
}
END_TEST

int main(int argc, char **argv) {
    if (argc > 1) rows_of_each = atoi(argv[1]), numbers.state = (uint64_t)rows_of_each;
    const TTest *const none[] = {NULL};
    Suite *suite = suite_create("rows");
    TCase *group = harness_add(suite, "random", none);
    harness_add_loop(group, accepted_rows, KERNELS);
    return harness_run(suite);
}
