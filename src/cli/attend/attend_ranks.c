// attend_ranks.c: `clattn attend --mpi`. All files are inspected and compared before a device is
// opened. Then each rank reads its rows of a part, runs its share of the call, and keeps its rows
// of the result. At the end the ranks write the results together. With --cu-seqlens each sequence
// is a part, so that every rank has some rows of each sequence.
#include "cli/attend/attend.h"

// View `count` rows from row `local` on, of `items` batch items from `item` on.
static clattn_tensor part_of(clattn_tensor t, int64_t item, int64_t items, int64_t local, int64_t count) {
    t.offset += count ? item * t.stride[0] + local * t.stride[2] : 0;
    t.shape[0] = items, t.shape[2] = count;
    return t;
}

// View rows [row, row + count) of positions, which are [B or 1, N] or [3, B or 1, N].
static clattn_tensor positions_of(clattn_tensor t, int64_t item, int64_t items, int64_t row, int64_t count) {
    const int rows = t.rank - 1, batch = t.rank - 2;
    t.offset += count ? row * t.stride[rows] : 0;
    t.shape[rows] = count;
    if (t.shape[batch] == 1) return t;
    t.offset += count ? item * t.stride[batch] : 0;
    t.shape[batch] = items;
    return t;
}

typedef struct turn {
    attend *a;
    session *s;
    clattn_tensor positions; // rank 0: rows are numbered consecutively
    int64_t row, item;       // where the sequence's first row is in `positions`
} turn;

// Apply RoPE in place to rows [start, start + count) of the whole sequence. This rank stores these
// rows from row `local` on, of `items` batch items from `item` on. `shift`[items], or NULL, is
// added to the positions.
static int turn_rows(const turn *t, const clattn_tensor *x, int64_t item, int64_t items, int64_t local,
                     int64_t start, int64_t count, int32_t *shift) {
    clattn_rope_params p = {.x = part_of(*x, item, items, local, count), .rope = t->a->params.rope};
    if (count <= 0) return -1;
    p.y = p.x;
    p.rope.k_positions = (clattn_tensor){0};
    p.rope.positions = t->positions;
    if (t->positions.rank)
        p.rope.positions = positions_of(t->positions, t->item + item, items, t->row + start, count);
    else
        p.rope.position += start, p.offsets = shift;
    const clattn_status done = clattn_rope_enqueue(t->s->context, t->s->queue, &p, 0, NULL, NULL);
    return done == CLATTN_OK ? -1 : session_status(t->s, done);
}

static int64_t shift_of(const clattn_score *s, int64_t b, int64_t rows, int64_t keys) {
    if (s->alignment == CLATTN_ALIGN_OFFSET) return s->offsets ? s->offsets[b] : s->offset;
    if (s->alignment != CLATTN_ALIGN_BOTTOM_RIGHT) return 0;
    return (s->kv_lengths ? s->kv_lengths[b] : keys) - (s->q_lengths ? s->q_lengths[b] : rows);
}

static int turn_queries(const turn *t, const attend_part *part) {
    const clattn_attention_params *p = &t->a->params;
    const int64_t items = p->q.shape[0];
    int32_t *shift = calloc((size_t)items + 1, sizeof *shift);
    int status = shift ? -1 : tool_failed("no memory");
    for (int64_t b = 0; b < items && shift; b++)
        shift[b] = (int32_t)shift_of(&p->score, b, part->q.whole, part->kv.whole);
    for (int64_t c = 0, local = 0; c < part->q.count && status < 0; local += part->q.chunks[c++].count)
        status =
            turn_rows(t, &p->q, 0, items, local, part->q.chunks[c].start, part->q.chunks[c].count, shift);
    free(shift);
    return status;
}

// Apply RoPE to the keys of one part. Items with pasts of different lengths need one launch each.
static int turn_keys(const turn *t, const attend_part *part, int64_t item) {
    const clattn_tensor *k = &t->a->params.kv.k;
    const ranks_keys *keys = &t->a->shared.keys;
    const int64_t all = k->shape[0], step = keys->past_lengths ? 1 : all;
    int status = -1;
    for (int64_t b = 0; b < all && status < 0; b += step)
        for (int64_t c = 0, local = 0; c < part->kv.count && status < 0;
             local += part->kv.chunks[c++].count) {
            const int64_t start = part->kv.chunks[c].start, end = start + part->kv.chunks[c].count;
            const int64_t past = ranks_keys_past(keys, item + b), from = past > start ? past : start;
            const int64_t last = past + ranks_keys_new(keys, item + b), to = last < end ? last : end;
            turn now = *t;
            // Positions cover only the new keys, not the past.
            if (now.positions.rank) now.row -= past;
            status = turn_rows(&now, k, b, step, local + from - start, from, to - from, NULL);
        }
    return status;
}

// Apply RoPE to this rank's rows of a part, because the library's shared call does not. Each rank
// changes its rows of q and of the new keys in place. Past rows and pages were RoPE'd before they
// were stored.
static int attend_turn(attend *a, session *s, const attend_part *part, int64_t item) {
    const clattn_rope *rope = &a->params.rope;
    const ranks_keys *keys = &a->shared.keys;
    turn t = {.a = a, .s = s, .positions = rope->positions, .row = part->q.first, .item = item};
    int status = turn_queries(&t, part);
    if (status >= 0 || keys->paged) return status;
    if (rope->k_positions.rank) t.positions = rope->k_positions, t.row = keys->cu ? keys->cu[item] : 0;
    return turn_keys(&t, part, item);
}

// Returns why the options need one device; NULL: they do not.
static const char *refused(const attend *a) {
    if (a->weights || a->scores) return "--weights, --scores";
    if (a->dropout_mask) return "--dropout-mask";
    if (a->append.k_new || a->append.v_new || a->append.out_k || a->append.out_v) return "--k-new, --out-k";
    if (a->score.splits) return "--splits";
    if (a->ragged.file && (a->score.score.score_mod || a->score.score.mask_mod))
        return "--score-mod, --mask-mod with --cu-seqlens";
    if (a->v_type != a->stores.type) return "--v-type";
    if (a->kv_rotation) return "--kv-rotation";
    if (clattn_type_numbers(a->stored[0].type) > 1) return "--kv-type in blocks or of 4 bits";
    if (a->stores.group || a->stores.scales > 0 || a->stores.zeros)
        return "--kv-group, --kv-scales, --kv-zeros";
    if (a->stored[0].type != CLATTN_TYPE_F32 && a->rope.rope.layout != CLATTN_ROPE_NONE)
        return "--rope with a --kv-type that has scales";
    return NULL;
}

static int check(const attend *a) {
    const char *what = refused(a);
    if (what) return tool_wrong("%s: is unsupported with --mpi, which partitions rows", what);
    if (ranks_way_is(&a->ranks, "heads"))
        return tool_wrong(
            "--mpi-way heads: works with layer only; all_to_all partitions the heads of attention");
    return -1;
}

// Check that the numbers rise from 0 to at most `rows`.
static int check_cu(const char *option, const int32_t *cu, int64_t count, int64_t rows) {
    for (int64_t b = 0; b <= count; b++)
        if (cu[b] < (b ? cu[b - 1] : 0) || cu[b] > rows || (b == 0 && cu[b]))
            return tool_wrong(
                "--%s: number %lld is %d: numbers from 0 that never decrease, up to %lld rows, are needed",
                option, (long long)b, (int)cu[b], (long long)rows);
    return -1;
}

static int64_t rows_of(const attend_shared *sh, int64_t b, bool bshd) {
    return sh->ragged.cu ? sh->ragged.cu[b + 1] - sh->ragged.cu[b] : sh->q.whole.shape[bshd ? 1 : 2];
}

// Default lengths are the sequences' own. With --cu-seqlens, longer lengths are cut to the
// sequence.
static int find_lengths(attend *a) {
    attend_shared *sh = &a->shared;
    const clattn_score *s = &a->score.score;
    const bool own = sh->ragged.cu || sh->kv.lengths;
    sh->q_lengths = calloc((size_t)sh->batch + 1, sizeof *sh->q_lengths);
    sh->kv_lengths = calloc((size_t)sh->batch + 1, sizeof *sh->kv_lengths);
    if (!sh->q_lengths || !sh->kv_lengths) return tool_failed("no memory");
    for (int64_t b = 0; b < sh->batch; b++) {
        const int64_t rows = rows_of(sh, b, a->bshd),
                      keys = ranks_keys_past(&sh->keys, b) + ranks_keys_new(&sh->keys, b);
        sh->q_lengths[b] = s->q_lengths ? s->q_lengths[b] : (int32_t)rows;
        sh->kv_lengths[b] = s->kv_lengths ? s->kv_lengths[b] : (int32_t)keys;
        if (sh->ragged.cu && sh->q_lengths[b] > rows) sh->q_lengths[b] = (int32_t)rows;
        if (sh->ragged.cu && sh->kv_lengths[b] > keys) sh->kv_lengths[b] = (int32_t)keys;
        if (own && sh->kv_lengths[b] > keys)
            return tool_wrong("--kv-lengths: item %lld is %d: its past and new keys are only %lld",
                              (long long)b, (int)sh->kv_lengths[b], (long long)keys);
    }
    if (!s->q_lengths) free(sh->q_lengths), sh->q_lengths = NULL;
    if (!s->kv_lengths && !sh->kv.lengths) free(sh->kv_lengths), sh->kv_lengths = NULL;
    return -1;
}

static int find_parts(attend *a) {
    attend_shared *sh = &a->shared;
    sh->count = sh->ragged.cu ? sh->batch : 1;
    sh->parts = calloc((size_t)sh->count + 1, sizeof *sh->parts);
    if (!sh->parts) return tool_failed("no memory");
    for (int64_t n = 0; n < sh->count; n++) {
        attend_part *p = &sh->parts[n];
        const int64_t rows = rows_of(sh, n, a->bshd);
        if (rows > sh->max_q) sh->max_q = rows;
        ranks_share(&a->ranks, rows, &p->q);
        if (sh->batch) ranks_share(&a->ranks, ranks_keys_count(&sh->keys, n), &p->kv);
        p->q.first = sh->ragged.cu ? sh->ragged.cu[n] : 0, p->q.file = sh->q.whole.shape[a->bshd ? 1 : 2];
        p->out_rows = p->q;
        // With fewer than two query rows a rank, split the keys instead of the queries: splitting
        // the queries would leave ranks idle and send all keys to the others.
        p->decode =
            ranks_way_is(&a->ranks, "decode") || ((!a->ranks.strategy || ranks_way_is(&a->ranks, "auto")) &&
                                                  rows < 2 * a->ranks.count && a->ranks.count > 1);
        if (!p->decode) continue;
        const ranks_rows all = ranks_all(rows);
        p->q.chunks[0] = all.chunks[0], p->q.count = 1, p->q.rows = rows;
    }
    return -1;
}

static int check_positions(const char *option, const array *a, int64_t batch, int64_t rows) {
    char shape[128];
    if (!a->data || ((a->shape[a->rank - 2] == 1 || a->shape[a->rank - 2] == batch) &&
                     a->shape[a->rank - 1] == rows && (a->rank == 2 || a->shape[0] == 3)))
        return -1;
    return tool_wrong("--%s: has shape %s: [.., 1 or %lld, %lld] is needed", option,
                      array_shape_text(a, shape), (long long)batch, (long long)rows);
}

// There must be as many positions as query rows, and as many k-positions as new keys.
static int find_positions(const attend *a) {
    const attend_shared *sh = &a->shared;
    const int axis = a->bshd ? 1 : 2;
    const int64_t keys = sh->keys.now[0].whole.shape[axis], rows = sh->q.whole.shape[axis];
    int status = check_positions("positions", &a->rope.arrays[0], sh->q.whole.shape[0], rows);
    if (status < 0)
        status = check_positions("k-positions", &a->rope.arrays[1], sh->keys.now[0].whole.shape[0], keys);
    if (status < 0 && a->rope.arrays[0].data && !a->rope.arrays[1].data && !sh->keys.paged && keys != rows)
        return tool_wrong("--positions: --k has %lld rows, --q %lld: --k-positions is needed",
                          (long long)keys, (long long)rows);
    return status;
}

// With --cu-seqlens, check the shape of a mask or bias: each call sees only a part of it. Otherwise
// the library checks the shape.
static int find_map(const attend *a, const char *option, const char *file) {
    const attend_shared *sh = &a->shared;
    int64_t want[4] = {sh->batch, sh->heads, sh->max_q, 0};
    char shape[128];
    load_place place;
    if (!file || !sh->ragged.cu) return -1;
    for (int64_t b = 0; b < sh->batch; b++)
        if (ranks_keys_count(&sh->keys, b) > want[3]) want[3] = ranks_keys_count(&sh->keys, b);
    int status = ranks_find(option, file, -1, &place);
    if (status >= 0) return status;
    const array *map = &place.whole;
    bool good = map->rank >= 1 && map->rank <= 4;
    for (int n = 1; n <= map->rank && good; n++)
        good = map->shape[map->rank - n] == 1 || map->shape[map->rank - n] == want[4 - n];
    if (!good)
        status = tool_wrong("--%s: has shape %s: [%lld, %lld, %lld, %lld] or 1 is needed", option,
                            array_shape_text(map, shape), (long long)want[0], (long long)want[1],
                            (long long)want[2], (long long)want[3]);
    load_leave(&place);
    return status;
}

static int find_result(attend *a) {
    static const array_type types[] = {ARRAY_F32, ARRAY_F16, ARRAY_BF16};
    attend_shared *sh = &a->shared;
    sh->whole = sh->q.whole;
    sh->whole.shape[3] = sh->keys.now[1].whole.shape[3];
    if (sh->whole.type == ARRAY_U16) sh->whole.type = ARRAY_F32;
    if (a->dtype >= 0) sh->whole.type = types[a->dtype];
    sh->whole_lse = (array){.type = ARRAY_F32, .rank = 3};
    sh->whole_lse.shape[0] = sh->whole.shape[0], sh->whole_lse.shape[1] = sh->heads;
    sh->whole_lse.shape[2] = sh->whole.shape[a->bshd ? 1 : 2];
    return expect_fits(&a->expect, &sh->whole, a->bshd ? 1 : 2);
}

int attend_shared_find(attend *a) {
    attend_shared *sh = &a->shared;
    const char *files[2] = {a->k, a->v};
    load_place k;
    a->score.maps_later = a->kv.past_later = a->expect.later = true;
    int status = check(a);
    if (status < 0) status = ranks_find("q", a->q, 4, &sh->q);
    if (status < 0) status = ranks_find("k", a->k, 4, &k);
    if (status >= 0) return status;
    const array *q = &sh->q.whole;
    sh->heads = q->shape[a->bshd ? 2 : 1];
    status = attend_options(a, q->shape[0], sh->heads, k.whole.shape[0]);
    load_leave(&k);
    sh->ragged = a->ragged, a->ragged = (ragged_options){0};
    sh->kv = a->kv, a->kv = (kv_options){0};
    sh->batch = ragged_options_batch(&sh->ragged, q->shape[0]);
    sh->keys.cu = sh->ragged.cu_kv, sh->keys.bshd = a->bshd;
    if (status < 0 && sh->ragged.cu && q->shape[0] != 1)
        return tool_wrong("--cu-seqlens: --q has %lld batch items: 1 with all sequences is needed",
                          (long long)q->shape[0]);
    if (status < 0) status = ranks_keys_find(&sh->keys, files, &sh->kv, sh->batch);
    const int axis = a->bshd ? 1 : 2;
    if (status < 0 && sh->ragged.cu)
        status = check_cu("cu-seqlens", sh->ragged.cu, sh->batch, q->shape[axis]);
    if (status < 0 && sh->ragged.cu_kv)
        status = check_cu("cu-seqlens-kv", sh->ragged.cu_kv, sh->batch, sh->keys.now[0].whole.shape[axis]);
    if (status < 0) status = find_positions(a);
    if (status < 0) status = find_lengths(a);
    if (status < 0) status = find_parts(a);
    if (status < 0) status = find_map(a, "mask", a->score.mask);
    if (status < 0) status = find_map(a, "bias", a->score.bias);
    return status < 0 ? find_result(a) : status;
}

static int load_part(attend *a, const attend_part *p, int64_t item, int64_t items) {
    attend_shared *sh = &a->shared;
    ranks *r = &a->ranks;
    ranks_rows in_sequence = p->q;
    in_sequence.first = 0;
    int status = ranks_read(r, "q", &sh->q, a->bshd ? 1 : 2, &p->q, &a->q_array);
    for (int n = 0; n < 2 && status < 0; n++)
        status = ranks_keys_read(&sh->keys, r, n, item, items, &p->kv, sh->kv_lengths,
                                 n ? &a->v_array : &a->k_array);
    if (status < 0) status = attend_store(a);
    return status >= 0 ? status
                       : ranks_load_maps(r, &a->score, 1, sh->max_q, &in_sequence, sh->ragged.cu ? item : -1);
}

// Hide the map's columns after this sequence's keys: they belong to longer sequences.
static void cut(clattn_tensor *map, int64_t keys) {
    int64_t *columns = map->rank ? &map->shape[map->rank - 1] : NULL;
    if (columns && *columns != 1) *columns = keys;
}

// Narrow the call's lengths, offsets and maps to this part.
static void fit_part(attend *a, const attend_part *p, int64_t item) {
    const attend_shared *sh = &a->shared;
    clattn_score *s = &a->params.score;
    s->q_lengths = sh->q_lengths ? sh->q_lengths + item : NULL;
    s->kv_lengths = sh->kv_lengths ? sh->kv_lengths + item : NULL;
    if (s->offsets) s->offsets += item;
    if (!sh->ragged.cu) return;
    cut(&s->mask, p->kv.whole);
    cut(&s->bias, p->kv.whole);
}

static int keep_part(attend *a, attend_part *p) {
    int status = -1;
    if (p->decode) status = ranks_keep(&p->out_rows, a->bshd ? 1 : 2, &a->out_array);
    if (p->decode && a->lse && status < 0) status = ranks_keep(&p->out_rows, 2, &a->lse_array);
    p->out = a->out_array, p->lse = a->lse_array;
    a->out_array = a->lse_array = (array){0};
    return status;
}

static int run_part(attend *a, session *s, attend_part *p, int64_t item, int64_t items) {
    tensors t = {.session = s};
    a->params = (clattn_attention_params){0};
    int status = load_part(a, p, item, items);
    if (status < 0) status = attend_upload(a, &t);
    if (status < 0) status = attend_outputs(a, &t);
    if (status < 0) fit_part(a, p, item);
    if (status < 0 && a->params.rope.layout != CLATTN_ROPE_NONE) status = attend_turn(a, s, p, item);
    status = ranks_agree(&a->ranks, status);
    if (status < 0) status = ranks_attend(&a->ranks, s, &a->params, &p->q, &p->kv, p->decode);
    if (status < 0) status = session_read(s, a->params.out.buffer, a->out_array.data, a->out_array.bytes);
    if (status < 0 && a->lse)
        status = session_read(s, a->params.lse.buffer, a->lse_array.data, a->lse_array.bytes);
    if (status < 0) status = keep_part(a, p);
    status = ranks_agree(&a->ranks, status);
    tensors_release(&t);
    array *const done[] = {&a->q_array,   &a->k_array,   &a->v_array,         &a->score.mask_array,
                           &a->out_array, &a->lse_array, &a->score.bias_array};
    for (size_t n = 0; n < sizeof done / sizeof *done; n++) array_free(done[n]);
    return status;
}

static int save(attend *a) {
    attend_shared *sh = &a->shared;
    const int axis = a->bshd ? 1 : 2;
    int64_t count = 0;
    ranks_part *parts = calloc(2 * (size_t)sh->count + 1, sizeof *parts), *lse = parts + sh->count;
    int status = parts ? -1 : tool_failed("no memory");
    for (int64_t n = 0; n < sh->count && parts; n++) {
        if (!sh->parts[n].out.data) continue;
        parts[count] = (ranks_part){&sh->parts[n].out, &sh->parts[n].out_rows};
        lse[count++] = (ranks_part){&sh->parts[n].lse, &sh->parts[n].out_rows};
    }
    status = ranks_agree(&a->ranks, status);
    if (status < 0) status = ranks_save(&a->ranks, a->out, &sh->whole, axis, parts, count);
    if (status < 0) status = ranks_save(&a->ranks, a->lse, &sh->whole_lse, 2, lse, count);
    for (int64_t n = 0; n < count && status < 0 && a->expect.file; n++)
        status = ranks_expect(&a->ranks, &a->expect, axis, &parts[n]);
    free(parts);
    return ranks_agree(&a->ranks, status);
}

int attend_shared_run(attend *a, session *s) {
    attend_shared *sh = &a->shared;
    int status = ranks_alike(&a->ranks, "cu-seqlens", sh->ragged.cu,
                             sh->ragged.cu ? ((size_t)sh->batch + 1) * sizeof *sh->ragged.cu : 0);
    if (status < 0) status = ranks_begin(&a->ranks, s);
    for (int64_t n = 0; n < sh->count && status < 0; n++)
        if (!sh->ragged.cu || sh->parts[n].q.whole)
            status = run_part(a, s, &sh->parts[n], n, sh->ragged.cu ? 1 : sh->batch);
    ranks_end(&a->ranks);
    if (status < 0) status = save(a);
    if (status >= 0) return status;
    status = ranks_verdict(&a->ranks, &a->expect);
    const int told = ranks_tell(&a->ranks, s, a->out, &a->expect);
    return status >= 0 ? status : told;
}

void attend_shared_free(attend *a) {
    attend_shared *sh = &a->shared;
    for (int64_t n = 0; n < sh->count && sh->parts; n++) {
        array_free(&sh->parts[n].out);
        array_free(&sh->parts[n].lse);
    }
    free(sh->parts);
    free(sh->q_lengths);
    free(sh->kv_lengths);
    load_leave(&sh->q);
    ranks_keys_free(&sh->keys);
    ragged_options_free(&sh->ragged);
    kv_options_free(&sh->kv);
}
