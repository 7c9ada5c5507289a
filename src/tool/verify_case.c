// verify_case.c: see verify_case.h. The reference and the error budget are those of the test suites.
#include "tool/verify_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/budget.h"
#include "evidence/reference.h"
#include "evidence/storage.h"

const verify_case verify_cases[] = {
    {.name = "plain", .batch = 2, .heads = 2, .n_q = 33, .n_kv = 65, .head_dim = 64},
    {.name = "causal",
     .batch = 1,
     .heads = 3,
     .n_q = 65,
     .n_kv = 49,
     .head_dim = 64,
     .options = {.score.causal = true, .score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT}},
    {.name = "grouped",
     .batch = 2,
     .heads = 6,
     .kv_heads = 2,
     .n_q = 7,
     .n_kv = 130,
     .head_dim = 64,
     .lengths = true},
    {.name = "window",
     .batch = 1,
     .heads = 2,
     .n_q = 50,
     .n_kv = 70,
     .head_dim = 64,
     .options = {.score.window = true, .score.window_left = 9, .score.window_right = 3}},
    {.name = "hidden-nan",
     .batch = 2,
     .heads = 2,
     .n_q = 16,
     .n_kv = 90,
     .head_dim = 64,
     .lengths = true,
     .options = {.score.causal = true, .score.alignment = CLATTN_ALIGN_OFFSET, .score.offset = 20}},
    {.name = "empty-rows",
     .batch = 1,
     .heads = 2,
     .n_q = 16,
     .n_kv = 5,
     .head_dim = 64,
     .options = {.score.causal = true, .score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT}},
    {.name = "huge-scores", .batch = 1, .heads = 1, .n_q = 16, .n_kv = 40, .head_dim = 64, .huge = true},
    {.name = "everything",
     .batch = 2,
     .heads = 4,
     .kv_heads = 2,
     .n_q = 15,
     .n_kv = 77,
     .head_dim = 64,
     .lengths = true,
     .mask = true,
     .bias = true,
     .alibi = true,
     .sinks = true,
     .options = {.score.softcap = 5.0f,
                 .score.causal = true,
                 .score.alignment = CLATTN_ALIGN_OFFSET,
                 .score.offset = 50}},
    {.name = "odd-sizes-f16",
     .type = CLATTN_TYPE_F16,
     .batch = 1,
     .heads = 2,
     .n_q = 13,
     .n_kv = 67,
     .head_dim = 41,
     .head_dim_v = 23},
    {.name = "long-bf16",
     .type = CLATTN_TYPE_BF16,
     .batch = 1,
     .heads = 4,
     .kv_heads = 1,
     .n_q = 2,
     .n_kv = 1030,
     .head_dim = 128},
};
const int verify_case_count = (int)(sizeof verify_cases / sizeof verify_cases[0]);

// The case's numbers on the host.
typedef struct numbers {
    verify_case c;
    double *q, *k, *v, *mask, *bias, *out, *plain, *lse, *got, *got_lse;
    float *slopes, *sinks;
    int32_t *lengths;
    int64_t n[4]; // elements of q, k, v, out
} numbers;

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1 << 23) - 1.0;
}

static void fill(double *x, int64_t count, clattn_type type, uint64_t *state) {
    for (int64_t i = 0; i < count; i++) x[i] = storage_round(type, 2.0 * uniform(state));
}

static void make_options(numbers *n, uint64_t *state) {
    verify_case *c = &n->c;
    n->slopes = calloc((size_t)c->heads, sizeof *n->slopes);
    n->sinks = calloc((size_t)c->heads, sizeof *n->sinks);
    n->lengths = calloc((size_t)c->batch, sizeof *n->lengths);
    for (int h = 0; n->slopes && n->sinks && h < c->heads; h++) {
        n->slopes[h] = (float)(0.1 + 0.1 * h);
        n->sinks[h] = (float)uniform(state);
    }
    for (int b = 0; n->lengths && b < c->batch; b++)
        n->lengths[b] = b == c->batch - 1 ? c->n_kv / 3 : c->n_kv;
    if (c->alibi) c->options.score.alibi_slopes = n->slopes;
    if (c->sinks) c->options.score.sinks = n->sinks;
    if (c->lengths) c->options.score.kv_lengths = n->lengths;
}

static void make_numbers(const verify_case *given, numbers *n) {
    uint64_t state = 12345;
    *n = (numbers){.c = *given};
    verify_case *c = &n->c;
    if (!c->kv_heads) c->kv_heads = c->heads;
    if (!c->head_dim_v) c->head_dim_v = c->head_dim;
    n->n[0] = (int64_t)c->batch * c->heads * c->n_q * c->head_dim;
    n->n[1] = (int64_t)c->batch * c->kv_heads * c->n_kv * c->head_dim;
    n->n[2] = (int64_t)c->batch * c->kv_heads * c->n_kv * c->head_dim_v;
    n->n[3] = (int64_t)c->batch * c->heads * c->n_q * c->head_dim_v;
    double **const all[] = {&n->q, &n->k, &n->v, &n->out};
    for (int i = 0; i < 4; i++) *all[i] = reference_alloc(n->n[i]);
    const int64_t rows = (int64_t)c->batch * c->heads * c->n_q, scores = (int64_t)c->n_q * c->n_kv;
    n->plain = reference_alloc(n->n[3]), n->got = reference_alloc(n->n[3]);
    n->lse = reference_alloc(rows), n->got_lse = reference_alloc(rows);
    n->mask = reference_alloc(scores), n->bias = reference_alloc(scores);
    for (int i = 0; i < 3; i++) fill(*all[i], n->n[i], c->type, &state);
    fill(n->bias, scores, CLATTN_TYPE_F32, &state);
    for (int64_t i = 0; i < scores; i++) n->mask[i] = uniform(&state) > -0.5;
    for (int64_t i = 0; c->huge && i < n->n[0]; i++) n->q[i] = 100.0;
    for (int64_t i = 0; c->huge && i < n->n[1]; i++) n->k[i] = 100.0;
    make_options(n, &state);
    // NaN behind the last item's keys: it must reach nothing.
    for (int h = 0; c->lengths && h < c->kv_heads; h++)
        for (int j = c->n_kv / 3; j < c->n_kv; j++) {
            const int64_t row = ((int64_t)(c->batch - 1) * c->kv_heads + h) * c->n_kv + j;
            for (int d = 0; d < c->head_dim; d++) n->k[row * c->head_dim + d] = (double)NAN;
            for (int d = 0; d < c->head_dim_v; d++) n->v[row * c->head_dim_v + d] = (double)NAN;
        }
}

static void free_numbers(numbers *n) {
    double *const all[] = {n->q, n->k, n->v, n->mask, n->bias, n->out, n->plain, n->lse, n->got, n->got_lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    free(n->slopes);
    free(n->sinks);
    free(n->lengths);
}

static void compute_reference(numbers *n) {
    const verify_case *c = &n->c;
    struct reference r = {.batch = c->batch,
                          .heads = c->heads,
                          .kv_heads = c->kv_heads,
                          .n_q = c->n_q,
                          .n_kv = c->n_kv,
                          .head_dim = c->head_dim,
                          .head_dim_v = c->head_dim_v,
                          .q = n->q,
                          .k = n->k,
                          .v = n->v,
                          .mask = c->mask ? n->mask : NULL,
                          .bias = c->bias ? n->bias : NULL,
                          .mask_stride = {0, 0, c->n_kv, 1},
                          .bias_stride = {0, 0, c->n_kv, 1},
                          .options = &c->options,
                          .plain = CLATTN_TYPE_F32};
    const struct reference_result exact = {.out = n->out, .lse = n->lse}, plain = {.out = n->plain};
    reference_attention(&r, &exact);
    r.plain = c->type;
    reference_attention(&r, &plain);
}

// A buffer with these numbers in a storage type, and a view of it.
static int put(session *s, const double *x, clattn_type type, int rank, const int64_t *shape,
               clattn_tensor *view) {
    int64_t count = 1;
    cl_mem buffer = NULL;
    for (int i = 0; i < rank; i++) count *= shape[i];
    const size_t bytes = (size_t)count * clattn_type_size(type);
    void *data = calloc(1, bytes);
    if (!data) return EXIT_FAILED;
    for (int64_t i = 0; x && i < count; i++) storage_store(type, data, i, x[i]);
    const int status = session_buffer(s, data, bytes, &buffer);
    free(data);
    *view = clattn_tensor_dense(buffer, type, rank, shape);
    return status;
}

static int get(session *s, const clattn_tensor *view, double *x) {
    int64_t count = 1;
    for (int i = 0; i < view->rank; i++) count *= view->shape[i];
    const size_t bytes = (size_t)count * clattn_type_size(view->type);
    void *data = malloc(bytes);
    if (!data) return EXIT_FAILED;
    const int status = session_read(s, view->buffer, data, bytes);
    for (int64_t i = 0; status < 0 && i < count; i++) x[i] = storage_load(view->type, data, i);
    free(data);
    return status;
}

static int upload(session *s, numbers *n, clattn_attention_params *p) {
    const verify_case *c = &n->c;
    const int64_t q[4] = {c->batch, c->heads, c->n_q, c->head_dim},
                  k[4] = {c->batch, c->kv_heads, c->n_kv, c->head_dim};
    const int64_t v[4] = {c->batch, c->kv_heads, c->n_kv, c->head_dim_v},
                  out[4] = {c->batch, c->heads, c->n_q, c->head_dim_v};
    const int64_t scores[2] = {c->n_q, c->n_kv};
    int status = put(s, n->q, c->type, 4, q, &p->q);
    if (status < 0) status = put(s, n->k, c->type, 4, k, &p->kv.k);
    if (status < 0) status = put(s, n->v, c->type, 4, v, &p->kv.v);
    if (status < 0) status = put(s, NULL, c->type, 4, out, &p->out);
    if (status < 0) status = put(s, NULL, CLATTN_TYPE_F32, 3, out, &p->lse);
    if (status < 0 && c->mask) status = put(s, n->mask, CLATTN_TYPE_BOOL, 2, scores, &p->score.mask);
    if (status < 0 && c->bias) status = put(s, n->bias, CLATTN_TYPE_F32, 2, scores, &p->score.bias);
    return status;
}

static verify_result compare(const numbers *n, char why[256]) {
    const int64_t rows = n->n[3] / n->c.head_dim_v;
    const struct budget out = {.what = "output",
                               .type = n->c.type,
                               .got = n->got,
                               .ref = n->out,
                               .plain = n->plain,
                               .count = n->n[3]};
    const struct budget lse = {
        .what = "log-sum-exp", .type = n->c.type, .got = n->got_lse, .ref = n->lse, .count = rows};
    return budget_holds(&out, why, 256) && budget_holds(&lse, why, 256) ? VERIFY_PASS : VERIFY_FAIL;
}

static verify_result run_numbers(session *s, numbers *n, clattn_attention_params *p, char why[256]) {
    if (upload(s, n, p) >= 0) {
        snprintf(why, 256, "no memory on the device");
        return VERIFY_FAIL;
    }
    const clattn_status status = clattn_attention_enqueue(s->context, s->queue, p, 0, NULL, NULL);
    if (status != CLATTN_OK) {
        snprintf(why, 256, "%.255s", s->message);
        return status == CLATTN_UNSUPPORTED ? VERIFY_UNSUPPORTED : VERIFY_FAIL;
    }
    if (get(s, &p->out, n->got) >= 0 || get(s, &p->lse, n->got_lse) >= 0) {
        snprintf(why, 256, "the result could not be read back");
        return VERIFY_FAIL;
    }
    compute_reference(n);
    return compare(n, why);
}

verify_result verify_run(session *s, const verify_case *c, clattn_kernel kernel, char why[256]) {
    numbers n;
    why[0] = '\0';
    make_numbers(c, &n);
    if (!n.slopes || !n.sinks || !n.lengths) {
        free_numbers(&n);
        snprintf(why, 256, "no memory");
        return VERIFY_FAIL;
    }
    clattn_attention_params p = n.c.options;
    p.kernel = kernel;
    const verify_result result = run_numbers(s, &n, &p, why);
    const clattn_tensor *const views[] = {&p.q,   &p.kv.k,       &p.kv.v,      &p.out,
                                          &p.lse, &p.score.mask, &p.score.bias};
    clFinish(s->queue);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        if (views[i]->buffer) clReleaseMemObject(views[i]->buffer);
    free_numbers(&n);
    return result;
}
