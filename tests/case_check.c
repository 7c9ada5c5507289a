// case_check.c: judges a case: its reference, the comparison and the assertion. Leaves out running it
// (case.c). Called by every attention suite.
#include "case.h"

#include "evidence/budget.h"
#include "harness.h"
#include "evidence/storage.h"

#include <math.h>
#include <stdio.h>

static int decode_skipped;

int case_decode_skipped(void) {
    return decode_skipped;
}

clattn_kernel case_kernel(int n) {
    static const clattn_kernel kernels[] = {CLATTN_KERNEL_FLASH, CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_AUTO};
    return kernels[n];
}

const char *case_kernel_name(clattn_kernel kernel) {
    static const char *const names[] = {"auto", "unfused", "flash", "decode"};
    return names[kernel];
}

// Strides [B, H, Nq, Nkv] of a dense map, 0 along the axes it lacks or repeats.
static void map_strides(const struct test_case *t, const struct score_map *map, int64_t *stride) {
    int64_t full[4] = {t->batch, t->heads, t->n_q, t->n_kv}, step = 1;
    for (int axis = 3; axis >= 0; axis--) {
        bool varies = axis >= 4 - map->rank && !(map->repeat >> axis & 1);
        stride[axis] = varies ? step : 0;
        if (varies) step *= full[axis];
    }
}

struct case_result case_reference(const struct case_data *data, clattn_type plain) {
    const struct test_case *t = &data->test;
    int64_t rows = t->batch * t->heads * t->n_q;
    struct case_result result = {.status = CLATTN_OK, .intact = true};
    struct reference problem = {t->batch,      t->heads, t->kv_heads, t->n_q,  t->n_kv,    t->head_dim,
                                t->head_dim_v, data->q,  data->k,     data->v, data->mask, data->bias,
                                {0},           {0},      &t->options, plain};
    struct reference_result to = {0};
    map_strides(t, &t->mask, problem.mask_stride);
    map_strides(t, &t->bias, problem.bias_stride);
    to.out = result.out = reference_alloc(rows * t->head_dim_v);
    to.lse = result.lse = reference_alloc(rows);
    to.tap[CLATTN_TAP_SOFTMAX] = result.weights = reference_alloc(rows * t->n_kv);
    if (t->options.scores_at != CLATTN_TAP_SOFTMAX)
        to.tap[t->options.scores_at] = result.scores = reference_alloc(rows * t->n_kv);
    reference_attention(&problem, &to);
    return result;
}

// A hidden key has a weight of exactly 0.
static bool zeros_are_zeros(const struct budget *b, char *why, size_t size) {
    for (int64_t n = 0; n < b->count; n++) {
        if (b->ref[n] != 0 || b->got[n] == 0) continue;
        snprintf(why, size, "%s[%lld] is %.9g, must be exactly 0", b->what, (long long)n, b->got[n]);
        return false;
    }
    return true;
}

// The type whose budget holds before any rounding of the output: with rotary embedding q and k are rounded
// again.
static clattn_type score_type(const struct test_case *t) {
    bool exact = t->options.rope.layout == CLATTN_ROPE_NONE;
    return exact ? CLATTN_TYPE_F32 : storage_coarser(t->q_type, t->kv_type);
}

static bool scores_agree(const struct case_data *data, const struct case_result *got,
                         const struct case_result *ref, char *why, size_t size) {
    const struct test_case *t = &data->test;
    int64_t rows = t->batch * t->heads * t->n_q;
    clattn_type type = score_type(t), weights_type = storage_coarser(type, t->weights_type);
    struct budget lse = {.what = "lse", .type = type, .got = got->lse, .ref = ref->lse, .count = rows};
    struct budget weights = {
        .what = "weights", .type = weights_type, .got = got->weights, .ref = ref->weights};
    struct budget scores = {.what = "scores", .type = type, .got = got->scores, .ref = ref->scores};
    weights.count = scores.count = rows * t->n_kv;
    if (t->weights_type == CLATTN_TYPE_F16) weights.max_error = 1.0 / 1024;
    if (t->weights_type == CLATTN_TYPE_BF16) weights.max_error = 1.0 / 128;
    if (t->options.scores_at == CLATTN_TAP_SOFTMAX) scores.ref = ref->weights;
    if (got->lse != NULL && !budget_holds(&lse, why, size)) return false;
    if (got->scores != NULL && !budget_holds(&scores, why, size)) return false;
    if (got->weights == NULL) return true;
    return budget_holds(&weights, why, size) && zeros_are_zeros(&weights, why, size);
}

bool case_agrees(const struct case_data *data, const struct case_result *got, char *why, size_t size) {
    const struct test_case *t = &data->test;
    clattn_type type = storage_coarser(t->out_type, storage_coarser(t->q_type, t->kv_type));
    if (got->status != CLATTN_OK || !got->intact) {
        snprintf(why, size, "%s: %s", clattn_status_name(got->status),
                 got->status != CLATTN_OK ? harness_log_text()
                                          : "bytes around an output changed, or an input");
        return false;
    }
    struct case_result ref = case_reference(data, CLATTN_TYPE_F32), plain = {0};
    if (type != CLATTN_TYPE_F32) plain = case_reference(data, type);
    struct budget out = {.what = "out", .type = type, .got = got->out, .ref = ref.out, .plain = plain.out};
    out.count = t->batch * t->heads * t->n_q * t->head_dim_v;
    bool good = budget_holds(&out, why, size) && scores_agree(data, got, &ref, why, size);
    case_result_free(&ref);
    case_result_free(&plain);
    return good;
}

void case_assert_data(const struct case_data *data) {
    const struct test_case *t = &data->test;
    char why[512] = "";
    struct case_result got = case_run(data, harness()->queue);
    bool skip = t->options.kernel == CLATTN_KERNEL_DECODE && got.status == CLATTN_UNSUPPORTED;
    bool good = skip || case_agrees(data, &got, why, sizeof why);
    decode_skipped += skip;
    case_result_free(&got);
    ck_assert_msg(good, "%s (%s), B %d H %d/%d Nq %d Nkv %d D %d Dv %d: %s", t->name,
                  case_kernel_name(t->options.kernel), (int)t->batch, (int)t->heads, (int)t->kv_heads,
                  (int)t->n_q, (int)t->n_kv, (int)t->head_dim, (int)t->head_dim_v, why);
}

void case_assert(const struct test_case *test) {
    struct case_data *data = case_make(test);
    case_assert_data(data);
    case_free(data);
}

void case_assert_data_kernels(struct case_data *data) {
    const struct test_case *t = &data->test;
    bool scores = t->weights || t->scores;
    for (int n = 0; n < 3; n++) {
        data->test.options.kernel = case_kernel(n);
        if (case_kernel(n) != CLATTN_KERNEL_FLASH || !scores) case_assert_data(data);
    }
    data->test.options.kernel = CLATTN_KERNEL_DECODE;
    if (t->n_q <= 16 && !scores) case_assert_data(data);
}

void case_assert_kernels(const struct test_case *test) {
    struct case_data *data = case_make(test);
    case_assert_data_kernels(data);
    case_free(data);
}
