// tensor.c: constructors of views, and the checks of tensor.h.
#include "attention/call/tensor.h"

#include <stdio.h>

#include "device/pointer.h"

clattn_tensor clattn_tensor_dense(cl_mem buffer, clattn_type type, int rank, const int64_t *shape) {
    clattn_tensor t = {.buffer = buffer, .type = type, .rank = rank};
    int64_t stride = 1;
    for (int i = (rank < CLATTN_MAX_RANK ? rank : CLATTN_MAX_RANK) - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = stride;
        if (shape[i] > 0 && stride <= INT64_MAX / shape[i]) stride *= shape[i];
    }
    return t;
}

clattn_tensor clattn_tensor_bhsd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                 int64_t d) {
    const int64_t shape[4] = {b, h, n, d};
    return clattn_tensor_dense(buffer, type, 4, shape);
}

clattn_tensor clattn_tensor_bshd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                 int64_t d) {
    const int64_t memory[4] = {b, n, h, d};
    clattn_tensor t = clattn_tensor_dense(buffer, type, 4, memory);
    const int64_t row = t.stride[1];
    t.shape[1] = h, t.shape[2] = n;
    t.stride[1] = t.stride[2], t.stride[2] = row;
    return t;
}

bool cla_tensor_given(const clattn_tensor *t) {
    return t->rank != 0 || t->buffer != NULL || t->svm != NULL || t->usm != NULL;
}

void cla_tensor_drop_absent(clattn_tensor *const views[], int count) {
    for (int i = 0; i < count; i++)
        if (!views[i]->buffer && !cla_tensor_has_raw_pointer(views[i])) views[i]->rank = 0;
}

bool cla_tensor_is_empty(const clattn_tensor *t) {
    for (int i = 0; i < t->rank && i < CLATTN_MAX_RANK; i++) // t may be unchecked
        if (t->shape[i] == 0) return true;
    return false;
}

int64_t cla_tensor_count(const clattn_tensor *t) {
    int64_t n = cla_tensor_is_empty(t) ? 0 : 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i]; // cla_tensor_check has bounded the product
    return n;
}

typedef struct number_text {
    char text[128];
} number_text;

// Print as "[2,3]" for a message.
static number_text print_numbers(const int64_t *x, int count) {
    number_text t = {""};
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof t.text; i++) {
        const int n = snprintf(t.text + used, sizeof t.text - used, "%s%lld", i ? "," : "[", (long long)x[i]);
        if (n > 0) used += (size_t)n;
    }
    if (used < sizeof t.text) snprintf(t.text + used, sizeof t.text - used, "]");
    return t;
}

// Print as "f32, f16 or bf16" for a message.
static number_text print_types(unsigned types) {
    number_text t = {""};
    size_t used = 0;
    for (unsigned i = 0; i < CLATTN_TYPE_COUNT && used < sizeof t.text; i++) {
        const char *between = !used ? "" : types >> i == 1 ? " or " : ", ";
        if (!(types >> i & 1u)) continue;
        const int n =
            snprintf(t.text + used, sizeof t.text - used, "%s%s", between, clattn_type_name((clattn_type)i));
        if (n > 0) used += (size_t)n;
    }
    return t;
}

static clattn_status check_type(clattn_context *c, const clattn_tensor *t, const tensor_rule *rule) {
    const unsigned type = (unsigned)t->type, types = rule->types & ~ANY_LAST_STRIDE;
    if (type < CLATTN_TYPE_COUNT && (types >> type & 1u)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: type %s is not accepted here: %s is needed",
                            rule->name, clattn_type_name(t->type), print_types(types).text);
}

// Multiplying a value below SMALL by a size (below 2^31) stays below 2^59.
#define SMALL ((int64_t)1 << 28)

// Log2 of the largest element count whose size in bytes fits 64 bits, for elements of up to 16
// bytes or for blocks.
static int most_log2(clattn_type type) {
    return clattn_type_numbers(type) > 1 ? 57 : 59;
}

// Index of the last element in the buffer; -1 if its byte offset exceeds 64 bits.
static int64_t last_index(const clattn_tensor *t) {
    int64_t index = t->offset;
    for (int i = 0; i < t->rank; i++) {
        const int64_t steps = t->shape[i] - 1;
        const bool small =
            // Skip the division for small strides: it costs more than the rest of the check.
            t->stride[i] < SMALL && index < (int64_t)1 << 58;
        if (!small && steps > 0 && t->stride[i] > (INT64_MAX / 16 - index) / steps) return -1;
        index += steps * t->stride[i];
    }
    return index >> most_log2(t->type) ? -1 : index;
}

int64_t cla_tensor_width(const clattn_tensor *t) {
    const int64_t elements = t->shape[t->rank - 1], most = INT64_MAX / 32;
    return (elements < -most ? -most : elements > most ? most : elements) * clattn_type_numbers(t->type);
}

clattn_status cla_tensor_elements(clattn_context *c, const char *name, clattn_type type, int64_t numbers,
                                  int64_t *elements) {
    const int of_one = clattn_type_numbers(type);
    *elements = of_one > 1 ? numbers / of_one : numbers;
    if (of_one <= 1 || numbers % of_one == 0) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "%s: rows of %lld numbers are no whole blocks of %s, which have %d each", name,
                            (long long)numbers, clattn_type_name(type), of_one);
}

bool cla_tensor_same_view(const clattn_tensor *a, const clattn_tensor *b) {
    bool same = a->buffer && a->buffer == b->buffer && a->offset == b->offset && a->type == b->type &&
                a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i] && a->stride[i] == b->stride[i];
    return same;
}

int64_t cla_tensor_end(const clattn_tensor *t) {
    return cla_tensor_count(t) ? last_index(t) + 1 : t->offset;
}

static clattn_status check_numbers(clattn_context *c, const clattn_tensor *t, const tensor_rule *rule) {
    int64_t elements = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0 || t->shape[i] > INT32_MAX)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: shape %s: each size must be 0 to 2^31-1",
                                    rule->name, print_numbers(t->shape, t->rank).text);
        if (elements >= SMALL && t->shape[i] && elements > (INT64_MAX / 16) / t->shape[i])
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: shape %s has more elements than 64 bits count", rule->name,
                                    print_numbers(t->shape, t->rank).text);
        if (t->shape[i]) elements *= t->shape[i];
        if (t->stride[i] < 0)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: strides %s: a stride must not be negative", rule->name,
                                    print_numbers(t->stride, t->rank).text);
    }
    if (t->offset < 0 || t->offset >> most_log2(t->type))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: offset %lld: must be 0 to 2^%d", rule->name,
                                (long long)t->offset, most_log2(t->type));
    return CLATTN_OK;
}

// In order of ascending stride, each axis must step past the span of all smaller ones.
static bool elements_overlap(const clattn_tensor *t) {
    int64_t span = 0;
    bool used[CLATTN_MAX_RANK] = {false};
    for (int n = 0; n < t->rank; n++) {
        int best = -1;
        for (int i = 0; i < t->rank; i++)
            if (!used[i] && (best < 0 || t->stride[i] < t->stride[best] ||
                             (t->stride[i] == t->stride[best] && t->shape[i] < t->shape[best])))
                best = i;
        used[best] = true;
        if (t->shape[best] <= 1) continue;
        if (t->stride[best] <= span) return true;
        span += (t->shape[best] - 1) * t->stride[best];
    }
    return false;
}

static clattn_status check_last_stride(clattn_context *c, const clattn_tensor *t, const tensor_rule *rule) {
    const int last = t->rank - 1;
    if (rule->types & ANY_LAST_STRIDE || t->shape[last] == 1 || t->stride[last] == 1) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "%s: last stride %lld: the last axis must be contiguous (1)", rule->name,
                            (long long)t->stride[last]);
}

clattn_status cla_tensor_check(clattn_context *c, const clattn_tensor *t, int rank, const tensor_rule *rule) {
    if (!cla_tensor_given(t))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is absent: a view %s is needed", rule->name,
                                rule->axes);
    if (t->rank != rank)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: rank %d: %s has rank %d", rule->name,
                                t->rank, rule->axes, rank);
    TRY(check_type(c, t, rule));
    TRY(check_numbers(c, t, rule));
    if (cla_tensor_is_empty(t)) return CLATTN_OK;
    if (last_index(t) < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its strides reach past 2^59 elements",
                                rule->name);
    TRY(check_last_stride(c, t, rule));
    if (rule->output && elements_overlap(t))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: elements of an output must not overlap: its strides step on each other",
                                rule->name);
    if (cla_tensor_has_raw_pointer(t)) return cla_pointer_refuse(c, t, rule->name);
    if (t->buffer || rule->planning) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its buffer is NULL", rule->name);
}

clattn_status cla_tensor_check_alike(clattn_context *c, const char *name, const clattn_tensor *t,
                                     const char *like, const clattn_tensor *other) {
    if (!cla_tensor_given(t) || !cla_tensor_given(other) || t->type == other->type) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "%s: its type differs from %s's: both must be stored alike", name, like);
}

clattn_status cla_tensor_check_shape(clattn_context *c, const clattn_tensor *t, const int64_t *shape,
                                     const tensor_rule *rule) {
    for (int i = 0; i < t->rank; i++) {
        if (shape[i] < 0 || t->shape[i] == shape[i]) continue;
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: shape %s does not fit: %s must be %s",
                                rule->name, print_numbers(t->shape, t->rank).text, rule->axes,
                                print_numbers(shape, t->rank).text);
    }
    return CLATTN_OK;
}

clattn_status cla_tensor_check_broadcast(clattn_context *c, const clattn_tensor *t, const int64_t shape[4],
                                         const tensor_rule *rule, args_view *view) {
    if (t->rank < 1 || t->rank > 4)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: rank %d: [Nkv], [Nq,Nkv], [H,Nq,Nkv] or [B,H,Nq,Nkv] is needed",
                                rule->name, t->rank);
    TRY(cla_tensor_check(c, t, t->rank, rule));
    int64_t stride[4] = {0};
    for (int i = 0; i < t->rank; i++) {
        const int axis = 4 - t->rank + i;
        if (t->shape[i] == shape[axis])
            stride[axis] = t->shape[i] == 1 ? 0 : t->stride[i];
        else if (t->shape[i] != 1)
            return cla_context_fail(
                c, CLATTN_INVALID_ARGUMENT,
                "%s: shape %s does not broadcast to [B,H,Nq,Nkv] = %s: each size must be that or 1",
                rule->name, print_numbers(t->shape, t->rank).text, print_numbers(shape, 4).text);
    }
    *view = (args_view){t->offset, stride[0], stride[1], stride[2], stride[3]};
    return CLATTN_OK;
}

args_view cla_tensor_view(const clattn_tensor *t) {
    return (args_view){t->offset, t->stride[0], t->stride[1], t->stride[2], t->rank > 3 ? 1 : 0};
}

int cla_tensor_row_alignment(const clattn_tensor *t) {
    uint64_t places = 16 | (uint64_t)t->offset;
    for (int i = 0; i < 3; i++)
        if (t->shape[i] > 1) places |= (uint64_t)t->stride[i];
    return (int)(places & (~places + 1));
}
