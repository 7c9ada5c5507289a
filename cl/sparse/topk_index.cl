// topk_index.cl: index scores of a segment of a row's entries, and the best K of them. The score
// of a key is the sum over index heads of weight * max(0, scale * dot(q, k)). Scores stay in
// registers.
//
// With INDEX_HEADS, on a CPU, a work-item converts q and a tile of LANES keys to float32 once, and
// multiplies INDEX_HEADS rows of q with them in blocks of registers. Without, each work-item
// computes the scores of LANES entries by itself. TYPE_Q, TYPE_KV, TYPE_SCALE and TYPE_BIAS are the
// types of q, k, k_scale and weights. Global size: WORK_GROUP * segments * units.
#include "sparse/select.clh"

typedef struct index_call {
    const index_args *args;
    const select_row *row;
    __global const ELEMENT(TYPE_Q) * q;
    __global const ELEMENT(TYPE_KV) * k;
    __global const ELEMENT(TYPE_SCALE) * k_scale;
    __global const ELEMENT(TYPE_BIAS) * weights;
    __global const int *pages;
    float floor; // 0, or -infinity
} index_call;

void index_key_place(const index_call *c, int j, int *b, int *n) {
    *b = c->row->b, *n = c->row->first_key + j;
    if (c->args->select.flags & SELECT_PACKED_KEYS) *b = 0;
#if PAGED
    const index_args *a = c->args;
    const int page =
        c->pages[a->table_offset + c->row->b * a->table_batch + j / a->page_size * a->table_column];
    *b = clamp(page, 0, a->pages - 1), *n = j % a->page_size;
#endif
}

// The factor of a key's products.
float index_key_factor(const index_call *c, int b, int n) {
#if STORE_IS_SCALED(TYPE_KV)
    return c->args->scale * LOAD(TYPE_SCALE, c->k_scale, view_at(&c->args->k_scale, b, c->row->h, n, 0));
#else
    return c->args->scale;
#endif
}

float index_weight(const index_call *c, int head) {
    if (!(c->args->select.flags & SELECT_WEIGHTS)) return 1.0f;
    return LOAD(TYPE_BIAS, c->weights, view_at(&c->args->weights, c->row->out_b, c->row->out_i, head, 0));
}

#if INDEX_HEADS
#define INDEX_STEPS ((HEAD_DIM + LANES - 1) / LANES)
#define INDEX_KEYS 4 // keys in registers; of two heads

typedef struct index_rows {
    VEC q[INDEX_HEADS][INDEX_STEPS];
    VEC k[LANES][INDEX_STEPS];
    float weights[INDEX_HEADS];
} index_rows;

void index_load_q(const index_call *c, index_rows *rows) {
    for (int g = 0; g < INDEX_HEADS; g++) {
        const int head = c->row->h * INDEX_HEADS + g;
        const long at = view_at(&c->args->q, c->row->out_b, head, c->row->out_i, 0);
        for (int d = 0; d < INDEX_STEPS; d++)
            rows->q[g][d] = LOAD_LANES_UP_TO(TYPE_Q, c->q, at + d * LANES, HEAD_DIM - d * LANES);
        rows->weights[g] = index_weight(c, head);
    }
}

REGISTER_INLINE void index_multiply(const index_call *c, const index_rows *rows, int g, int first,
                                    const float *factor, float *sums) {
    const int next = min(g + 1, INDEX_HEADS - 1);
    VEC x[INDEX_KEYS], y[INDEX_KEYS];
    for (int n = 0; n < INDEX_KEYS; n++) x[n] = y[n] = (VEC)(0.0f);
    for (int d = 0; d < INDEX_STEPS; d++) {
        const VEC q0 = rows->q[g][d], q1 = rows->q[next][d];
        for (int n = 0; n < INDEX_KEYS; n++) {
            const VEC key = rows->k[first + n][d];
            x[n] = fma(q0, key, x[n]), y[n] = fma(q1, key, y[n]);
        }
    }
    for (int n = 0; n < INDEX_KEYS; n++) {
        const float s = sum_lanes(x[n]) * factor[first + n], t = sum_lanes(y[n]) * factor[first + n];
        sums[first + n] += rows->weights[g] * (s < c->floor ? c->floor : s);
        if (next > g) sums[first + n] += rows->weights[next] * (t < c->floor ? c->floor : t);
    }
}

// The scores of keys j to j + count - 1, at most LANES. Further sums repeat the last key.
void index_keys(const index_call *c, index_rows *rows, int j, int count, float *sums) {
    float factor[LANES];
    for (int n = 0; n < LANES; n++) {
        int b, at;
        index_key_place(c, j + min(n, count - 1), &b, &at);
        const long row = view_row(&c->args->k, b, c->row->h, at);
        for (int d = 0; d < INDEX_STEPS; d++)
            rows->k[n][d] = LOAD_LANES_UP_TO(TYPE_KV, c->k, row + d * LANES, HEAD_DIM - d * LANES);
        factor[n] = index_key_factor(c, b, at);
        sums[n] = 0.0f;
    }
    for (int g = 0; g < INDEX_HEADS; g += 2)
        for (int n = 0; n < LANES; n += INDEX_KEYS) index_multiply(c, rows, g, n, factor, sums);
}
#else
typedef int index_rows;
void index_load_q(const index_call *c, index_rows *rows) {
    (void)c, (void)rows;
}

float index_key(const index_call *c, int j) {
    const index_args *a = c->args;
    int b, at;
    index_key_place(c, j, &b, &at);
    const long row = view_row(&a->k, b, c->row->h, at);
    const float factor = index_key_factor(c, b, at);
    float sum = 0.0f;
    for (int g = 0; g < a->group; g++) {
        const int head = c->row->h * a->group + g;
        const long q = view_at(&a->q, c->row->out_b, head, c->row->out_i, 0);
        float dot_product = 0.0f;
        for (int d = 0; d < a->head_dim; d++)
            dot_product = MULTIPLY_ADD(LOAD(TYPE_Q, c->q, q + d), LOAD(TYPE_KV, c->k, row + d), dot_product);
        const float s = dot_product * factor;
        sum += index_weight(c, head) * (s < c->floor ? c->floor : s);
    }
    return sum;
}

void index_keys(const index_call *c, index_rows *rows, int j, int count, float *sums) {
    for (int n = 0; n < LANES; n++) sums[n] = n < count ? index_key(c, j + n) : 0.0f;
}
#endif

// The score of an entry of several keys.
float index_block(const index_call *c, index_rows *rows, int entry) {
    const select_args *a = &c->args->select;
    const int begin = entry * a->block, end = min(begin + a->block, c->row->keys);
    float most = -INFINITY, sum = 0.0f, s[LANES];
    for (int j = begin; j < end; j += LANES) {
        const int count = min(end - j, LANES);
        index_keys(c, rows, j, count, s);
        for (int n = 0; n < count; n++) {
            sum += s[n];
            if (s[n] > most || isnan(s[n])) most = s[n]; // a NaN stays
        }
    }
    return (a->flags & SELECT_MEAN) ? sum / (float)(end - begin) : most;
}

// The scores of a lane's entries from `first` on, below `end`.
VEC index_entries(const index_call *c, index_rows *rows, int first, int end) {
    float sums[LANES];
    const int count = min(end - first, LANES);
    if (c->args->select.block == 1)
        index_keys(c, rows, first, count, sums);
    else
        for (int n = 0; n < LANES; n++) sums[n] = n < count ? index_block(c, rows, first + n) : 0.0f;
    return VLOAD(0, sums);
}

__kernel SELECT_ATTRIBUTES void
topk_index(__global const ELEMENT(TYPE_Q) * q, __global const ELEMENT(TYPE_KV) * k,
           __global const ELEMENT(TYPE_SCALE) * k_scale, __global const ELEMENT(TYPE_BIAS) * weights,
           __global const int *pages, __global const int *table, __global const int *lengths,
           __global uint *scratch, const index_args args) {
    __local uint bins[SELECT_LOCAL_WORDS];
    const select_args *a = &args.select;
    const long group = select_group();
    const int segment = (int)(group % a->segments);
    select_row r;
    const bool writes = select_open_row(a, a->unit + group / a->segments, table, lengths, &r);
    const index_call c = {&args,   &r,      q,     k,
                          k_scale, weights, pages, (a->flags & SELECT_LINEAR) ? -INFINITY : 0.0f};
    const int entries = writes ? r.entries : 0;
    const int begin = (int)min((long)segment * a->span, (long)entries),
              end = (int)min((long)begin + a->span, (long)entries);
    select_pass pass = select_begin(a, scratch, group);
    index_rows rows;
    if (begin < end) index_load_q(&c, &rows);
    int tile = begin;
    do { // all of it is uniform
        for (; tile < end && !select_is_full(&pass, a); tile += SELECT_TILE) {
            const int first = tile + (int)get_local_id(0) * LANES;
            VEC y = (VEC)(0.0f);
            if (first < end) y = index_entries(&c, &rows, first, end);
            select_append(&pass, a, &r, first, end, y, bins);
        }
        select_reduce(&pass, a, &r, bins);
    } while (tile < end);
}
