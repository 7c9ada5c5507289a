// small_calls.c: see small_calls.h.
#include "support/small_calls.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 2, HEADS = 2, ROWS = 5, CAPACITY = 9, SIZE = 8, WIDTH = 12 };

const char *const small_names[SMALL_CALLS] = {"append",
                                              "shift",
                                              "rope",
                                              "hadamard",
                                              "dropout mask",
                                              "block mask",
                                              "layer's keys",
                                              "norm",
                                              "activation",
                                              "embedding",
                                              "argmax",
                                              "sample",
                                              "linear attention",
                                              "topk",
                                              "index",
                                              "gradients",
                                              "gradients of a projection",
                                              "gradients of a layer",
                                              "a layer that keeps what they need"};

static const int32_t starts[BATCH] = {0, 3}, lengths[BATCH] = {5, 2};

enum { READ, WRITTEN, BOTH };

// Outputs come last.
static clattn_tensor add(struct small_call *c, struct place *place, int use, struct guarded_shape shape) {
    const int64_t count = guarded_shape_count(&shape);
    double *values = calloc((size_t)count + 1, sizeof *values);
    for (int64_t n = 0; values != NULL && n < count; n++)
        values[n] = shape.type == CLATTN_TYPE_I32 ? (double)(n % 7) : (double)(n * 37 % 101) / 50 - 1;
    struct guarded *t = &c->tensors[c->count++];
    *t = use == READ      ? guarded_input(place, &shape, values)
         : use == WRITTEN ? guarded_output(place, &shape)
                          : guarded_in_out(place, &shape, values);
    c->outputs += use != READ;
    free(values);
    return t->view;
}

static void open_append(struct small_call *c, struct place *place) {
    const struct guarded_shape rows = {CLATTN_TYPE_F16, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED},
                               cache = {CLATTN_TYPE_I8, 4, {BATCH, HEADS, CAPACITY, SIZE}, LAYOUT_DENSE},
                               scales = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, CAPACITY}, LAYOUT_DENSE},
                               of = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, LAYOUT_DENSE};
    clattn_append_params *p = &c->append;
    p->k_new = add(c, place, READ, rows), p->v_new = add(c, place, READ, rows);
    p->rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .positions = add(c, place, READ, of)};
    p->k = add(c, place, BOTH, cache), p->v = add(c, place, BOTH, cache);
    p->k_scale = add(c, place, BOTH, scales), p->v_scale = add(c, place, BOTH, scales);
    p->starts = starts, p->lengths = lengths;
}

static void open_shift(struct small_call *c, struct place *place) {
    const struct guarded_shape k = {CLATTN_TYPE_F8E4M3, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED},
                               scales = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, ROWS}, LAYOUT_PADDED};
    c->shift = (clattn_shift_params){.k = add(c, place, BOTH, k),
                                     .rope = {.layout = CLATTN_ROPE_INTERLEAVED, .rotary_dim = 6},
                                     .deltas = starts,
                                     .lengths = lengths};
    c->shift.k_scale = add(c, place, BOTH, scales);
}

static void open_rope(struct small_call *c, struct place *place) {
    const struct guarded_shape x = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED},
                               y = {CLATTN_TYPE_BF16, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_BSHD};
    c->rope = (clattn_rope_params){.x = add(c, place, READ, x),
                                   .rope = {.layout = CLATTN_ROPE_INTERLEAVED, .rotary_dim = 6},
                                   .offsets = starts};
    c->rope.y = add(c, place, WRITTEN, y);
}

static void open_hadamard(struct small_call *c, struct place *place) {
    const struct guarded_shape x = {CLATTN_TYPE_F16, 4, {BATCH, HEADS, ROWS, WIDTH}, LAYOUT_PADDED},
                               y = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, WIDTH}, LAYOUT_BSHD};
    c->hadamard.x = add(c, place, READ, x);
    c->hadamard.y = add(c, place, WRITTEN, y);
}

static void open_dropout(struct small_call *c, struct place *place) {
    const struct guarded_shape mask = {CLATTN_TYPE_BOOL, 4, {BATCH, HEADS, ROWS, CAPACITY}, LAYOUT_PADDED};
    c->dropout = (clattn_dropout_mask_params){add(c, place, WRITTEN, mask), 0.3f, 11};
}

static void open_block_mask(struct small_call *c, struct place *place) {
    const struct guarded_shape buffer = {CLATTN_TYPE_I32, 1, {BATCH}, LAYOUT_DENSE},
                               blocks = {CLATTN_TYPE_BOOL, 4, {BATCH, 1, 2, 3}, LAYOUT_PADDED};
    clattn_attention_params *p = &c->attention;
    const int64_t q[] = {BATCH, HEADS, 70, SIZE}, k[] = {BATCH, HEADS, 130, SIZE};
    p->q = p->out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, q);
    p->kv.k = p->kv.v = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, k);
    p->score.mask_mod = "j <= i + buffer0(b)";
    p->score.mod_buffers[0] = add(c, place, READ, buffer);
    p->score.block_mask = add(c, place, WRITTEN, blocks);
}

static void open_layer_kv(struct small_call *c, struct place *place) {
    const struct guarded_shape y = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, WIDTH}, LAYOUT_DENSE},
                               w = {CLATTN_TYPE_F32, 2, {HEADS * SIZE, WIDTH}, LAYOUT_DENSE},
                               norm = {CLATTN_TYPE_F32, 1, {SIZE}, LAYOUT_DENSE},
                               kv = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED};
    clattn_layer_kv_params *p = &c->layer_kv;
    p->y = add(c, place, READ, y);
    p->wk = add(c, place, READ, w), p->wv = add(c, place, READ, w);
    p->norm = CLATTN_NORM_HEADS, p->k_norm = add(c, place, READ, norm);
    p->rope.layout = CLATTN_ROPE_HALF;
    p->k = add(c, place, WRITTEN, kv), p->v = add(c, place, WRITTEN, kv);
}

static const struct guarded_shape block_rows = {CLATTN_TYPE_F16, 3, {BATCH, ROWS, WIDTH}, LAYOUT_PADDED},
                                  block_ids = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, LAYOUT_DENSE};

static void open_norm(struct small_call *c, struct place *place) {
    const struct guarded_shape width = {CLATTN_TYPE_BF16, 1, {WIDTH}, LAYOUT_DENSE};
    c->norm.x = add(c, place, READ, block_rows), c->norm.weight = add(c, place, READ, width);
    c->norm.residual = add(c, place, READ, block_rows);
    c->norm.sum = add(c, place, WRITTEN, block_rows);
    c->norm.out = add(c, place, WRITTEN, block_rows);
}

static void open_activation(struct small_call *c, struct place *place) {
    c->activation.activation = CLATTN_ACTIVATION_SILU;
    c->activation.x = add(c, place, READ, block_rows), c->activation.up = add(c, place, READ, block_rows);
    c->activation.out = add(c, place, WRITTEN, block_rows);
}

static void open_embedding(struct small_call *c, struct place *place) {
    const struct guarded_shape table = {CLATTN_TYPE_BF16, 2, {CAPACITY, WIDTH}, LAYOUT_PADDED};
    c->embedding.ids = add(c, place, READ, block_ids), c->embedding.table = add(c, place, READ, table);
    c->embedding.out = add(c, place, WRITTEN, block_rows);
}

static void open_argmax(struct small_call *c, struct place *place) {
    c->argmax.x = add(c, place, READ, block_rows), c->argmax.out = add(c, place, WRITTEN, block_ids);
}

static void open_sample(struct small_call *c, struct place *place) {
    c->sample =
        (clattn_sample_params){.temperature = 0.7f, .top_k = 9, .top_p = 0.8f, .min_p = 0.1f, .seed = 5};
    c->sample.x = add(c, place, READ, block_rows), c->sample.out = add(c, place, WRITTEN, block_ids);
}

static void open_linear_attention(struct small_call *c, struct place *place) {
    const struct guarded_shape rows = {CLATTN_TYPE_F16, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED},
                               values = {CLATTN_TYPE_F16, 4, {BATCH, HEADS, ROWS, WIDTH}, LAYOUT_BSHD},
                               beta = {CLATTN_TYPE_BF16, 3, {BATCH, 1, ROWS}, LAYOUT_PADDED},
                               slots = {CLATTN_TYPE_I32, 1, {BATCH}, LAYOUT_DENSE},
                               state = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, SIZE, WIDTH}, LAYOUT_PADDED},
                               decay = {CLATTN_TYPE_BF16, 4, {BATCH, HEADS, ROWS, 1}, LAYOUT_PADDED};
    clattn_linear_attention_params *p = &c->linear_attention;
    p->q = add(c, place, READ, rows), p->k = add(c, place, READ, rows);
    p->v = add(c, place, READ, values), p->beta = add(c, place, READ, beta);
    p->decay = add(c, place, READ, decay), p->state_indices = add(c, place, READ, slots);
    p->state = p->new_state = add(c, place, BOTH, state);
    p->out = add(c, place, WRITTEN, values);
    p->l2_norm = true;
}

static const struct guarded_shape small_list = {CLATTN_TYPE_I32, 4, {BATCH, ROWS, 1, 3}, LAYOUT_PADDED},
                                  small_counts = {CLATTN_TYPE_I32, 3, {BATCH, ROWS, 1}, LAYOUT_DENSE};

static void open_topk(struct small_call *c, struct place *place) {
    const struct guarded_shape scores = {CLATTN_TYPE_F16, 4, {BATCH, 1, ROWS, CAPACITY}, LAYOUT_PADDED};
    c->topk.scores = add(c, place, READ, scores);
    c->topk.selection.causal = true, c->topk.selection.kv_lengths = lengths;
    c->topk.selection.indices = add(c, place, WRITTEN, small_list);
    c->topk.selection.counts = add(c, place, WRITTEN, small_counts);
}

static void open_index(struct small_call *c, struct place *place) {
    const struct guarded_shape q = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED},
                               k = {CLATTN_TYPE_I8, 4, {BATCH, 1, CAPACITY, SIZE}, LAYOUT_DENSE},
                               scales = {CLATTN_TYPE_F32, 3, {BATCH, 1, CAPACITY}, LAYOUT_DENSE},
                               weights = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, HEADS}, LAYOUT_DENSE};
    c->index.q = add(c, place, READ, q), c->index.k = add(c, place, READ, k);
    c->index.k_scale = add(c, place, READ, scales), c->index.weights = add(c, place, READ, weights);
    c->index.selection.sinks = c->index.selection.local = 1;
    c->index.selection.indices = add(c, place, WRITTEN, small_list);
}

static void open_backward(struct small_call *c, struct place *place) {
    const struct guarded_shape rows = {CLATTN_TYPE_F16, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_PADDED},
                               keys = {CLATTN_TYPE_BF16, 4, {BATCH, 1, CAPACITY, SIZE}, LAYOUT_BSHD},
                               lse = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, ROWS}, LAYOUT_DENSE},
                               bias = {CLATTN_TYPE_F32, 4, {1, HEADS, ROWS, CAPACITY}, LAYOUT_PADDED},
                               heads = {CLATTN_TYPE_F32, 1, {HEADS}, LAYOUT_DENSE};
    clattn_attention_backward_params *p = &c->backward;
    p->forward.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .rotary_dim = 6};
    p->forward.score.kv_lengths = lengths;
    p->forward.q = add(c, place, READ, rows), p->forward.out = add(c, place, READ, rows);
    p->forward.kv.k = add(c, place, READ, keys), p->forward.kv.v = add(c, place, READ, keys);
    p->forward.lse = add(c, place, READ, lse), p->forward.score.bias = add(c, place, READ, bias);
    p->forward.score.sinks_device = add(c, place, READ, heads);
    p->dout = add(c, place, READ, rows);
    p->dq = add(c, place, WRITTEN, rows);
    p->dk = add(c, place, WRITTEN, keys), p->dv = add(c, place, WRITTEN, keys);
    p->dbias = add(c, place, WRITTEN, bias), p->dsinks = add(c, place, WRITTEN, heads);
}

static const struct guarded_shape layer_rows = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, WIDTH}, LAYOUT_DENSE},
                                  layer_matrix = {CLATTN_TYPE_F32, 2, {HEADS * SIZE, WIDTH}, LAYOUT_DENSE},
                                  layer_columns = {CLATTN_TYPE_F32, 1, {HEADS * SIZE}, LAYOUT_DENSE};

static void open_linear_backward(struct small_call *c, struct place *place) {
    const struct guarded_shape dout = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, HEADS * SIZE}, LAYOUT_PADDED};
    clattn_linear_backward_params *p = &c->linear_backward;
    p->projection = CLATTN_PROJECTION_NATIVE;
    p->x = add(c, place, READ, layer_rows), p->w = add(c, place, READ, layer_matrix);
    p->dout = add(c, place, READ, dout);
    p->dx = add(c, place, WRITTEN, layer_rows), p->dw = add(c, place, WRITTEN, layer_matrix);
    p->db = add(c, place, WRITTEN, layer_columns);
}

// The forward call whose gradients are computed.
static void open_layer(struct small_call *c, struct place *place) {
    const struct guarded_shape wo = {CLATTN_TYPE_F32, 2, {WIDTH, HEADS * SIZE}, LAYOUT_DENSE},
                               norm = {CLATTN_TYPE_F32, 1, {SIZE}, LAYOUT_DENSE};
    clattn_layer_params *f = &c->layer_backward.forward;
    f->projection = CLATTN_PROJECTION_NATIVE;
    f->heads = f->kv_heads = HEADS;
    f->norm = CLATTN_NORM_HEADS, f->rope.layout = CLATTN_ROPE_HALF;
    f->x = add(c, place, READ, layer_rows), f->wq = add(c, place, READ, layer_matrix);
    f->wk = add(c, place, READ, layer_matrix), f->wv = add(c, place, READ, layer_matrix);
    f->wo = add(c, place, READ, wo), f->q_norm = add(c, place, READ, norm);
    f->k_norm = add(c, place, READ, norm);
}

static void open_layer_backward(struct small_call *c, struct place *place) {
    const struct guarded_shape wo = {CLATTN_TYPE_F32, 2, {WIDTH, HEADS * SIZE}, LAYOUT_DENSE},
                               norm = {CLATTN_TYPE_F32, 1, {SIZE}, LAYOUT_DENSE};
    clattn_layer_backward_params *p = &c->layer_backward;
    open_layer(c, place);
    p->dout = add(c, place, READ, layer_rows), p->dx = add(c, place, WRITTEN, layer_rows);
    p->dwq = add(c, place, WRITTEN, layer_matrix), p->dwk = add(c, place, WRITTEN, layer_matrix);
    p->dwv = add(c, place, WRITTEN, layer_matrix), p->dwo = add(c, place, WRITTEN, wo);
    p->dq_norm = add(c, place, WRITTEN, norm);
}

static void open_layer_forward(struct small_call *c, struct place *place) {
    // more than enough
    const struct guarded_shape kept = {CLATTN_TYPE_F32, 1, {1 << 13}, LAYOUT_PADDED};
    open_layer(c, place);
    c->layer_backward.forward.out = add(c, place, WRITTEN, layer_rows);
    c->layer_backward.kept = add(c, place, WRITTEN, kept);
}

void small_open(struct small_call *c, int which, struct place *place) {
    static void (*const open[SMALL_CALLS])(struct small_call *, struct place *) = {
        open_append,           open_shift,          open_rope,         open_hadamard,
        open_dropout,          open_block_mask,     open_layer_kv,     open_norm,
        open_activation,       open_embedding,      open_argmax,       open_sample,
        open_linear_attention, open_topk,           open_index,        open_backward,
        open_linear_backward,  open_layer_backward, open_layer_forward};
    *c = (struct small_call){.which = which};
    open[which](c, place);
}

void small_close(struct small_call *c) {
    for (int n = 0; n < c->count; n++) guarded_release(&c->tensors[n]);
}

clattn_status small_enqueue(const struct small_call *c, clattn_context *context, cl_command_queue queue,
                            cl_uint count, const cl_event *list, cl_event *event) {
    switch (c->which) {
    case SMALL_APPEND:
        return clattn_append_enqueue(context, queue, &c->append, count, list, event);
    case SMALL_SHIFT:
        return clattn_shift_enqueue(context, queue, &c->shift, count, list, event);
    case SMALL_ROPE:
        return clattn_rope_enqueue(context, queue, &c->rope, count, list, event);
    case SMALL_HADAMARD:
        return clattn_hadamard_enqueue(context, queue, &c->hadamard, count, list, event);
    case SMALL_DROPOUT_MASK:
        return clattn_dropout_mask_enqueue(context, queue, &c->dropout, count, list, event);
    case SMALL_BLOCK_MASK:
        return clattn_block_mask_enqueue(context, queue, &c->attention, count, list, event);
    case SMALL_NORM:
        return clattn_norm_enqueue(context, queue, &c->norm, count, list, event);
    case SMALL_ACTIVATION:
        return clattn_activation_enqueue(context, queue, &c->activation, count, list, event);
    case SMALL_EMBEDDING:
        return clattn_embedding_enqueue(context, queue, &c->embedding, count, list, event);
    case SMALL_ARGMAX:
        return clattn_argmax_enqueue(context, queue, &c->argmax, count, list, event);
    case SMALL_SAMPLE:
        return clattn_sample_enqueue(context, queue, &c->sample, count, list, event);
    case SMALL_LINEAR_ATTENTION:
        return clattn_linear_attention_enqueue(context, queue, &c->linear_attention, count, list, event);
    case SMALL_TOPK:
        return clattn_topk_enqueue(context, queue, &c->topk, count, list, event);
    case SMALL_INDEX:
        return clattn_index_enqueue(context, queue, &c->index, count, list, event);
    case SMALL_BACKWARD:
        return clattn_attention_backward_enqueue(context, queue, &c->backward, count, list, event);
    case SMALL_LINEAR_BACKWARD:
        return clattn_linear_backward_enqueue(context, queue, &c->linear_backward, count, list, event);
    case SMALL_LAYER_BACKWARD:
        return clattn_layer_backward_enqueue(context, queue, &c->layer_backward, count, list, event);
    case SMALL_LAYER_FORWARD:
        return clattn_layer_forward_enqueue(context, queue, &c->layer_backward, count, list, event);
    default:
        return clattn_layer_kv_enqueue(context, queue, &c->layer_kv, count, list, event);
    }
}

void small_empty(struct small_call *c) {
    clattn_tensor *const blocks = &c->attention.score.block_mask;
    c->append.k_new.shape[2] = c->append.v_new.shape[2] = c->append.rope.positions.shape[1] = 0;
    c->append.lengths = NULL;
    c->shift.k.shape[1] = c->shift.k_scale.shape[1] = 0;
    c->rope.x.shape[1] = c->rope.y.shape[1] = 0;
    c->hadamard.x.shape[1] = c->hadamard.y.shape[1] = 0;
    c->dropout.mask.shape[2] = 0;
    c->attention.q.shape[2] = c->attention.out.shape[2] = blocks->shape[2] = 0;
    c->layer_kv.y.shape[1] = c->layer_kv.k.shape[2] = c->layer_kv.v.shape[2] = 0;
    c->norm.x.shape[1] = c->norm.residual.shape[1] = c->norm.sum.shape[1] = c->norm.out.shape[1] = 0;
    c->activation.x.shape[1] = c->activation.up.shape[1] = c->activation.out.shape[1] = 0;
    c->embedding.ids.shape[1] = c->embedding.out.shape[1] = 0;
    c->argmax.x.shape[1] = c->argmax.out.shape[1] = 0;
    c->sample.x.shape[1] = c->sample.out.shape[1] = 0;
    c->topk.scores.shape[2] = c->topk.selection.indices.shape[1] = c->topk.selection.counts.shape[1] = 0;
    c->index.q.shape[2] = c->index.weights.shape[1] = c->index.selection.indices.shape[1] = 0;
    clattn_linear_attention_params *l = &c->linear_attention;
    clattn_tensor *const of_items[] = {&l->q, &l->k, &l->v, &l->decay, &l->beta, &l->out, &l->state_indices};
    for (size_t n = 0; n < sizeof of_items / sizeof of_items[0]; n++) of_items[n]->shape[0] = 0;
    clattn_attention_backward_params *p = &c->backward;
    clattn_tensor *const of_batch[] = {&p->forward.q,    &p->forward.out, &p->forward.kv.k,
                                       &p->forward.kv.v, &p->forward.lse, &p->dout,
                                       &p->dq,           &p->dk,          &p->dv};
    for (size_t n = 0; n < sizeof of_batch / sizeof of_batch[0]; n++) of_batch[n]->shape[0] = 0;
    p->forward.score.kv_lengths = NULL;
    c->linear_backward.x.shape[1] = c->linear_backward.dout.shape[1] = c->linear_backward.dx.shape[1] = 0;
    c->layer_backward.forward.x.shape[0] = c->layer_backward.forward.out.shape[0] = 0;
    c->layer_backward.dout.shape[0] = c->layer_backward.dx.shape[0] = 0;
}

void small_spoil(struct small_call *c) {
    c->append.k.rank = c->shift.k.rank = c->rope.y.rank = c->hadamard.y.rank = c->dropout.mask.rank =
        c->attention.score.block_mask.rank = c->layer_kv.k.rank = c->norm.out.rank = c->activation.out.rank =
            c->embedding.out.rank = c->argmax.x.rank = c->sample.x.rank = c->topk.scores.rank =
                c->index.q.rank = c->linear_attention.q.rank = c->backward.dq.rank =
                    c->linear_backward.dx.rank = c->layer_backward.forward.x.rank = 2;
}

// NaN counts as a number of its own.
static double digest(const struct guarded *tensor, cl_command_queue queue, bool *intact) {
    const int64_t count = guarded_numbers(&tensor->view);
    double *values = calloc((size_t)count + 1, sizeof *values), sum = 0;
    if (values == NULL) return 0;
    *intact = guarded_read(tensor, queue, values) && *intact;
    for (int64_t n = 0; n < count; n++) sum += (isnan(values[n]) ? 3 : values[n]) * (double)(1 + n % 11);
    free(values);
    return sum;
}

bool small_intact(const struct small_call *c, cl_command_queue queue, double *written) {
    bool intact = true;
    *written = 0;
    for (int n = 0; n < c->count; n++) {
        if (n < c->count - c->outputs)
            intact = guarded_intact(&c->tensors[n], queue) && intact;
        else
            *written = *written * 3 + digest(&c->tensors[n], queue, &intact);
    }
    return intact;
}
