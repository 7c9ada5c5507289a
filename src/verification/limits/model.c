// model.c: see model.h.
#include "verification/limits/model.h"

#include "verification/case/case_layer.h"

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

static int64_t shift_of(const clattn_score *s, int64_t b, int64_t q_length, int64_t kv_length) {
    if (s->alignment == CLATTN_ALIGN_BOTTOM_RIGHT) return kv_length - q_length;
    if (s->alignment == CLATTN_ALIGN_OFFSET) return s->offsets ? s->offsets[b] : s->offset;
    return 0;
}

double model_pairs(const clattn_score *s, int64_t batch, int64_t n_q, int64_t n_kv) {
    double pairs = 0.0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t rows = s->q_lengths ? s->q_lengths[b] : n_q,
                      keys = s->kv_lengths ? s->kv_lengths[b] : n_kv;
        const int64_t shift = shift_of(s, b, rows, keys);
        for (int64_t i = 0; i < rows; i++) {
            int64_t first = 0, last = keys;
            if (s->window && s->window_left >= 0) first = clamp(i + shift - s->window_left, 0, keys);
            if (s->window && s->window_right >= 0) last = clamp(i + shift + s->window_right + 1, 0, keys);
            if (s->causal) last = clamp(i + shift + 1, 0, last);
            if (last > first) pairs += (double)(last - first);
        }
    }
    return pairs;
}

// Elements of the weight matrices applied to each row of x.
static double row_weights(const struct test_case *t) {
    return (double)t->heads *
           ((double)t->width * (double)t->head_dim + (double)t->width_out * (double)t->head_dim_v);
}

static double key_weights(const struct test_case *t) {
    const double width = (double)(t->width_y ? t->width_y : t->width);
    return width * (double)t->kv_heads * (double)(t->head_dim + t->head_dim_v);
}

double model_flops(const struct test_case *t) {
    const double b = (double)t->batch;
    if (t->op == CASE_LINEAR)
        return 2.0 * b * (double)t->n_q * (double)t->width * (double)case_matrix_rows(t, LAYER_Q);
    const double attention = 2.0 * (double)t->heads * model_pairs(&t->score, t->batch, t->n_q, t->n_kv) *
                             (double)(t->head_dim + t->head_dim_v);
    const double gate = (double)case_gate_rows(t) * (double)t->width;
    const double projections =
        2.0 * b * ((double)t->n_q * (row_weights(t) + gate) + (double)t->n_kv * key_weights(t));
    // Gradients have five products instead of two: forward's again, and dq, dk and dv.
    if (t->op == CASE_BACKWARD) return 2.5 * attention;
    return t->op == CASE_LAYER ? attention + projections : attention;
}

double model_bytes(const struct test_case *t) {
    const double b = (double)t->batch, q = (double)clattn_type_size(t->q_type),
                 k = (double)clattn_type_size(t->kv_type) / clattn_type_numbers(t->kv_type),
                 v = (double)clattn_type_size(case_v_type(t)) / clattn_type_numbers(case_v_type(t)),
                 out = (double)clattn_type_size(t->out_type),
                 matrix = (double)clattn_type_size(t->matrix_type) / clattn_type_numbers(t->matrix_type),
                 rows = b * (double)t->n_q;
    const double heads = (double)t->heads * rows, keys = (double)t->kv_heads * (double)t->n_kv * b;
    if (t->op == CASE_LINEAR) {
        const double inner = (double)t->width, columns = (double)case_matrix_rows(t, LAYER_Q);
        return q * (rows * inner + rows * columns) + matrix * inner * columns;
    }
    if (t->op == CASE_LAYER)
        return q * (rows * (double)(t->width + t->width_out) + b * (double)t->n_kv * (double)t->width_y) +
               matrix * (row_weights(t) + key_weights(t) + (double)case_gate_rows(t) * (double)t->width);
    const double of_q = heads * (double)t->head_dim, of_out = heads * (double)t->head_dim_v,
                 of_kv = keys * (double)(t->head_dim + t->head_dim_v);
    // Gradients read out and its derivative, and write as many numbers as q, k and v have.
    const double more =
        t->op == CASE_BACKWARD ? out * of_out + (double)clattn_type_size(t->grad_type) * (of_q + of_kv) : 0.0;
    const double of_v = t->latent ? 0.0 : keys * (double)t->head_dim_v;
    return q * of_q + out * of_out + k * keys * (double)t->head_dim + v * of_v + more;
}
