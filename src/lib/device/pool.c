// pool.c: see pool.h. A pool has two shelves of slots. The lock is held briefly, and never while a
// buffer is allocated. A slot with `held` set belongs to its borrower. Other threads read only that
// flag.
#include "device/pool.h"

#include <string.h>

#include "base/host.h"

typedef struct shelf {
    pool_slot *slots;
    int count;
    uint64_t bytes, most_bytes;
} shelf;

struct pool {
    os_mutex lock;
    uint64_t clock;
    uint64_t bytes; // bytes of all buffers, including those allocated for one call
    clattn_memory memory;
    const clattn_host_memory *host;
    shelf tables, scratches;
    pool_slot slots[POOL_TABLES + POOL_SCRATCHES];
};

bool cla_pool_create(clattn_context *context, const clattn_memory *memory) {
    const uint64_t share = context->capabilities.global_memory_bytes / 8;
    struct pool *p = cla_host_take_zeroed(&context->host, 1, sizeof *p);
    if (!p || !cla_os_mutex_init(&p->lock)) {
        cla_host_release(&context->host, p);
        return false;
    }
    p->tables = (shelf){.slots = p->slots, .count = POOL_TABLES, .most_bytes = POOL_TABLE_BYTES};
    p->scratches = (shelf){.slots = p->slots + POOL_TABLES,
                           .count = POOL_SCRATCHES,
                           .most_bytes = share < POOL_SCRATCH_BYTES ? share : POOL_SCRATCH_BYTES};
    p->memory = *memory;
    p->host = &context->host;
    context->pool = p;
    return true;
}

// Release a slot's buffer. OpenCL keeps the buffer until the commands that use it have ended.
static void empty(struct pool *p, pool_slot *s) {
    if (s->buffer && p->memory.release)
        p->memory.release(p->memory.user, s->buffer);
    else if (s->buffer)
        clReleaseMemObject(s->buffer);
    p->bytes -= s->bytes;
    if (s->written) clReleaseEvent(s->written);
    if (s->last) clReleaseEvent(s->last);
    cla_host_release(p->host, s->words);
    *s = (pool_slot){.buffer = NULL};
}

void cla_pool_destroy(clattn_context *context) {
    struct pool *p = context->pool;
    if (!p) return;
    for (int i = 0; i < POOL_TABLES + POOL_SCRATCHES; i++) empty(p, &p->slots[i]);
    cla_os_mutex_destroy(&p->lock);
    cla_host_release(&context->host, p);
    context->pool = NULL;
}

// True if the event's command has ended. The event is then released, and *well is set to false if
// the command failed. A status query does not order memory accesses, so a complete event is also
// waited for.
static bool has_ended(cl_event *event, bool *well) {
    cl_int status = CL_QUEUED;
    if (!*event) return true;
    if (clGetEventInfo(*event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) !=
            CL_SUCCESS ||
        status > CL_COMPLETE)
        return false;
    *well = status == CL_COMPLETE && clWaitForEvents(1, event) == CL_SUCCESS;
    clReleaseEvent(*event);
    *event = NULL;
    return true;
}

// True if no command reads the host's words any more. If that command failed, the buffer's contents
// are unknown, and word_bytes becomes 0.
static bool is_written(pool_slot *s) {
    bool well = true;
    if (!has_ended(&s->written, &well)) return false;
    if (!well) s->word_bytes = 0;
    return true;
}

static bool is_anothers(const pool_slot *s, const pool_user *user) {
    return s->queue && !(user->in_order && s->queue == user->queue);
}

// True if all commands that use the slot end before this user's next command starts.
static bool is_free_for(pool_slot *s, const pool_user *user) {
    bool well;
    return !is_anothers(s, user) && has_ended(&s->last, &well);
}

static void take(struct pool *p, pool_slot *s) {
    s->held = true;
    s->used = ++p->clock;
}

// The slot with the oldest use, if no command still reads its words. With `user`: only slots that
// this user can reuse, with at least `bytes`. NULL: none.
static pool_slot *oldest(const shelf *on, uint64_t bytes, const pool_user *user) {
    pool_slot *found = NULL;
    for (int i = 0; i < on->count; i++) {
        pool_slot *s = &on->slots[i];
        if (s->held || !s->buffer || s->bytes < bytes || (user && is_anothers(s, user))) continue;
        if (!found || s->used < found->used) found = s;
    }
    return found && is_written(found) ? found : NULL;
}

// Allocate a slot outside the shelves (the context's limited lists of slots). NULL: out of memory.
// The caller holds the lock.
static pool_slot *reserve_spare(struct pool *p, uint64_t bytes) {
    pool_slot *place = cla_host_take_zeroed(p->host, 1, sizeof *place);
    if (!place) return NULL;
    *place = (pool_slot){.bytes = bytes, .held = true, .spare = true};
    p->bytes += bytes;
    return place;
}

// Reserve an empty slot for `bytes`, and mark it as held. If the shelf cannot make room, the slot
// is outside the shelf. NULL: out of memory.
static pool_slot *reserve(struct pool *p, shelf *on, uint64_t bytes) {
    pool_slot *place = NULL, *old = NULL;
    for (int i = 0; i < on->count && !place; i++)
        if (!on->slots[i].held && !on->slots[i].buffer) place = &on->slots[i];
    while (bytes <= on->most_bytes && (!place || on->bytes > on->most_bytes - bytes) &&
           (old = oldest(on, 0, NULL)) != NULL) {
        on->bytes -= old->bytes;
        empty(p, old);
        place = old;
    }
    if (!place || bytes > on->most_bytes || on->bytes > on->most_bytes - bytes)
        return reserve_spare(p, bytes);
    on->bytes += bytes;
    p->bytes += bytes;
    place->bytes = bytes;
    take(p, place);
    return place;
}

// Undo a reservation whose buffer could not be created.
static void cancel(struct pool *p, shelf *on, pool_slot *s) {
    cla_os_mutex_lock(&p->lock);
    if (!s->spare) on->bytes -= s->bytes;
    const bool spare = s->spare;
    empty(p, s);
    cla_os_mutex_unlock(&p->lock);
    if (spare) cla_host_release(p->host, s);
}

static clattn_status fill(clattn_context *c, pool_slot *s, uint64_t bytes, const void *words) {
    cl_int code = CL_SUCCESS;
    // A kernel may use a table as counters, and restores them.
    const bool shared = c->capabilities.unified_memory && !c->capabilities.is_cpu;
    const cl_mem_flags flags =
        CL_MEM_READ_WRITE | (words ? CL_MEM_COPY_HOST_PTR : 0) | (shared ? CL_MEM_ALLOC_HOST_PTR : 0);
    if (words) {
        s->words = cla_host_take(&c->host, (size_t)bytes);
        if (!s->words) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "table: no host memory");
        memcpy(s->words, words, (size_t)bytes);
        s->word_bytes = (size_t)bytes;
    }
    const clattn_memory *own = &c->pool->memory;
    s->buffer = own->create ? own->create(own->user, c->opencl, flags, (size_t)bytes, (void *)words, &code)
                            : clCreateBuffer(c->opencl, flags, (size_t)bytes, (void *)words, &code);
    if (s->buffer) return CLATTN_OK;
    if (code == CL_SUCCESS) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    // An application's error code says nothing about the device. If the device is lost, the next
    // command reports it.
    if (own->create)
        return cla_context_fail(c, cla_opencl_status(code),
                                "memory.create: no buffer of %llu bytes: OpenCL error %d (%s)",
                                (unsigned long long)bytes, (int)code, cla_opencl_error_name(code));
    return cla_context_fail_opencl(c, code, words ? "clCreateBuffer (table)" : "clCreateBuffer (workspace)");
}

// True if `bytes` more fit into max_bytes, after unused buffers were released.
static bool make_way(struct pool *p, uint64_t bytes) {
    shelf *const shelves[] = {&p->scratches, &p->tables};
    const uint64_t most = p->memory.max_bytes;
    if (!most) return true;
    for (int i = 0; i < 2; i++) {
        pool_slot *old;
        while (bytes <= most && p->bytes > most - bytes && (old = oldest(shelves[i], 0, NULL)) != NULL) {
            shelves[i]->bytes -= old->bytes;
            empty(p, old);
        }
    }
    return bytes <= most && p->bytes <= most - bytes;
}

static clattn_status refuse(clattn_context *c, uint64_t bytes) {
    return cla_context_fail(c, CLATTN_OUT_OF_MEMORY,
                            "memory: %llu bytes more than the context holds would pass its max_bytes of %llu",
                            (unsigned long long)bytes, (unsigned long long)c->pool->memory.max_bytes);
}

static clattn_status create(const pool_user *user, shelf *on, pool_slot *s, uint64_t bytes, const void *words,
                            pool_slot **slot) {
    if (!s) return cla_context_fail(user->context, CLATTN_OUT_OF_MEMORY, "workspace: no host memory");
    const clattn_status status = fill(user->context, s, bytes, words);
    if (status == CLATTN_OK)
        *slot = s;
    else
        cancel(user->context->pool, on, s);
    return status;
}

// Round up to a multiple of 4096, or for large sizes of an eighth to a quarter of the size, so that
// a growing KV cache reuses the buffer. Never above max_allocation_bytes.
static uint64_t with_room(const clattn_context *c, uint64_t bytes) {
    uint64_t step = 4096;
    while (step < bytes / 8) step *= 2;
    const uint64_t more = (bytes + step - 1) / step * step, most = c->capabilities.max_allocation_bytes;
    return more <= most ? more : bytes;
}

clattn_status cla_pool_scratch(const pool_user *user, uint64_t bytes, pool_slot **slot) {
    struct pool *p = user->context->pool;
    uint64_t whole = with_room(user->context, bytes);
    pool_slot *found = NULL;
    cla_os_mutex_lock(&p->lock);
    for (int i = 0; i < p->scratches.count; i++) {
        pool_slot *s = &p->scratches.slots[i];
        if (s->held || !s->buffer || s->bytes < bytes || (found && found->bytes <= s->bytes)) continue;
        if (is_free_for(s, user)) found = s;
    }
    if (!found && !make_way(p, whole)) whole = bytes;
    const bool fits = found || make_way(p, whole);
    pool_slot *place = found || !fits ? found : reserve(p, &p->scratches, whole);
    if (found) take(p, found);
    cla_os_mutex_unlock(&p->lock);
    *slot = found;
    if (!fits) return refuse(user->context, bytes);
    return found ? CLATTN_OK : create(user, &p->scratches, place, whole, NULL, slot);
}

static pool_slot *find_words(const shelf *on, const void *words, size_t bytes, const pool_user *user) {
    for (int i = 0; i < on->count; i++) {
        pool_slot *s = &on->slots[i];
        if (s->held || !s->buffer || s->word_bytes != bytes || memcmp(s->words, words, bytes) != 0) continue;
        if (is_free_for(s, user) && is_written(s) && s->word_bytes == bytes) return s;
    }
    return NULL;
}

// A table to overwrite. NULL while the pool has fewer than POOL_KEPT_TABLES.
static pool_slot *find_old(const shelf *on, size_t bytes, const pool_user *user) {
    int kept = 0;
    for (int i = 0; i < on->count; i++) kept += !on->slots[i].held && on->slots[i].buffer;
    pool_slot *s = kept < POOL_KEPT_TABLES ? NULL : oldest(on, bytes, user);
    return s && is_free_for(s, user) ? s : NULL;
}

clattn_status cla_pool_table(const pool_user *user, const void *words, size_t bytes, pool_slot **slot) {
    struct pool *p = user->context->pool;
    pool_slot *place = NULL, *old = NULL;
    cla_os_mutex_lock(&p->lock);
    pool_slot *found = find_words(&p->tables, words, bytes, user);
    if (!found) found = old = find_old(&p->tables, bytes, user);
    const bool fits = found || make_way(p, bytes);
    if (found)
        take(p, found);
    else if (fits)
        place = reserve(p, &p->tables, bytes);
    cla_os_mutex_unlock(&p->lock);
    if (!fits) return refuse(user->context, bytes);
    if (!found) return create(user, &p->tables, place, bytes, words, slot);
    if (old) {
        memcpy(old->words, words, bytes);
        old->word_bytes = bytes;
        old->stale = true;
    }
    *slot = found;
    return CLATTN_OK;
}

clattn_status cla_pool_allocate_unpooled(clattn_context *context, uint64_t bytes, const void *words,
                                         pool_slot **slot) {
    struct pool *p = context->pool;
    cla_os_mutex_lock(&p->lock);
    const bool fits = make_way(p, bytes);
    pool_slot *place = fits ? reserve_spare(p, bytes) : NULL;
    cla_os_mutex_unlock(&p->lock);
    if (!fits) return refuse(context, bytes);
    return create(&(pool_user){.context = context}, NULL, place, bytes, words, slot);
}

void cla_pool_return(const pool_user *user, pool_slot *s, bool ran, cl_event last) {
    struct pool *p = user->context->pool;
    cla_os_mutex_lock(&p->lock);
    if (s->spare) {
        empty(p, s);
        cla_os_mutex_unlock(&p->lock);
        cla_host_release(p->host, s);
        return;
    }
    if (ran) {
        if (s->last) clReleaseEvent(s->last);
        // Without a retained event no other queue can reuse the slot, until the slot is the oldest
        // and is released.
        s->last = !user->in_order && last && clRetainEvent(last) == CL_SUCCESS ? last : NULL;
        s->queue = s->last ? NULL : user->queue;
    }
    if (s->stale) s->word_bytes = 0;
    s->next = NULL;
    s->held = s->stale = false;
    cla_os_mutex_unlock(&p->lock);
}
