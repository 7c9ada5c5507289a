// test_null.c: NULL for each pointer argument of each public function: a status, and a one-line
// message if there is a context. The result is a default if the header allows NULL, and never a
// crash. NULL inside structs is tested in test_errors.c and others.
#include "support/case_assert.h"
#include "support/harness.h"

#include <stdio.h>
#include <string.h>

// Valid parameters without buffers, for plan and prepare.
static const struct {
    clattn_attention_params attention;
    clattn_layer_params layer;
    clattn_layer_kv_params kv;
    clattn_linear_params linear;
    clattn_pack_params pack;
} good = {
#define VIEW4                                                                                                \
    {                                                                                                        \
        .rank = 4, .shape = {1, 2, 3, 8}, .stride = { 48, 24, 8, 1 }                                         \
    }
#define VIEW3                                                                                                \
    {                                                                                                        \
        .rank = 3, .shape = {1, 3, 16}, .stride = { 48, 16, 1 }                                              \
    }
#define VIEW2                                                                                                \
    {                                                                                                        \
        .rank = 2, .shape = {16, 16}, .stride = { 16, 1 }                                                    \
    }
    .attention = {.q = VIEW4, .kv = {.k = VIEW4, .v = VIEW4}, .out = VIEW4},
    .layer = {.x = VIEW3, .out = VIEW3, .wq = VIEW2, .wk = VIEW2, .wv = VIEW2, .wo = VIEW2, .heads = 2},
    .kv = {.y = VIEW3, .wk = VIEW2, .wv = VIEW2, .k = VIEW4, .v = VIEW4},
    .linear = {.x = VIEW3, .out = VIEW3, .w = VIEW2},
    .pack = {.w = VIEW2}};

static size_t some_bytes, some_count;
static clattn_plan some_plan;
static clattn_linear_choice some_choice;
static clattn_linear_attention_choice some_recurrence;
static clattn_family some_families[2];
static clattn_engine some_engine;
static clattn_unfit some_unfit;
static clattn_packed some_packed;
static clattn_selection_plan some_selection;

// Rows for an operation's enqueue function. Its empty parameters are valid except for the buffers.
#define ENQUEUED(X, op, word)                                                                                \
    X(op##_params, clattn_##op##_enqueue(c, q, NULL, 0, NULL, NULL), "params")                               \
    X(op##_queue, clattn_##op##_enqueue(c, NULL, &(clattn_##op##_params){0}, 0, NULL, NULL), "queue")        \
    X(op##_list, clattn_##op##_enqueue(c, q, &(clattn_##op##_params){0}, 1, NULL, NULL), "wait_list")        \
    X(op##_buffers, clattn_##op##_enqueue(c, q, &(clattn_##op##_params){0}, 0, NULL, NULL), word)

// X(name, the call, a word of its message): c is a context and q its queue.
#define REFUSED(X)                                                                                           \
    X(attention_plan_params, clattn_attention_plan(c, NULL, &some_plan), "params")                           \
    X(attention_plan_plan, clattn_attention_plan(c, &good.attention, NULL), "plan")                          \
    X(families_params, clattn_attention_families(c, NULL, some_families, 2, &some_count), "params")          \
    X(families_families, clattn_attention_families(c, &good.attention, NULL, 2, &some_count), "families")    \
    X(families_count, clattn_attention_families(c, &good.attention, some_families, 2, NULL), "count")        \
    X(attention_workspace_params, clattn_attention_workspace(c, NULL, &some_bytes), "params")                \
    X(attention_workspace_bytes, clattn_attention_workspace(c, &good.attention, NULL), "bytes")              \
    X(attention_prepare_params, clattn_attention_prepare(c, NULL), "params")                                 \
    X(attention_enqueue_params, clattn_attention_enqueue(c, q, NULL, 0, NULL, NULL), "params")               \
    X(attention_enqueue_queue, clattn_attention_enqueue(c, NULL, &good.attention, 0, NULL, NULL), "queue")   \
    X(attention_enqueue_list, clattn_attention_enqueue(c, q, &good.attention, 1, NULL, NULL), "wait_list")   \
    X(attention_enqueue_buffers, clattn_attention_enqueue(c, q, &good.attention, 0, NULL, NULL), "q: ")      \
    X(engines_engines, clattn_context_engines(c, NULL, 1, &some_count), "engines")                           \
    X(engines_count, clattn_context_engines(c, &some_engine, 1, NULL), "count")                              \
    X(unfit_kernels, clattn_context_unfit(c, NULL, 1, &some_count), "kernels")                               \
    X(in_place, clattn_context_in_place(c, &some_unfit, 1, NULL), "in_place")                                \
    X(unfit_count, clattn_context_unfit(c, &some_unfit, 1, NULL), "count")                                   \
    ENQUEUED(X, merge, "out_a")                                                                              \
    ENQUEUED(X, rope, "x")                                                                                   \
    X(rope_prepare_params, clattn_rope_prepare(c, NULL), "params")                                           \
    ENQUEUED(X, hadamard, "x")                                                                               \
    X(hadamard_prepare_params, clattn_hadamard_prepare(c, NULL), "params")                                   \
    ENQUEUED(X, append, "k_new")                                                                             \
    X(append_prepare_params, clattn_append_prepare(c, NULL), "params")                                       \
    ENQUEUED(X, shift, "k: ")                                                                                \
    X(shift_prepare_params, clattn_shift_prepare(c, NULL), "params")                                         \
    X(dropout_mask_params, clattn_dropout_mask_enqueue(c, q, NULL, 0, NULL, NULL), "params")                 \
    X(dropout_mask_queue,                                                                                    \
      clattn_dropout_mask_enqueue(c, NULL, &(clattn_dropout_mask_params){0}, 0, NULL, NULL), "queue")        \
    X(dropout_mask_list, clattn_dropout_mask_enqueue(c, q, &(clattn_dropout_mask_params){0}, 1, NULL, NULL), \
      "wait_list")                                                                                           \
    ENQUEUED(X, norm, "x: ")                                                                                 \
    ENQUEUED(X, activation, "x: ")                                                                           \
    ENQUEUED(X, embedding, "ids: ")                                                                          \
    ENQUEUED(X, argmax, "x: ")                                                                               \
    ENQUEUED(X, linear_attention, "q: ")                                                                     \
    X(linear_attention_prepare_params, clattn_linear_attention_prepare(c, NULL), "params")                   \
    X(linear_attention_plan_params, clattn_linear_attention_plan(c, NULL, &some_recurrence), "params")       \
    X(linear_attention_plan_choice,                                                                          \
      clattn_linear_attention_plan(c, &(clattn_linear_attention_params){0}, NULL), "choice")                 \
    ENQUEUED(X, sample, "x: ")                                                                               \
    ENQUEUED(X, topk, "scores: ")                                                                            \
    X(topk_plan_params, clattn_topk_plan(c, NULL, &some_selection), "params")                                \
    X(topk_plan_plan, clattn_topk_plan(c, &(clattn_topk_params){0}, NULL), "plan")                           \
    X(topk_prepare_params, clattn_topk_prepare(c, NULL), "params")                                           \
    ENQUEUED(X, index, "q: ")                                                                                \
    X(index_plan_params, clattn_index_plan(c, NULL, &some_selection), "params")                              \
    X(index_plan_plan, clattn_index_plan(c, &(clattn_index_params){0}, NULL), "plan")                        \
    X(index_prepare_params, clattn_index_prepare(c, NULL), "params")                                         \
    X(layer_plan_params, clattn_layer_plan(c, NULL, &some_plan), "params")                                   \
    X(layer_plan_plan, clattn_layer_plan(c, &good.layer, NULL), "plan")                                      \
    X(layer_workspace_params, clattn_layer_workspace(c, NULL, &some_bytes), "params")                        \
    X(layer_workspace_bytes, clattn_layer_workspace(c, &good.layer, NULL), "bytes")                          \
    X(layer_prepare_params, clattn_layer_prepare(c, NULL), "params")                                         \
    X(layer_enqueue_params, clattn_layer_enqueue(c, q, NULL, 0, NULL, NULL), "params")                       \
    X(layer_enqueue_queue, clattn_layer_enqueue(c, NULL, &good.layer, 0, NULL, NULL), "queue")               \
    X(layer_enqueue_list, clattn_layer_enqueue(c, q, &good.layer, 1, NULL, NULL), "wait_list")               \
    X(layer_enqueue_buffers, clattn_layer_enqueue(c, q, &good.layer, 0, NULL, NULL), "x: ")                  \
    X(kv_params, clattn_layer_kv_enqueue(c, q, NULL, 0, NULL, NULL), "params")                               \
    X(kv_queue, clattn_layer_kv_enqueue(c, NULL, &good.kv, 0, NULL, NULL), "queue")                          \
    X(kv_list, clattn_layer_kv_enqueue(c, q, &good.kv, 1, NULL, NULL), "wait_list")                          \
    X(kv_buffers, clattn_layer_kv_enqueue(c, q, &good.kv, 0, NULL, NULL), "y: ")                             \
    X(linear_plan_params, clattn_linear_plan(c, NULL, &some_choice), "params")                               \
    X(linear_plan_choice, clattn_linear_plan(c, &good.linear, NULL), "choice")                               \
    X(linear_workspace_params, clattn_linear_workspace(c, NULL, &some_bytes), "params")                      \
    X(linear_workspace_bytes, clattn_linear_workspace(c, &good.linear, NULL), "bytes")                       \
    X(linear_prepare_params, clattn_linear_prepare(c, NULL), "params")                                       \
    X(linear_enqueue_params, clattn_linear_enqueue(c, q, NULL, 0, NULL, NULL), "params")                     \
    X(linear_enqueue_queue, clattn_linear_enqueue(c, NULL, &good.linear, 0, NULL, NULL), "queue")            \
    X(linear_enqueue_list, clattn_linear_enqueue(c, q, &good.linear, 1, NULL, NULL), "wait_list")            \
    X(linear_enqueue_buffers, clattn_linear_enqueue(c, q, &good.linear, 0, NULL, NULL), "x: ")               \
    X(packed_bytes_params, clattn_linear_packed_bytes(c, NULL, &some_bytes), "params")                       \
    X(packed_bytes_bytes, clattn_linear_packed_bytes(c, &good.pack, NULL), "bytes")                          \
    X(pack_params, clattn_linear_pack(c, q, NULL, &some_packed, 0, NULL, NULL), "params")                    \
    X(pack_packed, clattn_linear_pack(c, q, &good.pack, NULL, 0, NULL, NULL), "packed")                      \
    X(pack_queue, clattn_linear_pack(c, NULL, &good.pack, &some_packed, 0, NULL, NULL), "queue")             \
    X(pack_list, clattn_linear_pack(c, q, &good.pack, &some_packed, 1, NULL, NULL), "wait_list")             \
    X(pack_buffers, clattn_linear_pack(c, q, &good.pack, &some_packed, 0, NULL, NULL), "w: ")

#define FUNCTION(name, call, word)                                                                           \
    static clattn_status call_##name(clattn_context *c, cl_command_queue q) {                                \
        (void)q;                                                                                             \
        return call;                                                                                         \
    }
REFUSED(FUNCTION)
static const struct {
    const char *name, *word;
    clattn_status (*call)(clattn_context *c, cl_command_queue q);
} refused[] = {
#define ROW(name, call, word) {#name, word, call_##name},
    REFUSED(ROW)};
#define COUNT ((int)(sizeof refused / sizeof refused[0]))

// A message if there is a context, otherwise a status only.
START_TEST(each_pointer) {
    harness_log_clear();
    harness_assert_refused(refused[_i].name, refused[_i].call(harness()->context, harness()->queue),
                           CLATTN_INVALID_ARGUMENT, refused[_i].word);
    harness_log_clear();
    ck_assert_int_eq(refused[_i].call(NULL, harness()->queue), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(harness_log_count(), 0);
}
END_TEST

// The parameters above are valid except for their buffers.
START_TEST(good_parameters) {
    clattn_context *c = harness()->context;
    ck_assert_int_eq(clattn_attention_plan(c, &good.attention, &some_plan), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_workspace(c, &good.attention, &some_bytes), CLATTN_OK);
    ck_assert_int_eq(clattn_layer_plan(c, &good.layer, &some_plan), CLATTN_OK);
    ck_assert_int_eq(clattn_linear_plan(c, &good.linear, &some_choice), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_families(c, &good.attention, NULL, 0, &some_count), CLATTN_OK);
    ck_assert_uint_gt(some_count, 0);
    ck_assert_int_eq(clattn_context_engines(c, NULL, 0, &some_count), CLATTN_OK);
    ck_assert_uint_gt(some_count, 1);
    ck_assert_int_eq(clattn_context_unfit(c, NULL, 0, &some_count), CLATTN_OK);
    ck_assert_int_eq(clattn_device_survey(NULL, false), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_survey(&(clattn_context_params){.cache_dir = "/tmp"}, false),
                     CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(some_count, 0);
}
END_TEST

START_TEST(without_a_context) {
    char text[8] = "text";
    clattn_context_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    clattn_context_destroy(NULL);
    clattn_context_save_kernels(NULL);
    ck_assert_int_eq(clattn_context_measure(NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_null(clattn_context_opencl(NULL));
    ck_assert_ptr_null(clattn_context_device(NULL));
    ck_assert_ptr_null(clattn_context_capabilities(NULL));
    ck_assert_uint_eq(clattn_context_last_error(NULL, text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(clattn_context_last_error(NULL, NULL, 0), 0);
    clattn_context_get_stats(NULL, &stats);
    ck_assert_uint_eq(stats.programs_built + stats.programs_cached + stats.build_time_ns, 0);
    clattn_context_get_stats(harness()->context, NULL);
    clattn_context_get_stats(NULL, NULL);
}
END_TEST

START_TEST(devices_and_contexts) {
    clattn_context *none = (clattn_context *)(void *)&some_plan;
    clattn_device device;
    clattn_capabilities facts;
    const clattn_context_params no_device = {.log = harness_log()};
    const clattn_context_params params = {.device = harness()->device, .log = harness_log()};
    harness_log_clear();
    ck_assert_int_eq(clattn_context_create(NULL, &none), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(clattn_context_create(NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_context_create(&params, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(harness_log_count(), 1);
    ck_assert_int_eq(clattn_context_create(&no_device, &none), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(harness_log_count(), 2);
    ck_assert_int_eq(clattn_device_describe(NULL, &facts), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_describe(harness()->device, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_list(&device, 1, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_list(NULL, 1, &some_count, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_list(NULL, 0, &some_count, NULL), CLATTN_OK);
}
END_TEST

// Views can be created with and without a buffer.
START_TEST(views) {
    const int64_t shape[] = {2, 3};
    ck_assert_ptr_null(clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, shape).buffer);
    ck_assert_ptr_null(clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 3, 4).buffer);
    ck_assert_ptr_null(clattn_tensor_bshd(NULL, CLATTN_TYPE_F32, 1, 2, 3, 4).buffer);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {good_parameters, without_a_context, devices_and_contexts, views, NULL};
    Suite *suite = suite_create("null");
    TCase *group = harness_add(suite, "null", tests);
    tcase_add_loop_test(group, each_pointer, 0, COUNT);
    return harness_run(suite);
}
