// test_memory.c: the memory behind views. An output must share no byte with another tensor, however
// the buffers were created; parts of one buffer may interleave. Buffers need the right access, and
// a view without a buffer is absent. The arithmetic of overlaps is in test_overlap.c.
#include "support/operands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum operation operation;
    clattn_kernel kernel;
} calls[] = {{OPERATION_ATTENTION, CLATTN_KERNEL_UNFUSED}, {OPERATION_ATTENTION, CLATTN_KERNEL_FLASH},
             {OPERATION_ATTENTION, CLATTN_KERNEL_DECODE},  {OPERATION_LAYER, CLATTN_KERNEL_UNFUSED},
             {OPERATION_LAYER, CLATTN_KERNEL_AUTO},        {OPERATION_LINEAR, CLATTN_KERNEL_AUTO},
             {OPERATION_MERGE, CLATTN_KERNEL_AUTO}};
#define CALLS ((int)(sizeof calls / sizeof calls[0]))

static void assert_refused(struct operands *o, const char *what, const char *word) {
    cl_event event = NULL;
    harness_log_clear();
    const clattn_status status = operands_enqueue(o, &event);
    harness_assert_refused(what, status, CLATTN_INVALID_ARGUMENT, word);
    ck_assert_msg(event == NULL, "%s: a refused call made an event", what);
}
static void assert_taken(struct operands *o, const char *what, const char *where) {
    char why[256];
    const clattn_status status = operands_enqueue(o, NULL);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == CLATTN_OK, "%s %s: %s", what, where, why);
}

static void set_buffer(cl_mem *place, cl_mem buffer) {
    if (*place) clReleaseMemObject(*place);
    if (buffer) clRetainMemObject(buffer);
    *place = buffer;
}

// Place each output on each other tensor: so that both share their first or last element, and so
// that the output begins directly behind the tensor.
static void try_pair(struct operands *o, int output, int other) {
    clattn_tensor *a = o->operand[output].view, *b = o->operand[other].view;
    const int64_t size = (int64_t)clattn_type_size(a->type), own = operands_end(a), end = operands_end(b);
    cl_mem kept = a->buffer;
    char what[64];
    snprintf(what, sizeof what, "%s on %s", o->operand[output].name, o->operand[other].name);
    a->buffer = b->buffer;
    a->offset = 0;
    assert_refused(o, what, "overlaps");
    a->offset = (end - 1) / size;
    assert_refused(o, what, "overlaps");
    a->offset = (end + size - 1) / size;
    assert_taken(o, what, "behind it");
    a->offset = 0;
    b->offset = (own + 3) / 4 * 4 / (int64_t)clattn_type_size(b->type);
    assert_taken(o, what, "before it");
    b->offset--;
    assert_refused(o, what, "overlaps");
    b->offset = 0;
    a->buffer = kept;
}

START_TEST(overlaps) {
    struct operands o;
    operands_make(&o, calls[_i].operation, calls[_i].kernel);
    int pairs = 0;
    for (int i = 0; i < o.count; i++)
        for (int j = 0; j < o.count; j++)
            if (i != j && o.operand[i].use & OPERAND_WRITE) try_pair(&o, i, j), pairs++;
    ck_assert_int_ge(pairs, o.count - 1);
    operands_release(&o);
}
END_TEST

// Only the bytes of a workspace that a call needs count. They must not overlap any tensor.
START_TEST(workspaces) {
    struct operands o;
    operands_make(&o, calls[_i].operation, calls[_i].kernel);
    const size_t bytes = o.workspace ? operands_workspace(&o) : 0;
    if (bytes == 0) {
        operands_release(&o);
        return;
    }
    cl_mem both = operands_buffer(CL_MEM_READ_WRITE, bytes + OPERAND_BYTES);
    *o.workspace = both;
    for (int i = 0; i < o.count; i++) {
        clattn_tensor *t = o.operand[i].view;
        const int64_t kept = t->offset;
        cl_mem own = t->buffer;
        t->buffer = both;
        t->offset = (int64_t)(bytes / clattn_type_size(t->type)) - 1;
        assert_refused(&o, o.operand[i].name, "workspace: overlaps");
        t->offset++;
        assert_taken(&o, o.operand[i].name, "behind the workspace");
        t->offset = kept, t->buffer = own;
    }
    *o.workspace = NULL;
    operands_release(&o);
    clReleaseMemObject(both);
}
END_TEST

static cl_mem part_of(cl_mem parent, size_t origin, size_t size) {
    const cl_buffer_region region = {origin, size};
    cl_int code;
    cl_mem part = clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    harness_expect(code, "clCreateSubBuffer");
    return part;
}

// The last output, on parts of the buffer of the first input.
static void try_parts(struct operands *o, clattn_tensor *in, clattn_tensor *out, cl_mem parent) {
    cl_mem low = part_of(parent, 0, 8192), high = part_of(parent, 8192, 8192),
           middle = part_of(parent, 4096, 8192);
    cl_mem kept[2] = {in->buffer, out->buffer};
    in->buffer = low, out->buffer = high;
    assert_taken(o, "parts", "beside one another");
    out->buffer = parent;
    assert_refused(o, "a part and its parent", "overlaps");
    in->offset = 1024; // floats: the part of `low` that is the start of `middle`
    out->buffer = middle;
    assert_refused(o, "parts that overlap", "overlaps");
    in->offset = 0;
    assert_taken(o, "parts that overlap", "beyond the views");
    in->buffer = kept[0], out->buffer = kept[1];
    clReleaseMemObject(low), clReleaseMemObject(high), clReleaseMemObject(middle);
}

START_TEST(sub_buffers) {
    for (int n = 0; n < CALLS; n++) {
        struct operands o;
        operands_make(&o, calls[n].operation, calls[n].kernel);
        clattn_tensor *in = NULL, *out = NULL;
        for (int i = 0; i < o.count; i++) {
            if (o.operand[i].use == OPERAND_READ && !in) in = o.operand[i].view;
            if (o.operand[i].use & OPERAND_WRITE) out = o.operand[i].view;
        }
        cl_mem parent = operands_buffer(CL_MEM_READ_WRITE, 16384);
        try_parts(&o, in, out, parent);
        operands_release(&o);
        clReleaseMemObject(parent);
    }
}
END_TEST

// Two buffers on one host pointer are the same memory.
START_TEST(host_pointers) {
    struct operands o;
    operands_make(&o, OPERATION_LINEAR, CLATTN_KERNEL_AUTO);
    clattn_linear_params *p = &o.params.linear;
    char *memory = aligned_alloc(4096, 16384);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0, 16384);
    cl_int code;
    const cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    cl_mem all = clCreateBuffer(harness()->opencl, flags, 16384, memory, &code);
    harness_expect(code, "clCreateBuffer");
    cl_mem low = clCreateBuffer(harness()->opencl, flags, 8192, memory, &code);
    harness_expect(code, "clCreateBuffer");
    cl_mem high = clCreateBuffer(harness()->opencl, flags, 8192, memory + 8192, &code);
    harness_expect(code, "clCreateBuffer");
    cl_mem part = part_of(all, 8192, 4096);
    set_buffer(&p->x.buffer, low), set_buffer(&p->out.buffer, high);
    assert_taken(&o, "halves of host memory", "");
    set_buffer(&p->out.buffer, all);
    assert_refused(&o, "two buffers on a host pointer", "overlaps");
    set_buffer(&p->x.buffer, high), set_buffer(&p->out.buffer, part);
    assert_refused(&o, "a part and a buffer on a host pointer", "overlaps");
    operands_release(&o);
    clReleaseMemObject(part), clReleaseMemObject(low), clReleaseMemObject(high), clReleaseMemObject(all);
    free(memory);
}
END_TEST

// Buffers must allow exactly the accesses of the call. The results are those of READ_WRITE buffers.
START_TEST(access) {
    static const cl_mem_flags fits[] = {0, CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE};
    struct operands o;
    size_t sizes[2];
    operands_make(&o, calls[_i].operation, calls[_i].kernel);
    unsigned char *plain = operands_results(&o, &sizes[0]);
    operands_release(&o);
    operands_make(&o, calls[_i].operation, calls[_i].kernel);
    for (int i = 0; i < o.count; i++) {
        const int use = o.operand[i].use;
        clattn_tensor *t = o.operand[i].view;
        for (int wrong = 1; wrong <= 2; wrong++) {
            if (!(use & ~wrong)) continue;
            cl_mem kept = t->buffer;
            t->buffer = operands_buffer(fits[wrong], OPERAND_BYTES);
            assert_refused(&o, o.operand[i].name, wrong == 1 ? "CL_MEM_READ_ONLY" : "CL_MEM_WRITE_ONLY");
            clReleaseMemObject(t->buffer);
            t->buffer = kept;
        }
        clReleaseMemObject(t->buffer);
        t->buffer =
            operands_buffer(fits[use] | (use == OPERAND_READ ? CL_MEM_HOST_NO_ACCESS : 0), OPERAND_BYTES);
    }
    unsigned char *strict = operands_results(&o, &sizes[1]);
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(plain, strict, sizes[0]);
    operands_release(&o);
    free(plain), free(strict);
}
END_TEST

// CLBlast's result is read again to add a bias.
START_TEST(access_through_clblast) {
    struct operands o;
    operands_make(&o, OPERATION_LINEAR, CLATTN_KERNEL_AUTO);
    o.params.linear.projection = CLATTN_PROJECTION_AUTO;
    clReleaseMemObject(o.params.linear.out.buffer);
    o.params.linear.out.buffer = operands_buffer(CL_MEM_WRITE_ONLY, OPERAND_BYTES);
    assert_refused(&o, "an output that CLBlast may take", "CL_MEM_WRITE_ONLY");
    operands_release(&o);
}
END_TEST

// A workspace is read and written, and an image is no buffer.
START_TEST(kinds) {
    struct operands o;
    cl_int code;
    const cl_image_format format = {CL_RGBA, CL_FLOAT};
    const cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 64};
    operands_make(&o, calls[_i].operation, calls[_i].kernel);
    cl_mem image = clCreateImage(harness()->opencl, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
    for (int i = 0; code == CL_SUCCESS && i < o.count; i++) {
        cl_mem kept = o.operand[i].view->buffer;
        o.operand[i].view->buffer = image;
        assert_refused(&o, o.operand[i].name, "image");
        o.operand[i].view->buffer = kept;
    }
    if (o.workspace && code == CL_SUCCESS) {
        *o.workspace = image;
        assert_refused(&o, "workspace", "workspace: is an image");
    }
    for (int n = 0; o.workspace && n < 2; n++) {
        cl_mem poor = operands_buffer(n ? CL_MEM_READ_ONLY : CL_MEM_WRITE_ONLY, (size_t)1 << 20);
        *o.workspace = poor;
        assert_refused(&o, "workspace", "workspace: its buffer is CL_MEM_");
        clReleaseMemObject(poor);
    }
    if (code == CL_SUCCESS) clReleaseMemObject(image);
    operands_release(&o);
}
END_TEST

// A view with a rank, a shape and no buffer is absent.
START_TEST(absent_views) {
    struct operands o[2];
    size_t sizes[2];
    unsigned char *results[2];
    for (int n = 0; n < 2; n++) {
        operands_make(&o[n], calls[_i].operation, calls[_i].kernel);
        for (int i = 0; i < o[n].count; i++) {
            clattn_tensor *t = o[n].operand[i].view;
            if (!o[n].operand[i].optional) continue;
            clReleaseMemObject(t->buffer);
            t->buffer = NULL;
            if (n == 0) *t = (clattn_tensor){0};
        }
        results[n] = operands_results(&o[n], &sizes[n]);
    }
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(results[0], results[1], sizes[0]);
    for (int n = 0; n < 2; n++) free(results[n]), operands_release(&o[n]);
}
END_TEST

// Views of unsupported features, or of other types, are also ignored if they have no buffer.
START_TEST(absent_places) {
    struct operands o;
    const clattn_tensor none = {.rank = 4, .shape = {2, 2, 5, 8}, .type = CLATTN_TYPE_F16};
    operands_make(&o, OPERATION_ATTENTION, CLATTN_KERNEL_DECODE);
    clattn_kv *kv = &o.params.attention.kv;
    kv->k_new = kv->v_new = kv->block_table = kv->k_scale = kv->v_scale = none;
    assert_taken(&o, "attention", "");
    operands_release(&o);
    operands_make(&o, OPERATION_LAYER, CLATTN_KERNEL_AUTO);
    clattn_layer_params *p = &o.params.layer;
    p->kv.k = p->kv.v = p->kv.k_scale = p->kv.k_new = p->q_norm = p->k_norm = none;
    assert_taken(&o, "layer", "");
    operands_release(&o);
}
END_TEST

// [B, N, 5, H, D] has q, k, v and out beside each other, and lse in the rest: they interleave and
// share no byte.
START_TEST(packed_output) {
    enum { B = 2, H = 2, N = 9, D = 8, ROW = 5 * H * D };
    float got[2][B * N * ROW];
    for (int n = 0; n < 2; n++) {
        cl_mem all = operands_buffer(CL_MEM_READ_WRITE, sizeof got[0]);
        cl_mem apart = n ? operands_buffer(CL_MEM_READ_WRITE, sizeof got[0]) : all;
        clattn_tensor q = {.buffer = all,
                           .type = CLATTN_TYPE_F32,
                           .rank = 4,
                           .shape = {B, H, N, D},
                           .stride = {N * ROW, D, ROW, 1}};
        clattn_attention_params p = {.q = q, .kv = {.k = q, .v = q}, .out = q};
        p.kv.k.offset = H * D, p.kv.v.offset = 2 * H * D, p.out.offset = 3 * H * D;
        p.lse = (clattn_tensor){.buffer = apart,
                                .offset = 4 * H * D,
                                .type = CLATTN_TYPE_F32,
                                .rank = 3,
                                .shape = {B, H, N},
                                .stride = {N * ROW, 3, ROW}};
        p.out.buffer = apart;
        ck_assert_int_eq(clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                         CLATTN_OK);
        harness_expect(
            clEnqueueReadBuffer(harness()->queue, apart, CL_TRUE, 0, sizeof got[n], got[n], 0, NULL, NULL),
            "read");
        p.out.offset--; // into v's last element
        p.lse.buffer = p.out.buffer = all;
        harness_log_clear();
        harness_assert_refused(
            "into v", clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
            CLATTN_INVALID_ARGUMENT, "out: overlaps v");
        clReleaseMemObject(all);
        if (n) clReleaseMemObject(apart);
    }
    ck_assert_mem_eq(got[0], got[1], sizeof got[0]); // both buffers started with the same numbers
}
END_TEST

int main(void) {
    const TTest *const alone[] = {sub_buffers,   host_pointers, access_through_clblast,
                                  absent_places, packed_output, NULL};
    const TTest *const of_each[] = {overlaps, workspaces, access, kinds, absent_views};
    Suite *suite = suite_create("memory");
    TCase *group = harness_add(suite, "memory", alone);
    for (size_t i = 0; i < sizeof of_each / sizeof of_each[0]; i++)
        tcase_add_loop_test(group, of_each[i], 0, CALLS);
    return harness_run(suite);
}
