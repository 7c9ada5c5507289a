// overlap.c: see overlap.h. Views a and b share a byte if this equation has a solution with bounded
// x, y, r and s:
//     start_a + sum x_i stride_a_i + r  =  start_b + sum y_j stride_b_j + s
// Counting x from its upper bound makes all terms positive. The question becomes: can a sum of
// bounded multiples of the strides fall into an interval? The search tries strides from the largest
// down. Two bounds leave few multiples of each stride: the most that the smaller strides can still
// add, and their greatest common divisor.
#include "attention/call/overlap.h"

#include "attention/call/tensor.h"

byte_view cla_byte_view(const clattn_tensor *t, uint64_t base) {
    const int64_t size = (int64_t)clattn_type_size(t->type);
    byte_view v = {.start = base + (uint64_t)t->offset * (uint64_t)size, .block = size};
    v.end = v.start + (uint64_t)size;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] == 1 || t->stride[i] == 0) continue;
        const struct byte_axis x = {t->stride[i] * size, t->shape[i]};
        int at = v.axes++;
        for (; at > 0 && v.axis[at - 1].stride > x.stride; at--) v.axis[at] = v.axis[at - 1];
        v.axis[at] = x;
        v.end += (uint64_t)(x.stride * (x.count - 1));
    }
    int whole = 0;
    for (; whole < v.axes && v.axis[whole].stride <= v.block; whole++)
        v.block += v.axis[whole].stride * (v.axis[whole].count - 1);
    v.axes -= whole;
    for (int i = 0; i < v.axes; i++) v.axis[i] = v.axis[i + whole];
    return v;
}

typedef struct search {
    int terms, steps;
    struct byte_axis term[2 * CLATTN_MAX_RANK]; // descending stride; count: largest multiple
    int64_t most[2 * CLATTN_MAX_RANK + 1];      // largest sum of this term and the following terms
    // greatest common divisor of these terms' strides; 0 after the last term
    int64_t divisor[2 * CLATTN_MAX_RANK + 1];
} search;

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static void add_terms(search *s, const byte_view *v) {
    for (int i = 0; i < v->axes; i++) {
        int at = 0;
        while (at < s->terms && s->term[at].stride > v->axis[i].stride) at++;
        if (at < s->terms && s->term[at].stride == v->axis[i].stride) {
            s->term[at].count += v->axis[i].count - 1;
            continue;
        }
        for (int n = s->terms++; n > at; n--) s->term[n] = s->term[n - 1];
        s->term[at] = (struct byte_axis){v->axis[i].stride, v->axis[i].count - 1};
    }
}

// Can the terms from `at` on add up to a value in [low, high]?
static overlap find(search *s, int at, int64_t low, int64_t high) {
    if (high < 0 || low > s->most[at]) return OVERLAP_NONE;
    // the sum with all terms at 0, or with all terms at their maximum, is in the interval
    if (low <= 0 || high >= s->most[at]) return OVERLAP_SOME;
    if (high / s->divisor[at] * s->divisor[at] < low) return OVERLAP_NONE;
    if (++s->steps > OVERLAP_STEPS) return OVERLAP_UNKNOWN;
    const struct byte_axis x = s->term[at];
    const int64_t rest = low - s->most[at + 1];
    const int64_t first = rest > 0 ? (rest - 1) / x.stride + 1 : 0;
    const int64_t last = high / x.stride < x.count ? high / x.stride : x.count;
    for (int64_t n = first; n <= last; n++) {
        const overlap found = find(s, at + 1, low - n * x.stride, high - n * x.stride);
        if (found != OVERLAP_NONE) return found;
    }
    return OVERLAP_NONE;
}

overlap cla_overlap(const byte_view *a, const byte_view *b) {
    if (a->start >= b->end || b->start >= a->end) return OVERLAP_NONE;
    search s;
    s.terms = s.steps = 0;
    add_terms(&s, a);
    add_terms(&s, b);
    s.most[s.terms] = s.divisor[s.terms] = 0;
    for (int i = s.terms - 1; i >= 0; i--) {
        s.most[i] = s.most[i + 1] + s.term[i].stride * s.term[i].count;
        s.divisor[i] = common_divisor(s.term[i].stride, s.divisor[i + 1]);
    }
    // Measure from the last block of `a` backwards to the blocks of `b`. Blocks meet if the
    // distance is less than one block.
    const int64_t far = (int64_t)(a->end - b->start) - a->block;
    return find(&s, 0, far - b->block + 1, far + a->block - 1);
}
