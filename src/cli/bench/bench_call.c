// bench_call.c: set up one bench case on a device: inputs, output, mask, plan, workspace and call.
#include "verification/case/case_mods.h"
#include "verification/device/opencl.h"
#include "verification/limits/model.h"
#include "cli/bench/bench_baseline.h"
#include "cli/bench/bench_call.h"

// Lengths of the documents in 64ths of the sequence, chosen so that documents do not end where
// tiles end.
static const int parts[] = {7, 19, 3, 23, 12};

// The document of key j. Query rows are the last rows of the sequence.
static int document_of(const struct test_case *t, int64_t j) {
    int64_t end = 0;
    int n = 0;
    for (; n < 4; n++) {
        end += parts[n];
        if (j < t->n_kv * end / 64) break;
    }
    return n;
}

static int document_of_row(const struct test_case *t, int64_t i) {
    const int64_t j = i + t->n_kv - t->n_q;
    return document_of(t, j < 0 ? 0 : j);
}

// A mask that the kernel reads may have at most GUARDED_PERIOD elements: a larger one would repeat.
// With BENCH_MASK_DOCUMENTS_MOD only the reference reads a mask, which is stored whole in host
// memory: at most 1 << 25 elements, 268 MB.
bool bench_mask_fits(const struct test_case *t, bench_mask how, char why[256]) {
    const int64_t pairs = t->n_q * t->n_kv;
    const bool given = how != BENCH_MASK_DOCUMENTS_MOD, fits = pairs <= (given ? GUARDED_PERIOD : 1 << 25);
    if (!fits)
        snprintf(why, 256, "%s",
                 given ? "a mask may have at most a million elements here: a larger one would repeat"
                       : "the documents' mask for the reference has more than 33 million elements");
    else if (t->mask.rank != 2 || t->mask.repeat)
        snprintf(why, 256, "documents need a mask [Nq, Nkv]");
    return fits && t->mask.rank == 2 && !t->mask.repeat;
}

void bench_mask_fill(struct case_data *data, bench_mask how) {
    const struct test_case *t = &data->test;
    if (how == BENCH_MASK_RANDOM) return;
    if (t->n_q * t->n_kv > GUARDED_PERIOD) {
        free(data->mask);
        data->map_period = t->n_q * t->n_kv;
        data->mask = reference_alloc(data->map_period);
    }
    for (int64_t i = 0; i < t->n_q; i++)
        for (int64_t j = 0; j < t->n_kv; j++)
            data->mask[i * t->n_kv + j] =
                how == BENCH_MASK_KEPT || document_of_row(t, i) == document_of(t, j);
}

static void bind_documents(struct place *place, const struct test_case *t, bool rows, struct guarded *to) {
    const int64_t count = rows ? t->n_q : t->n_kv;
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 2, {t->batch, count}, LAYOUT_DENSE};
    double *values = reference_alloc(t->batch * count);
    for (int64_t n = 0; n < t->batch * count; n++)
        values[n] = rows ? document_of_row(t, n % count) : document_of(t, n % count);
    *to = guarded_input(place, &shape, values);
    free(values);
}

void bench_mask_bind(const struct case_data *data, struct place *place, struct case_arrays *a,
                     bench_mask how) {
    clattn_score *s = &a->params.score;
    if (how != BENCH_MASK_DOCUMENTS_MOD) return;
    for (int n = 0; n < 2; n++) {
        bind_documents(place, &data->test, n == 0, &a->mods[n]);
        s->mod_buffers[n] = a->mods[n].view;
    }
    s->mask = (clattn_tensor){0};
    s->mask_mod = CLATTN_MASK_MOD_DOCUMENT;
    if (s->block_mask.rank > 0) case_blocks_fill(place, &a->params);
}

double bench_mask_pairs(const struct case_data *data, bench_mask how) {
    const struct test_case *t = &data->test;
    double pairs = 0.0;
    if (how == BENCH_MASK_RANDOM || how == BENCH_MASK_KEPT)
        return model_pairs(&t->score, t->batch, t->n_q, t->n_kv);
    for (int64_t n = 0; n < t->n_q * t->n_kv; n++) pairs += data->mask[n] != 0;
    return (double)t->batch * pairs;
}

static bench_status status_of(bench_call *p, clattn_status status, char why[256]) {
    if (status == CLATTN_OK) return BENCH_OK;
    snprintf(why, 256, "%.255s", p->session->message[0] ? p->session->message : clattn_status_text(status));
    return status == CLATTN_UNSUPPORTED ? BENCH_UNSUPPORTED : BENCH_FAIL;
}

// A case that needs more memory than the device has is unsupported, not failed.
static bench_status count_bytes(bench_call *p, double bytes, double largest, char why[256]) {
    const clattn_capabilities *of = p->session->capabilities;
    p->bytes += bytes;
    if (largest <= (double)of->max_allocation_bytes && p->bytes <= (double)of->global_memory_bytes)
        return BENCH_OK;
    snprintf(why, 256, "a buffer of %.3g MiB, or %.3g MiB in total, is more than the device has",
             largest / 0x1p20, p->bytes / 0x1p20);
    return BENCH_UNSUPPORTED;
}

static bench_status make_scratch(bench_call *p, double bytes, char why[256]) {
    cl_int code = CL_SUCCESS;
    const bench_status status = count_bytes(p, bytes, bytes, why);
    if (status != BENCH_OK) return status;
    p->scratch = clCreateBuffer(p->place.opencl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (p->scratch) return BENCH_OK;
    snprintf(why, 256, "a buffer of %.3g MiB: OpenCL error %d", bytes / 0x1p20, (int)code);
    return BENCH_FAIL;
}

static bench_status plan_call(bench_call *p, char kernel[32], char why[256]) {
    clattn_context *context = p->session->context;
    const case_op op = p->c.test.op;
    clattn_plan plan = {0};
    clattn_linear_choice choice = {0};
    const bench_status status =
        status_of(p,
                  op == CASE_LINEAR     ? clattn_linear_plan(context, &p->arrays.linear, &choice)
                  : op == CASE_LAYER    ? clattn_layer_plan(context, &p->arrays.layer, &plan)
                  : op == CASE_BACKWARD ? clattn_attention_backward_plan(context, &p->arrays.backward, &plan)
                                        : clattn_attention_plan(context, &p->arrays.params, &plan),
                  why);
    const struct test_case *t = &p->c.test;
    const bool projects = op == CASE_LINEAR;
    snprintf(kernel, 32, "%s", projects ? choice.kernel_name : plan.kernel_name);
    p->engine =
        limits_engine(kernel, plan.matrix_instructions, t->q_type, projects ? t->matrix_type : t->kv_type);
    return status;
}

bench_status bench_call_create(bench_call *p, session *s, const bench_case *c, char kernel[32],
                               char why[256]) {
    double largest = 0;
    *p = (bench_call){.session = s, .c = *c, .place = session_place(s)};
    p->c.test = case_complete(&c->test);
    // Save one host copy of the large tensors, which are timed and not guarded.
    p->place.bare = true;
    p->place.guard = 0;
    snprintf(kernel, 32, "%s", p->c.test.composed ? "clblast" : "");
    if (p->c.test.composed && !composition_can(&p->c.test, why)) return BENCH_UNSUPPORTED;
    const double bytes = case_bytes(&p->c.test, &largest);
    bench_status status = count_bytes(p, bytes, largest, why);
    if (status != BENCH_OK) return status;
    p->data = case_make(&p->c.test);
    bench_mask_fill(p->data, c->mask);
    case_bind(p->data, &p->place, &p->arrays);
    bench_mask_bind(p->data, &p->place, &p->arrays, c->mask);
    if (p->place.error[0]) {
        snprintf(why, 256, "%s", p->place.error);
        return BENCH_FAIL;
    }
    return p->c.test.composed ? BENCH_OK : plan_call(p, kernel, why);
}

void bench_call_destroy(bench_call *p) {
    if (p->session->queue) clFinish(p->session->queue);
    composition_destroy(p->composition);
    case_unbind(&p->arrays);
    if (p->scratch) clReleaseMemObject(p->scratch);
    if (p->data) case_free(p->data);
    p->composition = NULL;
    p->scratch = NULL;
    p->data = NULL;
}

static bench_status prepare_composition(bench_call *p, char why[256]) {
    const struct test_case *t = &p->c.test;
    const double scores = (double)t->batch * (double)t->heads * (double)t->n_q * (double)t->n_kv;
    const bench_status status = make_scratch(p, scores * sizeof(float), why);
    if (status != BENCH_OK) return status;
    const composition_buffers buffers = {p->arrays.q.view.buffer, p->arrays.k.view.buffer,
                                         p->arrays.v.view.buffer, p->scratch, p->arrays.out.view.buffer};
    const uint64_t start = measure_clock_ns();
    p->composition = composition_create(p->session, t, &buffers, why);
    p->build_ns = (double)(measure_clock_ns() - start);
    return p->composition ? BENCH_OK : BENCH_FAIL;
}

static clattn_status ask_workspace(bench_call *p, size_t *bytes, cl_mem **workspace) {
    clattn_context *context = p->session->context;
    struct case_arrays *a = &p->arrays;
    if (a->op == CASE_LINEAR) {
        *workspace = &a->linear.workspace;
        return clattn_linear_workspace(context, &a->linear, bytes);
    }
    if (a->op == CASE_BACKWARD) {
        *workspace = &a->backward.workspace;
        return clattn_attention_backward_workspace(context, &a->backward, bytes);
    }
    *workspace = a->op == CASE_LAYER ? &a->layer.workspace : &a->params.workspace;
    return a->op == CASE_LAYER ? clattn_layer_workspace(context, &a->layer, bytes)
                               : clattn_attention_workspace(context, &a->params, bytes);
}

bench_status bench_call_prepare(bench_call *p, char why[256]) {
    clattn_context *context = p->session->context;
    const struct case_arrays *a = &p->arrays;
    cl_mem *workspace = NULL;
    size_t bytes = 0;
    if (p->c.test.composed) return prepare_composition(p, why);
    bench_status status = status_of(p, ask_workspace(p, &bytes, &workspace), why);
    if (status == BENCH_OK && bytes) status = make_scratch(p, (double)bytes, why);
    if (status != BENCH_OK) return status;
    *workspace = p->scratch;
    return status_of(p,
                     a->op == CASE_LINEAR     ? clattn_linear_prepare(context, &a->linear)
                     : a->op == CASE_LAYER    ? clattn_layer_prepare(context, &a->layer)
                     : a->op == CASE_BACKWARD ? clattn_attention_backward_prepare(context, &a->backward)
                                              : clattn_attention_prepare(context, &a->params),
                     why);
}

static bool in_time(void *user, double done) {
    bench_call *p = user;
    p->share = done;
    p->late = (double)(measure_clock_ns() - p->start_ns) > 1e6 * p->watched_ms;
    return !p->late;
}

void bench_call_watch(bench_call *p, double most_ms) {
    const clattn_progress *progress = most_ms > 0.0 ? &p->progress : NULL;
    p->progress = (clattn_progress){in_time, p};
    p->watched_ms = most_ms;
    p->late = false;
    p->arrays.params.progress = p->arrays.layer.progress = p->arrays.backward.progress = progress;
}

static bench_status enqueue_case(bench_call *p, cl_event *event) {
    p->start_ns = measure_clock_ns();
    const bench_status status =
        status_of(p, case_enqueue(p->session->context, p->session->queue, &p->arrays, event), p->why);
    if (status == BENCH_OK || !p->late) return status;
    snprintf(p->why, sizeof p->why,
             "a run takes more than ten times --max-ms: stopped after %.1f s, %.0f %% of it",
             (double)(measure_clock_ns() - p->start_ns) / 1e9, 100.0 * p->share);
    return BENCH_UNSUPPORTED;
}

bool bench_call_enqueue(void *user, cl_event *event) {
    bench_call *p = user;
    if (p->composition)
        p->status = composition_enqueue(p->composition, event, p->why) ? BENCH_OK : BENCH_FAIL;
    else
        p->status = enqueue_case(p, event);
    return p->status == BENCH_OK;
}
