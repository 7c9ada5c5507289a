// program.c: the programs of a context: found by their spec, or built by the thread that asks first.
#include "program/program.h"

#include <string.h>

#include "base/host.h"
#include "program/program_build.h"
#include "base/text.h"

static void program_release(const clattn_context *c, program *p) {
    while (p->idle_count > 0) clReleaseKernel(p->idle[--p->idle_count]);
    if (p->program) clReleaseProgram(p->program);
    cla_os_mutex_destroy(&p->lock);
    cla_host_release(&c->host, (char *)p->spec.options);
    cla_host_release(&c->host, (char *)p->spec.inserted);
    cla_host_release(&c->host, p);
}

static bool same_spec(const program_spec *a, const program_spec *b) {
    return a->id == b->id && a->large == b->large && cla_knobs_equal(&a->knobs, &b->knobs) &&
           cla_text_equal(a->options, b->options) && cla_text_equal(a->inserted, b->inserted);
}

static program *program_create(const clattn_context *c, const program_spec *spec) {
    program *p = cla_host_take_zeroed(&c->host, 1, sizeof *p);
    bool ok = true;
    if (!p || !cla_os_mutex_init(&p->lock)) {
        cla_host_release(&c->host, p);
        return NULL;
    }
    p->spec = *spec;
    p->spec.options = cla_text_copy(&c->host, spec->options, &ok);
    p->spec.inserted = cla_text_copy(&c->host, spec->inserted, &ok);
    if (ok) return p;
    program_release(c, p);
    return NULL;
}

// The caller holds program_lock.
static program *find(const clattn_context *c, const program_spec *spec) {
    program *p = c->programs;
    while (p && !same_spec(&p->spec, spec)) p = p->next;
    return p;
}

// The caller holds program_lock.
static void take_off_list(clattn_context *c, const program *gone) {
    program **at = &c->programs;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
}

// Build what this thread has just put on the list. Others that want it wait, and nobody else does.
static clattn_status build_listed(clattn_context *c, program *p) {
    bool cached = false;
    uint64_t time_ns = 0;
    const clattn_status status = cla_program_build(c, p, &cached, &time_ns);
    cla_os_mutex_lock(&c->program_lock);
    p->building = false;
    p->unsaved = status == CLATTN_OK && !cached;
    if (status == CLATTN_OK) {
        c->stats.build_time_ns += time_ns;
        c->stats.programs_cached += cached;
        c->stats.programs_built += !cached;
    } else {
        take_off_list(c, p);
    }
    cla_os_condition_wake_all(&c->program_built);
    cla_os_mutex_unlock(&c->program_lock);
    if (status != CLATTN_OK) program_release(c, p);
    return status;
}

// Whoever comes first builds, without the lock. A thread that waited for a build that failed tries it itself: the
// memory or the file that was missing may be there for it, and the reason is then its own.
clattn_status cla_program_get_spec(clattn_context *context, const program_spec *asked, program **result) {
    program_spec own = *asked;
    const program_spec *const spec = &own;
    own.large = atomic_load(&context->large_buffers) && !atomic_load(&context->large_refused);
    *result = NULL;
    cla_os_mutex_lock(&context->program_lock);
    program *p = find(context, spec);
    while (p && p->building) {
        cla_os_condition_wait(&context->program_built, &context->program_lock);
        p = find(context, spec);
    }
    program *mine = p ? NULL : program_create(context, spec);
    if (mine) {
        mine->building = true;
        mine->next = context->programs;
        context->programs = mine;
    }
    cla_os_mutex_unlock(&context->program_lock);
    if (!p && !mine)
        return cla_context_fail(context, CLATTN_OUT_OF_MEMORY, "kernel %s: no host memory",
                                clattn_kernel_sources[spec->id].name);
    if (mine) TRY(build_listed(context, mine));
    *result = p ? p : mine;
    return CLATTN_OK;
}

clattn_status cla_program_get(clattn_context *context, enum kernel_id id, const knobs *k, program **result) {
    const program_spec spec = {.id = id, .knobs = *k};
    return cla_program_get_spec(context, &spec, result);
}

clattn_status cla_program_take_kernel(clattn_context *context, program *p, cl_kernel *kernel) {
    cl_int code = CL_SUCCESS;
    cla_os_mutex_lock(&p->lock);
    *kernel = p->idle_count > 0 ? p->idle[--p->idle_count] : NULL;
    cla_os_mutex_unlock(&p->lock);
    if (!*kernel) *kernel = clCreateKernel(p->program, clattn_kernel_sources[p->spec.id].name, &code);
    return *kernel ? CLATTN_OK : cla_context_fail_opencl(context, code, "clCreateKernel");
}

void cla_program_give_kernel(program *p, cl_kernel kernel) {
    cla_os_mutex_lock(&p->lock);
    const bool kept = p->idle_count < PROGRAM_MOST_IDLE;
    if (kept) p->idle[p->idle_count++] = kernel;
    cla_os_mutex_unlock(&p->lock);
    if (!kept) clReleaseKernel(kernel);
}

// One that was built and not kept yet, which is the caller's to keep.
static program *take_unsaved(clattn_context *c) {
    cla_os_mutex_lock(&c->program_lock);
    program *p = c->programs;
    while (p && !p->unsaved) p = p->next;
    if (p) p->unsaved = false;
    cla_os_mutex_unlock(&c->program_lock);
    return p;
}

unsigned cla_mods_begin(clattn_context *c) {
    for (;;) {
        const unsigned epoch = atomic_load(&c->mods_epoch);
        atomic_fetch_add(&c->mods_calls[epoch & 1u], 1);
        if (atomic_load(&c->mods_epoch) == epoch) return epoch;
        atomic_fetch_sub(&c->mods_calls[epoch & 1u], 1);
    }
}

void cla_mods_end(clattn_context *c, unsigned epoch) {
    atomic_fetch_sub(&c->mods_calls[epoch & 1u], 1);
}

// Asking for binaries and writing them takes no lock: a program that was built stays until this ends.
void clattn_context_save_kernels(clattn_context *context) {
    if (!context) return;
    const unsigned begun = cla_mods_begin(context);
    for (program *p = take_unsaved(context); p; p = take_unsaved(context))
        cla_program_store(context, p->program, p->key);
    cla_mods_end(context, begun);
}

bool cla_programs_take(clattn_context *context, const char *inserted, program **taken) {
    for (const program *p = context->programs; p; p = p->next)
        if (p->building && cla_text_equal(p->spec.inserted, inserted)) return false;
    for (program **at = &context->programs; *at;) {
        program *p = *at;
        if (cla_text_equal(p->spec.inserted, inserted)) {
            *at = p->next;
            p->next = *taken;
            *taken = p;
        } else {
            at = &p->next;
        }
    }
    return true;
}

void cla_programs_release_taken(clattn_context *context, program *taken) {
    while (taken) {
        program *p = taken;
        taken = p->next;
        if (p->unsaved) cla_program_store(context, p->program, p->key);
        cla_pace_forget(context, &p->rate);
        program_release(context, p);
    }
}

void cla_programs_release(clattn_context *context) {
    while (context->programs) {
        program *p = context->programs;
        context->programs = p->next;
        program_release(context, p);
    }
}
