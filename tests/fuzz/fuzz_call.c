/* fuzz_call.c: see fuzz_call.h. */
#include "fuzz/fuzz_call.h"

#include <stdlib.h>
#include <string.h>

int fuzz_add_view(fuzz_fields *f, clattn_tensor *t, clattn_type type, int rank, const int64_t *shape) {
    FUZZ_CHECK(f->tensor_count < PLACES);
    *t = clattn_tensor_dense(fuzz_buffers[f->tensor_count], type, rank, shape);
    f->tensors[f->tensor_count] = t;
    return f->tensor_count++;
}

int fuzz_add_optional(fuzz_fields *f, bool wanted, clattn_tensor *t, clattn_type type, int rank,
                      const int64_t *shape) {
    const int number = fuzz_add_view(f, t, type, rank, shape);
    if (!wanted) *t = (clattn_tensor){0};
    return number;
}

void fuzz_add_int(fuzz_fields *f, void *i) {
    f->ints[f->int_count++] = i;
}
void fuzz_add_float(fuzz_fields *f, float *x) {
    f->floats[f->float_count++] = x;
}
void fuzz_add_bool(fuzz_fields *f, bool *x) {
    f->bools[f->bool_count++] = x;
}

void fuzz_add_rope(fuzz_fields *f, clattn_rope *r) {
    f->rope = r;
    fuzz_add_int(f, &r->layout), fuzz_add_int(f, &r->rotary_dim), fuzz_add_int(f, &r->scaling);
    fuzz_add_bool(f, &r->sections_interleaved), fuzz_add_bool(f, &r->untruncated);
}

void fuzz_add_score(fuzz_fields *f, clattn_score *s, clattn_rope *r) {
    f->score = s;
    fuzz_add_int(f, &s->alignment), fuzz_add_int(f, &s->offset), fuzz_add_int(f, &s->window_left),
        fuzz_add_int(f, &s->window_right);
    fuzz_add_rope(f, r);
    fuzz_add_float(f, &s->scale), fuzz_add_float(f, &s->softcap), fuzz_add_float(f, &s->dropout);
    fuzz_add_bool(f, &s->causal), fuzz_add_bool(f, &s->window);
}

void fuzz_add_positions(fuzz_fields *f, unsigned with, clattn_rope *r, int64_t batch, int64_t rows,
                        int64_t keys) {
    const bool axes = with & 2, given = with & 1;
    const int64_t of_rows[3] = {axes ? 3 : batch, axes ? batch : rows, rows},
                  of_keys[3] = {axes ? 3 : batch, axes ? batch : keys, keys};
    fuzz_add_optional(f, given, &r->positions, CLATTN_TYPE_I32, axes ? 3 : 2, of_rows);
    fuzz_add_optional(f, given && keys, &r->k_positions, CLATTN_TYPE_I32, axes ? 3 : 2, of_keys);
    if (given && r->layout == CLATTN_ROPE_NONE) r->layout = CLATTN_ROPE_HALF;
    /* for a head size of 8 */
    if (given && axes) r->sections[0] = 2, r->sections[1] = 1, r->sections[2] = 1;
}

/* Texts that read a buffer fail to compile without it. Texts that end their scope are refused
 * before compilation. */
static const char *const score_texts[] = {"score + 0.5f * (float)(i - j)",
                                          "score - buffer0(b)",
                                          "score * (1.0f + 0.01f * h)",
                                          "score)",
                                          "score /* open",
                                          "fmax(score, -1.0f)"};
static const char *const mask_texts[] = {"j <= i + 4",         "j != (int)buffer0(b)",
                                         "(row + j) % 3 != 0", "j < kv_length - 1",
                                         "#include",           "j <= i; return 1"};

void fuzz_add_expressions(fuzz_fields *f, unsigned with, clattn_score *s, const int64_t full[4]) {
    const int64_t blocks[4] = {full[0], with & 1 ? 1 : full[1],
                               full[2] > 0 ? (full[2] - 1) / CLATTN_BLOCK_ROWS + 1 : 0,
                               full[3] > 0 ? (full[3] - 1) / CLATTN_BLOCK_KEYS + 1 : 0};
    if (with & 2) s->score_mod = score_texts[(with >> 4) % 6];
    if (with & 4) s->mask_mod = mask_texts[(with >> 5) % 6];
    f->built_of_text = s->score_mod || s->mask_mod;
    fuzz_add_optional(f, f->built_of_text && with & 16, &s->mod_buffers[0], CLATTN_TYPE_I32, 1, full);
    fuzz_add_optional(f, with & 8, &s->block_mask, CLATTN_TYPE_BOOL, 4, blocks);
}

static void change_tensor(clattn_tensor *t, fuzz_bytes *b) {
    const int what = fuzz_below(b, 12), axis = what & 3;
    if (what < 4)
        t->shape[axis] = fuzz_number(b);
    else if (what < 8)
        t->stride[axis] = fuzz_number(b);
    else if (what == 8)
        t->offset = fuzz_number(b);
    else if (what == 9)
        t->type = (clattn_type)fuzz_number(b);
    else if (what == 10)
        t->rank = (int)fuzz_number(b);
    else
        t->buffer = fuzz_handle(b);
}

static void change_rope(clattn_rope *r, fuzz_bytes *b) {
    const int what = fuzz_below(b, 4);
    if (what == 0) r->base = fuzz_real(b);
    if (what == 1) r->factor = fuzz_real(b);
    if (what == 2) r->position = fuzz_number(b);
    if (what == 3) r->sections[fuzz_below(b, 3)] = (int32_t)fuzz_number(b);
}

/* Apply one change to the call. The first bytes select the most important changes. */
static void change(fuzz_fields *f, fuzz_bytes *b) {
    const int what = fuzz_below(b, 16);
    if (what < 8)
        change_tensor(f->tensors[fuzz_below(b, f->tensor_count)], b);
    else if (what < 10 && f->int_count)
        *f->ints[fuzz_below(b, f->int_count)] = (int32_t)(uint64_t)fuzz_number(b);
    else if (what == 10 && f->float_count)
        *f->floats[fuzz_below(b, f->float_count)] = (float)fuzz_real(b);
    else if (what == 11 && f->bool_count)
        *f->bools[fuzz_below(b, f->bool_count)] ^= true;
    else if (what < 14 && f->score)
        f->arrays ^= 1u << fuzz_below(b, 6);
    else if (what == 14 && f->rope)
        change_rope(f->rope, b);
    else if (f->workspace)
        *f->workspace = fuzz_handle(b);
}

void fuzz_change_all(fuzz_fields *f, fuzz_bytes *b) {
    f->arrays = fuzz_below(b, 4) ? 0 : fuzz_byte(b);
    for (int left = fuzz_below(b, 6); left > 0; left--) change(f, b);
}

void fuzz_repeat(const fuzz_fields *f, const clattn_tensor *output) {
    for (int i = 0; i < f->tensor_count; i++)
        for (int axis = 0; f->tensors[i] != output && axis + 1 < f->tensors[i]->rank; axis++)
            f->tensors[i]->stride[axis] = 0;
}

static void *own(fuzz_fields *f, int64_t count) {
    if (count < 0 || count > 4096) return NULL;
    void *made = calloc(count ? (size_t)count : 1, count ? sizeof(int32_t) : 1);
    if (made) f->owned[f->owned_count++] = made;
    return made;
}

int32_t *fuzz_integers(fuzz_fields *f, fuzz_bytes *b, int64_t count) {
    int32_t *made = own(f, count);
    for (int64_t i = 0; made && i < count; i++) made[i] = (int32_t)(uint64_t)fuzz_number(b);
    return made;
}

static float *reals(fuzz_fields *f, fuzz_bytes *b, int64_t count) {
    float *made = own(f, count);
    for (int64_t i = 0; made && i < count; i++) made[i] = (float)fuzz_real(b);
    return made;
}

int32_t *fuzz_first_rows(fuzz_fields *f, fuzz_bytes *b, int64_t count) {
    int32_t *made = own(f, count < 0 ? -1 : count + 1);
    for (int64_t i = 1; made && i <= count; i++) {
        const int step = fuzz_byte(b);
        made[i] = step < 250 ? (int32_t)((uint32_t)made[i - 1] + (uint32_t)(step % 4))
                             : (int32_t)(uint64_t)fuzz_number(b);
    }
    return made;
}

void fuzz_add_arrays(fuzz_fields *f, fuzz_bytes *b, int64_t batch, int64_t heads) {
    clattn_score *s = f->score;
    if (f->arrays & 1) s->head_scales = reals(f, b, heads);
    if (f->arrays & 2) s->alibi_slopes = reals(f, b, heads);
    if (f->arrays & 4) s->sinks = reals(f, b, heads);
    if (f->arrays & 8) s->offsets = fuzz_integers(f, b, batch);
    if (f->arrays & 16) s->q_lengths = fuzz_integers(f, b, batch);
    if (f->arrays & 32) s->kv_lengths = fuzz_integers(f, b, batch);
}

void fuzz_free(fuzz_fields *f) {
    for (int i = 0; i < f->owned_count; i++) free(f->owned[i]);
    f->owned_count = 0;
}

void fuzz_fill(const clattn_tensor *t, fuzz_bytes *b, bool rising) {
    int32_t numbers[16] = {0};
    for (int i = 0; i < 16; i++) {
        const int chosen = fuzz_byte(b);
        const int32_t before = i ? numbers[i - 1] : 0;
        numbers[i] = chosen >= 240 ? (int32_t)(uint64_t)fuzz_number(b)
                     : rising      ? (int32_t)((uint32_t)before + (uint32_t)(chosen % 4))
                                   : chosen % 8;
    }
    if (rising) numbers[0] = 0;
    fuzz_write_buffer(t->buffer, numbers, sizeof numbers);
}

double fuzz_work(const clattn_tensor *q, int64_t keys, int64_t width) {
    return (double)q->shape[0] * (double)q->shape[1] * (double)q->shape[2] * (double)keys * (double)width;
}

/* Positions are ignored if RoPE has no layout. */
static bool is_ignored(const fuzz_fields *f, const clattn_tensor *t) {
    return f->rope && f->rope->layout == CLATTN_ROPE_NONE &&
           (t == &f->rope->positions || t == &f->rope->k_positions);
}

/* An optional tensor without a buffer is absent. */
bool fuzz_all_fit(const fuzz_fields *f) {
    for (int i = 0; i < f->tensor_count; i++) {
        const bool absent = is_ignored(f, f->tensors[i]) || (i >= f->required && !f->tensors[i]->buffer);
        if (!absent && !fuzz_fits(f->tensors[i])) return false;
    }
    return true;
}

typedef struct hidden {
    cl_mem buffers[FUZZ_MOST_FIELDS];
    int ranks[FUZZ_MOST_FIELDS];
} hidden;

static void hide_buffers(const fuzz_fields *f, hidden *h) {
    for (int i = 0; i < f->tensor_count; i++) {
        h->buffers[i] = f->tensors[i]->buffer;
        h->ranks[i] = f->tensors[i]->rank;
        f->tensors[i]->buffer = NULL;
    }
}

/* Returns true if there are any such tensors. */
static bool hide_absent(const fuzz_fields *f, const hidden *h) {
    bool any = false;
    for (int i = 0; i < f->tensor_count; i++) {
        f->tensors[i]->buffer = h->buffers[i];
        if (i < f->required || h->buffers[i]) continue;
        any = any || h->ranks[i];
        f->tensors[i]->rank = 0;
    }
    return any;
}

clattn_status fuzz_plan(fuzz_fields *f, fuzz_planner ask, const void *params, void *plan, bool *right) {
    hidden h;
    hide_buffers(f, &h);
    const bool bare = fuzz_answered(ask(params, plan), false);
    const bool fewer = hide_absent(f, &h);
    const clattn_status status = ask(params, plan);
    const bool planned = fuzz_answered(status, false);
    FUZZ_CHECK(bare || fewer || !planned);
    *right = planned && fuzz_all_fit(f);
    for (int i = 0; i < f->tensor_count; i++) f->tensors[i]->rank = h.ranks[i];
    return status;
}

bool fuzz_end(const fuzz_fields *f, const fuzz_launch *at, clattn_status status, bool right) {
    const bool done = fuzz_finish(at, status, right, f->built_of_text);
    for (int i = 0; done && i < f->tensor_count; i++) {
        const bool written = f->written >> i & 1;
        fuzz_check_access(f->tensors[i], !written, written);
        for (int k = 0; written && k < f->tensor_count; k++)
            if (k != i) fuzz_check_apart(f->tensors[i], f->tensors[k]);
    }
    return done;
}

static int64_t hash_of(const char *text) {
    uint64_t hash = 1469598103934665603u;
    for (; text && *text; text++) hash = (hash ^ (uint8_t)*text) * 1099511628211u;
    return text ? (int64_t)hash : 0;
}

void fuzz_score_signature(const clattn_score *s, const clattn_rope *r, int64_t to[16]) {
    const int64_t all[16] = {s->bias.rank ? 1 + (int64_t)s->bias.type : 0,
                             s->mask.rank != 0,
                             s->softcap != 0.0f,
                             s->alibi_slopes != NULL,
                             s->causal,
                             s->window,
                             s->sinks_device.rank ? 2 + (int64_t)s->sinks_device.type : s->sinks != NULL,
                             r->layout,
                             s->head_scales != NULL,
                             s->dropout > 0.0f,
                             hash_of(s->score_mod),
                             hash_of(s->mask_mod),
                             s->block_mask.rank != 0,
                             s->mod_buffers[0].rank,
                             (int64_t)s->mod_buffers[0].type,
                             r->positions.rank};
    memcpy(to, all, sizeof all);
}
