/* fuzz_call_rows.c: calls with rows and without scores: merge, append to a cache, RoPE, dropout's
 * mask. */
#include "fuzz/fuzz_calls.h"

bool fuzz_merge(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const int64_t shape[4] = {l.batch, l.heads, l.n_q, l.dv};
    const clattn_type type = fuzz_float_type(b);
    clattn_merge_params p;
    fuzz_fields f = {.required = 4, .written = 3};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.out_a, type, 4, shape), fuzz_add_view(&f, &p.lse_a, CLATTN_TYPE_F32, 3, shape);
    fuzz_add_view(&f, &p.out_b, type, 4, shape), fuzz_add_view(&f, &p.lse_b, CLATTN_TYPE_F32, 3, shape);
    fuzz_change_all(&f, b);
    return fuzz_end(&f, &at,
                    clattn_merge_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
                    fuzz_all_fit(&f) && !at.wrong);
}

static bool may_append(const clattn_append_params *p) {
    const int64_t of[] = {-2,           p->k_new.type,  p->v_new.type,          p->k.type,
                          p->v.type,    p->rope.layout, p->rope.positions.rank, p->k_new.rank,
                          p->v_new.rank};
    return fuzz_work(&p->k_new, p->k_new.shape[3], 1) <= FUZZ_MOST_WORK &&
           fuzz_work(&p->v_new, p->v_new.shape[3], 1) <= FUZZ_MOST_WORK && fuzz_kernel_may_run(of, sizeof of);
}

/* Absent views are no part of the call. Either the keys or the values may be absent. */
bool fuzz_append(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const unsigned with = fuzz_byte(b);
    const clattn_type from = fuzz_float_type(b), to = with & 1 ? CLATTN_TYPE_I8 : fuzz_float_type(b);
    const int64_t rows = with & 2 ? 1 : l.n_q, capacity = l.n_kv, scales[3] = {l.batch, l.kv_heads, capacity};
    clattn_append_params p = {.circular = with & 4, .start = with & 8 ? 1 : 0};
    fuzz_fields f = {.required = 0, .written = 15 << 2};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_optional(&f, !(with & 16), &p.k_new, from, 4, (int64_t[]){l.batch, l.kv_heads, rows, l.d});
    fuzz_add_view(&f, &p.v_new, from, 4, (int64_t[]){l.batch, l.kv_heads, rows, l.dv});
    fuzz_add_optional(&f, !(with & 16), &p.k, to, 4, (int64_t[]){l.batch, l.kv_heads, capacity, l.d});
    fuzz_add_view(&f, &p.v, to, 4, (int64_t[]){l.batch, l.kv_heads, capacity, l.dv});
    fuzz_add_optional(&f, to == CLATTN_TYPE_I8 && !(with & 16), &p.k_scale, CLATTN_TYPE_F32, 3, scales);
    fuzz_add_optional(&f, to == CLATTN_TYPE_I8, &p.v_scale, CLATTN_TYPE_F32, 3, scales);
    if (with & 32) p.rope.layout = CLATTN_ROPE_HALF;
    fuzz_add_positions(&f, with & 64 ? 1 : 0, &p.rope, l.batch, rows, 0);
    fuzz_add_int(&f, &p.start), fuzz_add_bool(&f, &p.circular), fuzz_add_rope(&f, &p.rope);
    fuzz_change_all(&f, b);
    const int64_t batch = p.k_new.buffer ? p.k_new.shape[0] : p.v_new.shape[0];
    if (f.arrays & 1) p.starts = fuzz_integers(&f, b, batch);
    if (f.arrays & 2) p.lengths = fuzz_integers(&f, b, batch);
    fuzz_fill(&p.rope.positions, b, false);
    const bool fit = fuzz_all_fit(&f), run = !fit || may_append(&p);
    const bool done =
        run && fuzz_end(&f, &at,
                        clattn_append_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
                        fit && !at.wrong);
    fuzz_free(&f);
    return done;
}

static bool may_turn(const clattn_rope_params *p) {
    const int64_t of[] = {
        -3,          p->x.type,   p->y.type,   p->rope.layout,          p->rope.positions.rank,
        p->cos.rank, p->cos.type, p->sin.type, p->rope.sections[0] != 0};
    return fuzz_work(&p->x, p->x.shape[3], 1) <= FUZZ_MOST_WORK && fuzz_kernel_may_run(of, sizeof of);
}

static bool same_view(const clattn_tensor *a, const clattn_tensor *b) {
    bool same = a->buffer && a->buffer == b->buffer && a->offset == b->offset && a->type == b->type &&
                a->rank == b->rank;
    for (int i = 0; same && i < a->rank && i < CLATTN_MAX_RANK; i++)
        same = a->shape[i] == b->shape[i] && a->stride[i] == b->stride[i];
    return same;
}

bool fuzz_rope(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const unsigned with = fuzz_byte(b);
    const clattn_type x = fuzz_float_type(b), y = with & 1 ? x : fuzz_float_type(b);
    const int64_t shape[4] = {l.batch, l.heads, l.n_q, l.d}, table[3] = {l.batch, l.n_q, l.d / 2};
    clattn_rope_params p = {.rope = {.layout = with & 2 ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF}};
    fuzz_fields f = {.required = 2, .written = 2};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.x, x, 4, shape), fuzz_add_view(&f, &p.y, y, 4, shape);
    fuzz_add_optional(&f, with & 4, &p.cos, CLATTN_TYPE_F32, 3, table);
    fuzz_add_optional(&f, with & 4, &p.sin, CLATTN_TYPE_F32, 3, table);
    fuzz_add_positions(&f, with >> 3, &p.rope, l.batch, l.n_q, 0);
    fuzz_add_int(&f, &p.offset), fuzz_add_rope(&f, &p.rope);
    fuzz_change_all(&f, b);
    if (f.arrays & 1) p.offsets = fuzz_integers(&f, b, p.x.shape[0]);
    fuzz_fill(&p.rope.positions, b, false);
    if (with & 32 && with & 1) p.y = p.x;
    const bool in_place = same_view(&p.x, &p.y);      /* also if changes made both equal */
    if (in_place) f.tensors[1] = &p.x, f.written = 1; /* a view may share bytes with itself */
    if (in_place) f.tensor_count = 1, f.required = 1;
    const bool fit = fuzz_all_fit(&f), run = !fit || may_turn(&p);
    const bool done =
        run &&
        fuzz_end(&f, &at, clattn_rope_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
                 (fit || in_place) && !at.wrong);
    fuzz_free(&f);
    return done;
}

bool fuzz_dropout_mask(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    clattn_dropout_mask_params p = {.dropout = (float)fuzz_real(b), .dropout_seed = fuzz_byte(b)};
    fuzz_fields f = {.required = 1, .written = 1};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.mask, CLATTN_TYPE_BOOL, 4, (int64_t[]){l.batch, l.heads, l.n_q, l.n_kv});
    fuzz_add_float(&f, &p.dropout);
    fuzz_change_all(&f, b);
    const int64_t of[] = {-4, 0};
    if (fuzz_all_fit(&f) &&
        (fuzz_work(&p.mask, p.mask.shape[3], 1) > FUZZ_MOST_WORK || !fuzz_kernel_may_run(of, sizeof of)))
        return true;
    return fuzz_end(
        &f, &at, clattn_dropout_mask_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
        fuzz_all_fit(&f) && !at.wrong);
}
