// packed.c: see packed.h; also the public calls that pack.
#include "layer/projection/packed.h"

#include <string.h>

#include "launch/entry.h"
#include "device/pointer.h"
#include "launch/workspace.h"
#include "args/args.h"

#define LAYOUT "linear_matrix 1" // changes with every change of the packed layout
#define MOST_WORDS (WORKSPACE_MOST / sizeof(uint32_t))

// Indices into clattn_packed.layout_id.
enum { MADE_LAYOUT, MADE_DEVICE, MADE_ROWS, MADE_COLUMNS, MADE_TYPE, MADE_OFFSET, MADE_SUM, MADE_WORDS };
_Static_assert(sizeof(clattn_packed) == sizeof(cl_mem) + MADE_WORDS * sizeof(uint64_t), "its words");

static int terms_of(const clattn_tensor *w) {
    return w->type == CLATTN_TYPE_F32 ? 3 : 1;
}

uint64_t cla_packed_words(const clattn_tensor *w) {
    const uint64_t blocks = LINEAR_MATRIX_BLOCKS((uint64_t)w->shape[0]),
                   steps = LINEAR_MATRIX_STEPS((uint64_t)w->shape[1]);
    const uint64_t tile = (uint64_t)terms_of(w) * LINEAR_MATRIX_COLUMNS * LINEAR_MATRIX_STEP / 2;
    if (blocks > MOST_WORDS / tile / steps) return WORKSPACE_MOST;
    return LINEAR_MATRIX_HEAD(blocks) + blocks * steps * tile;
}

clattn_tensor cla_packed_view(const clattn_tensor *w, cl_mem buffer, uint64_t at) {
    const int64_t words = (int64_t)cla_packed_words(w);
    // CLATTN_TYPE_F32 is used for any 4-byte word.
    clattn_tensor view = clattn_tensor_dense(buffer, CLATTN_TYPE_F32, 1, &words);
    view.offset = (int64_t)(at / sizeof(uint32_t));
    return view;
}

static knobs pack_knobs(const clattn_tensor *w) {
    return (knobs){.type_kv = (int)w->type};
}

clattn_status cla_packed_prepare(clattn_context *context, const clattn_tensor *w) {
    program *p = NULL;
    const knobs k = pack_knobs(w);
    return cla_program_get(context, KERNEL_LINEAR_PACK, &k, &p);
}

clattn_status cla_packed_enqueue(chain *c, const clattn_tensor *w, const clattn_tensor *packed) {
    const knobs k = pack_knobs(w);
    const linear_pack_args a = {.w_offset = w->offset,
                                .w_row = w->stride[0],
                                .packed_offset = packed->offset,
                                .columns = (int)w->shape[0],
                                .reduction = (int)w->shape[1]};
    launch l = {.local = {1, 1, 1},
                .global = {(size_t)LINEAR_MATRIX_BLOCKS(w->shape[0]), 1, 1},
                .flops = PACE_MOVE_FLOPS * (double)cla_tensor_count(w),
                .cuts_first = true};
    TRY(cla_program_get(c->context, KERNEL_LINEAR_PACK, &k, &l.program));
    cla_launch_buffer(&l, &w->buffer);
    cla_launch_buffer(&l, &packed->buffer);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(c, &l);
}

// FNV-1a: detects mistakes, not manipulation.
static uint64_t sum_of(uint64_t sum, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return sum;
}
#define SUM_START 0xcbf29ce484222325u

static uint64_t sum_of_device(const clattn_capabilities *of) {
    const uint64_t sum = sum_of(SUM_START, of->name, strlen(of->name));
    return sum_of(sum_of(sum, of->platform, strlen(of->platform)), of->driver, strlen(of->driver));
}

static clattn_packed describe(const clattn_context *c, const clattn_tensor *w, cl_mem buffer,
                              int64_t offset) {
    clattn_packed p = {.buffer = buffer};
    p.layout_id[MADE_LAYOUT] = sum_of(SUM_START, LAYOUT, sizeof LAYOUT);
    p.layout_id[MADE_DEVICE] = sum_of_device(&c->capabilities);
    p.layout_id[MADE_ROWS] = (uint64_t)w->shape[0], p.layout_id[MADE_COLUMNS] = (uint64_t)w->shape[1];
    p.layout_id[MADE_TYPE] = (uint64_t)w->type;
    p.layout_id[MADE_OFFSET] = (uint64_t)offset;
    p.layout_id[MADE_SUM] =
        sum_of(sum_of(SUM_START, &buffer, sizeof buffer), p.layout_id, MADE_SUM * sizeof *p.layout_id);
    return p;
}

clattn_status cla_packed_check(clattn_context *c, const char *name, const clattn_packed *packed,
                               const clattn_tensor *w, clattn_tensor *view) {
    *view = (clattn_tensor){.rank = 0};
    if (!packed->buffer) return CLATTN_OK;
    const uint64_t *got = packed->layout_id;
    const clattn_packed want = describe(c, w, packed->buffer, (int64_t)got[MADE_OFFSET]);
    const uint64_t sum =
        sum_of(sum_of(SUM_START, &packed->buffer, sizeof packed->buffer), got, MADE_SUM * sizeof *got);
    if (got[MADE_SUM] != sum || got[MADE_OFFSET] > INT64_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: is not what clattn_linear_pack made: pack the weights", name);
    if (got[MADE_LAYOUT] != want.layout_id[MADE_LAYOUT])
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: was packed by another version of the library: pack the weights again",
                                name);
    if (got[MADE_DEVICE] != want.layout_id[MADE_DEVICE])
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: was packed for another device: pack the weights for this one", name);
    if (got[MADE_ROWS] != want.layout_id[MADE_ROWS] || got[MADE_COLUMNS] != want.layout_id[MADE_COLUMNS] ||
        got[MADE_TYPE] != want.layout_id[MADE_TYPE])
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: holds a [%llu, %llu] of %s: w is a [%lld, %lld] of %s", name,
                                (unsigned long long)got[MADE_ROWS], (unsigned long long)got[MADE_COLUMNS],
                                clattn_type_name((clattn_type)got[MADE_TYPE]), (long long)w->shape[0],
                                (long long)w->shape[1], clattn_type_name(w->type));
    *view = cla_packed_view(w, packed->buffer, got[MADE_OFFSET]);
    return CLATTN_OK;
}

typedef struct pack_job {
    clattn_context *context;
    clattn_tensor w, packed;
    uint64_t bytes;
} pack_job;

static clattn_status check_weights(clattn_context *c, const clattn_pack_params *p, bool planning) {
    const clattn_tensor no_bias = {.rank = 0};
    const linear_given w = {.w = &p->w,
                            .b = &no_bias,
                            .shape = {p->w.shape[0], p->w.rank == 2 ? cla_tensor_width(&p->w) : 0},
                            .names = LINEAR_NAMES("w", "b")};
    TRY(cla_linear_check_precision(c, p->precision));
    TRY(cla_linear_check_matrix(c, &w, planning));
    if (w.shape[0] == 0 || w.shape[1] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "w: a side is 0: must be 1 or more");
    if (p->offset < 0 || p->offset % 64)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "offset: %lld bytes: must be a multiple of 64, 0 or more",
                                (long long)p->offset);
    return CLATTN_OK;
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    clattn_pack_params p = *(const clattn_pack_params *)params;
    pack_job *job = to;
    call_views v;
    cla_pointers_take(context, (clattn_tensor *const[]){&p.w}, 1, false);
    *job = (pack_job){.context = context, .w = p.w};
    TRY(check_weights(context, &p, purpose != ENTRY_ENQUEUE));
    if (!cla_linear_would_take_packed(context, &p.w, p.precision == CLATTN_PRECISION_SPLIT)) return CLATTN_OK;
    job->bytes = cla_workspace_add(0, cla_packed_words(&p.w), sizeof(uint32_t));
    job->packed = cla_packed_view(&p.w, p.buffer, (uint64_t)p.offset);
    TRY(cla_workspace_fits(context, p.buffer, job->bytes));
    if (purpose != ENTRY_ENQUEUE) return CLATTN_OK;
    if (!p.buffer) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "buffer: is NULL");
    if (cla_pointer_kind(p.buffer))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "buffer: is not a memory object");
    cla_views_begin(&v, context);
    cla_views_add(&v, "w", &job->w, VIEW_READ);
    cla_views_add(&v, "buffer", &job->packed, VIEW_WRITE);
    return cla_views_check(&v);
}

static clattn_status run(void *from, chain *steps) {
    const pack_job *job = from;
    return job->bytes ? cla_packed_enqueue(steps, &job->w, &job->packed) : CLATTN_OK;
}

static const entry pack_entry = {.check = check, .run = run};

clattn_status clattn_linear_packed_bytes(clattn_context *context, const clattn_pack_params *params,
                                         size_t *bytes) {
    pack_job job;
    TRY(cla_entry_plan(&pack_entry, context, params, bytes, "bytes", &job));
    *bytes = (size_t)job.bytes;
    return CLATTN_OK;
}

clattn_status clattn_linear_pack(clattn_context *context, cl_command_queue queue,
                                 const clattn_pack_params *params, clattn_packed *packed, cl_uint wait_count,
                                 const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    pack_job job;
    if (packed) *packed = (clattn_packed){.buffer = NULL};
    if (event) *event = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!packed) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "packed: is NULL");
    TRY(cla_entry_enqueue(&pack_entry, context, params, &at, &job));
    if (job.bytes) *packed = describe(context, &job.w, job.packed.buffer, job.packed.offset * 4);
    return CLATTN_OK;
}
