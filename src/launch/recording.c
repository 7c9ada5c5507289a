// recording.c: see recording.h.
#include "launch/recording.h"

#include <string.h>

#include "base/host.h"

clattn_recording *cla_recording_of(clattn_context *context, cl_command_queue queue) {
    clattn_recording *r = atomic_load(&context->recording);
    return r && r->queue == queue ? r : NULL;
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
    const cl_int code = retain_buffers(x, l);
    if (code != CL_SUCCESS) {
        release(c->recording, x);
        return cla_context_fail_opencl(c->context, code, "clRetainMemObject");
    }
    x->next = c->recorded;
    c->recorded = x;
    return CLATTN_OK;
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
    for (pool_slot *s = r->slots; s; s = s->next) s->held = false;
    if (!well || !first) return;
    *(r->last ? &r->last->next : &r->first) = first;
    r->last = last;
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
