// test_far.c: tensors whose rows and heads are further apart than 32 bits can count, in sparse
// memory. Every kernel must return the same bits as for dense tensors. If the device has no buffer
// that large, the tensor stays dense. POSIX only.
#define _GNU_SOURCE
#include "support/harness.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_TENSORS = 12 };

// A tensor twice: dense, and with a huge distance.
typedef struct pair {
    clattn_tensor near, far;
    size_t near_bytes, far_bytes;
    unsigned char *near_at, *far_at;
} pair;
static pair pairs[MOST_TENSORS];
static int pair_count;
static unsigned seed;

static unsigned char *pages(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    return at;
}

static cl_mem buffer_on(void *at, size_t bytes) {
    cl_int code;
    cl_mem buffer =
        clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, at, &code);
    harness_expect(code, "clCreateBuffer");
    return buffer;
}

static int64_t element_at(const clattn_tensor *t, int64_t n) {
    int64_t at = t->offset;
    for (int i = t->rank - 1; i >= 0; n /= t->shape[i], i--) at += n % t->shape[i] * t->stride[i];
    return at;
}
static int64_t count_of(const clattn_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

// Small numbers: f16 bits of -1 to 1, integers, or booleans.
static void put(unsigned char *to, clattn_type type) {
    seed = seed * 1664525u + 1013904223u;
    const int x = (int)(seed >> 20) % 17 - 8;
    static const uint16_t eighths[] = {0,      0x3000, 0x3400, 0x3600, 0x3800,
                                       0x3900, 0x3a00, 0x3b00, 0x3c00}; // 0 to 1 in f16
    const uint16_t half = (uint16_t)(eighths[x < 0 ? -x : x] | (x < 0 ? 0x8000u : 0u));
    const float single = (float)x / 8.0f;
    if (type == CLATTN_TYPE_F16) memcpy(to, &half, sizeof half);
    if (type == CLATTN_TYPE_F32) memcpy(to, &single, sizeof single);
    if (type == CLATTN_TYPE_I8) *(signed char *)to = (signed char)(11 * x);
    if (type == CLATTN_TYPE_BOOL) *to = x != 3;
}

// The distance between the first and the last element: past 2^32 elements, or 2^31. 0: no buffer is
// large enough.
static int64_t reach_of(clattn_type type) {
    const uint64_t most = clattn_context_capabilities(harness()->context)->max_allocation_bytes;
    for (int power = 32; power >= 31; power--) {
        const uint64_t reach = ((uint64_t)1 << power) + 4096;
        if (reach + (1 << 20) <= most / clattn_type_size(type)) return (int64_t)reach;
    }
    return 0;
}

static pair *add(clattn_type type, int rank, const int64_t *shape, int axis) {
    pair *p = &pairs[pair_count++];
    const size_t size = clattn_type_size(type);
    *p = (pair){.near = clattn_tensor_dense(NULL, type, rank, shape)};
    p->far = p->near;
    const int64_t reach = axis >= 0 ? reach_of(type) : 0;
    if (reach) p->far.stride[axis] = (reach / (shape[axis] - 1) + 63) / 64 * 64;
    const int64_t count = count_of(&p->near);
    p->near_bytes = (size_t)count * size;
    p->far_bytes = (size_t)(element_at(&p->far, count - 1) + 1) * size;
    p->near_at = pages(p->near_bytes), p->far_at = pages(p->far_bytes);
    for (int64_t n = 0; n < count; n++) {
        put(p->near_at + (size_t)n * size, type);
        memcpy(p->far_at + (size_t)element_at(&p->far, n) * size, p->near_at + (size_t)n * size, size);
    }
    p->near.buffer = buffer_on(p->near_at, p->near_bytes);
    p->far.buffer = buffer_on(p->far_at, p->far_bytes);
    return p;
}

static void remove_all(void) {
    for (pair *p = pairs; p < pairs + pair_count; p++) {
        clReleaseMemObject(p->near.buffer), clReleaseMemObject(p->far.buffer);
        munmap(p->near_at, p->near_bytes), munmap(p->far_at, p->far_bytes);
    }
    pair_count = 0;
}

static void read_at(cl_mem buffer, size_t at, size_t bytes, void *to) {
    harness_expect(clEnqueueReadBuffer(harness()->queue, buffer, CL_TRUE, at, bytes, to, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
}

static void assert_same(const pair *p, const char *what) {
    const size_t size = clattn_type_size(p->near.type), row = (size_t)p->near.shape[p->near.rank - 1];
    unsigned char *near = malloc(p->near_bytes), *far = malloc(row * size);
    ck_assert(near && far);
    read_at(p->near.buffer, 0, p->near_bytes, near);
    for (size_t n = 0; n < (size_t)count_of(&p->near); n += row) {
        read_at(p->far.buffer, (size_t)element_at(&p->far, (int64_t)n) * size, row * size, far);
        ck_assert_msg(memcmp(near + n * size, far, row * size) == 0, "%s: row at element %zu differs", what,
                      n);
    }
    free(near);
    free(far);
}

static const char *const rows[] = {NULL,
                                   "flash :",
                                   "flash_tiles :",
                                   "flash_tiles : SUBGROUP=1",
                                   "decode_groups :",
                                   "decode_groups : SUBGROUP=1"};
#define ROWS 6

// The huge distance is between heads, or between the rows of a head (also keys).
static void attend(const char *row, int n_q, clattn_type kv, int axis, clattn_kernel kernel) {
    enum { H = 4, KV_HEADS = 2, KEYS = 40, SIZE = 64 };
    const int64_t sq[4] = {1, H, n_q, SIZE}, sk[4] = {1, KV_HEADS, KEYS, SIZE}, sm[4] = {1, 1, n_q, KEYS};
    char what[100];
    clattn_context *c = harness_open(
        (clattn_context_params){.context = harness()->opencl, .log = harness_log(), .tuned_rows = row});
    seed = 1;
    pair *q = add(CLATTN_TYPE_F16, 4, sq, axis), *k = add(kv, 4, sk, axis), *v = add(kv, 4, sk, axis),
         *out = add(CLATTN_TYPE_F16, 4, sq, axis), *mask = add(CLATTN_TYPE_BOOL, 4, sm, 2);
    clattn_attention_params p = {.kernel = kernel,
                                 .score = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT}};
    if (kv == CLATTN_TYPE_I8) {
        p.kv.k_scale = add(CLATTN_TYPE_F32, 3, sk, -1)->near;
        p.kv.v_scale = add(CLATTN_TYPE_F32, 3, sk, -1)->near;
    }
    for (int n = 0; n < 2; n++) {
        p.q = n ? q->far : q->near, p.kv.k = n ? k->far : k->near, p.kv.v = n ? v->far : v->near;
        p.out = n ? out->far : out->near, p.score.mask = n ? mask->far : mask->near;
        ck_assert_msg(clattn_attention_enqueue(c, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                      harness_log_text());
    }
    harness_finish(harness()->queue);
    snprintf(what, sizeof what, "%s, %d rows, kv type %d, axis %d, kernel %d", row ? row : "planner", n_q,
             (int)kv, axis, (int)kernel);
    assert_same(out, what);
    remove_all();
    clattn_context_destroy(c);
}

START_TEST(attention_far_apart) {
    const char *row = rows[_i];
    const bool decodes = row && strncmp(row, "decode", 6) == 0;
    for (int axis = 1; axis <= 2; axis++)
        for (int type = 0; type < 2; type++) {
            const clattn_type kv = type ? CLATTN_TYPE_I8 : CLATTN_TYPE_F16;
            if (!decodes) attend(row, 20, kv, axis, CLATTN_KERNEL_FLASH);
            if (!row || decodes) attend(row, 3, kv, axis, CLATTN_KERNEL_DECODE);
            if (!row) attend(row, 20, kv, axis, CLATTN_KERNEL_UNFUSED);
        }
}
END_TEST

START_TEST(projections_far_apart) {
    static const char *const kernels[] = {
        "linear_rows :", "linear_tiles :", "linear_few_lanes :", "linear_lanes :"};
    const int64_t sx[3] = {1, 20, 72}, sw[2] = {50, 72}, sy[3] = {1, 20, 50};
    clattn_context *c = harness_open((clattn_context_params){
        .context = harness()->opencl, .log = harness_log(), .tuned_rows = kernels[_i]});
    pair *x = add(CLATTN_TYPE_F16, 3, sx, 1), *w = add(CLATTN_TYPE_F16, 2, sw, 0),
         *y = add(CLATTN_TYPE_F16, 3, sy, 1);
    for (int n = 0; n < 2; n++) {
        const clattn_linear_params p = {.x = n ? x->far : x->near,
                                        .w = n ? w->far : w->near,
                                        .out = n ? y->far : y->near,
                                        .projection = CLATTN_PROJECTION_NATIVE};
        ck_assert_msg(clattn_linear_enqueue(c, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                      harness_log_text());
    }
    harness_finish(harness()->queue);
    assert_same(y, kernels[_i]);
    remove_all();
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    harness_start();
    const bool held = reach_of(CLATTN_TYPE_F16) != 0;
    harness_stop();
    if (!held) { // rows that are 2^31 elements apart need a larger buffer
        printf("skipped: rows that lie 2^31 elements apart need buffers of more than 4 GiB, which this "
               "device has not\n");
        return HARNESS_SKIP;
    }
    Suite *suite = suite_create("far");
    TCase *group = harness_add(suite, "far", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, attention_far_apart, 0, ROWS);
    tcase_add_loop_test(group, projections_far_apart, 0, 4);
    return harness_run(suite);
}
