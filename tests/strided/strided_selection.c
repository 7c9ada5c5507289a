// strided_selection.c: the calls of sparse.h and linear_attention.h, for strided_calls.c.
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

ENQUEUE(recur, linear_attention, linear_attention)

void strided_open_linear_attention(struct strided_call *c) {
    clattn_linear_attention_params *p = &c->linear_attention;
    const struct sizes s = sizes_of(c);
    static const double first_tokens[] = {0, 2, 4}, slots[] = {2, 0}, new_slots[] = {1, 4, 3, 0};
    const int64_t n = c->small ? 1 : 2;
    ADD(clattn_linear_attention_params, p->, q, READ, F32, 4, 1, s.h, s.n, s.d);
    ADD(clattn_linear_attention_params, p->, k, READ, F32, 4, 1, s.h, s.n, s.d);
    ADD(clattn_linear_attention_params, p->, v, READ, F32, 4, 1, s.h, s.n, s.dv);
    ADD(clattn_linear_attention_params, p->, decay, READ, F32, 4, 1, s.h, s.n, s.d);
    ADD(clattn_linear_attention_params, p->, beta, READ | ANY, F32, 3, 1, s.h, s.n);
    ADD(clattn_linear_attention_params, p->, state, READ, F32, 4, 3, s.h, s.d, s.dv);
    ADD(clattn_linear_attention_params, p->, new_state, WRITTEN, F32, 4, 5, s.h, s.d, s.dv);
    ADD_GIVEN(clattn_linear_attention_params, p->, state_indices, READ | ANY, slots, 1, n);
    ADD_GIVEN(clattn_linear_attention_params, p->, new_state_indices, READ | ANY, new_slots, 2, n, n);
    ADD_GIVEN(clattn_linear_attention_params, p->, cu_seqlens_device, READ | ANY, first_tokens, 1, n + 1);
    ADD(clattn_linear_attention_params, p->, out, WRITTEN, F32, 4, 1, s.h, s.n, s.dv);
    p->l2_norm = true, c->enqueue = recur;
}
