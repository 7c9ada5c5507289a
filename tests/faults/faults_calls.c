// faults_calls.c: the subjects that use the harness's context, whose kernels are already compiled:
// every entry point that enqueues, on both queues. See faults.h.
#include "faults/faults.h"
#include "support/small_calls.h"

#include <math.h>
#include <string.h>

static const struct test_case flash = {.name = "flash",
                                       .heads = 2,
                                       .n_q = 5,
                                       .n_kv = 9,
                                       .head_dim = 16,
                                       .kernel = CLATTN_KERNEL_FLASH,
                                       .hosts = CASE_HOST_BIT(CASE_SINKS) | CASE_HOST_BIT(CASE_KV_LENGTHS)};
static const struct test_case splits = {.name = "splits",
                                        .heads = 2,
                                        .n_q = 1,
                                        .n_kv = 300,
                                        .head_dim = 16,
                                        .kernel = CLATTN_KERNEL_DECODE,
                                        .splits = 3};
static const struct test_case unfused = {.name = "unfused",
                                         .heads = 2,
                                         .n_q = 5,
                                         .n_kv = 9,
                                         .head_dim = 16,
                                         .kernel = CLATTN_KERNEL_UNFUSED,
                                         .weights = true,
                                         .weights_type = CLATTN_TYPE_F16,
                                         .rope = {.layout = CLATTN_ROPE_HALF},
                                         .hosts = CASE_HOST_BIT(CASE_Q_LENGTHS)};
static const struct test_case empty = {.name = "no rows", .n_q = 0, .n_kv = 9, .head_dim = 16};
// Keys in a past and in pages, and explicit positions. These calls have their own tables and steps.
static const struct test_case past = {.name = "past",
                                      .batch = 2,
                                      .heads = 2,
                                      .n_q = 5,
                                      .n_kv = 9,
                                      .head_dim = 16,
                                      .has_past = true,
                                      .past = 6,
                                      .past_count = 2,
                                      .past_length = {6, 2},
                                      .positions = true,
                                      .kernel = CLATTN_KERNEL_FLASH,
                                      .rope = {.layout = CLATTN_ROPE_HALF}};
static const struct test_case pages = {.name = "pages",
                                       .batch = 2,
                                       .heads = 2,
                                       .n_q = 2,
                                       .n_kv = 12,
                                       .head_dim = 16,
                                       .page_size = 4,
                                       .kernel = CLATTN_KERNEL_FLASH,
                                       .hosts = CASE_HOST_BIT(CASE_KV_LENGTHS)};
static const struct test_case appended = {.name = "append",
                                          .batch = 2,
                                          .heads = 2,
                                          .n_q = 3,
                                          .n_kv = 9,
                                          .head_dim = 16,
                                          .append = 3,
                                          .kernel = CLATTN_KERNEL_FLASH,
                                          .rope = {.layout = CLATTN_ROPE_HALF},
                                          .hosts = CASE_HOST_BIT(CASE_Q_LENGTHS)};
#define RAGGED(where)                                                                                        \
    {                                                                                                        \
        .name = "ragged", .batch = 3, .heads = 2, .n_q = 5, .n_kv = 9, .head_dim = 16, .ragged = (where),    \
        .kernel = CLATTN_KERNEL_FLASH, .score = {.dropout = 0.4f, .dropout_seed = 3},                        \
        .hosts = CASE_HOST_BIT(CASE_Q_LENGTHS) | CASE_HOST_BIT(CASE_KV_LENGTHS),                             \
    }
static const struct test_case ragged = RAGGED(CASE_RAGGED_HOST),
                              ragged_device = RAGGED(CASE_RAGGED_GAPS_DEVICE);
static const struct test_case mods = {.name = "mods",
                                      .heads = 2,
                                      .n_q = 5,
                                      .n_kv = 9,
                                      .head_dim = 16,
                                      .mods = true,
                                      .blocks = true,
                                      .kernel = CLATTN_KERNEL_FLASH,
                                      .score = {.causal = true},
                                      .hosts = CASE_HOST_BIT(CASE_ALIBI)};
static const struct test_case gated = {.name = "gated layer",
                                       .op = CASE_LAYER,
                                       .n_q = 4,
                                       .width = 12,
                                       .heads = 2,
                                       .head_dim = 8,
                                       .projection = CLATTN_PROJECTION_NATIVE,
                                       .norm = CLATTN_NORM_HEADS,
                                       .gate = CASE_GATE_ALL,
                                       .gate_bias = true,
                                       .positions = true,
                                       .rope = {.layout = CLATTN_ROPE_HALF}};
#define LAYER(which)                                                                                         \
    {                                                                                                        \
        .name = "layer", .op = CASE_LAYER, .n_q = 40, .width = 12, .heads = 2, .head_dim = 8,                \
        .projection = (which), .biases = LAYER_ALL_BIASES, .rope = {.layout = CLATTN_ROPE_HALF},             \
        .hosts = CASE_HOST_BIT(CASE_Q_LENGTHS),                                                              \
    }
static const struct test_case native_layer = LAYER(CLATTN_PROJECTION_NATIVE),
                              clblast_layer = LAYER(CLATTN_PROJECTION_CLBLAST);
#define LINEAR(which)                                                                                        \
    {                                                                                                        \
        .name = "linear", .op = CASE_LINEAR, .n_q = 5, .width = 12, .heads = 2, .head_dim = 8,               \
        .projection = (which), .biases = LAYER_ALL_BIASES, .q_type = CLATTN_TYPE_F16,                        \
        .matrix_type = CLATTN_TYPE_BF16,                                                                     \
    }
static const struct test_case native_linear = LINEAR(CLATTN_PROJECTION_NATIVE),
                              clblast_linear = LINEAR(CLATTN_PROJECTION_CLBLAST);

static cl_command_queue queue_of(const struct subject *s) {
    return s->out_of_order && harness()->out_of_order != NULL ? harness()->out_of_order : harness()->queue;
}

// A call has an event if and only if it succeeded. The last event must report a failed event in its
// wait list.
static void take_event(const struct subject *s, struct attempt *a, cl_event event) {
    cl_int status = CL_COMPLETE;
    if ((event != NULL) != (a->status == CLATTN_OK)) faults_wrong(a, "event %p", (void *)event);
    if (event == NULL) return;
    clFlush(queue_of(s));
    const cl_int waited = clWaitForEvents(1, &event);
    harness_expect(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
                   "clGetEventInfo");
    clReleaseEvent(event);
    if (a->code != LAYER_FAILED_EVENT || a->armed.hit == NULL)
        harness_expect(waited, "clWaitForEvents");
    else if (s->out_of_order && harness()->out_of_order != NULL && !s->through_clblast &&
             (waited == CL_SUCCESS || status >= 0) && faults_driver_tells(queue_of(s)))
        faults_wrong(a, "the last event does not tell: status %d", (int)status);
}

static void run_with(const struct subject *s, struct attempt *a, const clattn_progress *progress) {
    struct case_data *data = case_make(s->test);
    struct case_arrays arrays;
    cl_event event = NULL;
    case_bind(data, harness_place(), &arrays);
    arrays.params.progress = arrays.layer.progress = progress;
    faults_begin(a);
    const clattn_status status = case_enqueue(harness()->context, queue_of(s), &arrays, &event);
    faults_end(a, status);
    take_event(s, a, event);
    harness_finish(queue_of(s));
    if (status == CLATTN_OK && a->code != LAYER_FAILED_EVENT &&
        !case_holds(data, &arrays, queue_of(s), a->why, sizeof a->why))
        a->right = false;
    case_unbind(&arrays);
    case_free(data);
}

static void run_case(const struct subject *s, struct attempt *a) {
    run_with(s, a, NULL);
}

static bool go_on(void *user, double done) {
    (void)user;
    return done > 0.0;
}
static void run_heard(const struct subject *s, struct attempt *a) {
    run_with(s, a, &(clattn_progress){.fn = go_on});
}

// A call with a new table, when the context already keeps its maximum of tables. The new table
// overwrites an old one.
static void run_tables(const struct subject *s, struct attempt *a) {
    static float unlike;
    struct case_data *data = case_make(s->test);
    struct case_arrays arrays;
    cl_event event = NULL;
    clattn_status status = CLATTN_OK;
    case_bind(data, harness_place(), &arrays);
    for (int n = 0; n < 10; n++) {
        const bool last = n == 9;
        data->floats[CASE_SINKS][0] = unlike += 1e-3f;
        if (last) faults_begin(a);
        status = case_enqueue(harness()->context, queue_of(s), &arrays, last ? &event : NULL);
        if (last) faults_end(a, status);
        if (last) take_event(s, a, event);
        harness_finish(queue_of(s));
    }
    if (status == CLATTN_OK && a->code != LAYER_FAILED_EVENT &&
        !case_holds(data, &arrays, queue_of(s), a->why, sizeof a->why))
        a->right = false;
    case_unbind(&arrays);
    case_free(data);
}

// Merging a result with itself returns the same result.
static void run_merge(const struct subject *s, struct attempt *a) {
    struct case_data *data = case_make(s->test);
    struct case_arrays one, two;
    cl_event event = NULL;
    case_bind(data, harness_place(), &one);
    case_bind(data, harness_place(), &two);
    case_enqueue(harness()->context, queue_of(s), &one, NULL);
    harness_finish(queue_of(s)); // both calls then borrow the same buffers
    case_enqueue(harness()->context, queue_of(s), &two, NULL);
    harness_finish(queue_of(s));
    const clattn_merge_params params = {one.params.out, one.params.lse, two.params.out, two.params.lse};
    faults_begin(a);
    const clattn_status status =
        clattn_merge_enqueue(harness()->context, queue_of(s), &params, 0, NULL, &event);
    faults_end(a, status);
    take_event(s, a, event);
    harness_finish(queue_of(s));
    case_unbind(&one);
    case_unbind(&two);
    case_free(data);
}

// The call with a caller's workspace and a wait list.
static void run_given(const struct subject *s, struct attempt *a) {
    struct case_data *data = case_make(s->test);
    struct case_arrays arrays;
    cl_event event = NULL, gate = harness_gate();
    cl_int code = CL_SUCCESS;
    case_bind(data, harness_place(), &arrays);
    cl_mem workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, 1 << 16, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    harness_expect(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
    arrays.params.workspace = workspace;
    faults_begin(a);
    const clattn_status status =
        clattn_attention_enqueue(harness()->context, queue_of(s), &arrays.params, 1, &gate, &event);
    faults_end(a, status);
    take_event(s, a, event);
    harness_finish(queue_of(s));
    clReleaseMemObject(workspace);
    clReleaseEvent(gate);
    if (status == CLATTN_OK && a->code != LAYER_FAILED_EVENT &&
        !case_holds(data, &arrays, queue_of(s), a->why, sizeof a->why))
        a->right = false;
    case_unbind(&arrays);
    case_free(data);
}

// A call that fails during recording must leave no launch in the recording.
static void run_recorded(const struct subject *s, struct attempt *a) {
    struct case_data *data = case_make(s->test);
    struct case_arrays arrays;
    clattn_recording *r = NULL;
    cl_event event = NULL;
    case_bind(data, harness_place(), &arrays);
    faults_begin(a);
    clattn_status status = clattn_recording_begin(harness()->context, queue_of(s), &r);
    if (status == CLATTN_OK) {
        status = case_enqueue(harness()->context, queue_of(s), &arrays, NULL);
        if (status != CLATTN_OK && clattn_recording_launches(r) != 0) faults_wrong(a, "a launch is left");
    }
    if (status == CLATTN_OK) status = clattn_recording_end(r);
    if (status == CLATTN_OK && s->fuses) status = clattn_recording_fuse(r);
    if (status == CLATTN_OK) status = clattn_recording_enqueue(r, queue_of(s), 0, NULL, &event);
    faults_end(a, status);
    take_event(s, a, event);
    harness_finish(queue_of(s));
    clattn_recording_destroy(r);
    if (status == CLATTN_OK && a->code != LAYER_FAILED_EVENT &&
        !case_holds(data, &arrays, queue_of(s), a->why, sizeof a->why))
        a->right = false;
    case_unbind(&arrays);
    case_free(data);
}

// Returns the tolerance for the result of a small call. Normally each run returns the bits of the
// first run. If another kernel replaced a refused one, sums may round in another order.
static double may_differ(double expected) {
    size_t refused = 0;
    harness_expect((cl_int)clattn_context_unfit(harness()->context, NULL, 0, &refused),
                   "clattn_context_unfit");
    return refused > 0 ? 1e-5 * fabs(expected) : 0;
}

static void run_small(const struct subject *s, struct attempt *a) {
    static double expected[SMALL_CALLS];
    static bool known[SMALL_CALLS];
    struct small_call call;
    cl_event event = NULL;
    double written;
    const int which = s->small;
    small_open(&call, which, harness_place());
    faults_begin(a);
    const clattn_status status = small_enqueue(&call, harness()->context, queue_of(s), 0, NULL, &event);
    faults_end(a, status);
    take_event(s, a, event);
    harness_finish(queue_of(s));
    const bool intact = small_intact(&call, queue_of(s), &written);
    if (!intact) faults_wrong(a, "%s wrote beside its outputs", small_names[which]);
    if (status == CLATTN_OK && a->code != LAYER_FAILED_EVENT) {
        if (!known[which]) expected[which] = written, known[which] = true;
        if (!(fabs(written - expected[which]) <= may_differ(expected[which])))
            faults_wrong(a, "%s wrote %.17g, and %.17g before", small_names[which], written, expected[which]);
    }
    small_close(&call);
}

// Planning only queries the buffers.
static void run_plans(const struct subject *s, struct attempt *a) {
    struct case_data *data = case_make(s->test);
    struct case_arrays arrays;
    clattn_plan plan;
    size_t bytes = 0;
    clattn_context *context = harness()->context;
    case_bind(data, harness_place(), &arrays);
    faults_begin(a);
    clattn_status status = clattn_attention_plan(context, &arrays.params, &plan);
    if (status == CLATTN_OK) status = clattn_attention_workspace(context, &arrays.params, &bytes);
    if (status == CLATTN_OK) status = clattn_attention_prepare(context, &arrays.params);
    faults_end(a, status);
    case_unbind(&arrays);
    case_free(data);
}

// CLBlast projections query the queue for a property that has a default.
static const char *const clblast_spared[] = {"clGetCommandQueueInfo", "clGetEventInfo", "clWaitForEvents",
                                             "clRetainEvent", NULL};
// Queries of whether borrowed memory is free. If they fail, the context allocates other memory
// instead.
static const char *const spared[] = {"clGetEventInfo", "clWaitForEvents", "clRetainEvent", NULL};
// If fusing fails, the recording stays unfused.
static const char *const fusing_spared[] = {"clCreateProgramWithSource",
                                            "clCompileProgram",
                                            "clLinkProgram",
                                            "clGetProgramBuildInfo",
                                            "clCreateProgramWithBinary",
                                            "clBuildProgram",
                                            "clGetEventInfo",
                                            "clWaitForEvents",
                                            "clRetainEvent",
                                            NULL};

#define BOTH(text, function, case_of, clblast, list)                                                         \
    {.name = text,                                                                                           \
     .run = function,                                                                                        \
     .test = &(case_of),                                                                                     \
     .borrows = true,                                                                                        \
     .through_clblast = clblast,                                                                             \
     .spared = list},                                                                                        \
    {                                                                                                        \
        .name = text ", out of order", .run = function, .test = &(case_of), .borrows = true,                 \
        .through_clblast = clblast, .spared = list, .out_of_order = true                                     \
    }

#define ONE(text, function, case_of, unordered)                                                              \
    {                                                                                                        \
        .name = text, .run = function, .test = &(case_of), .borrows = true, .spared = spared,                \
        .out_of_order = unordered                                                                            \
    }
#define SMALL(number)                                                                                        \
    {                                                                                                        \
        .name = #number, .run = run_small, .small = number, .borrows = true, .spared = spared,               \
        .out_of_order = (number) % 2 != 0                                                                    \
    }

const struct subject faults_calls[] = {
    BOTH("flash", run_case, flash, false, spared),
    {.name = "tables of new words",
     .run = run_tables,
     .test = &flash,
     .borrows = true,
     .writes = true,
     .spared = spared},
    {.name = "tables of new words, out of order",
     .run = run_tables,
     .test = &flash,
     .borrows = true,
     .writes = true,
     .spared = spared,
     .out_of_order = true},
    BOTH("split keys", run_case, splits, false, spared),
    BOTH("unfused with RoPE and weights", run_case, unfused, false, spared),
    BOTH("unfused with progress", run_heard, unfused, false, spared),
    BOTH("no rows", run_case, empty, false, spared),
    BOTH("the caller's workspace and event", run_given, unfused, false, spared),
    BOTH("merge", run_merge, flash, false, spared),
    BOTH("native layer", run_case, native_layer, false, spared),
    {.name = "native layer with progress",
     .run = run_heard,
     .test = &native_layer,
     .borrows = true,
     .spared = spared},
    BOTH("native linear", run_case, native_linear, false, spared),
    BOTH("CLBlast's layer", run_case, clblast_layer, true, clblast_spared),
    BOTH("CLBlast's linear", run_case, clblast_linear, true, clblast_spared),
    {.name = "plan, workspace, prepare", .run = run_plans, .test = &unfused, .spared = spared},
    BOTH("past keys of their own lengths and positions", run_case, past, false, spared),
    {.name = "recorded layer",
     .run = run_recorded,
     .test = &native_layer,
     .borrows = true,
     .replays = true,
     .spared = spared},
    {.name = "recorded layer, out of order",
     .run = run_recorded,
     .test = &native_layer,
     .borrows = true,
     .replays = true,
     .spared = spared,
     .out_of_order = true},
    {.name = "fused layer",
     .run = run_recorded,
     .test = &native_layer,
     .borrows = true,
     .fuses = true,
     .replays = true,
     .spared = fusing_spared},
    ONE("pages", run_case, pages, false),
    ONE("appended rows", run_case, appended, true),
    ONE("ragged batch", run_case, ragged, false),
    ONE("ragged batch on the device", run_case, ragged_device, true),
    ONE("expressions and blocks", run_case, mods, false),
    ONE("normalised and gated layer", run_case, gated, true),
    SMALL(SMALL_APPEND),
    SMALL(SMALL_SHIFT),
    SMALL(SMALL_ROPE),
    SMALL(SMALL_DROPOUT_MASK),
    SMALL(SMALL_BLOCK_MASK),
    SMALL(SMALL_LAYER_KV),
    SMALL(SMALL_NORM),
    SMALL(SMALL_ACTIVATION),
    SMALL(SMALL_EMBEDDING),
    SMALL(SMALL_ARGMAX),
    SMALL(SMALL_SAMPLE),
    SMALL(SMALL_BACKWARD),
    SMALL(SMALL_LINEAR_BACKWARD),
    SMALL(SMALL_LAYER_BACKWARD),
    SMALL(SMALL_LAYER_FORWARD),
    {.name = NULL}};
