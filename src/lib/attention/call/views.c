// views.c: see views.h.
#include "attention/call/views.h"

#include <stddef.h>
#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/tensor.h"
#include "device/pointer.h"
#include "program/unfit.h"

const view_rule cla_view_rules[VIEW_RULES] = {
#define VIEW(field, name, axes, use, given, mask)                                                            \
    {name, offsetof(clattn_attention_params, field), axes, VIEW_##use, GIVEN_##given, MASK_##mask},
#include "tables/views.def"
};

clattn_tensor *cla_view_of(clattn_attention_params *p, size_t field) {
    return (clattn_tensor *)((char *)p + field);
}

char cla_view_axis(const view_rule *rule, const clattn_tensor *t, int axis) {
    const size_t more = strlen(rule->axes) - CLATTN_MAX_RANK; // 1 if the row has five letters
    return rule->axes[CLATTN_MAX_RANK - t->rank + axis + (t->rank == CLATTN_MAX_RANK ? (int)more : 0)];
}

void cla_given_views(const given_views *g, bool optional, clattn_tensor *const views[], int count) {
    cla_pointers_take(g->context, views, count, g->inner);
    if (optional && !g->planning) cla_tensor_drop_absent(views, count);
}

static bool may_be_absent(const given_views *g, const view_rule *rule, const clattn_tensor *t) {
    if (rule->given == GIVEN_ALWAYS || (g->sizes && rule->mask == MASK_SIZES)) return false;
    if (rule->given == GIVEN_PART && g->inner) return false;
    return rule->given == GIVEN_OPTIONAL || !cla_tensor_is_empty(t);
}

// Read those rows of views.def whose field is within [first, first + bytes) of
// clattn_attention_params. `part` is the struct at `first`.
static void take_part(const given_views *g, size_t first, size_t bytes, void *part) {
    for (const view_rule *rule = cla_view_rules; rule < cla_view_rules + VIEW_RULES; rule++) {
        if (rule->field < first || rule->field >= first + bytes) continue;
        clattn_tensor *t = (clattn_tensor *)((char *)part + (rule->field - first));
        if (cla_tensor_given(t)) CLA_GIVEN(g, may_be_absent(g, rule, t), t);
    }
}

#define PART(field) offsetof(clattn_attention_params, field), sizeof((clattn_attention_params *)0)->field
void cla_given_attention(const given_views *g, clattn_attention_params *p) {
    take_part(g, 0, sizeof *p, p);
}
void cla_given_kv(const given_views *g, clattn_kv *kv) {
    take_part(g, PART(kv), kv);
}
void cla_given_score(const given_views *g, clattn_score *s) {
    take_part(g, PART(score), s);
}
void cla_given_rope(const given_views *g, clattn_rope *r) {
    take_part(g, PART(rope), r);
}

void cla_views_begin(call_views *v, clattn_context *context) {
    v->context = context;
    v->count = v->memories = 0;
}

void cla_views_add(call_views *v, const char *name, const clattn_tensor *t, view_use use) {
    if (!t->buffer || cla_tensor_count(t) == 0) return;
    call_view *to = &v->view[v->count++];
    to->name = name;
    to->tensor = t;
    to->use = use;
}

// If v is a view of k, its memory is k's: add the memory once.
void cla_views_add_attention(call_views *v, const clattn_attention_params *p) {
    const bool appends = cla_kv_appends(&p->kv), latent = cla_kv_is_latent_cache(&p->kv);
    for (const view_rule *rule = cla_view_rules; rule < cla_view_rules + VIEW_RULES; rule++) {
        const clattn_tensor *t = cla_view_of((clattn_attention_params *)p, rule->field);
        if (latent && (t == &p->kv.v || t == &p->kv.v_scale || t == &p->kv.v_zero)) continue;
        cla_views_add(v, rule->name, t,
                      rule->use != VIEW_CACHE ? rule->use
                      : appends               ? VIEW_BOTH
                                              : VIEW_READ);
    }
}

void cla_views_add_masks(call_views *v, const clattn_attention_params *p) {
    for (const view_rule *rule = cla_view_rules; rule < cla_view_rules + VIEW_RULES; rule++)
        if (rule->mask == MASK_HIDES)
            cla_views_add(v, rule->name, cla_view_of((clattn_attention_params *)p, rule->field), VIEW_READ);
}

static cl_int ask(cl_mem buffer, cl_mem_info what, void *answer, size_t bytes) {
    return clGetMemObjectInfo(buffer, what, bytes, answer, NULL);
}

// Intel's runtime rejects a parent that the application has released, although the sub-buffer keeps
// it alive. Then the sub-buffer itself is the space, and its host pointer is its start.
static cl_int find_part(view_memory *m) {
    void *host = NULL;
    const cl_int code = ask(m->buffer, CL_MEM_HOST_PTR, &host, sizeof host);
    if (host) m->space = NULL, m->start = (uint64_t)(uintptr_t)host;
    return code;
}

// The space of a sub-buffer is its parent. The space of CL_MEM_USE_HOST_PTR memory is the host's
// address space.
static cl_int find_space(view_memory *m) {
    cl_mem parent = NULL;
    cl_mem_flags flags = m->access;
    size_t origin = 0;
    void *host = NULL;
    cl_int code = ask(m->buffer, CL_MEM_ASSOCIATED_MEMOBJECT, &parent, sizeof parent);
    if (code == CL_SUCCESS && parent) code = ask(m->buffer, CL_MEM_OFFSET, &origin, sizeof origin);
    m->space = parent ? parent : m->buffer;
    m->start = origin;
    if (code == CL_SUCCESS && parent) {
        code = ask(parent, CL_MEM_FLAGS, &flags, sizeof flags);
        if (code == CL_INVALID_MEM_OBJECT) return find_part(m);
        m->access |= m->access & (CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY | CL_MEM_READ_WRITE) ? 0 : flags;
    }
    if (code == CL_SUCCESS && flags & CL_MEM_USE_HOST_PTR)
        code = ask(m->space, CL_MEM_HOST_PTR, &host, sizeof host);
    if (host) m->space = NULL, m->start += (uint64_t)(uintptr_t)host;
    return code;
}

static clattn_status refuse_buffer(clattn_context *c, const char *name, cl_int code) {
    if (code != CL_INVALID_MEM_OBJECT) return cla_context_fail_opencl(c, code, "clGetMemObjectInfo");
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its buffer is not a memory object", name);
}

cl_int cla_buffer_alignment(cl_mem buffer, size_t size, int *elements) {
    const void *host = cla_pointer_kind(buffer) ? cla_pointer_address(buffer) : NULL;
    *elements = 16;
    const cl_int code = buffer && !host ? ask(buffer, CL_MEM_HOST_PTR, &host, sizeof host) : CL_SUCCESS;
    if (code != CL_SUCCESS) *elements = 1;
    while (*elements > 1 && (uintptr_t)host % (size * (size_t)*elements)) *elements /= 2;
    return code;
}

clattn_status cla_views_alignment(clattn_context *c, const char *name, cl_mem buffer, size_t size,
                                  int *elements) {
    const cl_int code = cla_buffer_alignment(buffer, size, elements);
    return code == CL_SUCCESS ? CLATTN_OK : refuse_buffer(c, name, code);
}

// A raw address. Its access flags are unknown, and for SVM its size is unknown too.
static clattn_status describe_pointer(clattn_context *c, const char *name, cl_mem buffer, view_memory *m) {
    *m = (view_memory){.buffer = buffer,
                       .start = (uint64_t)(uintptr_t)cla_pointer_address(buffer),
                       .access = CL_MEM_READ_WRITE};
    return cla_pointer_bytes(c, name, buffer, &m->bytes);
}

static clattn_status describe(clattn_context *c, const char *name, cl_mem buffer, view_memory *m) {
    cl_mem_object_type type = 0;
    cl_context of = NULL;
    size_t bytes = 0;
    if (cla_pointer_kind(buffer)) return describe_pointer(c, name, buffer, m);
    m->buffer = buffer;
    cl_int code = ask(buffer, CL_MEM_TYPE, &type, sizeof type);
    if (code == CL_SUCCESS) code = ask(buffer, CL_MEM_CONTEXT, &of, sizeof of);
    if (code == CL_SUCCESS && of != c->opencl)
        return cla_context_fail(
            c, CLATTN_INVALID_ARGUMENT,
            "%s: its buffer belongs to another cl_context: create it with clattn_context_opencl()", name);
    if (code == CL_SUCCESS && type != CL_MEM_OBJECT_BUFFER)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: is an image or a pipe: a buffer (clCreateBuffer) is needed", name);
    if (code == CL_SUCCESS) code = ask(buffer, CL_MEM_SIZE, &bytes, sizeof bytes);
    if (code == CL_SUCCESS) code = ask(buffer, CL_MEM_FLAGS, &m->access, sizeof m->access);
    if (code == CL_SUCCESS) code = find_space(m);
    m->bytes = bytes;
    if (code == CL_SUCCESS && bytes > c->capabilities.max_allocation_bytes && (uint64_t)bytes >> 32)
        atomic_store(&c->large_buffers, true);
    return code == CL_SUCCESS ? CLATTN_OK : refuse_buffer(c, name, code);
}

// On a device with 32 address bits, larger offsets would wrap around.
static clattn_status check_reach(clattn_context *c, const char *name, uint64_t bytes) {
    if (c->capabilities.address_bits != 32 || bytes <= (uint64_t)1 << 32) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_UNSUPPORTED,
                            "%s: has %llu bytes, and a device of 32 address bits reaches 4294967296", name,
                            (unsigned long long)bytes);
}

static clattn_status check_access(clattn_context *c, const char *name, view_use use, const view_memory *m) {
    const bool bad_write = use & VIEW_WRITE && m->access & CL_MEM_READ_ONLY,
               bad_read = use & VIEW_READ && m->access & CL_MEM_WRITE_ONLY;
    if (!bad_write && !bad_read) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "%s: its buffer is %s, and the call %s it: %sCL_MEM_READ_WRITE is needed", name,
                            bad_write ? "CL_MEM_READ_ONLY" : "CL_MEM_WRITE_ONLY",
                            use == VIEW_BOTH ? "reads and writes"
                            : bad_write      ? "writes"
                                             : "reads",
                            use == VIEW_BOTH ? ""
                            : bad_write      ? "CL_MEM_WRITE_ONLY or "
                                             : "CL_MEM_READ_ONLY or ");
}

// Find the memory of a view. Each buffer is queried once.
static clattn_status place(call_views *v, call_view *x) {
    x->memory = NULL;
    for (int i = 0; i < v->memories && !x->memory; i++)
        if (v->memory[i].buffer == x->tensor->buffer) x->memory = &v->memory[i];
    if (!x->memory) {
        TRY(describe(v->context, x->name, x->tensor->buffer, &v->memory[v->memories]));
        x->memory = &v->memory[v->memories++];
    }
    x->bytes = cla_byte_view(x->tensor, x->memory->start);
    const uint64_t needed = x->bytes.end - x->memory->start;
    TRY(check_reach(v->context, x->name, cla_pointer_kind(x->tensor->buffer) ? needed : x->memory->bytes));
    if (cla_pointer_kind(x->tensor->buffer) && needed > v->context->capabilities.max_allocation_bytes &&
        needed >> 32)
        atomic_store(&v->context->large_buffers, true);
    if (needed > x->memory->bytes)
        return cla_context_fail(v->context, CLATTN_INVALID_ARGUMENT,
                                "%s: its last element ends at byte %llu of a buffer of %llu bytes", x->name,
                                (unsigned long long)needed, (unsigned long long)x->memory->bytes);
    return check_access(v->context, x->name, x->use, x->memory);
}

static clattn_status check_apart(clattn_context *c, const char *name, const byte_view *bytes,
                                 const view_memory *memory, const call_view *other) {
    if (memory->space != other->memory->space) return CLATTN_OK;
    const overlap found = cla_overlap(bytes, &other->bytes);
    if (found == OVERLAP_NONE) return CLATTN_OK;
    return cla_context_fail(
        c, CLATTN_INVALID_ARGUMENT,
        found == OVERLAP_SOME
            ? "%s: overlaps %s in memory: what a call writes must lie apart from all else"
            : "%s: may overlap %s in memory, their strides are too irregular to be sure: use separate memory",
        name, other->name);
}

clattn_status cla_views_check(call_views *v) {
    for (int i = 0; i < v->count; i++) TRY(place(v, &v->view[i]));
    for (int i = 0; i < v->count; i++)
        for (int j = 0; v->view[i].use & VIEW_WRITE && j < v->count; j++)
            if (j != i && !(j < i && v->view[j].use & VIEW_WRITE))
                TRY(check_apart(v->context, v->view[i].name, &v->view[i].bytes, v->view[i].memory,
                                &v->view[j]));
    return CLATTN_OK;
}

clattn_status cla_views_check_workspace(call_views *v, cl_mem *workspace, uint64_t bytes) {
    clattn_context *c = v->context;
    view_memory *m = &v->memory[v->memories];
    if (!*workspace) return CLATTN_OK;
    if (cla_pointer_kind(*workspace)) return refuse_buffer(c, "workspace", CL_INVALID_MEM_OBJECT);
    TRY(describe(c, "workspace", *workspace, m));
    TRY(check_reach(c, "workspace", m->bytes));
    TRY(check_access(c, "workspace", VIEW_BOTH, m));
    if (m->bytes < bytes && cla_unfit_plans_changed(c)) {
        *workspace = NULL;
        return CLATTN_OK;
    }
    if (m->bytes < bytes)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "workspace: has %llu bytes, %llu are needed",
                                (unsigned long long)m->bytes, (unsigned long long)bytes);
    const byte_view all = {.start = m->start, .end = m->start + bytes, .block = (int64_t)bytes};
    for (int i = 0; bytes && i < v->count; i++) TRY(check_apart(c, "workspace", &all, m, &v->view[i]));
    return CLATTN_OK;
}
