// recording.c: see recording.h.
#include "launch/recording.h"

#include <string.h>

#include "base/host.h"

clattn_recording *cla_recording_of(clattn_context *context, cl_command_queue queue) {
    // Another thread may end and destroy it, if the queue is another one.
    return queue == atomic_load(&context->recorded_queue) ? atomic_load(&context->recording) : NULL;
}

static clattn_status take(clattn_recording *r, uint64_t bytes, const void *words, cl_mem *buffer) {
    pool_slot *slot;
    TRY(cla_pool_apart(r->context, bytes, words, &slot));
    slot->next = r->slots;
    r->slots = slot;
    *buffer = slot->buffer;
    return CLATTN_OK;
}

// What is replayed runs in one order, so that all calls may read one table, and work in memory that earlier ones have left.
clattn_status cla_recording_table(chain *c, const void *words, size_t bytes, cl_mem *table) {
    for (const pool_slot *s = c->recording->slots; s; s = s->next)
        if (s->words && s->word_bytes == bytes && memcmp(s->words, words, bytes) == 0) {
            *table = s->buffer;
            return CLATTN_OK;
        }
    return take(c->recording, bytes, words, table);
}

clattn_status cla_recording_scratch(chain *c, uint64_t bytes, cl_mem *scratch) {
    pool_slot *found = NULL;
    for (pool_slot *s = c->recording->slots; s; s = s->next)
        if (!s->words && !s->held && s->bytes >= bytes && (!found || s->bytes < found->bytes)) found = s;
    if (!found) return take(c->recording, bytes, NULL, scratch);
    found->held = true;
    *scratch = found->buffer;
    return CLATTN_OK;
}

// Whether no other buffer but its own parts can be the same memory.
static bool is_apart(cl_mem buffer) {
    cl_mem whole = NULL;
    cl_mem_flags flags = 0;
    return clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL) ==
               CL_SUCCESS &&
           clGetMemObjectInfo(buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL) == CL_SUCCESS && !whole &&
           !(flags & CL_MEM_USE_HOST_PTR);
}

// Whether it is that buffer, or a part of it.
static bool lies_in(cl_mem buffer, cl_mem whole) {
    cl_mem of = NULL;
    if (buffer == whole) return true;
    return clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof of, &of, NULL) != CL_SUCCESS ||
           of == whole;
}

// False: it does not derive, has too many arguments, or reads what others may write by another name.
static bool copy_arguments(const launch *l, recorded *x) {
    if (l->derives == 0) return false;
    for (int i = 0; i < l->count; i++) {
        const size_t bytes = l->args[i].bytes;
        if (i == l->derives - 1) continue;
        if (l->args[i].pointer || !l->args[i].value || x->argument_bytes + bytes > RECORDED_BYTES)
            return false;
        if (l->args[i].buffer && !is_apart(l->args[i].buffer)) return false;
        memcpy(x->arguments + x->argument_bytes, l->args[i].value, bytes);
        x->argument_bytes += bytes;
    }
    x->of = l->program;
    x->derived = l->args[l->derives - 1].buffer;
    return true;
}

// Whether the second may write what the first has read; an address may be anywhere.
static bool shares_a_source(const recorded *x, const recorded *with) {
    for (int i = 0; i < x->buffer_count; i++)
        for (int k = 0; k < with->buffer_count && x->buffers[i] != x->derived; k++)
            if (lies_in(with->buffers[k], x->buffers[i])) return true;
    return with->has_address;
}

// A launch of the list that does the same; NULL where one behind it may have written what it read.
static const recorded *find_alike(const recorded *x, const recorded *wanted) {
    const recorded *found = NULL;
    for (; x; x = x->next) {
        if (x->of == wanted->of && x->argument_bytes == wanted->argument_bytes &&
            memcmp(x->arguments, wanted->arguments, x->argument_bytes) == 0)
            found = x;
        else if (found && !x->of && shares_a_source(found, x))
            found = NULL;
    }
    return found;
}

// Calls that are complete: the launches of this one read what others derived, and derive once themselves.
bool cla_recording_has(const chain *c, const launch *l, cl_mem *result) {
    recorded wanted = {.of = NULL};
    if (!c->recording || !copy_arguments(l, &wanted)) return false;
    const recorded *found = find_alike(c->recording->first, &wanted);
    if (!found) return false;
    for (const recorded *x = c->recorded; x; x = x->next)
        if (!x->of && shares_a_source(found, x)) return false;
    *result = found->derived;
    return true;
}

static void release(const clattn_recording *r, recorded *x) {
    for (int i = 0; i < x->buffer_count; i++) clReleaseMemObject(x->buffers[i]);
    clReleaseKernel(x->kernel);
    cla_host_release(&r->context->host, x);
}

static cl_int retain_buffers(recorded *x, const launch *l) {
    for (int i = 0; i < l->count; i++) {
        const cl_mem buffer = l->args[i].buffer;
        const cl_int code = buffer ? clRetainMemObject(buffer) : CL_SUCCESS;
        if (code != CL_SUCCESS) return code;
        if (buffer) x->buffers[x->buffer_count++] = buffer;
        x->has_address = x->has_address || l->args[i].pointer;
    }
    return CL_SUCCESS;
}

clattn_status cla_recording_keep(chain *c, const launch *l, cl_kernel kernel, const size_t offset[3],
                                 const size_t size[3]) {
    recorded *x = cla_host_take_zeroed(&c->context->host, 1, sizeof *x);
    if (!x) {
        clReleaseKernel(kernel);
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    }
    x->kernel = kernel;
    memcpy(x->offset, offset, sizeof x->offset);
    memcpy(x->global, size, sizeof x->global);
    memcpy(x->local, l->local, sizeof x->local);
    if (!copy_arguments(l, x)) x->of = NULL, x->argument_bytes = 0;
    const cl_int code = retain_buffers(x, l);
    if (code != CL_SUCCESS) {
        release(c->recording, x);
        return cla_context_fail_opencl(c->context, code, "clRetainMemObject");
    }
    x->next = c->recorded;
    c->recorded = x;
    return CLATTN_OK;
}

static bool is_derived(const recorded *x, cl_mem buffer) {
    while (x && !(x->of && x->derived == buffer)) x = x->next;
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

void cla_recording_free(clattn_recording *r) {
    const pool_user nobody = {.context = r->context};
    for (recorded *x = r->first, *next; x; x = next) {
        next = x->next;
        release(r, x);
    }
    for (pool_slot *s = r->slots, *next; s; s = next) {
        next = s->next;
        cla_pool_return(&nobody, s, false, NULL);
    }
    cla_host_release(&r->context->host, r);
}
