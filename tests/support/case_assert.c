// case_assert.c: see case_assert.h.
#include "support/case_assert.h"

#include "verification/case/case_kv.h"
#include "verification/reference/storage.h"

#include <math.h>
#include <stdio.h>

static int decode_skipped;

int case_decode_skipped(void) {
    return decode_skipped;
}

clattn_kernel case_kernel(int n) {
    static const clattn_kernel kernels[] = {CLATTN_KERNEL_FLASH, CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_AUTO};
    return kernels[n];
}

struct test_case case_layer_base(const char *name) {
    return (struct test_case){.op = CASE_LAYER,
                              .name = name,
                              .batch = 2,
                              .n_q = 9,
                              .width = 48,
                              .heads = 4,
                              .head_dim = 16,
                              .biases = LAYER_ALL_BIASES};
}

static bool has_infinities(const struct case_data *data) {
    static const int tensors[] = {CASE_K, CASE_V, CASE_PAST_K, CASE_PAST_V};
    for (int n = 0; n < 4; n++) {
        const struct guarded_shape shape = case_shape(&data->test, tensors[n]);
        const int64_t count = guarded_shape_count(&shape);
        for (int64_t i = 0; i < count; i++)
            if (isinf(data->input[tensors[n]][i])) return true;
    }
    return false;
}

// The keys and values of a forward call get a type with scales, if the call supports it and the
// fused kernels have room for all arguments (families.c). An infinity would make all other numbers
// of its row 0, so such cases stay.
static void retype_scaled(struct case_data *data, clattn_type type) {
    struct test_case as = data->test;
    char why[256];
    as.kv_type = type;
    if (!case_attends(&as) || as.values || as.rope.layout != CLATTN_ROPE_NONE || (as.has_past && as.mods) ||
        !case_valid(&as, why) || has_infinities(data))
        return;
    data->test.kv_type = type;
    case_kv_store(data);
}

void case_retype(struct case_data *data) {
    struct test_case *t = &data->test;
    const clattn_type type = harness_type(), f32 = CLATTN_TYPE_F32;
    if (type == f32 || case_projects(t) || t->q_type != f32 || t->kv_type != f32 || t->out_type != f32)
        return;
    if (CLATTN_TYPE_IS_SCALED(type)) {
        retype_scaled(data, type);
        return;
    }
    static const int tensors[] = {CASE_Q, CASE_K, CASE_V, CASE_PAST_K, CASE_PAST_V, CASE_DOUT};
    enum { TENSORS = sizeof tensors / sizeof tensors[0] };
    int64_t count[TENSORS];
    for (int n = 0; n < TENSORS; n++) {
        const struct guarded_shape shape = case_shape(t, tensors[n]);
        count[n] = guarded_shape_count(&shape);
        if (count[n] > GUARDED_PERIOD) return; // the numbers of a table
    }
    for (int n = 0; n < TENSORS; n++)
        for (int64_t i = 0; i < count[n]; i++)
            data->input[tensors[n]][i] = storage_round(type, data->input[tensors[n]][i]);
    t->q_type = t->kv_type = t->out_type = t->grad_type = type;
}

struct case_data *case_open(const char *name, struct case_arrays *arrays) {
    struct test_case test;
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), arrays);
    return data;
}

static void count_kernel(const struct case_data *data, struct place *place) {
    struct case_arrays arrays;
    clattn_plan plan;
    clattn_linear_choice choice;
    const char *name = plan.kernel_name;
    clattn_status status;
    if (!harness_counts_kernels() || data->test.op == CASE_LAYER) return;
    case_bind(data, place, &arrays);
    if (arrays.op == CASE_LINEAR) {
        status = clattn_linear_plan(place->context, &arrays.linear, &choice);
        name = choice.kernel_name;
    } else if (arrays.op == CASE_BACKWARD) {
        status = clattn_attention_backward_plan(place->context, &arrays.backward, &plan);
    } else {
        status = clattn_attention_plan(place->context, &arrays.params, &plan);
    }
    if (status == CLATTN_OK) harness_count_kernel(name);
    case_unbind(&arrays);
}

struct case_result case_run(const struct case_data *data, cl_command_queue queue) {
    struct place place = *harness_place();
    place.queue = queue;
    count_kernel(data, &place);
    harness_log_clear();
    return case_execute(data, &place);
}

bool case_holds(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                char *why, size_t size) {
    struct case_result got = case_collect(arrays, queue, NULL);
    const bool good = case_agrees(data, &got, why, size);
    case_result_free(&got);
    return good;
}

void case_assert_data(struct case_data *data) {
    const struct test_case *t = &data->test;
    case_retype(data);
    char why[512] = "", name[CASE_NAME_SIZE];
    struct case_result got = case_run(data, harness()->queue);
    bool skip = got.status == CLATTN_UNSUPPORTED &&
                (t->kernel == CLATTN_KERNEL_DECODE ||
                 (t->kernel == CLATTN_KERNEL_UNFUSED && t->cascade == CLATTN_CASCADE_ALWAYS));
    bool good = skip || case_agrees(data, &got, why, sizeof why);
    decode_skipped += skip;
    case_result_free(&got);
    ck_assert_msg(good, "%s: %s: %s", t->name, case_name(t, name), why);
}

// A failing case can be run again by its name.
static void assert_named(const struct test_case *test) {
    struct test_case again;
    char name[CASE_NAME_SIZE], why[256] = "";
    case_name(test, name);
    ck_assert_msg(case_parse(name, &again, why), "%s: its name %s: %s", test->name, name, why);
}

void case_assert(const struct test_case *test) {
    assert_named(test);
    struct case_data *data = case_make(test);
    case_assert_data(data);
    case_free(data);
}

void case_assert_data_kernels(struct case_data *data) {
    const struct test_case *t = &data->test;
    bool scores = t->weights || t->scores;
    for (int n = 0; n < 3; n++) {
        data->test.kernel = case_kernel(n);
        if (case_kernel(n) != CLATTN_KERNEL_FLASH || !scores) case_assert_data(data);
    }
    data->test.kernel = CLATTN_KERNEL_DECODE;
    if (t->n_q <= 16 && !scores) case_assert_data(data);
}

void case_assert_kernels(const struct test_case *test) {
    assert_named(test);
    struct case_data *data = case_make(test);
    case_assert_data_kernels(data);
    case_free(data);
}
