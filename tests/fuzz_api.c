/* The API: a right call in small sizes, then changes to it that the input chooses: enums, shapes, strides, offsets, numbers
 * and handles, likely and unlikely ones. Plan and enqueue must answer with a status and a line, and agree; what is enqueued
 * runs on buffers between pages that nobody may touch, so that a kernel that leaves its view ends the run. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <clattn/clattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "evidence/choose_device.h"

enum { BUFFER_BYTES = 32768, PLACES = 14, MOST_FIELDS = 32, MOST_WORK = 4000000 };

/* Buffers: one for each tensor, then those that no call may use so. */
enum { TINY = PLACES, READ_ONLY, WRITE_ONLY, FOREIGN, BUFFERS };
static cl_mem buffers[BUFFERS];
static size_t buffer_bytes[BUFFERS];
static clattn_context *context;
static cl_command_queue queue, foreign_queue;

/* A buffer whose memory ends at a page that cannot be touched, and begins behind one. */
static cl_mem make_buffer(cl_context of, cl_mem_flags flags, size_t bytes) {
    const size_t page = 4096, room = (bytes + page - 1) / page * page;
    cl_int code = CL_SUCCESS;
    unsigned char *memory = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(memory != MAP_FAILED && mprotect(memory + page, room, PROT_READ | PROT_WRITE) == 0);
    memset(memory + page, 0x3c, room); /* small finite numbers in every type */
    const cl_mem buffer =
        clCreateBuffer(of, flags | CL_MEM_USE_HOST_PTR, bytes, memory + page + room - bytes, &code);
    FUZZ_CHECK(buffer && code == CL_SUCCESS);
    return buffer;
}

static void make_buffers(cl_context own, cl_context foreign) {
    for (int i = 0; i < BUFFERS; i++) {
        const cl_mem_flags flags = i == READ_ONLY    ? CL_MEM_READ_ONLY
                                   : i == WRITE_ONLY ? CL_MEM_WRITE_ONLY
                                                     : CL_MEM_READ_WRITE;
        buffer_bytes[i] = i == TINY ? 64 : BUFFER_BYTES;
        buffers[i] = make_buffer(i == FOREIGN ? foreign : own, flags, buffer_bytes[i]);
    }
}

/* Without a measurement of CLBlast: it would take minutes. */
static const char rows[] = "linear_few_lanes cpu=1 nq=..40 :\nlinear_lanes cpu=1 :\n";

static void set_up(void) {
    clattn_device devices[16];
    size_t count = 0;
    cl_int code = CL_SUCCESS;
    const char *wanted = getenv("CLATTN_TEST_DEVICE");
    FUZZ_CHECK(clattn_device_list(devices, 16, &count, NULL) == CLATTN_OK);
    const clattn_device *device = choose_device(devices, count < 16 ? count : 16, wanted ? wanted : "cpu");
    FUZZ_CHECK(device);
    const clattn_context_params params = {
        .device = device->device, .cache_dir = getenv("FUZZ_CACHE"), .tuned_rows = rows};
    FUZZ_CHECK(clattn_context_create(&params, &context) == CLATTN_OK);
    const cl_context own = clattn_context_opencl(context),
                     foreign = clCreateContext(NULL, 1, &device->device, NULL, NULL, &code);
    queue = clCreateCommandQueue(own, device->device, 0, &code);
    foreign_queue = clCreateCommandQueue(foreign, device->device, 0, &code);
    FUZZ_CHECK(queue && foreign_queue);
    make_buffers(own, foreign);
}

static void tear_down(void) {
    for (int i = 0; i < BUFFERS; i++) clReleaseMemObject(buffers[i]);
    cl_context foreign = NULL;
    clGetCommandQueueInfo(foreign_queue, CL_QUEUE_CONTEXT, sizeof foreign, &foreign, NULL);
    clReleaseCommandQueue(queue);
    clReleaseCommandQueue(foreign_queue);
    clReleaseContext(foreign);
    clattn_context_destroy(context);
}

/* What an input may change of a call. */
typedef struct fields {
    clattn_tensor *tensors[MOST_FIELDS];
    int32_t *ints[MOST_FIELDS];
    float *floats[MOST_FIELDS];
    bool *bools[MOST_FIELDS];
    cl_mem *workspace;
    clattn_score *score;
    clattn_rope *rope;
    int tensor_count, int_count, float_count, bool_count;
    unsigned arrays; /* host arrays that are given, a bit for each */
    int outputs;     /* a bit for each of tensors */
} fields;

static clattn_tensor *add_tensor(fields *f, clattn_tensor *t) {
    return f->tensors[f->tensor_count++] = t;
}

/* A dense view in a buffer of its own. */
static void add_view(fields *f, clattn_tensor *t, clattn_type type, int rank, const int64_t *shape) {
    *t = clattn_tensor_dense(buffers[f->tensor_count], type, rank, shape);
    add_tensor(f, t);
}

static void add_int(fields *f, void *i) {
    f->ints[f->int_count++] = i;
}

static void add_score(fields *f, clattn_score *s, clattn_rope *r) {
    f->score = s, f->rope = r;
    add_int(f, &s->alignment), add_int(f, &s->offset), add_int(f, &s->window_left),
        add_int(f, &s->window_right);
    add_int(f, &r->layout), add_int(f, &r->rotary_dim), add_int(f, &r->scaling);
    f->floats[f->float_count++] = &s->scale, f->floats[f->float_count++] = &s->softcap,
    f->floats[f->float_count++] = &s->dropout;
    f->bools[f->bool_count++] = &s->causal, f->bools[f->bool_count++] = &s->window;
}

static int64_t number(fuzz_bytes *b) {
    static const int64_t numbers[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      5,
                                      8,
                                      16,
                                      33,
                                      64,
                                      255,
                                      256,
                                      4096,
                                      65536,
                                      INT64_C(1) << 28,
                                      INT32_MAX - 65536,
                                      INT32_MAX - 65535,
                                      INT32_MAX - 1,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_C(1) << 31,
                                      INT64_C(1) << 32,
                                      INT64_C(1) << 33,
                                      (INT64_C(1) << 58) - 1,
                                      INT64_C(1) << 58,
                                      INT64_C(1) << 59,
                                      (INT64_C(1) << 59) + 1,
                                      INT64_C(1) << 61,
                                      INT64_C(1) << 62,
                                      INT64_MAX - 1,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT64_MIN + 1};
    enum { COUNT = sizeof numbers / sizeof numbers[0] };
    const int chosen = fuzz_byte(b);
    return chosen < COUNT ? numbers[chosen]
           : chosen < 128 ? chosen - COUNT
                          : (int64_t)chosen * fuzz_byte(b) - 16384;
}

static double real(fuzz_bytes *b) {
    static const double reals[] = {0.0, 1.0, -1.0, 0.5, 30.0, 1e-3, 1e30, 1e-45, 3e38, -0.0, 1e300, 1e-300};
    const int chosen = fuzz_below(b, 16);
    return chosen < 12    ? reals[chosen]
           : chosen == 12 ? (double)NAN
           : chosen == 13 ? (double)INFINITY
           : chosen == 14 ? -(double)INFINITY
                          : fuzz_byte(b);
}

static cl_mem handle(fuzz_bytes *b) {
    const int chosen = fuzz_below(b, BUFFERS + 1);
    return chosen < BUFFERS ? buffers[chosen] : NULL;
}

static void change_tensor(clattn_tensor *t, fuzz_bytes *b) {
    const int what = fuzz_below(b, 12), axis = what & 3;
    if (what < 4)
        t->shape[axis] = number(b);
    else if (what < 8)
        t->stride[axis] = number(b);
    else if (what == 8)
        t->offset = number(b);
    else if (what == 9)
        t->type = (clattn_type)number(b);
    else if (what == 10)
        t->rank = (int)number(b);
    else
        t->buffer = handle(b);
}

static void change_rope(clattn_rope *r, fuzz_bytes *b) {
    const int what = fuzz_below(b, 4);
    static const int32_t positions[1] = {0};
    if (what == 0) r->base = real(b);
    if (what == 1) r->factor = real(b);
    if (what == 2) r->position = number(b);
    if (what == 3) r->positions = positions;
}

/* One change. The first bytes are those that matter most. */
static void change(fields *f, fuzz_bytes *b) {
    const int what = fuzz_below(b, 16);
    if (what < 8)
        change_tensor(f->tensors[fuzz_below(b, f->tensor_count)], b);
    else if (what < 10 && f->int_count)
        *f->ints[fuzz_below(b, f->int_count)] = (int32_t)(uint64_t)number(b);
    else if (what == 10 && f->float_count)
        *f->floats[fuzz_below(b, f->float_count)] = (float)real(b);
    else if (what == 11 && f->bool_count)
        *f->bools[fuzz_below(b, f->bool_count)] ^= true;
    else if (what < 14 && f->score)
        f->arrays ^= 1u << fuzz_below(b, 6);
    else if (what == 14 && f->rope)
        change_rope(f->rope, b);
    else if (f->workspace)
        *f->workspace = handle(b);
}

/* A host array of exactly `count` numbers; NULL where it would be too long to make. */
static void *host_array(fuzz_bytes *b, int64_t count, bool integers) {
    if (count < 0 || count > 4096) return NULL;
    int32_t *made = malloc(count ? (size_t)count * sizeof *made : 1);
    for (int64_t i = 0; made && i < count; i++) {
        const float x = (float)real(b);
        if (integers)
            made[i] = (int32_t)(uint64_t)number(b);
        else
            memcpy(made + i, &x, sizeof x);
    }
    return made;
}

static void add_arrays(fields *f, fuzz_bytes *b, int64_t batch, int64_t heads) {
    clattn_score *s = f->score;
    if (f->arrays & 1) s->head_scales = host_array(b, heads, false);
    if (f->arrays & 2) s->alibi_slopes = host_array(b, heads, false);
    if (f->arrays & 4) s->sinks = host_array(b, heads, false);
    if (f->arrays & 8) s->offsets = host_array(b, batch, true);
    if (f->arrays & 16) s->q_lengths = host_array(b, batch, true);
    if (f->arrays & 32) s->kv_lengths = host_array(b, batch, true);
}

static void free_arrays(fields *f) {
    const clattn_score *s = f->score;
    if (!s) return;
    free((void *)s->head_scales), free((void *)s->alibi_slopes), free((void *)s->sinks);
    free((void *)s->offsets), free((void *)s->q_lengths), free((void *)s->kv_lengths);
}

static size_t bytes_of(cl_mem buffer) {
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i] == buffer) return i == FOREIGN ? 0 : buffer_bytes[i];
    return 0;
}

/* Whether every view lies in its buffer, reckoned again in 128 bits. */
static bool fits(const clattn_tensor *t) {
    __int128 last = t->offset;
    if (t->rank == 0 && !t->buffer) return true;
    if (t->rank < 0 || t->rank > CLATTN_MAX_RANK) return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0) return true;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0 || t->stride[i] < 0) return false;
        last += (__int128)(t->shape[i] - 1) * t->stride[i];
    }
    return t->offset >= 0 &&
           (last + 1) * (__int128)clattn_type_size(t->type) <= (__int128)bytes_of(t->buffer);
}

static bool all_fit(const fields *f) {
    for (int i = 0; i < f->tensor_count; i++)
        if (!fits(f->tensors[i])) return false;
    return true;
}

/* A refusal is a request's or this build's, never the driver's, and says why in one line. */
static bool answered(clattn_status status) {
    char text[1024] = "";
    if (status == CLATTN_OK) return true;
    FUZZ_CHECK(status == CLATTN_INVALID_ARGUMENT || status == CLATTN_UNSUPPORTED ||
               status == CLATTN_OUT_OF_MEMORY);
    FUZZ_CHECK(clattn_context_last_error(context, text, sizeof text) > 0);
    fuzz_check_error(false, text);
    return false;
}

/* Compiling takes seconds: a new kernel is let in every now and then. */
static bool kernel_may_run(const void *signature, size_t bytes) {
    enum { MOST = 4096 };
    static uint64_t known[MOST], calls;
    static int count;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)signature)[i]) * 1099511628211u;
    calls++;
    for (int i = 0; i < count; i++)
        if (known[i] == hash) return true;
    if (count >= MOST || (uint64_t)count > 12 + calls / 500) return false;
    known[count++] = hash;
    return true;
}

/* The queue and events of a call, right or wrong. */
typedef struct launch {
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event event, *to;
    bool wrong;
} launch;

static void choose_launch(launch *at, fuzz_bytes *b) {
    static const cl_event none[1] = {NULL};
    const int chosen = fuzz_below(b, 16);
    *at = (launch){.queue = queue, .to = chosen & 1 ? &at->event : NULL, .wrong = chosen >= 12};
    if (chosen == 12) at->queue = NULL;
    if (chosen == 13) at->queue = foreign_queue;
    if (chosen == 14) at->wait_count = 1;
    if (chosen == 15) at->wait_count = 1, at->wait_list = none;
}

static bool finish(const launch *at, clattn_status status, bool right) {
    const bool done = answered(status);
    FUZZ_CHECK(right || !done);
    FUZZ_CHECK(done || !at->event);
    if (done) FUZZ_CHECK(clFinish(queue) == CL_SUCCESS);
    if (at->event) FUZZ_CHECK(clReleaseEvent(at->event) == CL_SUCCESS);
    return done;
}

static int small(fuzz_bytes *b) {
    static const int sizes[] = {1, 2, 3, 5, 8, 17, 33, 4};
    return sizes[fuzz_below(b, 8)];
}

static int head_size(fuzz_bytes *b) {
    static const int sizes[] = {8, 8, 8, 8, 8, 16, 8, 3};
    return sizes[fuzz_below(b, 8)];
}

static clattn_type float_type(fuzz_bytes *b) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32,
                                        CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16};
    return types[fuzz_below(b, 6)];
}

/* Multiply-adds of a call; a view may repeat an element and so ask for any number of them. */
static double work_of(const clattn_tensor *q, int64_t keys, int64_t width) {
    return (double)q->shape[0] * (double)q->shape[1] * (double)q->shape[2] * (double)keys * (double)width;
}

/* All that makes another program. */
static bool attention_may_run(const clattn_attention_params *p, const clattn_plan *plan) {
    const clattn_score *s = &p->score;
    struct {
        char name[32];
        int64_t numbers[20];
    } of = {"",
            {p->q.type, p->kv.k.type, p->out.type, p->q.shape[3], p->kv.v.shape[3], plan->tile_q,
             plan->tile_kv, plan->splits > 1, p->weights.rank ? 1 + (int)p->weights.type : 0,
             s->bias.rank ? 1 + (int)s->bias.type : 0, s->mask.rank != 0, s->softcap != 0.0f,
             s->alibi_slopes != NULL, s->causal, s->window, s->sinks != NULL, p->rope.layout,
             s->head_scales != NULL}};
    memcpy(of.name, plan->kernel_name, sizeof of.name);
    return work_of(&p->q, p->kv.k.shape[2], p->q.shape[3] + p->kv.v.shape[3]) <= MOST_WORK &&
           kernel_may_run(&of, sizeof of);
}

static bool run_attention(const clattn_attention_params *p, fields *f, launch *at) {
    clattn_plan plan = {.workspace_bytes = 0};
    clattn_family families[16];
    size_t bytes = 0, count = 0;
    const clattn_status status = clattn_attention_plan(context, p, &plan);
    const bool planned = answered(status), fit = all_fit(f);
    FUZZ_CHECK(clattn_attention_workspace(context, p, &bytes) == status && bytes == plan.workspace_bytes);
    FUZZ_CHECK(clattn_attention_families(context, p, families, 16, &count) == status);
    if (planned && fit && !attention_may_run(p, &plan)) return true;
    return finish(at, clattn_attention_enqueue(context, at->queue, p, at->wait_count, at->wait_list, at->to),
                  planned && fit && !at->wrong);
}

static bool layer_may_run(const clattn_layer_params *p, const clattn_plan *plan) {
    const clattn_attention_params a = {
        .q = {.type = p->x.type, .shape = {p->x.shape[0], p->heads, p->x.shape[1], p->wq.shape[0]}},
        .kv.k.shape = {0, 0, p->y.rank ? p->y.shape[1] : p->x.shape[1], 0},
        .kv.v.shape = {0, 0, 0, p->wv.shape[0]},
        .kv.k.type = p->wq.type,
        .out.type = p->bq.rank ? p->bq.type : p->wq.type,
        .weights = p->weights,
        .score = p->score,
        .rope = p->rope};
    return p->projection == CLATTN_PROJECTION_NATIVE && attention_may_run(&a, plan);
}

static bool run_layer(const clattn_layer_params *p, fields *f, launch *at) {
    clattn_plan plan = {.workspace_bytes = 0};
    size_t bytes = 0;
    const clattn_status status = clattn_layer_plan(context, p, &plan);
    const bool planned = answered(status), fit = all_fit(f);
    FUZZ_CHECK(clattn_layer_workspace(context, p, &bytes) == status);
    if (planned && fit && !layer_may_run(p, &plan)) return true;
    return finish(at, clattn_layer_enqueue(context, at->queue, p, at->wait_count, at->wait_list, at->to),
                  planned && fit && !at->wrong);
}

static bool run_linear(const clattn_linear_params *p, fields *f, launch *at) {
    clattn_linear_choice choice = {.workspace_bytes = 0};
    size_t bytes = 0;
    const clattn_status status = clattn_linear_plan(context, p, &choice);
    const bool planned = answered(status), fit = all_fit(f);
    FUZZ_CHECK(clattn_linear_workspace(context, p, &bytes) == status && bytes == choice.workspace_bytes);
    const int64_t of[] = {p->x.type, p->w.type, p->b.rank ? 1 + (int)p->b.type : 0, choice.kernel_name[7],
                          p->x.shape[1] > 8};
    const clattn_tensor x = {.shape = {1, p->x.shape[0], p->x.shape[1]}};
    if (planned && fit &&
        (choice.projection != CLATTN_PROJECTION_NATIVE ||
         work_of(&x, p->x.shape[2], p->w.shape[0]) > MOST_WORK || !kernel_may_run(of, sizeof of)))
        return true;
    return finish(at, clattn_linear_enqueue(context, at->queue, p, at->wait_count, at->wait_list, at->to),
                  planned && fit && !at->wrong);
}

static void change_all(fields *f, fuzz_bytes *b) {
    f->arrays = fuzz_below(b, 4) ? 0 : fuzz_byte(b);
    for (int left = fuzz_below(b, 6); left > 0; left--) change(f, b);
}

static bool attention(fuzz_bytes *b) {
    const int64_t batch = 1 + fuzz_below(b, 2), kv_heads = 1 + fuzz_below(b, 2),
                  heads = kv_heads * (1 + fuzz_below(b, 2));
    const int64_t n_q = small(b), n_kv = small(b), d = head_size(b), dv = fuzz_below(b, 4) ? d : head_size(b);
    const clattn_type q = float_type(b), kv = fuzz_below(b, 8) ? q : CLATTN_TYPE_I8;
    const unsigned with = fuzz_byte(b) & fuzz_byte(b);
    clattn_attention_params p = {.kernel = (clattn_kernel)(fuzz_below(b, 8) % CLATTN_KERNEL_COUNT)};
    fields f = {.workspace = &p.workspace};
    launch at;
    choose_launch(&at, b);
    add_view(&f, &p.q, q, 4, (int64_t[]){batch, heads, n_q, d});
    add_view(&f, &p.kv.k, kv, 4, (int64_t[]){batch, kv_heads, n_kv, d});
    add_view(&f, &p.kv.v, kv, 4, (int64_t[]){batch, kv_heads, n_kv, dv});
    add_view(&f, &p.out, q, 4, (int64_t[]){batch, heads, n_q, dv});
    const int64_t full[4] = {batch, heads, n_q, n_kv}, keys[3] = {batch, kv_heads, n_kv};
    const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_BOOL, q};
    clattn_tensor *const optional[] = {&p.lse, &p.weights, &p.scores, &p.score.mask, &p.score.bias};
    for (int i = 0; i < 5; i++) {
        add_view(&f, optional[i], types[i], i == 0 ? 3 : 4, full);
        if (!(with >> i & 1)) *optional[i] = (clattn_tensor){0};
    }
    add_view(&f, &p.kv.k_scale, CLATTN_TYPE_F32, 3, keys),
        add_view(&f, &p.kv.v_scale, CLATTN_TYPE_F32, 3, keys);
    if (kv != CLATTN_TYPE_I8) p.kv.k_scale = p.kv.v_scale = (clattn_tensor){0};
    p.score.causal = with >> 5 & 1;
    p.score.window = with >> 6 & 1, p.score.window_left = 2;
    if (with >> 7 & 1) p.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF};
    add_int(&f, &p.kernel), add_int(&f, &p.splits), add_int(&f, &p.scores_at);
    add_score(&f, &p.score, &p.rope);
    change_all(&f, b);
    add_arrays(&f, b, p.q.shape[0], p.q.shape[1]);
    const bool done = run_attention(&p, &f, &at);
    free_arrays(&f);
    return done;
}

static bool layer(fuzz_bytes *b) {
    const int64_t batch = 1 + fuzz_below(b, 2), kv_heads = 1 + fuzz_below(b, 2),
                  heads = kv_heads * (1 + fuzz_below(b, 2));
    const int64_t n_q = small(b), n_kv = small(b), d = 8, width = 8 * (1 + fuzz_below(b, 2));
    const clattn_type type = float_type(b);
    const unsigned with = fuzz_byte(b) & fuzz_byte(b);
    clattn_layer_params p = {
        .heads = (int32_t)heads, .kv_heads = (int32_t)kv_heads, .projection = CLATTN_PROJECTION_NATIVE};
    fields f = {.workspace = &p.workspace};
    launch at;
    choose_launch(&at, b);
    add_view(&f, &p.x, type, 3, (int64_t[]){batch, n_q, width});
    add_view(&f, &p.out, type, 3, (int64_t[]){batch, n_q, width});
    add_view(&f, &p.wq, type, 2, (int64_t[]){heads * d, width});
    add_view(&f, &p.wk, type, 2, (int64_t[]){kv_heads * d, width});
    add_view(&f, &p.wv, type, 2, (int64_t[]){kv_heads * d, width});
    add_view(&f, &p.wo, type, 2, (int64_t[]){width, heads * d});
    const int64_t keys = with & 1 ? n_kv : n_q, full[4] = {batch, heads, n_q, keys},
                  sizes[4] = {heads * d, kv_heads * d, kv_heads * d, width};
    clattn_tensor *const optional[] = {&p.lse, &p.weights, &p.score.bias, &p.bq, &p.bk, &p.bv, &p.bo};
    add_view(&f, &p.y, type, 3, (int64_t[]){batch, n_kv, width});
    if (!(with & 1)) p.y = (clattn_tensor){0};
    for (int i = 0; i < 7; i++) {
        add_view(&f, optional[i], i < 2 ? CLATTN_TYPE_F32 : type,
                 i == 0  ? 3
                 : i < 3 ? 4
                         : 1,
                 i < 3 ? full : sizes + (i - 3));
        if (!(with >> (1 + i) & 1)) *optional[i] = (clattn_tensor){0};
    }
    add_int(&f, &p.kernel), add_int(&f, &p.splits), add_int(&f, &p.heads), add_int(&f, &p.kv_heads),
        add_int(&f, &p.projection);
    add_score(&f, &p.score, &p.rope);
    change_all(&f, b);
    add_arrays(&f, b, p.x.shape[0], p.heads);
    const bool done = run_layer(&p, &f, &at);
    free_arrays(&f);
    return done;
}

static bool linear(fuzz_bytes *b) {
    const int64_t batch = 1 + fuzz_below(b, 2), n = small(b), k = small(b), m = small(b);
    const clattn_type x = float_type(b), w = fuzz_below(b, 3) ? x : float_type(b);
    clattn_linear_params p = {.projection = CLATTN_PROJECTION_NATIVE};
    fields f = {.workspace = &p.workspace};
    launch at;
    choose_launch(&at, b);
    add_view(&f, &p.x, x, 3, (int64_t[]){batch, n, k});
    add_view(&f, &p.out, x, 3, (int64_t[]){batch, n, m});
    add_view(&f, &p.w, w, 2, (int64_t[]){m, k});
    add_view(&f, &p.b, w, 1, &m);
    if (fuzz_byte(b) & 1) p.b = (clattn_tensor){0};
    add_int(&f, &p.projection);
    change_all(&f, b);
    return run_linear(&p, &f, &at);
}

static bool merge(fuzz_bytes *b) {
    const int64_t shape[4] = {1 + fuzz_below(b, 2), 1 + fuzz_below(b, 2), small(b), head_size(b)};
    const clattn_type type = float_type(b);
    clattn_merge_params p;
    fields f = {.workspace = NULL};
    launch at;
    choose_launch(&at, b);
    add_view(&f, &p.out_a, type, 4, shape), add_view(&f, &p.lse_a, CLATTN_TYPE_F32, 3, shape);
    add_view(&f, &p.out_b, type, 4, shape), add_view(&f, &p.lse_b, CLATTN_TYPE_F32, 3, shape);
    change_all(&f, b);
    return finish(&at, clattn_merge_enqueue(context, at.queue, &p, at.wait_count, at.wait_list, at.to),
                  all_fit(&f) && !at.wrong);
}

bool fuzz_one(const uint8_t *data, size_t size) {
    static bool (*const entries[])(fuzz_bytes *) = {attention, attention, attention, layer,
                                                    layer,     linear,    linear,    merge};
    fuzz_bytes b = {data, size};
    if (!context) {
        set_up();
        (void)atexit(tear_down);
    }
    return entries[fuzz_below(&b, 8)](&b);
}
