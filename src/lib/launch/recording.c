// recording.c: see recording.h.
#include "launch/recording.h"

#include <string.h>

#include "base/host.h"

clattn_recording *cla_recording_of(clattn_context *context, cl_command_queue queue) {
    // Load the recording only for its own queue: another thread may end and destroy a recording on
    // another queue.
    return queue == atomic_load(&context->recorded_queue) ? atomic_load(&context->recording) : NULL;
}

clattn_status cla_recording_take(clattn_recording *r, uint64_t bytes, const void *words, cl_mem *buffer) {
    pool_slot *slot;
    TRY(cla_pool_allocate_unpooled(r->context, bytes, words, &slot));
    slot->next = r->slots;
    r->slots = slot;
    *buffer = slot->buffer;
    return CLATTN_OK;
}

// Replayed launches run in order. So all calls may share a table, and reuse the scratch memory of
// earlier calls.
clattn_status cla_recording_table(chain *c, const void *words, size_t bytes, cl_mem *table) {
    for (const pool_slot *s = c->recording->slots; s; s = s->next)
        if (s->words && s->word_bytes == bytes && memcmp(s->words, words, bytes) == 0) {
            *table = s->buffer;
            return CLATTN_OK;
        }
    return cla_recording_take(c->recording, bytes, words, table);
}

clattn_status cla_recording_scratch(chain *c, uint64_t bytes, cl_mem *scratch) {
    pool_slot *found = NULL;
    for (pool_slot *s = c->recording->slots; s; s = s->next)
        if (!s->words && !s->held && s->bytes >= bytes && (!found || s->bytes < found->bytes)) found = s;
    if (!found) return cla_recording_take(c->recording, bytes, NULL, scratch);
    found->held = true;
    *scratch = found->buffer;
    return CLATTN_OK;
}

// True if only the buffer's own sub-buffers can share its memory: it is no sub-buffer itself, and
// not on a host pointer.
static bool is_apart(cl_mem buffer) {
    cl_mem whole = NULL;
    cl_mem_flags flags = 0;
    return clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL) ==
               CL_SUCCESS &&
           clGetMemObjectInfo(buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL) == CL_SUCCESS && !whole &&
           !(flags & CL_MEM_USE_HOST_PTR);
}

// True if `buffer` is `whole` or a sub-buffer of it, or if the driver does not know.
static bool lies_in(cl_mem buffer, cl_mem whole) {
    cl_mem of = NULL;
    if (buffer == whole) return true;
    return clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof of, &of, NULL) != CL_SUCCESS ||
           of == whole;
}

// True if the launch derives a result, and its inputs cannot be written through other handles.
static bool is_derived_alone(const launch *l) {
    if (l->derives == 0) return false;
    for (int i = 0; i < l->count; i++) {
        if (i == l->derives - 1) continue;
        if (l->args[i].pointer || !l->args[i].value) return false;
        if (l->args[i].buffer && !is_apart(l->args[i].buffer)) return false;
    }
    return true;
}

static bool same_arguments(const launch *a, const launch *b) {
    if (a->program != b->program || a->derives != b->derives) return false;
    for (int i = 0; i < a->count; i++)
        if (i != a->derives - 1 && (a->args[i].bytes != b->args[i].bytes ||
                                    memcmp(a->args[i].value, b->args[i].value, a->args[i].bytes) != 0))
            return false;
    return true;
}

static cl_mem derived_of(const launch *l) {
    return l->args[l->derives - 1].buffer;
}

// True if `with` may write what `x` reads. An address may point anywhere.
static bool shares_a_source(const launch *x, const launch *with) {
    for (int k = 0; k < with->count; k++) {
        if (with->args[k].pointer) return true;
        for (int i = 0; i < x->count && with->args[k].buffer; i++)
            if (i != x->derives - 1 && x->args[i].buffer && lies_in(with->args[k].buffer, x->args[i].buffer))
                return true;
    }
    return false;
}

// The last launch of the list with the same program and arguments; NULL if a later launch may have
// written its inputs.
static const recorded *find_alike(const recorded *x, const launch *wanted) {
    const recorded *found = NULL;
    for (; x; x = x->next) {
        if (x->derives && same_arguments(&x->l, wanted))
            found = x;
        else if (found && !x->derives && shares_a_source(&found->l, &x->l))
            found = NULL;
    }
    return found;
}

// Only completed calls are searched: within one call, no result is derived twice.
bool cla_recording_has(const chain *c, const launch *l, cl_mem *result) {
    if (!c->recording || !is_derived_alone(l)) return false;
    const recorded *found = find_alike(c->recording->first, l);
    if (!found) return false;
    for (const recorded *x = c->recorded; x; x = x->next)
        if (!x->derives && shares_a_source(&found->l, &x->l)) return false;
    *result = derived_of(&found->l);
    return true;
}

// Release a launch of which the buffers of the first `arguments` arguments are retained.
static void release_part(const clattn_recording *r, recorded *x, int arguments) {
    for (int i = 0; i < arguments; i++)
        if (x->l.args[i].buffer) clReleaseMemObject(x->l.args[i].buffer);
    clReleaseKernel(x->kernel);
    cla_host_release(&r->context->host, x);
}

static void release(const clattn_recording *r, recorded *x) {
    release_part(r, x, x->l.count);
}

static size_t value_bytes(const launch *l) {
    size_t bytes = 0;
    for (int i = 0; i < l->count; i++)
        if (l->args[i].value) bytes += l->args[i].bytes;
    return bytes;
}

static void copy_values(recorded *x) {
    unsigned char *to = x->values;
    for (int i = 0; i < x->l.count; i++) {
        launch_argument *a = &x->l.args[i];
        if (!a->value) continue;
        memcpy(to, a->value, a->bytes);
        a->value = to;
        to += a->bytes;
    }
}

clattn_status cla_recording_keep(chain *c, const launch *l, cl_kernel kernel, const size_t offset[3],
                                 const size_t size[3]) {
    recorded *x = cla_host_take_zeroed(&c->context->host, 1, sizeof *x + value_bytes(l));
    if (!x) {
        clReleaseKernel(kernel);
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    }
    x->kernel = kernel;
    memcpy(x->offset, offset, sizeof x->offset);
    memcpy(x->size, size, sizeof x->size);
    x->l = *l;
    x->of_text = l->program->spec.inserted != NULL;
    x->derives = is_derived_alone(l);
    copy_values(x);
    for (int i = 0; i < l->count; i++) {
        const cl_int code = l->args[i].buffer ? clRetainMemObject(l->args[i].buffer) : CL_SUCCESS;
        if (code == CL_SUCCESS) continue;
        release_part(c->recording, x, i);
        return cla_context_fail_opencl(c->context, code, "clRetainMemObject");
    }
    x->next = c->recorded;
    c->recorded = x;
    return CLATTN_OK;
}

static bool is_derived(const recorded *x, cl_mem buffer) {
    while (x && !(x->derives && derived_of(&x->l) == buffer)) x = x->next;
    return x;
}

void cla_recording_took(chain *c, bool well) {
    clattn_recording *r = c->recording;
    recorded *first = NULL, *last = c->recorded;
    for (recorded *x = c->recorded, *next; x; x = next) {
        next = x->next;
        x->next = first;
        first = x;
        if (well)
            r->launches++;
        else
            release(r, x);
    }
    c->recorded = NULL;
    if (well && first) {
        *(r->last ? &r->last->next : &r->first) = first;
        r->last = last;
    }
    for (pool_slot *s = r->slots; s; s = s->next) s->held = is_derived(r->first, s->buffer);
}

static void release_all(const clattn_recording *r, recorded *x) {
    for (recorded *next; x; x = next) {
        next = x->next;
        release(r, x);
    }
}

void cla_recording_free(clattn_recording *r) {
    const pool_user nobody = {.context = r->context};
    release_all(r, r->first);
    release_all(r, r->fused);
    for (pool_slot *s = r->slots, *next; s; s = next) {
        next = s->next;
        cla_pool_return(&nobody, s, false, NULL);
    }
    if (r->replayed) clReleaseEvent(r->replayed);
    if (r->replay_queue) clReleaseCommandQueue(r->replay_queue);
    cla_os_mutex_destroy(&r->replay_lock);
    cla_host_release(&r->context->host, r);
}
