// test_errors_block.c: every refusal of the functions of block.h: the status, a one-line reason,
// and nothing written. Results are in test_block.c.
#define REFUSED_PARAMS struct block_calls
#include <clattn/clattn.h>

struct block_calls {
    clattn_norm_params norm;
    clattn_activation_params activation;
    clattn_embedding_params embedding;
    clattn_argmax_params argmax;
    clattn_sample_params sample;
};

#include "refusals/refused.h"

#include <math.h>

enum { BATCH = 2, ROWS = 5, SIZE = 24, TABLE = 7 };

#define NORM(X)                                                                                              \
    X(x_rank, "x: ", p->norm.x.rank = 4)                                                                     \
    X(x_type, "x: ", p->norm.x.type = CLATTN_TYPE_I8)                                                        \
    X(x_stride, "x: ", p->norm.x.stride[2] = 2)                                                              \
    X(x_width, "x: ",                                                                                        \
      p->norm.x.shape[2] = p->norm.out.shape[2] = p->norm.residual.shape[2] = p->norm.sum.shape[2] =         \
          p->norm.weight.shape[0] = p->norm.bias.shape[0] = 0)                                               \
    X(x_absent, "x: ", p->norm.x = (clattn_tensor){0})                                                       \
    X(x_handle, "x: ", p->norm.x.buffer = NULL)                                                              \
    X(x_leaves, "x: ", p->norm.x.offset = 1000000)                                                           \
    X(residual_rows, "residual: ", p->norm.residual.shape[1] = ROWS - 1)                                     \
    X(residual_type, "residual: ", p->norm.residual.type = CLATTN_TYPE_I8)                                   \
    X(sum_type, "sum: ", p->norm.sum.type = CLATTN_TYPE_BF16)                                                \
    X(sum_width, "sum: ", p->norm.sum.shape[2] = SIZE - 1)                                                   \
    X(sum_alone, "sum: ", p->norm.residual = (clattn_tensor){0})                                             \
    X(sum_repeats, "sum: ", p->norm.sum.stride[0] = 0)                                                       \
    X(sum_is_out, "overlaps", p->norm.sum = p->norm.out)                                                     \
    X(sum_over_x, "overlaps", (p->norm.sum = p->norm.x, p->norm.sum.offset += 1))                            \
    X(both_in_x, "overlaps", p->norm.sum = p->norm.out = p->norm.x)                                          \
    X(out_absent, "out: ", p->norm.out = (clattn_tensor){0})                                                 \
    X(out_rank, "out: ", p->norm.out.rank = 2)                                                               \
    X(out_batch, "out: ", p->norm.out.shape[0] = 1)                                                          \
    X(out_over_weight, "overlaps", p->norm.weight.buffer = p->norm.out.buffer)                               \
    X(out_another_type, "overlaps", (p->norm.out = p->norm.x, p->norm.out.type = CLATTN_TYPE_BF16))          \
    X(weight_size, "weight: ", p->norm.weight.shape[0] = SIZE + 1)                                           \
    X(weight_type, "weight: ", p->norm.weight.type = CLATTN_TYPE_I32)                                        \
    X(bias_size, "bias: ", p->norm.bias.shape[0] = 1)                                                        \
    X(bias_type, "bias: ", p->norm.bias.type = CLATTN_TYPE_F16)                                              \
    X(kind, "kind: ", p->norm.kind = CLATTN_NORM_KIND_COUNT)                                                 \
    X(epsilon, "epsilon: ", p->norm.epsilon = -1e-6f)                                                        \
    X(epsilon_nan, "epsilon: ", p->norm.epsilon = NAN)                                                       \
    X(plus_one, "plus_one: ", (p->norm.plus_one = true, p->norm.weight = (clattn_tensor){0}))

#define ACTIVATION(X)                                                                                        \
    X(a_rank, "x: ", p->activation.x.rank = 2)                                                               \
    X(a_type, "x: ", p->activation.x.type = CLATTN_TYPE_BOOL)                                                \
    X(a_width, "x: ", p->activation.x.shape[2] = p->activation.up.shape[2] = p->activation.out.shape[2] = 0) \
    X(a_handle, "x: ", p->activation.x.buffer = NULL)                                                        \
    X(up_type, "up: ", p->activation.up.type = CLATTN_TYPE_F16)                                              \
    X(up_width, "up: ", p->activation.up.shape[2] = 1)                                                       \
    X(up_leaves, "up: ", p->activation.up.offset = 1000000)                                                  \
    X(up_partly, "overlaps", (p->activation.out = p->activation.up, p->activation.out.offset += 1))          \
    X(a_out, "out: ", p->activation.out.shape[1] = ROWS + 1)                                                 \
    X(a_out_repeats, "out: ", p->activation.out.stride[1] = 0)                                               \
    X(how, "activation: ", p->activation.activation = CLATTN_ACTIVATION_COUNT)                               \
    X(nothing_done, "activation: ",                                                                          \
      (p->activation.activation = CLATTN_ACTIVATION_NONE, p->activation.up = (clattn_tensor){0}))

#define EMBEDDING(X)                                                                                         \
    X(ids_type, "ids: ", p->embedding.ids.type = CLATTN_TYPE_F32)                                            \
    X(ids_rank, "ids: ", p->embedding.ids.rank = 1)                                                          \
    X(ids_leave, "ids: ", p->embedding.ids.stride[0] = 1000000)                                              \
    X(table_rank, "table: ", p->embedding.table.rank = 3)                                                    \
    X(table_type, "table: ", p->embedding.table.type = CLATTN_TYPE_I8)                                       \
    X(table_blocks, "out: shape", p->embedding.table.type = CLATTN_TYPE_Q8_0)                                \
    X(table_width, "table: ", p->embedding.table.shape[1] = p->embedding.out.shape[2] = 0)                   \
    X(table_handle, "table: ", p->embedding.table.buffer = NULL)                                             \
    X(e_out_rows, "out: ", p->embedding.out.shape[1] = ROWS + 1)                                             \
    X(e_out_width, "out: ", p->embedding.out.shape[2] = SIZE + 1)                                            \
    X(out_is_table, "overlaps", p->embedding.out.buffer = p->embedding.table.buffer)                         \
    X(scale, "scale: ", p->embedding.scale = INFINITY)

#define ARGMAX(X)                                                                                            \
    X(logits_type, "x: ", p->argmax.x.type = CLATTN_TYPE_I32)                                                \
    X(logits_rank, "x: ", p->argmax.x.rank = 2)                                                              \
    X(logits_width, "x: ", p->argmax.x.shape[2] = 0)                                                         \
    X(logits_leave, "x: ", p->argmax.x.shape[2] = INT32_MAX)                                                 \
    X(places_type, "out: ", p->argmax.out.type = CLATTN_TYPE_F32)                                            \
    X(places_rows, "out: ", p->argmax.out.shape[1] = 1)                                                      \
    X(places_repeat, "out: ", p->argmax.out.stride[1] = 0)                                                   \
    X(places_in_x, "overlaps", p->argmax.out.buffer = p->argmax.x.buffer)                                    \
    X(lengths_rows, "lengths: ", (p->argmax.lengths = p->argmax.out, p->argmax.lengths.shape[1] = 1))        \
    X(lengths_in_places, "overlaps", p->argmax.lengths = p->argmax.out)

#define SAMPLE(X)                                                                                            \
    X(drawn_type, "out: ", p->sample.out.type = CLATTN_TYPE_F32)                                             \
    X(drawn_from_type, "x: ", p->sample.x.type = CLATTN_TYPE_I8)                                             \
    X(drawn_rows, "out: ", p->sample.out.shape[1] = 1)                                                       \
    X(drawn_width, "x: ", p->sample.x.shape[2] = 0)                                                          \
    X(drawn_from_many, "x: ",                                                                                \
      (p->sample.x.shape[2] = (1 << 24) + 1,                                                                 \
       p->sample.x.shape[0] = p->sample.x.shape[1] = p->sample.out.shape[0] = p->sample.out.shape[1] = 0))   \
    X(drawn_in_x, "overlaps", p->sample.out.buffer = p->sample.x.buffer)                                     \
    X(temperature_none, "temperature: ", p->sample.temperature = 0)                                          \
    X(temperature_below, "temperature: ", p->sample.temperature = -1)                                        \
    X(temperature_nan, "temperature: ", p->sample.temperature = NAN)                                         \
    X(temperature_infinite, "temperature: ", p->sample.temperature = INFINITY)                               \
    X(top_k, "top_k: ", p->sample.top_k = -1)                                                                \
    X(top_p, "top_p: ", p->sample.top_p = 1.5f)                                                              \
    X(top_p_nan, "top_p: ", p->sample.top_p = NAN)                                                           \
    X(min_p, "min_p: ", p->sample.min_p = -0.5f)

REFUSED_TABLE(norms, NORM)
REFUSED_TABLE(activations, ACTIVATION)
REFUSED_TABLE(embeddings, EMBEDDING)
REFUSED_TABLE(greatest, ARGMAX)
REFUSED_TABLE(samples, SAMPLE)

static clattn_tensor rows_of(struct refused_buffers *b, bool output, int64_t width) {
    return refused_buffer(b, output,
                          (struct guarded_shape){CLATTN_TYPE_F32, 3, {BATCH, ROWS, width}, LAYOUT_DENSE});
}

static clattn_tensor ids_of(struct refused_buffers *b, bool output) {
    return refused_buffer(b, output, (struct guarded_shape){CLATTN_TYPE_I32, 2, {BATCH, ROWS}, LAYOUT_DENSE});
}

static void make_norm(struct refused_buffers *b, REFUSED_PARAMS *p) {
    const struct guarded_shape width = {CLATTN_TYPE_F32, 1, {SIZE}, LAYOUT_DENSE};
    p->norm.x = rows_of(b, false, SIZE), p->norm.residual = rows_of(b, false, SIZE);
    p->norm.weight = refused_buffer(b, false, width), p->norm.bias = refused_buffer(b, false, width);
    p->norm.sum = rows_of(b, true, SIZE), p->norm.out = rows_of(b, true, SIZE);
}

static void make_activation(struct refused_buffers *b, REFUSED_PARAMS *p) {
    p->activation.x = rows_of(b, false, SIZE), p->activation.up = rows_of(b, false, SIZE);
    p->activation.out = rows_of(b, true, SIZE), p->activation.activation = CLATTN_ACTIVATION_SILU;
}

static void make_embedding(struct refused_buffers *b, REFUSED_PARAMS *p) {
    const struct guarded_shape table = {CLATTN_TYPE_F32, 2, {TABLE, SIZE}, LAYOUT_DENSE};
    p->embedding.ids = ids_of(b, false), p->embedding.table = refused_buffer(b, false, table);
    p->embedding.out = rows_of(b, true, SIZE);
}

static void make_argmax(struct refused_buffers *b, REFUSED_PARAMS *p) {
    p->argmax.x = rows_of(b, false, SIZE), p->argmax.out = ids_of(b, true);
}

static void make_sample(struct refused_buffers *b, REFUSED_PARAMS *p) {
    p->sample.x = rows_of(b, false, SIZE), p->sample.out = ids_of(b, true), p->sample.temperature = 1;
}

// Define a test for each row of a table.
#define REFUSALS(table, part)                                                                                \
    START_TEST(table##_refused) {                                                                            \
        struct refused_buffers b = {.count = 0};                                                             \
        REFUSED_PARAMS p = {.norm.epsilon = 0};                                                              \
        cl_event event = NULL;                                                                               \
        make_##part(&b, &p);                                                                                 \
        (table)[_i].spoil(&p);                                                                               \
        ASSERT_INVALID(                                                                                      \
            (table)[_i].name,                                                                                \
            clattn_##part##_enqueue(harness()->context, harness()->queue, &p.part, 0, NULL, &event),         \
            (table)[_i].word);                                                                               \
        refused_buffers_end(&b, (table)[_i].name, event);                                                    \
    }                                                                                                        \
    END_TEST
REFUSALS(norms, norm)
REFUSALS(activations, activation)
REFUSALS(embeddings, embedding)
REFUSALS(greatest, argmax)
REFUSALS(samples, sample)

int main(void) {
    Suite *suite = suite_create("errors_block");
    TCase *group = harness_add(suite, "errors_block", (const TTest *const[]){NULL});
    REFUSED_LOOP(group, norms_refused, norms);
    REFUSED_LOOP(group, activations_refused, activations);
    REFUSED_LOOP(group, embeddings_refused, embeddings);
    REFUSED_LOOP(group, greatest_refused, greatest);
    REFUSED_LOOP(group, samples_refused, samples);
    return harness_run(suite);
}
