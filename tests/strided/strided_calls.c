// strided_calls.c: see strided_calls.h.
#include "strided/strided_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "verification/reference/random.h"

static const int32_t two_lengths[] = {5, 6}, one_length[] = {1};

// Numbers of I32 tensors are n % 3: valid pages, positions and rows. `given` numbers are kept.
clattn_tensor add_values(struct strided_call *c, const char *field, clattn_tensor *view, int use,
                         clattn_type type, int rank, const int64_t *shape, const double *given) {
    struct strided_tensor *t = &c->tensor[c->count++];
    struct random random = {(uint64_t)(100 + c->count)};
    *view = clattn_tensor_dense(NULL, type, rank, shape);
    *t = (struct strided_tensor){.field = field,
                                 .view = view,
                                 .read = use & READ,
                                 .written = use & WRITTEN,
                                 .any = use & ANY,
                                 .repeats = (use & READ) && !(use & WRITTEN) && type != I32};
    const int64_t count = guarded_count(view);
    t->values = calloc((size_t)count + 1, sizeof *t->values);
    for (int64_t n = 0; t->values != NULL && n < count; n++)
        t->values[n] = given          ? given[n]
                       : type == I32  ? (double)(n % 3)
                       : type == BOOL ? (double)(n % 5 != 1)
                       : type == I8   ? (double)(n * 37 % 101 - 50)
                                      : random_uniform(&random, -1, 1);
    return *view;
}

ENQUEUE(attend, attention, attention)

struct sizes sizes_of(const struct strided_call *c) {
    return c->small ? (struct sizes){1, 1, 1, 1, 2, 1} : (struct sizes){2, 2, 4, 7, 8, 6};
}

static void add_q(struct strided_call *c, struct sizes s) {
    clattn_attention_params *p = &c->attention;
    ADD(clattn_attention_params, p->, q, READ, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_attention_params, p->, out, WRITTEN, F32, 4, s.b, s.h, s.n, s.dv);
    ADD(clattn_attention_params, p->, lse, WRITTEN | ANY, F32, 3, s.b, s.h, s.n);
    c->enqueue = attend;
}

static void add_kv(struct strided_call *c, clattn_kv *kv, struct sizes s, clattn_type type, int use) {
    ADD(clattn_kv, kv->, k, use, type, 4, s.b, s.h, s.keys, s.d);
    ADD(clattn_kv, kv->, v, use, type, 4, s.b, s.h, s.keys, s.dv);
    if (type != I8) return;
    ADD(clattn_kv, kv->, k_scale, use | ANY, F32, 3, s.b, s.h, s.keys);
    ADD(clattn_kv, kv->, v_scale, use | ANY, F32, 3, s.b, s.h, s.keys);
}

// Add the tensors with the axes [B, H, Nq, Nkv], and the other tensors of the score options.
static void add_score(struct strided_call *c, clattn_score *score, struct sizes s, bool mods) {
    const int64_t rows = (s.n + CLATTN_BLOCK_ROWS - 1) / CLATTN_BLOCK_ROWS,
                  blocks = (s.keys + CLATTN_BLOCK_KEYS - 1) / CLATTN_BLOCK_KEYS;
    ADD(clattn_score, score->, mask, READ | ANY, BOOL, 4, s.b, s.h, s.n, s.keys);
    ADD(clattn_score, score->, bias, READ | ANY, F32, 4, s.b, s.h, s.n, s.keys);
    ADD(clattn_score, score->, sinks_device, READ | ANY, F32, 1, s.h);
    ADD(clattn_score, score->, block_mask, READ | ANY, BOOL, 4, s.b, s.h, rows, blocks);
    for (int64_t n = 0; n < s.b * s.h * rows * blocks; n++) c->tensor[c->count - 1].values[n] = n % 4 != 2;
    if (!mods) return;
    ADD(clattn_score, score->, mod_buffers[0], READ | ANY, F32, 4, s.b, s.h, s.n, s.keys);
    ADD(clattn_score, score->, mod_buffers[1], READ | ANY, F32, 2, s.n, s.keys);
    ADD(clattn_score, score->, mod_buffers[2], READ | ANY, BOOL, 1, s.keys);
    ADD(clattn_score, score->, mod_buffers[3], READ | ANY, I32, 3, s.h, s.n, s.keys);
    score->score_mod = "score + buffer0(b, h, row, j) * buffer1(row, j) + buffer3(h, row, j)";
    score->mask_mod = "buffer2(j)";
}

static void add_positions(struct strided_call *c, clattn_rope *rope, int64_t b, int64_t n, int64_t keys) {
    c->rope_of = rope;
    rope->layout = CLATTN_ROPE_HALF;
    ADD(clattn_rope, rope->, positions, READ | ANY, I32, 2, b, n);
    if (keys) ADD(clattn_rope, rope->, k_positions, READ | ANY, I32, 2, b, keys);
}

static void open_unfused(struct strided_call *c) {
    clattn_attention_params *p = &c->attention;
    struct sizes s = sizes_of(c);
    const int64_t past = s.keys, all = 2 * s.keys;
    add_q(c, s);
    add_kv(c, &p->kv, s, F32, READ);
    ADD(clattn_kv, p->kv., past_k, READ, F32, 4, s.b, s.h, past, s.d);
    ADD(clattn_kv, p->kv., past_v, READ, F32, 4, s.b, s.h, past, s.dv);
    ADD(clattn_attention_params, p->, weights, BOTH, F32, 4, s.b, s.h, s.n, all);
    ADD(clattn_attention_params, p->, scores, WRITTEN, F32, 4, s.b, s.h, s.n, all);
    add_positions(c, &p->rope, s.b, s.n, s.keys);
    s.keys = all;
    add_score(c, &p->score, s, true);
    p->kernel = CLATTN_KERNEL_UNFUSED;
}

// More rows and keys than a block of the block mask has.
static void open_flash(struct strided_call *c) {
    struct sizes s = sizes_of(c);
    if (!c->small) s.n = 70, s.keys = 130;
    add_q(c, s);
    add_kv(c, &c->attention.kv, s, F32, READ);
    add_score(c, &c->attention.score, s, false);
    c->attention.kernel = CLATTN_KERNEL_FLASH;
}

static void open_decode(struct strided_call *c) {
    clattn_attention_params *p = &c->attention;
    struct sizes s = sizes_of(c);
    s.n = 1;
    add_q(c, s);
    add_kv(c, &p->kv, s, I8, READ);
    ADD(clattn_kv, p->kv., past_k, READ, I8, 4, 1, s.h, 5, s.d);
    ADD(clattn_kv, p->kv., past_v, READ, I8, 4, 1, s.h, 5, s.dv);
    ADD(clattn_kv, p->kv., past_k_scale, READ | ANY, F32, 3, 1, s.h, 5);
    ADD(clattn_kv, p->kv., past_v_scale, READ | ANY, F32, 3, 1, s.h, 5);
    p->kernel = CLATTN_KERNEL_DECODE;
}

// New rows for int8 pages. The two items have the pages 0 to 2 and 3 to 5.
static void open_pages(struct strided_call *c) {
    static const double pages[] = {0, 1, 2, 5, 4, 3};
    clattn_attention_params *p = &c->attention;
    struct sizes s = sizes_of(c), pool = s;
    const int64_t rows = c->small ? 1 : 2;
    pool.b = 6, pool.keys = rows;
    add_q(c, s);
    add_kv(c, &p->kv, pool, I8, BOTH);
    ADD(clattn_kv, p->kv., k_new, READ, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_kv, p->kv., v_new, READ, F32, 4, s.b, s.h, s.n, s.dv);
    ADD_GIVEN(clattn_kv, p->kv., block_table, READ | ANY, pages, 2, s.b, 3);
    add_positions(c, &p->rope, s.b, s.n, 0);
    p->kv.page_size = (int32_t)rows;
    p->score.kv_lengths = c->small ? one_length : two_lengths;
}

static void open_ragged(struct strided_call *c) {
    static const double cu[] = {0, 1, 4}, cu_kv[] = {0, 4, 7};
    clattn_attention_params *p = &c->attention;
    struct sizes s = sizes_of(c);
    s.b = 1;
    add_q(c, s);
    add_kv(c, &p->kv, s, F32, READ);
    ADD_GIVEN(clattn_attention_params, p->, cu_seqlens_q_device, READ | ANY, cu, 1, c->small ? 2 : 3);
    ADD_GIVEN(clattn_kv, p->kv., cu_seqlens_kv_device, READ | ANY, c->small ? cu : cu_kv, 1,
              c->small ? 2 : 3);
    p->sequences = c->small ? 1 : 2, p->max_q = 3, p->max_kv = 4;
}

static void open_ragged_cache(struct strided_call *c) {
    static const double cu[] = {0, 1, 4}, lengths[] = {1, 5};
    clattn_attention_params *p = &c->attention;
    const struct sizes s = sizes_of(c);
    struct sizes packed = s;
    packed.b = 1;
    add_q(c, packed);
    add_kv(c, &p->kv, s, F32, READ);
    ADD_GIVEN(clattn_attention_params, p->, cu_seqlens_q_device, READ | ANY, cu, 1, s.b + 1);
    ADD_GIVEN(clattn_kv, p->kv., kv_lengths_device, READ | ANY, lengths, 1, s.b);
    p->sequences = (int32_t)s.b, p->max_q = 3;
}

// A matrix of int8 and its scales.
static const double scales[16] = {.1, .2, -.1, .3, .2, .1, -.2, .1, .3, .1, .2, .1, -.3, .2, .1, .3};
#define ADD_SCALED(of, at, field, rows, columns)                                                             \
    ADD(of, at, field, READ, I8, 2, rows, columns);                                                          \
    add_values(c, #of "." #field "_scale", &at field##_scale, READ | ANY, F32, 1, (int64_t[]){rows}, scales)

ENQUEUE(lay, layer, layer)

static void open_layer(struct strided_call *c) {
    clattn_layer_params *p = &c->layer;
    const struct sizes s = sizes_of(c);
    const int64_t m = c->small ? 1 : 12, q = s.h * s.d, v = s.h * s.dv;
    ADD(clattn_layer_params, p->, x, READ, F32, 3, s.b, s.n, m);
    ADD(clattn_layer_params, p->, y, READ, F32, 3, s.b, s.keys, m);
    ADD(clattn_layer_params, p->, out, WRITTEN, F32, 3, s.b, s.n, m);
    ADD(clattn_layer_params, p->, wq, READ, F32, 2, q, m), ADD(clattn_layer_params, p->, bq, READ, F32, 1, q);
    ADD(clattn_layer_params, p->, wk, READ, F32, 2, q, m), ADD(clattn_layer_params, p->, bk, READ, F32, 1, q);
    ADD(clattn_layer_params, p->, wv, READ, F32, 2, v, m), ADD(clattn_layer_params, p->, bv, READ, F32, 1, v);
    ADD(clattn_layer_params, p->, wo, READ, F32, 2, m, v), ADD(clattn_layer_params, p->, bo, READ, F32, 1, m);
    ADD(clattn_layer_params, p->, w_gate, READ, F32, 2, v, m);
    ADD(clattn_layer_params, p->, b_gate, READ, F32, 1, v);
    ADD(clattn_layer_params, p->, q_norm, READ, F32, 1, s.d);
    ADD(clattn_layer_params, p->, k_norm, READ, F32, 1, s.d);
    ADD(clattn_layer_params, p->, lse, WRITTEN | ANY, F32, 3, s.b, s.h, s.n);
    ADD(clattn_layer_params, p->, weights, BOTH, F32, 4, s.b, s.h, s.n, s.keys);
    ADD(clattn_layer_params, p->, scores, WRITTEN, F32, 4, s.b, s.h, s.n, s.keys);
    add_positions(c, &p->rope, s.b, s.n, s.keys);
    p->heads = (int32_t)s.h, p->norm = CLATTN_NORM_HEADS, p->kernel = CLATTN_KERNEL_UNFUSED;
    p->projection = CLATTN_PROJECTION_NATIVE;
    c->enqueue = lay;
}

static void open_append_layer(struct strided_call *c) {
    static const double cu[] = {0, 4};
    clattn_layer_params *p = &c->layer;
    struct sizes s = sizes_of(c);
    const int64_t m = c->small ? 1 : 12, q = s.h * s.d, v = s.h * s.dv;
    s.b = 1;
    ADD(clattn_layer_params, p->, x, READ, F32, 3, 1, s.n, m);
    ADD(clattn_layer_params, p->, out, WRITTEN, F32, 3, 1, s.n, m);
    ADD_SCALED(clattn_layer_params, p->, wq, q, m);
    ADD_SCALED(clattn_layer_params, p->, wk, q, m);
    ADD_SCALED(clattn_layer_params, p->, wv, v, m);
    ADD_SCALED(clattn_layer_params, p->, wo, m, v);
    ADD_SCALED(clattn_layer_params, p->, w_gate, v, m);
    add_kv(c, &p->kv, s, F32, BOTH);
    add_positions(c, &p->rope, 1, s.n, 0);
    ADD_GIVEN(clattn_layer_params, p->, cu_seqlens_q_device, READ | ANY, cu, 1, 2);
    p->sequences = 1, p->max_q = (int32_t)s.n;
    p->heads = (int32_t)s.h, p->append = true, p->projection = CLATTN_PROJECTION_NATIVE;
    c->enqueue = lay;
}

ENQUEUE(make_keys, layer_kv, layer_kv)

static void open_layer_kv(struct strided_call *c) {
    clattn_layer_kv_params *p = &c->layer_kv;
    const struct sizes s = sizes_of(c);
    const int64_t m = c->small ? 1 : 12, q = s.h * s.d, v = s.h * s.dv;
    ADD(clattn_layer_kv_params, p->, y, READ, F32, 3, s.b, s.keys, m);
    ADD_SCALED(clattn_layer_kv_params, p->, wk, q, m);
    ADD(clattn_layer_kv_params, p->, bk, READ, F32, 1, q);
    ADD_SCALED(clattn_layer_kv_params, p->, wv, v, m);
    ADD(clattn_layer_kv_params, p->, bv, READ, F32, 1, v);
    ADD(clattn_layer_kv_params, p->, k, BOTH, F32, 4, s.b, s.h, s.keys, s.d);
    ADD(clattn_layer_kv_params, p->, v, WRITTEN, F32, 4, s.b, s.h, s.keys, s.dv);
    ADD(clattn_layer_kv_params, p->, k_norm, READ, F32, 1, s.d);
    add_positions(c, &p->rope, s.b, s.keys, 0);
    p->norm = CLATTN_NORM_HEADS;
    c->enqueue = make_keys;
}

ENQUEUE(project, linear, linear)

static struct sizes open_projection(struct strided_call *c) {
    clattn_linear_params *p = &c->linear;
    const struct sizes s = sizes_of(c);
    ADD(clattn_linear_params, p->, x, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_linear_params, p->, out, BOTH, F32, 3, s.b, s.n, s.dv);
    p->projection = CLATTN_PROJECTION_NATIVE;
    c->enqueue = project;
    return s;
}

static void open_linear(struct strided_call *c) {
    clattn_linear_params *p = &c->linear;
    const struct sizes s = open_projection(c);
    ADD(clattn_linear_params, p->, w, READ, F32, 2, s.dv, s.keys);
    ADD(clattn_linear_params, p->, b, READ, F32, 1, s.dv);
    ADD(clattn_linear_params, p->, w_up, READ, F32, 2, s.dv, s.keys);
    ADD(clattn_linear_params, p->, b_up, READ, F32, 1, s.dv);
    ADD(clattn_linear_params, p->, residual, READ, F32, 3, s.b, s.n, s.dv);
}

static void open_scaled_linear(struct strided_call *c) {
    clattn_linear_params *p = &c->linear;
    const struct sizes s = open_projection(c);
    ADD_SCALED(clattn_linear_params, p->, w, s.dv, s.keys);
    ADD_SCALED(clattn_linear_params, p->, w_up, s.dv, s.keys);
}

static clattn_status pack(const struct strided_call *c, clattn_context *context, cl_command_queue queue) {
    clattn_packed packed;
    return clattn_linear_pack(context, queue, &c->pack, &packed, 0, NULL, NULL);
}

static void open_pack(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_pack_params, c->pack., w, READ, F32, 2, s.h, s.keys);
    c->pack.precision = CLATTN_PRECISION_SPLIT;
    c->enqueue = pack;
}

ENQUEUE(append, append, append)

static void open_append(struct strided_call *c) {
    clattn_append_params *p = &c->append;
    const struct sizes s = sizes_of(c);
    ADD(clattn_append_params, p->, k_new, READ, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_append_params, p->, v_new, READ, F32, 4, s.b, s.h, s.n, s.dv);
    ADD(clattn_append_params, p->, k, BOTH, I8, 4, s.b, s.h, s.keys, s.d);
    ADD(clattn_append_params, p->, v, BOTH, I8, 4, s.b, s.h, s.keys, s.dv);
    ADD(clattn_append_params, p->, k_scale, BOTH | ANY, F32, 3, s.b, s.h, s.keys);
    ADD(clattn_append_params, p->, v_scale, BOTH | ANY, F32, 3, s.b, s.h, s.keys);
    add_positions(c, &p->rope, s.b, s.n, 0);
    c->enqueue = append;
}

ENQUEUE(shift, shift, shift)

static void open_shift(struct strided_call *c) {
    clattn_shift_params *p = &c->shift;
    const struct sizes s = sizes_of(c);
    ADD(clattn_shift_params, p->, k, BOTH, I8, 4, s.b, s.h, s.keys, s.d);
    ADD(clattn_shift_params, p->, k_scale, BOTH | ANY, F32, 3, s.b, s.h, s.keys);
    p->rope.layout = CLATTN_ROPE_HALF, p->delta = -3;
    c->enqueue = shift;
}

ENQUEUE(turn, rope, rope)

static void open_rope(struct strided_call *c) {
    clattn_rope_params *p = &c->rope;
    const struct sizes s = sizes_of(c);
    ADD(clattn_rope_params, p->, x, READ, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_rope_params, p->, y, WRITTEN, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_rope_params, p->, cos, READ | ANY, F32, 2, 3, s.d / 2);
    ADD(clattn_rope_params, p->, sin, READ | ANY, F32, 2, 3, s.d / 2);
    add_positions(c, &p->rope, s.b, s.n, 0);
    c->enqueue = turn;
}

ENQUEUE(hadamard, hadamard, hadamard)

static void open_hadamard(struct strided_call *c) {
    clattn_hadamard_params *p = &c->hadamard;
    const struct sizes s = sizes_of(c);
    ADD(clattn_hadamard_params, p->, x, READ, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_hadamard_params, p->, y, WRITTEN, F32, 4, s.b, s.h, s.n, s.d);
    c->enqueue = hadamard;
}

ENQUEUE(merge, merge, merge)

static void open_merge(struct strided_call *c) {
    clattn_merge_params *p = &c->merge;
    const struct sizes s = sizes_of(c);
    ADD(clattn_merge_params, p->, out_a, BOTH, F32, 4, s.b, s.h, s.n, s.dv);
    ADD(clattn_merge_params, p->, lse_a, BOTH | ANY, F32, 3, s.b, s.h, s.n);
    ADD(clattn_merge_params, p->, out_b, READ, F32, 4, s.b, s.h, s.n, s.dv);
    ADD(clattn_merge_params, p->, lse_b, READ | ANY, F32, 3, s.b, s.h, s.n);
    c->enqueue = merge;
}

ENQUEUE(drop, dropout_mask, dropout)

static void open_dropout_mask(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_dropout_mask_params, c->dropout., mask, WRITTEN | ANY, BOOL, 4, s.b, s.h, s.n, s.keys);
    c->dropout.dropout = 0.5f, c->dropout.dropout_seed = 3;
    c->enqueue = drop;
}

ENQUEUE(mask_blocks, block_mask, attention)

static void open_block_mask(struct strided_call *c) {
    clattn_attention_params *p = &c->attention;
    const int64_t n = c->small ? 1 : 70, keys = c->small ? 1 : 130, q[] = {1, 2, n, 8}, k[] = {1, 2, keys, 8};
    p->q = p->out = clattn_tensor_dense(NULL, F32, 4, q);
    p->kv.k = p->kv.v = clattn_tensor_dense(NULL, F32, 4, k);
    ADD(clattn_score, p->score., block_mask, WRITTEN | ANY, BOOL, 4, 1, c->small ? 1 : 2, c->small ? 1 : 2,
        c->small ? 1 : 3);
    ADD(clattn_score, p->score., mask, READ | ANY, BOOL, 4, 1, 2, n, keys);
    ADD(clattn_score, p->score., mod_buffers[0], READ | ANY, F32, 2, n, keys);
    p->score.mask_mod = "buffer0(row, j) > -0.9f && !(row > 63 && j > 127)";
    c->enqueue = mask_blocks;
}

ENQUEUE(norm, norm, norm)

static void open_norm(struct strided_call *c) {
    clattn_norm_params *p = &c->norm;
    const struct sizes s = sizes_of(c);
    ADD(clattn_norm_params, p->, x, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_norm_params, p->, residual, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_norm_params, p->, sum, WRITTEN, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_norm_params, p->, out, WRITTEN, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_norm_params, p->, weight, READ, F32, 1, s.keys);
    ADD(clattn_norm_params, p->, bias, READ, F32, 1, s.keys);
    p->kind = CLATTN_NORM_KIND_LAYER;
    c->enqueue = norm;
}

ENQUEUE(activate, activation, activation)

static void open_activation(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_activation_params, c->activation., x, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_activation_params, c->activation., up, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_activation_params, c->activation., out, WRITTEN, F32, 3, s.b, s.n, s.keys);
    c->activation.activation = CLATTN_ACTIVATION_GELU;
    c->enqueue = activate;
}

ENQUEUE(embed, embedding, embedding)

static void open_embedding(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_embedding_params, c->embedding., ids, READ | ANY, I32, 2, s.b, s.n);
    ADD(clattn_embedding_params, c->embedding., table, READ, F32, 2, 3, s.keys);
    ADD(clattn_embedding_params, c->embedding., out, WRITTEN, F32, 3, s.b, s.n, s.keys);
    c->enqueue = embed;
}

ENQUEUE(find_greatest, argmax, argmax)

static void open_argmax(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_argmax_params, c->argmax., x, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_argmax_params, c->argmax., out, WRITTEN | ANY, I32, 2, s.b, s.n);
    ADD(clattn_argmax_params, c->argmax., lengths, BOTH | ANY, I32, 2, s.b, s.n);
    c->enqueue = find_greatest;
}

ENQUEUE(draw, sample, sample)

static void open_sample(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_sample_params, c->sample., x, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_sample_params, c->sample., out, WRITTEN | ANY, I32, 2, s.b, s.n);
    c->sample.temperature = 1, c->sample.top_k = 3, c->enqueue = draw;
}

static const float two_numbers[] = {0.5f, 0.25f};

// Results of forward are inputs of gradients, with strides that do not repeat.
static void add_written(struct strided_call *c, clattn_attention_params *p, struct sizes s) {
    ADD(clattn_attention_params, p->, out, READ, F32, 4, s.b, s.h, s.n, s.dv);
    c->tensor[c->count - 1].repeats = false;
    ADD(clattn_attention_params, p->, lse, READ | ANY, F32, 3, s.b, s.h, s.n);
    c->tensor[c->count - 1].repeats = false;
}

ENQUEUE(attend_back, attention_backward, attention_backward)

static void open_attention_backward(struct strided_call *c) {
    clattn_attention_backward_params *p = &c->attention_backward;
    const struct sizes s = sizes_of(c);
    ADD(clattn_attention_params, p->forward., q, READ, F32, 4, s.b, s.h, s.n, s.d);
    add_kv(c, &p->forward.kv, s, F32, READ);
    add_written(c, &p->forward, s);
    ADD(clattn_score, p->forward.score., bias, READ | ANY, F32, 4, s.b, s.h, s.n, s.keys);
    c->tensor[c->count - 1].repeats = false; // dbias has its axes, so it does not repeat
    ADD(clattn_score, p->forward.score., sinks_device, READ | ANY, F32, 1, s.h);
    ADD(clattn_attention_backward_params, p->, dout, READ, F32, 4, s.b, s.h, s.n, s.dv);
    ADD(clattn_attention_backward_params, p->, dlse, READ | ANY, F32, 3, s.b, s.h, s.n);
    ADD(clattn_attention_backward_params, p->, dq, WRITTEN, F32, 4, s.b, s.h, s.n, s.d);
    ADD(clattn_attention_backward_params, p->, dk, WRITTEN, F32, 4, s.b, s.h, s.keys, s.d);
    ADD(clattn_attention_backward_params, p->, dv, WRITTEN, F32, 4, s.b, s.h, s.keys, s.dv);
    ADD(clattn_attention_backward_params, p->, dbias, WRITTEN | ANY, F32, 4, s.b, s.h, s.n, s.keys);
    ADD(clattn_attention_backward_params, p->, dsinks, WRITTEN | ANY, F32, 1, s.h);
    ADD(clattn_attention_backward_params, p->, dalibi_slopes, WRITTEN | ANY, F32, 1, s.h);
    ADD(clattn_attention_backward_params, p->, dhead_scales, WRITTEN | ANY, F32, 1, s.h);
    p->forward.score.alibi_slopes = p->forward.score.head_scales = two_numbers;
    c->enqueue = attend_back;
}

ENQUEUE(project_back, linear_backward, linear_backward)

static void open_linear_backward(struct strided_call *c) {
    clattn_linear_backward_params *p = &c->linear_backward;
    const struct sizes s = sizes_of(c);
    ADD(clattn_linear_backward_params, p->, x, READ, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_linear_backward_params, p->, w, READ, F32, 2, s.dv, s.keys);
    ADD(clattn_linear_backward_params, p->, dout, READ, F32, 3, s.b, s.n, s.dv);
    ADD(clattn_linear_backward_params, p->, dx, WRITTEN, F32, 3, s.b, s.n, s.keys);
    ADD(clattn_linear_backward_params, p->, dw, WRITTEN, F32, 2, s.dv, s.keys);
    ADD(clattn_linear_backward_params, p->, db, WRITTEN | ANY, F32, 1, s.dv);
    p->projection = CLATTN_PROJECTION_NATIVE;
    c->enqueue = project_back;
}

ENQUEUE(lay_back, layer_backward, layer_backward)

// A gradient and its tensor. The last stride of a gradient with one axis is free.
#define PAIR(field, gradient, LAST, ...)                                                                     \
    ADD(clattn_layer_params, f->, field, READ, F32, __VA_ARGS__);                                            \
    ADD(clattn_layer_backward_params, p->, gradient, WRITTEN | LAST, F32, __VA_ARGS__)

static void open_layer_backward(struct strided_call *c) {
    clattn_layer_backward_params *p = &c->layer_backward;
    clattn_layer_params *f = &p->forward;
    const struct sizes s = sizes_of(c);
    const int64_t m = c->small ? 1 : 12, q = s.h * s.d, v = s.h * s.dv;
    PAIR(x, dx, 0, 3, s.b, s.n, m);
    PAIR(y, dy, 0, 3, s.b, s.keys, m);
    ADD(clattn_layer_backward_params, p->, dout, READ, F32, 3, s.b, s.n, m);
    PAIR(wq, dwq, 0, 2, q, m);
    PAIR(wk, dwk, 0, 2, q, m);
    PAIR(wv, dwv, 0, 2, v, m);
    PAIR(wo, dwo, 0, 2, m, v);
    PAIR(bq, dbq, ANY, 1, q);
    PAIR(bk, dbk, ANY, 1, q);
    PAIR(bv, dbv, ANY, 1, v);
    PAIR(bo, dbo, ANY, 1, m);
    PAIR(q_norm, dq_norm, ANY, 1, s.d);
    PAIR(k_norm, dk_norm, ANY, 1, s.d);
    PAIR(w_gate, dw_gate, 0, 2, v, m);
    PAIR(b_gate, db_gate, ANY, 1, v);
    ADD(clattn_score, f->score., bias, READ | ANY, F32, 4, s.b, s.h, s.n, s.keys);
    c->tensor[c->count - 1].repeats = false;
    ADD(clattn_score, f->score., sinks_device, READ | ANY, F32, 1, s.h);
    ADD(clattn_layer_backward_params, p->, dbias, WRITTEN | ANY, F32, 4, s.b, s.h, s.n, s.keys);
    ADD(clattn_layer_backward_params, p->, dsinks, WRITTEN | ANY, F32, 1, s.h);
    ADD(clattn_layer_backward_params, p->, dalibi_slopes, WRITTEN | ANY, F32, 1, s.h);
    ADD(clattn_layer_backward_params, p->, dhead_scales, WRITTEN | ANY, F32, 1, s.h);
    f->score.alibi_slopes = f->score.head_scales = two_numbers;
    f->heads = (int32_t)s.h, f->norm = CLATTN_NORM_HEADS, f->projection = CLATTN_PROJECTION_NATIVE;
    c->enqueue = lay_back;
}

ENQUEUE(lay_keeping, layer_forward, layer_backward)

static void open_layer_forward(struct strided_call *c) {
    clattn_layer_params *f = &c->layer_backward.forward;
    const struct sizes s = sizes_of(c);
    const int64_t m = c->small ? 1 : 12;
    ADD(clattn_layer_params, f->, x, READ, F32, 3, s.b, s.n, m);
    ADD(clattn_layer_params, f->, wq, READ, F32, 2, s.h * s.d, m);
    ADD(clattn_layer_params, f->, wk, READ, F32, 2, s.h * s.d, m);
    ADD(clattn_layer_params, f->, wv, READ, F32, 2, s.h * s.dv, m);
    ADD(clattn_layer_params, f->, wo, READ, F32, 2, m, s.h * s.dv);
    ADD(clattn_layer_params, f->, out, WRITTEN, F32, 3, s.b, s.n, m);
    ADD(clattn_layer_backward_params, c->layer_backward., kept, BOTH, F32, 1,
        1 << 13); // larger than needed; the call does not touch the rest
    f->heads = (int32_t)s.h, f->projection = CLATTN_PROJECTION_NATIVE;
    c->enqueue = lay_keeping;
}

static const struct {
    const char *name;
    void (*open)(struct strided_call *c);
} calls[] = {{"unfused", open_unfused},
             {"flash", open_flash},
             {"decode", open_decode},
             {"pages", open_pages},
             {"ragged", open_ragged},
             {"ragged cache", open_ragged_cache},
             {"layer", open_layer},
             {"appending layer", open_append_layer},
             {"layer's keys", open_layer_kv},
             {"linear", open_linear},
             {"linear with scales", open_scaled_linear},
             {"pack", open_pack},
             {"append", open_append},
             {"shift", open_shift},
             {"rope", open_rope},
             {"hadamard", open_hadamard},
             {"merge", open_merge},
             {"dropout mask", open_dropout_mask},
             {"block mask", open_block_mask},
             {"norm", open_norm},
             {"activation", open_activation},
             {"embedding", open_embedding},
             {"argmax", open_argmax},
             {"sample", open_sample},
             {"topk", strided_open_topk},
             {"index", strided_open_index},
             {"linear attention", strided_open_linear_attention},
             {"gradients of attention", open_attention_backward},
             {"gradients of a projection", open_linear_backward},
             {"gradients of a layer", open_layer_backward},
             {"a layer that keeps", open_layer_forward}};
const int strided_count = (int)(sizeof calls / sizeof calls[0]);

void strided_open(struct strided_call *c, int n, bool small, struct place *place) {
    const struct guarded_shape room = {F32, 1, {1 << 16}, LAYOUT_DENSE};
    memset(c, 0, sizeof *c);
    c->name = calls[n].name, c->small = small;
    calls[n].open(c);
    if (c->enqueue != pack) return;
    c->packed = guarded_output(place, &room);
    c->pack.buffer = c->packed.view.buffer;
}

void strided_close(struct strided_call *c) {
    for (int n = 0; n < c->count; n++) {
        guarded_release(&c->tensor[n].memory);
        free(c->tensor[n].values);
    }
    guarded_release(&c->packed);
}

const char *strided_name(const struct strided_tensor *t) {
    return strchr(t->field, '.') + 1;
}
