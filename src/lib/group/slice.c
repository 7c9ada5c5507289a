// slice.c: makes a piece a call of its own. It finds the box of each tensor that the piece needs,
// in the caller's memory and on the device. It also shifts positions and lengths, which count from
// the piece's first row or key.
#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "base/host.h"
#include "group/piece.h"

_Static_assert(offsetof(group_params, forward) == 0, "fields of forward's rules are those of all rules");

// Check the views in the caller's memory: a tensor that is written must not overlap any other.
clattn_status cla_slice_check(group_call *c) {
    call_views v;
    cla_views_begin(&v, c->whole.context);
    c->op->add_views(&v, &c->host);
    for (int i = 0; i < v.count; i++) {
        call_view *x = &v.view[i];
        x->bytes = cla_byte_view(x->tensor, (uint64_t)(uintptr_t)x->tensor->buffer);
    }
    for (int i = 0; i < v.count; i++)
        for (int j = 0; v.view[i].use & VIEW_WRITE && j < v.count; j++)
            if (j != i && cla_overlap(&v.view[i].bytes, &v.view[j].bytes) != OVERLAP_NONE)
                return cla_group_fail(
                    c->group, CLATTN_INVALID_ARGUMENT,
                    "%s: overlaps %s in memory: what a call writes must lie apart from all else",
                    v.view[i].name, v.view[j].name);
    return CLATTN_OK;
}

typedef struct range {
    int64_t at, size; // size -1: the whole axis
} range;

static range range_of(const group_call *c, const box *b, char letter) {
    static const char letters[] = "bhijg.JI";
    static const int axes[] = {BOX_ITEMS, BOX_HEADS, BOX_ROWS, BOX_KEYS, BOX_HEADS, -1, BOX_KEYS, BOX_ROWS};
    const int axis = axes[strchr(letters, letter) - letters];
    if (axis < 0 || cla_partition_is_whole(&c->problem, b, axis)) return (range){0, -1};
    const int64_t at = b->at[axis], size = b->size[axis];
    const int64_t unit = letter == 'g'   ? c->problem.group
                         : letter == 'I' ? CLATTN_BLOCK_ROWS
                         : letter == 'J' ? CLATTN_BLOCK_KEYS
                                         : 1;
    return (range){at / unit, (at + size + unit - 1) / unit - at / unit};
}

// Find the part of a view that the box needs. Its place on the device is set later.
static void take_part(const group_call *c, const box *b, const view_rule *rule, const clattn_tensor *t,
                      group_part *to) {
    *to = (group_part){.field = rule->field, .rank = t->rank, .element = clattn_type_size(t->type)};
    int64_t at = t->offset, step = 1;
    const bool paged = rule->use == VIEW_CACHE && cla_kv_is_paged(&c->host.forward.kv),
               output = rule->use & VIEW_WRITE;
    for (int a = 0; a < t->rank; a++) {
        char letter = cla_view_axis(rule, t, a);
        if (paged && letter != 'g') letter = '.';
        range r = range_of(c, b, letter);
        if (t->shape[a] <= 1 || r.size < 0) r = (range){0, t->shape[a]};
        at += r.at * t->stride[a];
        to->first[a] = r.at;
        to->shape[a] = r.size;
        to->host_stride[a] = t->stride[a];
    }
    to->direct = true;
    for (int a = t->rank - 1; a >= 0; a--) {
        const bool repeats = to->host_stride[a] == 0 && to->shape[a] > 1 && !output;
        to->stride[a] = repeats ? 0 : step;
        if (!repeats && to->shape[a] > 1 && to->host_stride[a] != step) to->direct = false;
        if (!repeats) step *= to->shape[a];
    }
    to->host = (char *)t->buffer + at * (int64_t)to->element;
    to->bytes = (uint64_t)step * to->element;
    to->in = !output || c->keeps;
    to->out = output || (rule->use == VIEW_CACHE && cla_kv_appends(&c->host.forward.kv));
    // Results reach the caller's memory only when all pieces are done.
    if (to->out) to->direct = false;
}

// The part that has the same memory as `x`: values may be the first columns of their keys, and then
// share them on the device too.
static const group_part *same_memory(const piece *p, const group_part *x) {
    for (int n = 0; n < p->part_count; n++) {
        const group_part *k = &p->parts[n];
        bool same = !k->beside && (x->in || !x->out) && k->host == x->host && k->rank == x->rank &&
                    k->element == x->element && k->out == x->out &&
                    x->shape[x->rank - 1] <= k->shape[x->rank - 1];
        for (int a = 0; a < x->rank; a++)
            same = same && k->host_stride[a] == x->host_stride[a] &&
                   (a == x->rank - 1 || k->shape[a] == x->shape[a]);
        if (same) return k;
    }
    return NULL;
}

// The scales of a past's zero points. Zero points have the offsets of their scales (kv.c), in
// another buffer.
static const clattn_tensor *scales_of_past(const piece *p, size_t field) {
    const clattn_kv *kv = &p->params.forward.kv;
    return field == offsetof(group_params, forward.kv.past_k_zero)   ? &kv->past_k_scale
           : field == offsetof(group_params, forward.kv.past_v_zero) ? &kv->past_v_scale
                                                                     : NULL;
}

static void add_beside(piece *p, group_part *x, clattn_tensor *view, const clattn_tensor *scale) {
    x->beside = true;
    x->at = (uint64_t)scale->offset * x->element;
    view->buffer = NULL;
    view->offset = scale->offset;
    memcpy(view->shape, x->shape, sizeof view->shape), memcpy(view->stride, x->stride, sizeof view->stride);
    p->bytes_in += x->bytes;
    if (p->beside_bytes < x->at + x->bytes) p->beside_bytes = x->at + x->bytes;
    p->parts[p->part_count++] = *x;
}

static void add_part(piece *p, group_part *x) {
    clattn_tensor *view = (clattn_tensor *)((char *)&p->params + x->field);
    const clattn_tensor *scale = scales_of_past(p, x->field);
    if (scale) {
        add_beside(p, x, view, scale);
        return;
    }
    const group_part *k = same_memory(p, x);
    if (k) memcpy(x->stride, k->stride, sizeof x->stride);
    // The offset must also be a multiple of the element's size. For types in blocks that does not
    // divide 256.
    const uint64_t unit = 256 % x->element ? 128 * x->element : 256;
    x->at = k ? k->at : (p->bytes + unit - 1) / unit * unit;
    if (!k) p->bytes = x->at + (x->bytes + 255) / 256 * 256;
    if (x->in && !k) p->bytes_in += x->bytes;
    if (x->out && !k) p->bytes_out += x->bytes;
    view->buffer = NULL;
    view->offset = (int64_t)(x->at / x->element);
    for (int a = 0; a < x->rank; a++) view->shape[a] = x->shape[a], view->stride[a] = x->stride[a];
    if (!k) p->parts[p->part_count++] = *x;
}

// True if other boxes contribute to this part of a result. That is so if the result lacks an axis
// along which the box is cut.
static bool is_shared(const group_call *c, const box *b, const view_rule *rule, const clattn_tensor *t) {
    static const char *const letters[BOX_AXES] = {"b", "hg", "iI", "jJ"};
    for (int axis = 0; axis < BOX_AXES; axis++) {
        bool has = cla_partition_is_whole(&c->problem, b, axis);
        for (int a = 0; a < t->rank && !has; a++) {
            const char letter = cla_view_axis(rule, t, a);
            has = letter != '.' && strchr(letters[axis], letter) && t->shape[a] > 1;
            if (letter == 'g')
                has = has && b->at[axis] % c->problem.group == 0 && b->size[axis] % c->problem.group == 0;
        }
        if (!has) return true;
    }
    return false;
}

// Allocate the piece's contribution to a result that other pieces contribute to, dense and float32.
static bool add_own(const group_call *c, piece *p, const view_rule *rule, clattn_tensor *view) {
    group_part x;
    size_t count = 1;
    take_part(c, &p->box, rule, view, &x);
    for (int a = x.rank - 1; a >= 0; a--) {
        x.host_stride[a] = x.stride[a] = (int64_t)count;
        count *= (size_t)x.shape[a];
    }
    x.own = cla_host_take_zeroed(p->host, count ? count : 1, sizeof *x.own);
    x.host = (char *)x.own, x.element = sizeof *x.own, x.bytes = count * sizeof *x.own;
    x.in = false, x.direct = true;
    view->type = CLATTN_TYPE_F32;
    if (x.own) add_part(p, &x);
    return x.own != NULL;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int32_t within(int64_t x, int64_t most) {
    return (int32_t)(x < 0 ? 0 : least(x, most));
}

// Shift arrays to the box's first head and item. Positions and lengths count from the box's first
// row or key. False: no memory.
static bool take_arrays(const group_call *c, piece *p) {
    clattn_score *s = &p->params.forward.score;
    const clattn_score *of = &c->host.forward.score;
    const box *b = &p->box;
    const int64_t first = b->at[BOX_ITEMS], items = b->size[BOX_ITEMS], row = b->at[BOX_ROWS],
                  key = b->at[BOX_KEYS];
#define OPTION_HEADS(field, flag, differs, apart)                                                            \
    if (of->field) s->field = ((differs)&ONCE) && key > 0 ? NULL : of->field + b->at[BOX_HEADS];
#define OPTION_ITEMS(field, flag, differs, apart)                                                            \
    if (of->field && !c->ragged) s->field = of->field + first;
#define OPTION_VIEW(field, flag, differs, apart)                                                             \
    if (((differs)&ONCE) && key > 0) s->field = (clattn_tensor){0};
#include "tables/score.def"
    if (c->ragged) return true;
    if (p->params.forward.kv.past_lengths) p->params.forward.kv.past_lengths += first;
    const bool all_rows = cla_partition_is_whole(&c->problem, b, BOX_ROWS),
               all_keys = cla_partition_is_whole(&c->problem, b, BOX_KEYS);
    if (all_rows && all_keys) return true;
    int32_t *words = p->arrays = cla_host_take_zeroed(p->host, (size_t)items * 3, sizeof *words);
    if (!words) return false;
    for (int64_t n = 0; n < items; n++) {
        words[n] = (int32_t)(cla_call_shift(&c->whole, (int)(first + n)) + row - key);
        if (of->q_lengths) words[items + n] = within(of->q_lengths[first + n] - row, b->size[BOX_ROWS]);
        if (of->kv_lengths) words[2 * items + n] = within(of->kv_lengths[first + n] - key, b->size[BOX_KEYS]);
    }
    s->alignment = CLATTN_ALIGN_OFFSET, s->offset = 0, s->offsets = words;
    if (of->q_lengths) s->q_lengths = words + items;
    if (of->kv_lengths) s->kv_lengths = words + 2 * items;
    clattn_rope *rope = &p->params.forward.rope;
    if (rope->layout != CLATTN_ROPE_NONE && !rope->positions.rank) rope->position += key;
    return true;
}

// Set the parameters that do not follow from the boxes: results that are merged, and positions of
// keys.
static void begin_params(const group_call *c, piece *p) {
    const box *b = &p->box;
    clattn_attention_params *f = &p->params.forward;
    p->params = c->host;
    f->workspace = p->params.workspace = NULL;
    f->progress = p->params.progress = NULL;
    p->partial = !cla_partition_is_whole(&c->problem, b, BOX_KEYS);
    if (p->partial && !c->op->sums && !f->lse.rank) // needed to merge
        f->lse = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, f->out.shape);
    // Only the piece with a row's first keys computes dsinks.
    if (b->at[BOX_KEYS] > 0) p->params.dsinks = (clattn_tensor){0};
    const bool alone = !cla_partition_is_whole(&c->problem, b, BOX_ROWS) || p->partial;
    if (alone && !cla_kv_is_paged(&f->kv) && !f->rope.k_positions.rank)
        f->rope.k_positions = f->rope.positions; // the keys need the positions of the whole call
}

// False: no memory.
static bool take_rule(const group_call *c, piece *p, const view_rule *rule) {
    clattn_tensor *t = cla_group_view(&p->params, rule);
    group_part x;
    if (!t->rank) return true;
    if (rule->use & VIEW_WRITE && is_shared(c, &p->box, rule, t)) return add_own(c, p, rule, t);
    take_part(c, &p->box, rule, t, &x);
    add_part(p, &x);
    return true;
}

clattn_status cla_slice_make(const group_call *c, piece *p) {
    cla_piece_forget(p);
    p->bytes = p->bytes_in = p->bytes_out = p->beside_bytes = 0;
    begin_params(c, p);
    if (!take_arrays(c, p)) return CLATTN_OUT_OF_MEMORY;
    // Scales of a past come first, so that the second buffer is no larger than needed.
    for (int turn = 0; turn < 2; turn++)
        for (const view_rule *rule = c->op->rules; rule < c->op->rules + c->op->rule_count; rule++) {
            const bool first = rule->field == offsetof(group_params, forward.kv.past_k_scale) ||
                               rule->field == offsetof(group_params, forward.kv.past_v_scale);
            if (first == (turn == 0) && !take_rule(c, p, rule)) return CLATTN_OUT_OF_MEMORY;
        }
    return CLATTN_OK;
}

// Copy a part between the caller's memory and the piece's dense memory.
static void copy_part(const group_part *x, char *dense, bool to_host) {
    int64_t run = 1; // elements that are contiguous in both
    int axes = x->rank;
    while (axes > 0 && (x->shape[axes - 1] == 1 || x->stride[axes - 1] == 0 ||
                        (x->host_stride[axes - 1] == run && x->stride[axes - 1] == run))) {
        if (x->stride[axes - 1]) run *= x->shape[axes - 1];
        axes--;
    }
    int64_t index[CLATTN_MAX_RANK] = {0}, count = x->bytes ? (int64_t)(x->bytes / x->element) / run : 0;
    for (int64_t n = 0; n < count; n++) {
        int64_t from = 0, to = 0;
        for (int a = 0; a < axes; a++) from += index[a] * x->host_stride[a], to += index[a] * x->stride[a];
        char *const host = x->host + from * (int64_t)x->element, *const own =
                                                                     dense + to * (int64_t)x->element;
        memcpy(to_host ? host : own, to_host ? own : host, (size_t)run * x->element);
        for (int a = axes - 1; a >= 0; a--) {
            if (x->stride[a] == 0) continue;
            if (++index[a] < x->shape[a]) break;
            index[a] = 0;
        }
    }
}

void cla_slice_pack(piece *p) {
    for (int n = 0; n < p->part_count; n++)
        if (p->parts[n].in && !p->parts[n].direct) copy_part(&p->parts[n], p->parts[n].staged, false);
}

static void unpack(piece *p) {
    for (int n = 0; n < p->part_count; n++)
        if (p->parts[n].out && !p->parts[n].direct) copy_part(&p->parts[n], p->parts[n].staged, true);
}

void cla_slice_unpack(const group_call *c) {
    for (int n = 0; n < c->count; n++) unpack(c->pieces[n]);
}

void cla_slice_unbind(const group_op *op, group_params *p) {
    for (int n = 0; n < op->rule_count; n++) cla_group_view(p, &op->rules[n])->buffer = NULL;
}

void cla_slice_bind(const group_op *op, piece *p, cl_mem buffer, cl_mem beside) {
    for (int n = 0; n < op->rule_count; n++) {
        clattn_tensor *t = cla_group_view(&p->params, &op->rules[n]);
        if (t->rank) t->buffer = scales_of_past(p, op->rules[n].field) ? beside : buffer;
    }
}

group_part *cla_piece_own(piece *p, size_t field) {
    for (int n = 0; n < p->part_count; n++)
        if (p->parts[n].field == field && p->parts[n].own) return &p->parts[n];
    return NULL;
}

void cla_piece_release_events(piece *p) {
    for (int n = 0; n < p->event_count; n++) clReleaseEvent(p->events[n]);
    p->event_count = 0;
}

void cla_piece_forget(piece *p) {
    cla_piece_release_events(p);
    for (int n = 0; n < p->part_count; n++) cla_host_release(p->host, p->parts[n].own);
    cla_host_release(p->host, p->arrays);
    cla_host_release(p->host, p->staging);
    p->arrays = NULL, p->staging = NULL, p->part_count = 0;
}

void cla_piece_free(piece *p) {
    if (!p) return;
    cla_piece_forget(p);
    cla_host_release(p->host, p);
}
