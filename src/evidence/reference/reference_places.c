// reference_places.c: where the reference finds the row of a key: in one tensor, in past rows and new ones, or in pages.
#include "evidence/reference/reference.h"

static int64_t past_length(const struct reference_places *p, int64_t b) {
    return p->past_lengths ? p->past_lengths[b] : p->past;
}

int64_t reference_kv_most(const struct reference *r, int64_t b) {
    return r->places.past_k ? past_length(&r->places, b) + r->places.rows : r->n_kv;
}

bool reference_was_turned(const struct reference *r, int64_t b, int64_t j) {
    return (r->places.page_size > 0 && r->places.turned_pages) ||
           (r->places.past_k && j < past_length(&r->places, b));
}

int64_t reference_new_row(const struct reference *r, int64_t b, int64_t j) {
    return r->places.past_k ? j - past_length(&r->places, b) : j;
}

const double *reference_kv_row(const struct reference *r, bool value, int64_t b, int64_t h, int64_t j) {
    const struct reference_places *p = &r->places;
    const int64_t size = !value ? r->head_dim : r->v_row ? r->v_row : r->head_dim_v;
    const double *x = value ? r->v : r->k;
    int64_t item = b, rows = r->n_kv;
    if (p->page_size > 0) {
        item = p->block_table[b * (r->n_kv / p->page_size) + j / p->page_size];
        j %= p->page_size, rows = p->page_size;
        if (item < 0) return NULL;
    } else if (p->past_k && j < past_length(p, b)) {
        x = value ? p->past_v : p->past_k;
        item = p->past_batch == 1 ? 0 : b, rows = p->past;
    } else if (p->past_k) {
        j -= past_length(p, b), rows = p->rows;
        if (j >= rows) return NULL;
    }
    const int64_t first = ((item * r->kv_heads + h) * rows + j) * size;
    return x + (r->period != 0 ? first % r->period : first);
}
