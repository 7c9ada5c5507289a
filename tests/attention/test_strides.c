// test_strides.c: strides and offsets. Every tensor of every call with each last stride, compared
// with the rule of tensor.h. Arbitrary strides of axes of one element. Random orders of axes, gaps,
// offsets and repeated axes for all tensors of a call. Bytes between and around must stay. Results
// must not depend on the layout; other suites check the numbers.
#include "support/harness.h"
#include "strided/strided_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/random.h"

enum { SEEDS = 24 };

static void lay_dense(clattn_tensor *view) {
    *view = clattn_tensor_dense(NULL, view->type, view->rank, view->shape);
}

// Run the call with its tensors in new buffers, by their views. Nothing but its outputs may change.
// Returns its status.
static clattn_status run(struct strided_call *c) {
    for (int n = 0; n < c->count; n++) {
        struct strided_tensor *t = &c->tensor[n];
        guarded_release(&t->memory);
        t->memory = guarded_view(harness_place(), t->view, t->read ? t->values : NULL, t->written);
        *t->view = t->memory.view;
    }
    harness_log_clear();
    const clattn_status status = c->enqueue(c, harness()->context, harness()->queue);
    harness_finish(harness()->queue);
    return status;
}

// Returns the call's outputs, one tensor after another. The caller frees them.
static double *results(const struct strided_call *c, const char *where) {
    int64_t all = 0, at = 0;
    for (int n = 0; n < c->count; n++) all += guarded_count(c->tensor[n].view);
    double *to = calloc((size_t)all + 1, sizeof *to);
    ck_assert_ptr_nonnull(to);
    for (int n = 0; n < c->count; n++) {
        const struct strided_tensor *t = &c->tensor[n];
        if (!t->written) {
            ck_assert_msg(guarded_intact(&t->memory, harness()->queue), "%s, %s: %s changed", c->name, where,
                          t->field);
            continue;
        }
        ck_assert_msg(guarded_read(&t->memory, harness()->queue, to + at),
                      "%s, %s: bytes between or around the elements of %s changed", c->name, where, t->field);
        at += guarded_count(t->view);
    }
    return to;
}

static void assert_ok(const struct strided_call *c, clattn_status status, const char *where) {
    ck_assert_msg(status == CLATTN_OK, "%s, %s: %s", c->name, where, harness_log_text());
}

// Compare with the results of dense tensors, which the caller passes.
static void assert_same(const struct strided_call *c, const double *dense, const char *where) {
    double *got = results(c, where);
    int64_t at = 0;
    for (int n = 0; n < c->count; n++)
        for (int64_t i = 0; c->tensor[n].written && i < guarded_count(c->tensor[n].view); i++, at++) {
            const bool same = got[at] == dense[at] || fabs(got[at] - dense[at]) <= 1e-4 ||
                              (isnan(got[at]) && isnan(dense[at]));
            ck_assert_msg(same, "%s, %s: %s: number %lld is %g, not %g", c->name, where, c->tensor[n].field,
                          (long long)i, got[at], dense[at]);
        }
    free(got);
}

static double *run_dense(struct strided_call *c) {
    for (int n = 0; n < c->count; n++) lay_dense(c->tensor[n].view);
    assert_ok(c, run(c), "dense");
    return results(c, "dense");
}

// Each tensor in turn with a last stride of 2, and of 0 if it is only read.
START_TEST(last_strides) {
    struct strided_call c;
    char where[96];
    strided_open(&c, _i, false, harness_place());
    double *dense = run_dense(&c);
    for (int n = 0; n < 2 * c.count; n++) {
        struct strided_tensor *t = &c.tensor[n / 2];
        const int last = t->view->rank - 1;
        if (t->view->shape[last] == 1 || (n % 2 && (t->written || t->any))) continue;
        snprintf(where, sizeof where, "%s: last stride %d", strided_name(t), n % 2 ? 0 : 2);
        for (int i = 0; i < c.count; i++) lay_dense(c.tensor[i].view);
        for (int axis = 0; axis <= last; axis++) t->view->stride[axis] *= 2;
        if (n % 2) t->view->stride[last] = 0;
        const clattn_status status = run(&c);
        if (t->any) {
            assert_ok(&c, status, where);
            assert_same(&c, dense, where);
            continue;
        }
        harness_assert_refused(where, status, CLATTN_INVALID_ARGUMENT, where);
        for (int i = 0; i < c.count; i++) ck_assert(guarded_intact(&c.tensor[i].memory, harness()->queue));
    }
    free(dense);
    strided_close(&c);
}
END_TEST

// The stride of an axis of one element is ignored.
START_TEST(axes_of_one) {
    struct strided_call c;
    strided_open(&c, _i, true, harness_place());
    double *dense = run_dense(&c);
    for (int odd = 0; odd < 14; odd += 13) {
        for (int n = 0; n < c.count; n++) {
            clattn_tensor *t = c.tensor[n].view;
            lay_dense(t);
            for (int axis = 0; axis < t->rank; axis++)
                if (t->shape[axis] == 1) t->stride[axis] = odd * (axis + 1);
        }
        assert_ok(&c, run(&c), "sizes of one");
        assert_same(&c, dense, "sizes of one");
    }
    free(dense);
    strided_close(&c);
}
END_TEST

static int64_t pick(struct random *r, int64_t below) {
    return (int64_t)random_uniform(r, 0, (double)below);
}

// Make the numbers of an input equal along an axis.
static void repeat(struct strided_tensor *t, int axis) {
    int64_t inner = 1;
    for (int i = axis + 1; i < t->view->rank; i++) inner *= t->view->shape[i];
    const int64_t span = inner * t->view->shape[axis], count = guarded_count(t->view);
    for (int64_t n = 0; n < count; n++) t->values[n] = t->values[n / span * span + n % inner];
}

// Choose an order of the axes, with the last innermost if required, and gaps between them. Repeated
// axes have a stride of 0.
static void lay_at_random(struct strided_tensor *t, struct random *r, unsigned repeated) {
    clattn_tensor *v = t->view;
    int order[CLATTN_MAX_RANK];
    int64_t step = t->any ? 1 + pick(r, 3) : 1;
    const int free_axes = t->any ? v->rank : v->rank - 1;
    for (int n = 0; n < free_axes; n++) {
        const int at = (int)pick(r, n + 1);
        order[n] = order[at], order[at] = n;
    }
    if (!t->any) v->stride[v->rank - 1] = 1, step = v->shape[v->rank - 1] + pick(r, 3) * pick(r, 9);
    for (int n = 0; n < free_axes; n++) {
        const int axis = order[n];
        v->stride[axis] = repeated >> axis & 1 ? 0 : step;
        if (v->stride[axis]) step = step * v->shape[axis] + pick(r, 3) * pick(r, 9);
    }
    v->offset = pick(r, 3) * pick(r, 17);
}

START_TEST(at_random) {
    struct random r = {(uint64_t)(_i + 1)};
    for (int n = 0; n < strided_count; n++) {
        struct strided_call c;
        unsigned repeated[STRIDED_TENSORS] = {0};
        char where[32];
        snprintf(where, sizeof where, "seed %d", _i + 1);
        strided_open(&c, n, false, harness_place());
        for (int i = 0; i < c.count; i++) {
            struct strided_tensor *t = &c.tensor[i];
            const int axis = (int)pick(&r, t->view->rank);
            if (!t->repeats || pick(&r, 3) || (!t->any && axis == t->view->rank - 1)) continue;
            repeated[i] = 1u << axis;
            repeat(t, axis);
        }
        double *dense = run_dense(&c);
        for (int i = 0; i < c.count; i++) lay_at_random(&c.tensor[i], &r, repeated[i]);
        assert_ok(&c, run(&c), where);
        assert_same(&c, dense, where);
        free(dense);
        strided_close(&c);
    }
}
END_TEST

static bool is_named(const char *structure, const char *field, size_t length) {
    bool named = false;
    for (int n = 0; n < strided_count; n++) {
        struct strided_call c;
        strided_open(&c, n, false, harness_place());
        for (int i = 0; i < c.count; i++) {
            const char *own = strided_name(&c.tensor[i]);
            named = named || (strncmp(c.tensor[i].field, structure, strlen(structure)) == 0 &&
                              c.tensor[i].field[strlen(structure)] == '.' && strcspn(own, "[") == length &&
                              strncmp(own, field, length) == 0);
        }
        strided_close(&c);
    }
    return named;
}

// Calls of several processes: mpi_strides.c has their tensors.
static bool is_named_of_mpi(const char *structure, const char *field, size_t length) {
    static const char *const names[][2] = {
#define STRIDED(name, any) {"clattn_mpi_attention_params", #name},
#define STRIDED_GRADIENT(name, any) {"clattn_mpi_attention_backward_params", #name},
#include "strided/strided_mpi.def"
    };
    bool named = false;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        named = named || (strcmp(names[n][0], structure) == 0 && strlen(names[n][1]) == length &&
                          strncmp(names[n][1], field, length) == 0);
    return named;
}

// Zero points have the strides of their scales, so no call varies them separately. Cases with
// `zeros` do, in every layout.
static bool lies_as_scales(const char *field, size_t length) {
    return length > strlen("_zero") &&
           strncmp(field + length - strlen("_zero"), "_zero", strlen("_zero")) == 0;
}

// Each field of clattn_tensor in the headers' structs is a tensor of a call here.
START_TEST(no_tensor_is_forgotten) {
    static const char *const headers[] = {"rope.h",  "append.h", "attention.h", "backward.h",
                                          "layer.h", "block.h",  "group.h",     "mpi.h"};
    int found = 0;
    for (size_t n = 0; n < sizeof headers / sizeof headers[0]; n++) {
        char *text = harness_header(headers[n]);
        for (char *at = text; (at = strstr(at, "typedef struct ")) != NULL; at++) {
            char name[64];
            ck_assert_int_eq(sscanf(at, "typedef struct %63s", name), 1);
            const char *end = strstr(at, "\n}");
            for (const char *f = at; (f = strstr(f, "clattn_tensor")) != NULL && f < end;) {
                for (f += strlen("clattn_tensor"); *f != ';'; f += strcspn(f, ",;")) {
                    f += strspn(f, " \n,");
                    const size_t length = strcspn(f, "[,; ");
                    ck_assert_msg(is_named(name, f, length) || is_named_of_mpi(name, f, length) ||
                                      lies_as_scales(f, length),
                                  "%s.%.*s is in no call of strided_calls.c, and not in strided_mpi.def",
                                  name, (int)length, f);
                    found++;
                }
            }
        }
        free(text);
    }
    ck_assert_int_gt(found, 93);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("strides");
    TCase *group = harness_add(suite, "strides", (const TTest *const[]){no_tensor_is_forgotten, NULL});
    harness_add_loop(group, last_strides, strided_count);
    harness_add_loop(group, axes_of_one, strided_count);
    harness_add_loop(group, at_random, SEEDS);
    return harness_run(suite);
}
