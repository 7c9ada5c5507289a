// linear.c: y = x W^T + b, by clattn's kernels or by CLBlast. CLBlast always multiplies in float32:
// its half-precision product accumulates in half, which the error budget does not allow. Operands
// that are no plain float32 matrix are first converted in scratch memory.
#include "layer/projection/linear.h"

#include "device/pointer.h"
#include "launch/workspace.h"
#include "layer/block/elementwise.h"
#include "layer/projection/packed.h"
#include "layer/projection/projector.h"

clattn_tensor cla_linear_one_head(const clattn_tensor *t) {
    clattn_tensor r = *t;
    r.rank = 4;
    r.shape[1] = 1, r.stride[1] = t->shape[2];
    r.shape[2] = t->shape[1], r.stride[2] = t->stride[1];
    r.shape[3] = t->shape[2], r.stride[3] = 1;
    return r;
}

// True for one float32 matrix in a buffer with a constant stride between rows: heads are contiguous
// columns, and batch items follow one another.
static bool is_plain(const clattn_tensor *t) {
    if (t->type != CLATTN_TYPE_F32 || cla_pointer_kind(t->buffer)) return false;
    if (t->rank == 2) return t->stride[0] >= t->shape[1];
    return (t->shape[1] == 1 || t->stride[1] == t->shape[3]) && t->stride[2] >= t->shape[1] * t->shape[3] &&
           (t->shape[0] <= 1 || t->stride[0] == t->shape[2] * t->stride[2]);
}

// True if the kernel does not compute the epilogue itself. A pass over the float32 results of y and
// of the gate, both in scratch memory, then computes it.
static bool epilogue_is_left(const linear *l) {
    return l->epilogue.given && !(l->native && l->choice.knobs.epilogue);
}
static bool is_gated(const linear *l) {
    return cla_tensor_given(&l->epilogue.w_up);
}

// True if the product is written directly to y. With lengths it is not, because only some of its
// rows may be stored.
static bool direct_result(const linear *l) {
    return !l->has_lengths && (l->native || is_plain(&l->y)) && !epilogue_is_left(l);
}
static bool plain_or_native(const linear *l, const clattn_tensor *t) {
    return l->native || is_plain(t);
}
static int64_t numbers_of(const clattn_tensor *t) {
    return cla_tensor_count(t) * clattn_type_numbers(t->type);
}
// End of a float32 copy that starts at byte `at`.
static uint64_t end_of(uint64_t at, const clattn_tensor *t) {
    return cla_workspace_add(at, (uint64_t)numbers_of(t), sizeof(float));
}

// True if the kernel reads packed weights that the caller has not packed.
static bool packs(const linear *l) {
    return cla_linear_takes_packed(l) && !l->packed.buffer;
}

// End of the operands' copies, which follow the results in scratch memory.
static uint64_t end_of_operands(const linear *l, uint64_t bytes) {
    if (!plain_or_native(l, &l->x)) bytes = end_of(bytes, &l->x);
    if (!plain_or_native(l, &l->w)) bytes = end_of(bytes, &l->w);
    if (packs(l)) bytes = cla_workspace_add(bytes, cla_packed_words(&l->w), sizeof(uint32_t));
    return bytes;
}

uint64_t cla_linear_scratch(const linear *l) {
    uint64_t bytes = direct_result(l) ? 0 : end_of(0, &l->y);
    if (!epilogue_is_left(l) || !is_gated(l)) return end_of_operands(l, bytes);
    const linear up = cla_linear_up(l);
    bytes = end_of(bytes, &l->y);
    const uint64_t own = end_of_operands(l, bytes), second = end_of_operands(&up, bytes);
    return own > second ? own : second;
}

clattn_status cla_linear_check_reach(clattn_context *context, const linear *l, uint64_t workspace_bytes) {
    const clattn_tensor *const all[] = {&l->x, &l->w, &l->y};
    int64_t most = (int64_t)(workspace_bytes / sizeof(float));
    for (int i = 0; i < 3; i++) most = cla_tensor_end(all[i]) > most ? cla_tensor_end(all[i]) : most;
    if (l->native || most <= INT32_MAX) return CLATTN_OK;
    return cla_context_fail(
        context, CLATTN_UNSUPPORTED,
        "projection: CLBlast reaches the first 2^31 elements of a buffer, %lld are needed: take native",
        (long long)most);
}

static bool bias_is_left(const linear *l) {
    return !l->native && cla_tensor_given(&l->b);
}

static double move_flops(const clattn_tensor *t) {
    return PACE_MOVE_FLOPS * (double)numbers_of(t);
}

double cla_linear_flops(const linear *l) {
    double flops = 2.0 * (double)cla_tensor_count(&l->y) * (double)cla_tensor_width(&l->w);
    if (flops == 0.0) return 0.0;
    if (!plain_or_native(l, &l->x)) flops += move_flops(&l->x);
    if (!plain_or_native(l, &l->w) || packs(l)) flops += move_flops(&l->w);
    if (!direct_result(l) || bias_is_left(l)) flops += move_flops(&l->y);
    if (!is_gated(l)) return flops;
    const linear up = cla_linear_up(l);
    return flops + cla_linear_flops(&up);
}

static const clattn_tensor no_bias;

// Scales and zero points of x, if its type has them.
typedef struct convert_scales {
    const clattn_tensor *scale, *zero;
} convert_scales;
static const convert_scales no_scales = {&no_bias, &no_bias};

static knobs convert_knobs(const clattn_tensor *x, const convert_scales *s, clattn_type to,
                           const clattn_tensor *bias) {
    const int group = cla_linear_scale_group(x, s->scale);
    return (knobs){.type_q = (int)x->type,
                   .type_out = (int)to,
                   .type_bias = cla_tensor_given(bias) ? (int)bias->type : 0,
                   .scale_group = group,
                   .type_scale = group ? (int)s->scale->type : 0,
                   .zero_points = cla_tensor_given(s->zero)};
}

clattn_status cla_linear_convert_prepare(clattn_context *context, clattn_type from, clattn_type to) {
    const clattn_tensor x = {.type = from};
    const knobs k = convert_knobs(&x, &no_scales, to, &no_bias);
    program *p = NULL;
    return cla_program_get(context, KERNEL_CONVERT, &k, &p);
}

// y = x (+ bias), converted. x and y have the same shape: [N, size], or [B, heads, N, size] with 1
// head or contiguous heads.
static clattn_status enqueue_convert_of(chain *c, const clattn_tensor *x, const convert_scales *s,
                                        const clattn_tensor *y, const clattn_tensor *bias, cl_mem lengths) {
    const bool flat = x->rank == 2;
    const int row = flat ? 0 : 2;
    const knobs k = convert_knobs(x, s, y->type, bias);
    const convert_args a = {.x_offset = x->offset,
                            .x_batch = flat ? 0 : x->stride[0],
                            .x_row = x->stride[row],
                            .y_offset = y->offset,
                            .y_batch = flat ? 0 : y->stride[0],
                            .y_row = y->stride[row],
                            .bias_offset = bias->offset,
                            .scale_offset = s->scale->offset,
                            .scale_row = s->scale->stride[0],
                            .zero_offset = s->zero->offset,
                            .rows = x->shape[row],
                            .batch = flat ? 1 : (int)x->shape[0],
                            .columns = (int)(flat ? cla_tensor_width(x) : x->shape[1] * x->shape[3]),
                            .flags =
                                (cla_tensor_given(bias) ? ARGS_BIAS : 0) | (lengths ? ARGS_BATCH_ROWS : 0)};
    const size_t items[3] = {(size_t)a.columns * (size_t)a.rows, (size_t)a.batch, 1};
    launch l = {.flops = move_flops(x), .cuts_first = true};
    TRY(cla_program_get(c->context, KERNEL_CONVERT, &k, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &x->buffer);
    cla_launch_buffer(&l, &y->buffer);
    cla_launch_buffer(&l, &bias->buffer);
    cla_launch_buffer(&l, &lengths);
    if (k.scale_group) cla_launch_buffer(&l, &s->scale->buffer), cla_launch_buffer(&l, &s->zero->buffer);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(c, &l);
}

static clattn_status enqueue_convert(chain *c, const clattn_tensor *x, const clattn_tensor *y,
                                     const clattn_tensor *bias, cl_mem lengths) {
    return enqueue_convert_of(c, x, &no_scales, y, bias, lengths);
}

clattn_status cla_linear_convert(chain *c, const clattn_tensor *x, const clattn_tensor *y) {
    return cla_tensor_count(x) > 0 ? enqueue_convert(c, x, y, &no_bias, NULL) : CLATTN_OK;
}

// A result in scratch memory is float32, so the choice of a kernel is made again.
static void become_float32(clattn_context *context, linear *l, const clattn_tensor *y) {
    l->y = *y;
    l->y.type = CLATTN_TYPE_F32;
    cla_linear_choose(context, l);
}

static clattn_status prepare_epilogue(clattn_context *context, const linear *l) {
    if (is_gated(l)) {
        linear up = cla_linear_up(l);
        become_float32(context, &up, &l->y);
        TRY(cla_linear_prepare(context, &up));
    }
    return cla_activate_prepare(context, CLATTN_TYPE_F32, l->y.type);
}

clattn_status cla_linear_prepare(clattn_context *context, const linear *l) {
    program *p = NULL;
    linear inner = *l; // the product that cla_linear_enqueue runs
    if (epilogue_is_left(l)) inner.epilogue.given = false;
    if (!direct_result(l)) become_float32(context, &inner, &l->y);
    if (l->native) TRY(cla_linear_native_prepare(context, &inner));
    if (packs(l)) TRY(cla_packed_prepare(context, &l->w));
    if (epilogue_is_left(l)) TRY(prepare_epilogue(context, l));
    const clattn_tensor result = {.type = CLATTN_TYPE_F32};
    const knobs x = convert_knobs(&l->x, &no_scales, CLATTN_TYPE_F32, &no_bias);
    const knobs w = convert_knobs(&l->w, &(convert_scales){&l->scale, &l->zero}, CLATTN_TYPE_F32, &no_bias);
    const knobs y = convert_knobs(&result, &no_scales, epilogue_is_left(l) ? CLATTN_TYPE_F32 : l->y.type,
                                  l->native ? &no_bias : &l->b);
    if (!plain_or_native(l, &l->x)) TRY(cla_program_get(context, KERNEL_CONVERT, &x, &p));
    if (!plain_or_native(l, &l->w)) TRY(cla_program_get(context, KERNEL_CONVERT, &w, &p));
    if (bias_is_left(l) || (!direct_result(l) && !epilogue_is_left(l)))
        TRY(cla_program_get(context, KERNEL_CONVERT, &y, &p));
    return CLATTN_OK;
}

// A dense float32 view of scratch memory, in CLBlast's layout: heads are contiguous columns.
static clattn_tensor scratch_view(const clattn_tensor *t, cl_mem scratch, uint64_t *at) {
    const int64_t sides[2] = {t->shape[0], cla_tensor_width(t)};
    clattn_tensor s = t->rank == 2 ? clattn_tensor_dense(scratch, CLATTN_TYPE_F32, 2, sides)
                                   : clattn_tensor_bshd(scratch, CLATTN_TYPE_F32, t->shape[0], t->shape[1],
                                                        t->shape[2], t->shape[3]);
    s.offset = (int64_t)(*at / sizeof(float));
    *at = end_of(*at, t);
    return s;
}

static matrix matrix_of(const clattn_tensor *t) {
    return (matrix){t->buffer, t->offset, t->stride[t->rank - 2]};
}

static clattn_status multiply(chain *c, const linear *l, const clattn_tensor *y, cl_mem scratch,
                              uint64_t at) {
    clattn_tensor x = l->x, w = l->w;
    if (c->recording)
        return cla_context_fail(c->context, CLATTN_UNSUPPORTED,
                                "projection: CLBlast's launches cannot be recorded: take native or auto");
    if (!is_plain(&l->x)) {
        x = scratch_view(&l->x, scratch, &at);
        TRY(enqueue_convert(c, &l->x, &x, &no_bias, NULL));
    }
    if (!is_plain(&l->w)) {
        w = scratch_view(&l->w, scratch, &at);
        TRY(enqueue_convert_of(c, &l->w, &(convert_scales){&l->scale, &l->zero}, &w, &no_bias, NULL));
    }
    const int64_t size[3] = {l->x.shape[0] * l->x.shape[2], l->w.shape[0], cla_tensor_width(&l->w)};
    const matrix mx = matrix_of(&x), mw = matrix_of(&w), my = matrix_of(y);
    const clattn_status status = cla_clblast_multiply(c, &mx, &mw, &my, size);
    if (status != CLATTN_OK) cla_projector_clblast_failed(c->context, status);
    return status;
}

// View [B, 1, N, M] as [B, N, M].
static clattn_tensor rows_of(const clattn_tensor *t) {
    return (clattn_tensor){.buffer = t->buffer,
                           .offset = t->offset,
                           .type = t->type,
                           .rank = 3,
                           .shape = {t->shape[0], t->shape[2], t->shape[3]},
                           .stride = {t->stride[0], t->stride[2], t->stride[3]}};
}

// Apply the epilogue to the float32 result `y`. A gate's product is computed here, into `up_y`; its
// operands' copies start at byte `at` of the scratch memory.
static clattn_status enqueue_epilogue(chain *c, const linear *l, const clattn_tensor *y,
                                      const clattn_tensor *up_y, cl_mem scratch, uint64_t at) {
    const clattn_tensor x = rows_of(y), up = rows_of(up_y), out = rows_of(&l->y);
    const activate_rows rows = {
        &x,   is_gated(l) ? &up : NULL, &l->epilogue.residual,
        &out, l->epilogue.activation,   cla_tensor_same_view(&l->epilogue.residual, &out)};
    if (bias_is_left(l)) TRY(enqueue_convert(c, y, y, &l->b, NULL));
    if (is_gated(l)) {
        linear second = cla_linear_up(l);
        become_float32(c->context, &second, up_y);
        TRY(cla_linear_enqueue(c, &second, scratch, at));
    }
    return cla_activate_enqueue(c, &rows);
}

clattn_status cla_linear_enqueue(chain *c, const linear *l, cl_mem scratch, uint64_t at) {
    linear inner = *l;
    clattn_tensor up_y = l->y;
    if (cla_tensor_count(&l->y) == 0) return CLATTN_OK;
    if (epilogue_is_left(l)) inner.epilogue.given = false;
    if (!direct_result(l)) {
        const clattn_tensor y = scratch_view(&l->y, scratch, &at);
        become_float32(c->context, &inner, &y);
    }
    if (epilogue_is_left(l) && is_gated(l)) up_y = scratch_view(&l->y, scratch, &at);
    const uint64_t operands = at;
    if (packs(l)) {
        inner.packed = cla_packed_view(&l->w, scratch, at);
        TRY(cla_packed_enqueue(c, &l->w, &inner.packed));
    }
    TRY(l->native ? cla_linear_native_enqueue(c, &inner) : multiply(c, l, &inner.y, scratch, at));
    if (epilogue_is_left(l)) return enqueue_epilogue(c, l, &inner.y, &up_y, scratch, operands);
    if (direct_result(l) && !bias_is_left(l)) return CLATTN_OK;
    return enqueue_convert(c, &inner.y, &l->y, bias_is_left(l) ? &l->b : &no_bias, l->lengths);
}
