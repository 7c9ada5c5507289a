// strided_selection.c: the calls of sparse.h, for strided_calls.c.
#include "strided/strided_tensors.h"

// The results of a selection of K = 3.
static void add_lists(struct strided_call *c, clattn_selection *s, int64_t heads) {
    static const double key_counts[] = {5, 6};
    const struct sizes n = sizes_of(c);
    ADD(clattn_selection, s->, indices, WRITTEN | ANY, I32, 4, n.b, n.n, heads, 3);
    ADD(clattn_selection, s->, counts, WRITTEN | ANY, I32, 3, n.b, n.n, heads);
    ADD(clattn_selection, s->, values, WRITTEN, F32, 4, n.b, n.n, heads, 3);
    ADD_GIVEN(clattn_selection, s->, kv_lengths_device, READ | ANY, key_counts, 1, n.b);
}

ENQUEUE(select_best, topk, topk)

void strided_open_topk(struct strided_call *c) {
    const struct sizes s = sizes_of(c);
    ADD(clattn_topk_params, c->topk., scores, READ, F32, 4, s.b, s.h, s.n, s.keys);
    add_lists(c, &c->topk.selection, s.h);
    c->enqueue = select_best;
}

ENQUEUE(index_keys, index, index)

void strided_open_index(struct strided_call *c) {
    static const double pages[] = {0, 1, 2, 5, 4, 3};
    const struct sizes s = sizes_of(c);
    clattn_index_params *p = &c->index;
    ADD(clattn_index_params, p->, q, READ, F32, 4, s.b, s.h, s.n, s.d);
    const int64_t rows = c->small ? 1 : 2;
    ADD(clattn_index_params, p->, k, READ, I8, 4, 6, 1, rows, s.d);
    ADD(clattn_index_params, p->, k_scale, READ | ANY, F32, 3, 6, 1, rows);
    ADD(clattn_index_params, p->, weights, READ | ANY, F32, 3, s.b, s.n, s.h);
    ADD_GIVEN(clattn_index_params, p->, block_table, READ | ANY, pages, 2, s.b, 3);
    add_lists(c, &p->selection, 1);
    p->page_size = (int32_t)rows, c->enqueue = index_keys;
}
