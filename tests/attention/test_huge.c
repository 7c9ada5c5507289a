// test_huge.c: random sizes up to 2^31 in every place, only planned. The workspace must equal
// arithmetic in 128 bits, and the counters of kernels must not overflow, or the call is refused.
// UBSan also checks every product. Uses the planner's own functions from the static library.
#include "verification/reference/random.h"
#include "support/harness.h"
#include "plan/families/family.h"

#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide; // cannot overflow here

enum { TRIALS = 40000 };

// Near a power of two, each equally likely; sometimes 0.
static int64_t size(struct random *r) {
    const int power = (int)random_uniform(r, 0, 32);
    const int64_t x = ((int64_t)1 << power) + (int64_t)random_uniform(r, -2, 3);
    return random_uniform(r, 0, 200) < 1 ? 0 : x < 1 ? 1 : x > INT32_MAX ? INT32_MAX : x;
}
static int64_t pick(struct random *r, int64_t below) {
    return (int64_t)random_uniform(r, 0, (double)below);
}
static clattn_type float_type(struct random *r) {
    return (clattn_type)pick(r, 3);
}

// An input repeats along some axes, so sizes that no buffer holds are legal.
static clattn_tensor input(struct random *r, clattn_type type, int rank, const int64_t *shape) {
    clattn_tensor t = clattn_tensor_dense(NULL, type, rank, shape);
    for (int i = 0; i < rank - 1; i++)
        if (pick(r, 3)) t.stride[i] = pick(r, 40) ? 0 : (int64_t)1 << pick(r, 63);
    if (pick(r, 50) == 0) t.offset = (int64_t)random_uniform(r, 0, 1e19 / 16);
    return t;
}
static clattn_tensor output(clattn_type type, int rank, const int64_t *shape) {
    return clattn_tensor_dense(NULL, type, rank, shape);
}

static wide product(const int64_t *x, int count) {
    wide all = 1;
    for (int i = 0; i < count; i++) all *= (wide)x[i];
    return all;
}
static wide rounded_to(wide x, wide step) {
    return (x + step - 1) / step * step;
}
static wide rounded(wide bytes) {
    return rounded_to(bytes, 256);
}

// The packed copies of v and w for a matrix engine: pairs of bfloat16 in blocks of 32 x 32 numbers.
// Before them are two words for each 32 columns of w. By hand:
//   v [258, 1, 4098, 129]  258 * 129 * 160 * 32 * 2 = 340,807,680 bytes, a quarter more than v
//   w [34, 18]             4 * (16 + 2 * 512) = 4,160 bytes, rounded up to 4,352 in steps of 256
static wide packed_values(const int64_t *v) {
    return product(v, 2) * rounded_to(v[2], 32) * rounded_to(v[3], 32) * 2;
}
static wide packed_weights(const clattn_tensor *w) {
    const wide blocks = rounded_to(w->shape[0], 32) / 32, steps = rounded_to(w->shape[1], 32) / 32;
    return rounded(4 * (rounded_to(2 * blocks, 16) + blocks * steps * 32 * 32 / 2));
}

static cl_mem tiny; // a workspace, which planning assumes to be large enough

// A refusal has an error line, and no number in the line is negative.
static void check_refusal(clattn_status status, const char *name, int trial) {
    char why[256];
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == CLATTN_INVALID_ARGUMENT || status == CLATTN_UNSUPPORTED ||
                      status == CLATTN_OUT_OF_MEMORY,
                  "%s %d: %s: %s", name, trial, clattn_status_name(status), why);
    ck_assert_msg(!strstr(why, " -"), "%s %d: %s", name, trial, why);
}

// The workspace of an attention call by itself, from its plan.
static wide attention_bytes(const clattn_attention_params *p, const clattn_plan *plan, bool turned) {
    const int64_t *q = p->q.shape, *k = p->kv.k.shape, *v = p->kv.v.shape;
    const size_t q_size = clattn_type_size(p->q.type), kv_size = clattn_type_size(p->kv.k.type);
    wide bytes = turned ? rounded(product(q, 4) * q_size) + rounded(product(k, 4) * kv_size) : 0;
    if (plan->kernel == CLATTN_KERNEL_UNFUSED) {
        problem m = {.batch = (int)q[0], .heads = (int)q[1], .n_q = (int)q[2], .n_kv = (int)k[2]};
        m.wants_weights = p->weights.rank != 0, m.type_weights = p->weights.type;
        const unfused_chunk c = cla_unfused_chunk(&m);
        const bool apart = !m.wants_weights || m.type_weights != CLATTN_TYPE_F32;
        return bytes + (apart ? (wide)c.items * (wide)c.rows * (wide)k[2] * 4 : 0);
    }
    if (plan->splits > 1) bytes += (wide)plan->splits * product(q, 3) * (wide)(v[3] + 2) * 4;
    return strcmp(plan->kernel_name, "flash_matrix") ? bytes : rounded(bytes) + packed_values(v);
}

static void make_attention(struct random *r, clattn_attention_params *p) {
    const int64_t b = size(r), hkv = pick(r, 2) ? 1 : size(r), group = pick(r, 2) ? 1 : size(r);
    const int64_t h = hkv <= INT32_MAX / (group ? group : 1) ? hkv * group : hkv;
    const int64_t nq = pick(r, 2) ? 1 + pick(r, 16) : size(r), nkv = size(r),
                  d = pick(r, 2) ? 1 + pick(r, 130) : size(r), dv = pick(r, 2) ? d : size(r);
    const int64_t full[4] = {b, h, nq, nkv};
    const clattn_type kv = float_type(r);
    *p = (clattn_attention_params){.kernel = (clattn_kernel)pick(r, CLATTN_KERNEL_COUNT)};
    p->q = input(r, float_type(r), 4, (const int64_t[]){b, h, nq, d});
    p->kv.k = input(r, kv, 4, (const int64_t[]){b, hkv, nkv, d});
    p->kv.v = input(r, kv, 4, (const int64_t[]){b, hkv, nkv, dv});
    p->out = output(float_type(r), 4, (const int64_t[]){b, h, nq, dv});
    if (pick(r, 3) == 0) p->lse = output(CLATTN_TYPE_F32, 3, full);
    if (pick(r, 8) == 0) p->weights = output(float_type(r), 4, full);
    if (pick(r, 8) == 0) p->score.mask = input(r, CLATTN_TYPE_BOOL, 1 + (int)pick(r, 2), full + 2);
    if (pick(r, 8) == 0) p->score.bias = input(r, float_type(r), 4, full);
    if (pick(r, 4) == 0) p->rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .position = size(r)};
    if (pick(r, 4) == 0) p->splits = (int32_t)size(r), p->kernel = CLATTN_KERNEL_DECODE;
    if (pick(r, 2)) p->workspace = tiny;
    p->score.causal = pick(r, 2);
    p->score.alignment = (clattn_alignment)pick(r, 2);
}

START_TEST(attention) {
    struct random r = {.state = 31};
    int good = 0, past_32 = 0;
    for (int i = 0; i < TRIALS; i++) {
        clattn_attention_params p;
        clattn_plan plan;
        make_attention(&r, &p);
        const clattn_status status = clattn_attention_plan(harness()->context, &p, &plan);
        if (status != CLATTN_OK) {
            check_refusal(status, "attention", i);
            continue;
        }
        const wide want = attention_bytes(&p, &plan, p.rope.layout != CLATTN_ROPE_NONE);
        ck_assert_msg(want == plan.workspace_bytes, "attention %d: %zu bytes planned (%s)", i,
                      plan.workspace_bytes, plan.why);
        good++, past_32 += want >> 32 != 0;
    }
    ck_assert_msg(good > TRIALS / 20 && past_32 > TRIALS / 500, "%d planned, %d of them past 2^32", good,
                  past_32);
}
END_TEST

// q, k, v and the heads' result are counted exactly. The rest of the attention's workspace is only
// bounded.
static void make_layer(struct random *r, clattn_layer_params *p) {
    const int64_t kv_heads = 1 + pick(r, 4), heads = kv_heads * (1 + pick(r, 3));
    int64_t b = size(r), nq = size(r), nkv = size(r), m = pick(r, 2) ? 1 + pick(r, 64) : size(r),
            d = pick(r, 2) ? 2 : size(r) / heads, dv = pick(r, 2) ? 2 : size(r) / heads,
            mo = pick(r, 2) ? 1 : size(r);
    const bool self = pick(r, 2);
    if (pick(r, 8) == 0) { // parts of the workspace near the range of 64 bits
        b = 1, m = 1, mo = 1, nq = (int64_t)1 << (20 + pick(r, 10)), nkv = (int64_t)1 << (20 + pick(r, 10));
        d = dv = ((int64_t)1 << (26 + pick(r, 4))) / heads * 2;
    }
    const clattn_type w = float_type(r), x = float_type(r);
    *p = (clattn_layer_params){.heads = (int32_t)heads, .kv_heads = (int32_t)kv_heads};
    p->projection = pick(r, 4) ? CLATTN_PROJECTION_NATIVE : CLATTN_PROJECTION_CLBLAST;
    p->x = input(r, x, 3, (const int64_t[]){b, nq, m});
    if (!self) p->y = input(r, x, 3, (const int64_t[]){b, nkv, m});
    p->out = output(x, 3, (const int64_t[]){b, nq, mo});
    p->wq = input(r, w, 2, (const int64_t[]){heads * d, m});
    p->wk = input(r, w, 2, (const int64_t[]){kv_heads * d, m});
    p->wv = input(r, w, 2, (const int64_t[]){kv_heads * dv, m});
    p->wo = input(r, w, 2, (const int64_t[]){mo, heads * dv});
    if (pick(r, 4) == 0) p->rope.layout = CLATTN_ROPE_HALF;
    if (pick(r, 2)) p->workspace = tiny;
}

START_TEST(layers) {
    struct random r = {.state = 32};
    int good = 0, past_32 = 0;
    for (int i = 0; i < TRIALS; i++) {
        clattn_layer_params p;
        clattn_plan plan;
        make_layer(&r, &p);
        const clattn_status status = clattn_layer_plan(harness()->context, &p, &plan);
        if (status != CLATTN_OK) {
            check_refusal(status, "layer", i);
            continue;
        }
        const int64_t b = p.x.shape[0], nq = p.x.shape[1], nkv = p.y.rank ? p.y.shape[1] : nq;
        const int64_t h = p.heads, hkv = p.kv_heads, d = p.wq.shape[0] / h, dv = p.wv.shape[0] / hkv;
        const bool native = p.projection == CLATTN_PROJECTION_NATIVE;
        const clattn_type type = native ? p.x.type : CLATTN_TYPE_F32;
        const int64_t q[] = {b, h, nq, d}, k[] = {b, hkv, nkv, d}, v[] = {b, hkv, nkv, dv},
                      o[] = {b, h, nq, dv};
        clattn_attention_params a = {.q = output(type, 4, q),
                                     .kv = {.k = output(type, 4, k), .v = output(type, 4, v)}};
        wide parts = 0;
        const int64_t *const all[] = {q, k, v, o};
        for (int n = 0; n < 4; n++) parts += rounded(product(all[n], 4) * clattn_type_size(type));
        const wide plain = parts + rounded(attention_bytes(&a, &plan, false)),
                   turned = parts + rounded(attention_bytes(&a, &plan, true)), got = plan.workspace_bytes;
        // Projections run one after another, so only the largest packed weights count.
        const clattn_tensor *const w[] = {&p.wq, &p.wk, &p.wv, &p.wo};
        bool as_counted = false;
        for (int n = 0; n < 5; n++) {
            const wide packed = n < 4 ? packed_weights(w[n]) : 0;
            as_counted |= got == plain + packed || (p.rope.layout && got == turned + packed);
        }
        // Projections may apply RoPE. CLBlast needs more memory for its conversions, but each
        // conversion has at most 2^31 elements.
        ck_assert_msg(native ? as_counted : got >= plain && got <= ((wide)1 << 34),
                      "layer %d: %zu bytes planned (%s)", i, plan.workspace_bytes, plan.why);
        good++, past_32 += got >> 32 != 0;
    }
    ck_assert_msg(good > TRIALS / 50 && past_32 > TRIALS / 500, "%d planned, %d of them past 2^32", good,
                  past_32);
}
END_TEST

// Check the kernels of devices without vector lanes, for few and many `rows`.
static void check_other_kernels(clattn_context *context, const clattn_linear_params *p, int trial) {
    clattn_linear_choice choice;
    ck_assert_msg(clattn_linear_plan(context, p, &choice) == CLATTN_OK, "linear %d: %s", trial,
                  harness_log_text());
    const int64_t rows = p->x.shape[0] * p->x.shape[1];
    ck_assert_str_eq(choice.kernel_name, rows <= 16 ? "linear_rows" : "linear_tiles");
    ck_assert_uint_eq(choice.workspace_bytes, 0);
}

START_TEST(projections) {
    struct random r = {.state = 33};
    int good = 0;
    clattn_context *other = harness_open((clattn_context_params){
        .context = harness()->opencl, .tuned_rows = "linear_rows nq=..16 :\nlinear_tiles :\n"});
    for (int i = 0; i < TRIALS; i++) {
        const int64_t b = size(&r), n = size(&r), k = size(&r), m = size(&r);
        const clattn_type x = float_type(&r);
        clattn_linear_params p = {.projection = (clattn_projection)(1 + pick(&r, 2))};
        clattn_linear_choice choice;
        p.x = input(&r, x, 3, (const int64_t[]){b, n, k});
        p.out = output(x, 3, (const int64_t[]){b, n, m});
        p.w = input(&r, float_type(&r), 2, (const int64_t[]){m, k});
        const clattn_status status = clattn_linear_plan(harness()->context, &p, &choice);
        if (status != CLATTN_OK) {
            check_refusal(status, "linear", i);
            continue;
        }
        const bool native = p.projection == CLATTN_PROJECTION_NATIVE,
                   packs = !strcmp(choice.kernel_name, "linear_matrix") && b != 0 && n != 0 && m != 0;
        const wide got = choice.workspace_bytes;
        ck_assert_msg(native ? got == (packs ? packed_weights(&p.w) : 0) : got <= (wide)1 << 34,
                      "linear %d: %zu bytes planned", i, choice.workspace_bytes);
        if (native) check_other_kernels(other, &p, i);
        good++;
    }
    clattn_context_destroy(other);
    ck_assert_msg(good > TRIALS / 50, "%d planned", good);
}
END_TEST

// A merge has no plan. With huge sizes and a small buffer it is refused.
START_TEST(merges) {
    struct random r = {.state = 34};
    cl_event event = NULL;
    for (int i = 0; i < TRIALS / 4; i++) {
        const int64_t shape[] = {size(&r) + 1, size(&r), size(&r), size(&r) + 1025};
        clattn_merge_params p = {.out_a = output(float_type(&r), 4, shape)};
        p.out_b = input(&r, p.out_a.type, 4, shape);
        p.lse_a = output(CLATTN_TYPE_F32, 3, shape);
        p.lse_b = input(&r, CLATTN_TYPE_F32, 3, shape);
        p.out_a.buffer = p.out_b.buffer = p.lse_a.buffer = p.lse_b.buffer = tiny;
        const clattn_status status =
            clattn_merge_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event);
        const bool nothing = shape[0] * shape[1] == 0 || shape[2] == 0;
        if (status != CLATTN_OK || !nothing) check_refusal(status, "merge", i);
        if (event) clReleaseEvent(event);
    }
}
END_TEST

// Check that the 32-bit counters of kernels suffice, on made-up devices from the smallest local
// memory up to a device that has everything.
static void check_counters(const problem *p, const variant *v, int trial) {
    const bool lanes = v->family->id == KERNEL_DECODE_LANES;
    const wide group = (wide)(p->heads / p->kv_heads), tiles = (wide)v->groups[0] * (wide)v->work_group;
    ck_assert_msg(v->groups[0] <= INT32_MAX && v->groups[1] <= INT32_MAX && v->groups[2] <= INT32_MAX,
                  "%d: %zu groups", trial, v->groups[0]);
    wide partial, results = (wide)p->batch * (wide)p->heads * (wide)p->n_q;
    partial = (wide)v->splits * results * (wide)(p->head_dim_v + 2) * 4;
    if (v->packed_bytes) partial = rounded(partial);
    if (v->splits > 1)
        ck_assert_msg(partial == (v->packed_bytes ? v->packed_values : v->workspace_bytes) &&
                          (wide)v->splits * results * (wide)p->head_dim_v * 4 == v->partial_lse,
                      "%d: %d splits in %llu bytes", trial, v->splits,
                      (unsigned long long)v->workspace_bytes);
    const wide heads = (wide)p->batch * (wide)p->kv_heads, packed = v->packed_bytes;
    if (v->packed_bytes)
        ck_assert_msg(packed == heads * rounded_to(p->n_kv, 32) * rounded_to(p->head_dim_v, 32) * 2 &&
                          packed + v->packed_values == v->workspace_bytes,
                      "%d: values in %llu bytes", trial, (unsigned long long)v->packed_bytes);
    ck_assert_msg((size_t)tiles == tiles, "%d: more work-items than a host counts", trial);
    ck_assert_msg(!lanes || group * (wide)p->n_q + (wide)v->knobs.rows <= INT32_MAX,
                  "%d: %d rows of %d heads", trial, p->n_q, p->heads);
    const wide ends = (wide)v->splits * (wide)v->split_keys;
    ck_assert_msg(ends >= (wide)p->n_kv, "%d: %d splits of %d keys are not all of %d", trial, v->splits,
                  v->split_keys, p->n_kv);
    const wide rows = (wide)v->rows_per_group,
               first = v->family->id == KERNEL_SCORES ? 0 : (wide)v->groups[0];
    const wide all = lanes ? (wide)v->groups[1] * rows : first / (wide)(v->splits ? v->splits : 1) * rows;
    ck_assert_msg(v->family->id == KERNEL_SCORES || all >= (lanes ? group : 1) * (wide)p->n_q,
                  "%d: the grid leaves rows out", trial);
}

START_TEST(planner) {
    static const char rows[] = "flash_matrix type=bf16 :\nflash_lanes cpu=1 :\ndecode_lanes cpu=1 :\n";
    struct random r = {.state = 35};
    tuned_rows own, none = {0};
    char why[256];
    int good = 0, tiled = 0;
    ck_assert(cla_tuned_parse(rows, &own, why, sizeof why));
    for (int i = 0; i < 4 * TRIALS; i++) {
        const clattn_capabilities device = {.is_cpu = pick(&r, 2),
                                            .compute_units = (uint32_t)size(&r),
                                            .float_vector_width = 4u << pick(&r, 3),
                                            .max_work_group = (uint64_t)1 << pick(&r, 12),
                                            .max_work_item = {1024, 1024, 64},
                                            .local_memory_bytes = (uint64_t)1 << (8 + pick(&r, 12)),
                                            .max_allocation_bytes = UINT64_MAX};
        const plan_input in = {.device = &device, .own = &own, .shipped = &none};
        const int64_t hkv = pick(&r, 2) ? 1 : size(&r), group = size(&r), nq = pick(&r, 2) ? 8 : size(&r);
        problem p = {.batch = 1, .kv_heads = (int)hkv, .head_dim = 1 + (int)pick(&r, 600), .n_q = (int)nq};
        if (!hkv || !group || hkv * group > INT32_MAX || nq > INT32_MAX - 65536) continue;
        p.heads = (int)(hkv * group), p.head_dim_v = p.head_dim, p.n_kv = (int)size(&r);
        if (p.n_kv > INT32_MAX - 65536) continue;
        p.kernel = (clattn_kernel)pick(&r, CLATTN_KERNEL_COUNT);
        if (pick(&r, 3) == 0) p.type_q = p.type_kv = CLATTN_TYPE_BF16;
        if (pick(&r, 3) == 0) p.splits = (int)size(&r), p.kernel = CLATTN_KERNEL_DECODE;
        if (p.splits && pick(&r, 2)) p.n_kv = INT32_MAX - 65536; // the number of ranges
        variant v;
        if (cla_variant_choose(&in, &p, &v) != CLATTN_OK) {
            ck_assert_ptr_nonnull(v.refusal);
            continue;
        }
        check_counters(&p, &v, i);
        good++, tiled += v.packed_bytes != 0;
    }
    cla_tuned_free(&own);
    ck_assert_msg(good > TRIALS / 2 && tiled > TRIALS / 100, "%d planned, %d in tiles", good, tiled);
}
END_TEST

// Random sizes seldom reach this case: 2^28 heads with eight rows each share one key/value head.
START_TEST(shared_rows_past_32_bits) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_DECODE};
    clattn_plan plan;
    for (int64_t heads = (int64_t)1 << 27; heads <= (int64_t)1 << 28; heads *= 2) {
        const int64_t q[] = {1, heads, 8, 1}, k[] = {1, 1, 300, 1};
        p.q = clattn_tensor_dense(NULL, CLATTN_TYPE_F16, 4, q);
        p.q.stride[1] = p.q.stride[2] = 0;
        p.out = clattn_tensor_dense(NULL, CLATTN_TYPE_F16, 4, q);
        p.kv.k = p.kv.v = clattn_tensor_dense(NULL, CLATTN_TYPE_F16, 4, k);
        const clattn_status status = clattn_attention_plan(harness()->context, &p, &plan);
        ck_assert_msg(status == CLATTN_OUT_OF_MEMORY || status == CLATTN_UNSUPPORTED ||
                          (status == CLATTN_OK &&
                           (strcmp(plan.kernel_name, "decode_lanes") != 0 || heads * 8 < INT32_MAX - 8)),
                      "%lld heads: %s", (long long)heads, plan.why);
    }
}
END_TEST

static void make_tiny(void) {
    cl_int code;
    tiny = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, 4096, NULL, &code);
    harness_expect(code, "clCreateBuffer");
}
static void release_tiny(void) {
    clReleaseMemObject(tiny);
}

int main(void) {
    const TTest *const tests[] = {attention, layers, projections, merges, planner, shared_rows_past_32_bits,
                                  NULL};
    Suite *suite = suite_create("huge");
    TCase *group = harness_add(suite, "plans", tests);
    tcase_add_checked_fixture(group, make_tiny, release_tiny);
    return harness_run(suite);
}
