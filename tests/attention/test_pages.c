// test_pages.c: random cases of real sizes. Every buffer (inputs, outputs, workspace) ends or
// begins at an inaccessible page, so an access one element too far ends the program, which prints
// the case's name. Every path and type must occur. Small cases of the remaining options and the
// calls of small_calls.h follow. A shortened run has half of the random cases. Devices that do
// not work in host memory are skipped.
#include "support/case_assert.h"
#include "support/pages.h"
#include "support/random_case.h"
#include "support/small_calls.h"
#include "strided/strided_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 204, LONGEST = 4096 };

static char at_work[CASE_NAME_SIZE] = "nothing yet";
static const char *name_at_work(void) {
    return at_work;
}

// The cases that ran, by path or projection, type of q, and type of k and v.
static int ran[CLATTN_KERNEL_COUNT][CLATTN_TYPE_COUNT][CLATTN_TYPE_COUNT], longest;
static int projected[CLATTN_TYPE_COUNT], layers;

// Returns whether kernels work in host memory, where the guard pages are. On other devices the
// suite is skipped.
static bool works_in_place(void) {
    cl_int code;
    int *memory = pages_memory(16), *seen = NULL;
    ck_assert_ptr_nonnull(memory);
    cl_mem buffer =
        clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, 16, memory, &code);
    harness_expect(code, "clCreateBuffer");
    const int word = 77;
    harness_expect(clEnqueueFillBuffer(harness()->queue, buffer, &word, sizeof word, 0, 16, 0, NULL, NULL),
                   "fill");
    harness_finish(harness()->queue);
    seen = memory;
    const bool in_place = seen[3] == word;
    clReleaseMemObject(buffer);
    pages_release(memory);
    if (in_place) return true;
    printf("skipped: the device does not work in the host's memory\n");
    harness_stop();
    exit(HARNESS_SKIP);
}

static cl_mem *workspace_of(struct case_arrays *a, size_t *bytes) {
    clattn_context *c = harness()->context;
    *bytes = 0;
    clattn_status status;
    if (a->op == CASE_LAYER)
        status = clattn_layer_workspace(c, &a->layer, bytes);
    else if (a->op == CASE_LINEAR)
        status = clattn_linear_workspace(c, &a->linear, bytes);
    else if (a->op == CASE_BACKWARD)
        status = clattn_attention_backward_workspace(c, &a->backward, bytes);
    else
        status = clattn_attention_workspace(c, &a->params, bytes);
    if (status != CLATTN_OK) *bytes = 0;
    return a->op == CASE_LAYER      ? &a->layer.workspace
           : a->op == CASE_LINEAR   ? &a->linear.workspace
           : a->op == CASE_BACKWARD ? &a->backward.workspace
                                    : &a->params.workspace;
}

static void note(const struct test_case *t, const struct case_arrays *a) {
    clattn_context *c = harness()->context;
    const bool backward = t->op == CASE_BACKWARD;
    clattn_plan plan;
    if (!case_projects(t) && (backward ? clattn_attention_backward_plan(c, &a->backward, &plan)
                                       : clattn_attention_plan(c, &a->params, &plan)) == CLATTN_OK) {
        if (!backward) ran[plan.kernel][t->q_type][t->kv_type]++;
        if (harness_counts_kernels()) harness_count_kernel(plan.kernel_name);
    }
    if (t->op == CASE_LAYER || t->op == CASE_LINEAR)
        projected[t->matrix_type]++, layers += t->op == CASE_LAYER;
    if (t->n_q > longest) longest = (int)t->n_q;
    if (t->n_kv > longest) longest = (int)t->n_kv;
}

// The kernel of CLATTN_TEST_ROWS runs the cases of its path, and a past is read once if requested.
static void assert_planned(const struct test_case *t, const struct case_arrays *a) {
    const char *row = getenv("CLATTN_TEST_ROWS"), *path = clattn_kernel_name(t->kernel);
    const size_t length = row ? strcspn(row, " ") : 0;
    const bool of_path = length > 0 && strncmp(row, path, strlen(path)) == 0,
               bf16 = t->q_type == CLATTN_TYPE_BF16 && t->kv_type == CLATTN_TYPE_BF16,
               halves = t->q_type != CLATTN_TYPE_F32 &&
                        (t->kv_type == t->q_type || CLATTN_TYPE_IS_SCALED(t->kv_type)),
               other_types = row && ((!bf16 && !strncmp(row, "flash_matrix", 12)) ||
                                     (!halves && strstr(row, "_fragments")));
    clattn_plan plan;
    ck_assert_msg(clattn_attention_plan(harness()->context, &a->params, &plan) == CLATTN_OK, "%s: %s",
                  at_work, harness_log_text());
    ck_assert_msg(plan.kernel == t->kernel, "%s: taken by %s", at_work, plan.kernel_name);
    if (of_path && !other_types)
        ck_assert_msg(strlen(plan.kernel_name) == length && !strncmp(plan.kernel_name, row, length),
                      "%s: taken by %s", at_work, plan.kernel_name);
    const int64_t prefix = t->past_count ? (int64_t)t->past_length[0] : t->past;
    if (t->cascade != CASE_CASCADE_TRY)
        ck_assert_msg(plan.prefix_keys == (t->cascade == CLATTN_CASCADE_ALWAYS ? prefix : 0),
                      "%s: %d keys are read once", at_work, (int)plan.prefix_keys);
}

// UNSUPPORTED is allowed and not counted, unless the case `must` run.
static void run(const struct test_case *test, int number, bool must) {
    struct place place = *harness_place();
    struct case_data *data = case_make(test);
    struct case_arrays arrays;
    struct case_verdict verdict = {.good = true};
    size_t bytes;
    void *memory = NULL;
    case_name(&data->test, at_work);
    place.guard = 0, place.memory = pages_memory, place.release_memory = pages_release;
    pages_turn(number / RANDOM_KINDS % 2);
    case_bind(data, &place, &arrays);
    if (must) assert_planned(&data->test, &arrays);
    cl_mem *workspace = workspace_of(&arrays, &bytes);
    if (bytes > 0) {
        cl_int code;
        pages_turn(0);
        memory = pages_memory(bytes);
        *workspace =
            clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &code);
        harness_expect(code, "clCreateBuffer");
    }
    const clattn_status status = case_enqueue(place.context, place.queue, &arrays, NULL);
    harness_finish(place.queue);
    if (status == CLATTN_OK) {
        note(&data->test, &arrays);
        case_judge(data, &arrays, place.queue, &verdict);
    }
    if (bytes > 0) clReleaseMemObject(*workspace);
    case_unbind(&arrays);
    if (memory) pages_release(memory);
    char text[256];
    ck_assert_msg(status == CLATTN_OK || (status == CLATTN_UNSUPPORTED && !must), "%s: %s", at_work,
                  place_message(&place, status, text));
    ck_assert_msg(verdict.good, "%s: %s", at_work, verdict.why);
    case_free(data);
}

START_TEST(random_cases) {
    struct random r = {.state = 1 + (uint64_t)_i};
    pages_watch(name_at_work);
    if (!works_in_place()) return;
    for (int n = _i; n < (harness_every() > 1 ? CASES / 2 : CASES); n += RANDOM_KINDS) {
        const bool large = n / RANDOM_KINDS % 4 == 0;
        const struct test_case test = random_case(&r, _i, large ? LONGEST : 300, large ? 3e7 : 3e6);
        run(&test, n, false);
    }
}
END_TEST

START_TEST(all_were_seen) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16, CLATTN_TYPE_I8};
    if (!works_in_place()) return;
    for (int path = CLATTN_KERNEL_UNFUSED; path < CLATTN_KERNEL_COUNT; path++)
        for (int i = 0; i < 4; i++) {
            int as_q = 0, as_kv = 0;
            for (int j = 0; j < 4; j++)
                as_q += ran[path][types[i]][types[j]], as_kv += ran[path][types[j]][types[i]];
            ck_assert_msg(as_kv > 0 && (as_q > 0 || i == 3), "%s never ran with %s",
                          clattn_kernel_name((clattn_kernel)path), clattn_type_name(types[i]));
        }
    for (int i = 0; i < 3; i++)
        ck_assert_msg(projected[types[i]] > 0, "no projection with matrices of %s",
                      clattn_type_name(types[i]));
    ck_assert_msg(layers > 2, "%d layers", layers);
    ck_assert_msg(longest > LONGEST / 2, "at most %d rows or keys", longest);
}
END_TEST

// Places of keys, RoPE, dropout and expressions. The first options are supported by every kernel of
// a forced family.
static const char *const options[] = {
    "attend-f32-b2-h4-hkv2-n5-nkv37-d33-dv17-causal-lse-past30:30:7-kvlen37:9",
    "attend-f16-b3-h4-hkv2-n3-nkv37-d40-causal-kvi8-lse-past30-sharedpast",
    "attend-f32-b2-h4-hkv2-n5-nkv35-d33-dv17-causal-lse-pages7-kvlen35:9",
    "attend-bf16-b2-h4-hkv2-n5-nkv48-d40-causal-lse-pages16-kvlen48:33-ropehalf",
    "attend-f32-b2-h4-hkv2-n5-nkv37-d40-causal-lse-kvlen37:9-ropehalf-append5",
    "decode-f16-b2-h4-hkv2-n1-nkv37-d33-dv17-causal-kvi8-lse-kvlen37:9-append1",
    "attend-f32-b3-h4-hkv2-n19-nkv37-d33-dv17-causal-lse-qlen19:0:4-kvlen37:25:1-raggedhost",
    "attend-bf16-b3-h4-hkv2-n7-nkv37-d40-causal-lse-qlen7:0:4-kvlen37:25:1-raggedgapsdevice",
    "attend-f32-b3-h4-hkv2-n7-nkv37-d40-causal-lse-qlen7:0:4-kvlen37:25:1-raggedcachedevice",
    "attend-f32-b2-h4-hkv2-n5-nkv37-d40-causal-lse-ropehalf-positions",
    "attend-f32-b2-h4-hkv2-n5-nkv37-d40-causal-lse-ropeinterleaved-rotary24-positions-sectiont4-sectionh4-"
    "sectionw4",
    "attend-f32-b2-h4-hkv2-n5-nkv37-d40-causal-lse-alibi-dropout0.3:7",
    "attend-f32-b1-h2-n70-nkv130-d33-causal-lse-maskqk-biasqk-alibi-mods-blocks",
    "decode-f32-b1-h20-hkv1-n3-nkv37-d40-dv33-causal-latent-lse",
    "layer-f32-b2-h4-hkv2-n9-d16-m37-causal-native-normheads-gateall-gatebias-ropehalf-positions",
    "layer-bf16-b2-h4-hkv2-n9-nkv21-d16-m31-full-native-my40-normwidth-normplus-gateheads",
    "layer-f32-b2-h4-hkv2-n9-nkv21-d16-m48-causal-native-ready-sinks-ropehalf"};

// Gradients: whole tiles, and rows and columns that end within a tile.
static const char *const gradients[] = {
    "backward-f32-b2-h4-hkv2-n33-nkv70-d33-dv17-causal-dlse",
    "backward-f16-b1-h4-hkv2-n37-nkv45-d40-dv24-full-dlse-maskqk-biasqk",
    "backward-bf16-b2-h4-hkv2-n70-nkv33-d64-causal-dlse-alibi-kvlen33:9",
    "backward-f16-b1-h2-n64-nkv128-d128-full-gradf32",
    "backward-f32-b3-h4-hkv2-n19-nkv37-d33-dv17-causal-qlen19:0:4-kvlen37:25:1-raggedhost",
    "backward-bf16-b3-h4-hkv2-n7-nkv37-d40-causal-qlen7:0:4-kvlen37:25:1-ropehalf-raggedgapsdevice",
    "backward-f32-b1-h2-n70-nkv130-d33-causal-maskqk-biasqk-mods-blocks",
    "backward-f32-b2-h4-hkv2-n5-nkv37-d40-causal-window20:3-dropout0.3:7"};

static void run_at_both_ends(const char *name, bool must) {
    struct test_case test;
    char why[256] = "";
    pages_watch(name_at_work);
    if (!works_in_place()) return;
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    for (int side = 0; side < 2; side++) run(&test, side * RANDOM_KINDS, must);
    // with scattered layouts, rows of several items are not always rows of one
    test.layout = LAYOUT_SCATTERED;
    if (test.cascade == CLATTN_CASCADE_ALWAYS) test.cascade = CASE_CASCADE_TRY;
    for (int side = 0; side < 2; side++) test.seed += 77, run(&test, side * RANDOM_KINDS, must);
}

START_TEST(options_at_both_ends) {
    run_at_both_ends(options[_i], false);
}
END_TEST

// Cases whose pasts have unused rows. A past is shared or belongs to an item, and a shared past is
// read once or by every item. There are far fewer own keys than past rows. Every family runs these
// cases, for decode and prefill.
static const char *const pasts[] = {
    "attend-bf16-b2-h4-hkv2-n5-nkv301-d64-full-flash-lse-past300:30:30-sharedpast-cascadealways",
    "attend-bf16-b2-h4-hkv2-n33-nkv333-d64-causal-flash-lse-past300:260:260-sharedpast-cascadealways",
    "attend-bf16-b2-h4-hkv2-n5-nkv301-d64-full-flash-lse-past300:30:30-sharedpast-cascadenever",
    "attend-bf16-b2-h4-hkv2-n33-nkv309-d64-causal-flash-lse-past300:260:7",
    "decode-bf16-b2-h4-hkv2-n1-nkv301-d64-full-decode-lse-past300:30:30-sharedpast-cascadealways",
    "decode-bf16-b2-h4-hkv2-n1-nkv309-d64-full-decode-lse-past300:30:300",
    "attend-f32-b2-h4-hkv2-n33-nkv333-d64-causal-flash-lse-past300:260:260-sharedpast-cascadealways",
    "attend-f16-b2-h4-hkv2-n5-nkv301-d64-full-flash-kvi8-lse-past300:30:30-sharedpast-cascadealways",
    "decode-f32-b2-h4-hkv2-n1-nkv301-d64-full-decode-kvi8-lse-past300:30:30-sharedpast-cascadealways",
    "attend-f32-b2-h4-hkv2-n5-nkv309-d64-causal-unfused-lse-past300:30:260",
    "attend-f16-b2-h4-hkv2-n5-nkv309-d64-causal-unfused-kvi8-lse-past300:30:30-sharedpast-cascadenever",
    "attend-bf16-b2-h4-hkv2-n5-nkv309-d64-causal-flash-lse-past300:260:260-sharedpast-cascadealways-append5",
    "attend-f32-b2-h4-hkv2-n5-nkv309-d64-causal-flash-lse-past300:30:7-append5",
    "attend-bf16-b3-h4-hkv2-n7-nkv309-d64-causal-flash-lse-past300:260:30:7-qlen7:0:4-raggedhost",
    "attend-bf16-b3-h4-hkv2-n7-nkv309-d64-causal-flash-lse-past300:260:30:7-qlen7:0:4-raggedcachedevice"};

START_TEST(pasts_at_both_ends) {
    run_at_both_ends(pasts[_i], true);
}
END_TEST

START_TEST(gradients_at_both_ends) {
    run_at_both_ends(gradients[_i], false);
}
END_TEST

START_TEST(small_calls) {
    struct place place = *harness_place();
    place.guard = 0, place.memory = pages_memory, place.release_memory = pages_release;
    for (int side = 0; side < 2 && works_in_place(); side++) {
        struct small_call call;
        double written;
        snprintf(at_work, sizeof at_work, "%s", small_names[_i]);
        pages_turn(side);
        small_open(&call, _i, &place);
        ck_assert_int_eq(small_enqueue(&call, place.context, place.queue, 0, NULL, NULL), CLATTN_OK);
        harness_finish(place.queue);
        ck_assert(small_intact(&call, place.queue, &written));
        small_close(&call);
    }
}
END_TEST

// Every call with all its tensors, in scattered layouts.
START_TEST(scattered_calls) {
    struct place place = *harness_place();
    place.guard = 0, place.memory = pages_memory, place.release_memory = pages_release;
    place.drawn = (uint64_t)_i;
    for (int draw = 0; draw < 4 && works_in_place(); draw++) {
        struct strided_call c;
        pages_turn(draw % 2);
        strided_open(&c, _i, false, &place);
        snprintf(at_work, sizeof at_work, "%s, scattered", c.name);
        for (int n = 0; n < c.count; n++) {
            struct strided_tensor *t = &c.tensor[n];
            struct guarded_shape shape = {
                t->view->type, t->view->rank, {0}, t->any ? LAYOUT_LOOSE : LAYOUT_SCATTERED};
            memcpy(shape.shape, t->view->shape, sizeof shape.shape);
            t->memory = !t->written ? guarded_input(&place, &shape, t->values)
                        : t->read   ? guarded_in_out(&place, &shape, t->values)
                                    : guarded_output(&place, &shape);
            *t->view = t->memory.view;
        }
        ck_assert_int_eq(c.enqueue(&c, place.context, place.queue), CLATTN_OK);
        harness_finish(place.queue);
        for (int n = 0; n < c.count; n++) {
            const struct strided_tensor *t = &c.tensor[n];
            double *values = calloc((size_t)guarded_count(t->view), sizeof *values);
            ck_assert_msg(t->written ? guarded_read(&t->memory, place.queue, values)
                                     : guarded_intact(&t->memory, place.queue),
                          "%s: bytes around %s changed", at_work, t->field);
            free(values);
        }
        strided_close(&c);
    }
}
END_TEST

// Two partial results, at both ends of the memory.
START_TEST(merges) {
    if (!works_in_place()) return;
    for (int n = 0; n < 6; n++) {
        struct place place = *harness_place();
        const clattn_type type = (clattn_type)(n / 2);
        const struct guarded_shape out = {type, 4, {2, 3, 65, 33}, LAYOUT_DENSE},
                                   lse = {CLATTN_TYPE_F32, 3, {2, 3, 65}, LAYOUT_DENSE};
        double *numbers = calloc(2 * 3 * 65 * 33, sizeof *numbers);
        snprintf(at_work, sizeof at_work, "merge of %s", clattn_type_name(type));
        place.guard = 0, place.memory = pages_memory, place.release_memory = pages_release;
        pages_turn(n % 2);
        struct guarded all[4] = {guarded_in_out(&place, &out, numbers), guarded_in_out(&place, &lse, numbers),
                                 guarded_input(&place, &out, numbers), guarded_input(&place, &lse, numbers)};
        const clattn_merge_params p = {all[0].view, all[1].view, all[2].view, all[3].view};
        ck_assert_int_eq(clattn_merge_enqueue(place.context, place.queue, &p, 0, NULL, NULL), CLATTN_OK);
        harness_finish(place.queue);
        for (int i = 0; i < 4; i++) guarded_release(&all[i]);
        free(numbers);
    }
}
END_TEST

int main(void) {
    const TTest *const seen[] = {merges, all_were_seen, NULL};
    Suite *suite = suite_create("pages");
    TCase *group = harness_add(suite, "random", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, random_cases, 0, RANDOM_KINDS);
    harness_add(suite, "after them", seen);
    TCase *used = harness_add(suite, "pasts", (const TTest *const[]){NULL});
    harness_add_loop(used, pasts_at_both_ends, (int)(sizeof pasts / sizeof pasts[0]));
    // With a tuned row these cases need a minute to compile. They then run only if CK_RUN_CASE
    // names them.
    const char *rows = getenv("CLATTN_TEST_ROWS");
    if (rows && *rows && !getenv("CK_RUN_CASE")) return harness_run(suite);
    TCase *each = harness_add(suite, "options", (const TTest *const[]){NULL});
    harness_add_loop(each, options_at_both_ends, (int)(sizeof options / sizeof options[0]));
    tcase_add_loop_test(each, small_calls, 0, SMALL_CALLS);
    harness_add_loop(each, scattered_calls, strided_count);
    harness_add_loop(harness_add(suite, "gradients", (const TTest *const[]){NULL}), gradients_at_both_ends,
                     (int)(sizeof gradients / sizeof gradients[0]));
    return harness_run(suite);
}
