// behind.c: see behind.h. No thread is ever stopped: before it is destroyed, the context waits for
// its threads.
#include "program/behind.h"

#include "base/host.h"
#include "program/unfit.h"

typedef struct build_job {
    struct build_job *next;
    clattn_context *context;
    program *p;
    behind_builder *build;
    os_watch *thread;
    bool over;
} build_job;

// Nanoseconds that calls of this thread may still wait for builds: of the call that began last.
static uint64_t left_ns(const clattn_context *c) {
    const uint64_t waited = *cla_unfit_waited_ns();
    return waited < c->compile_limit_ns ? c->compile_limit_ns - waited : 0;
}

bool cla_behind_applies(const clattn_context *c, const program_spec *spec) {
    return c->compile_limit_ns > 0 && spec->linked_count == 0 && cla_unfit_can_plan_again();
}

static void run(void *user) {
    build_job *job = user;
    clattn_context *c = job->context;
    bool passed = false;
    cla_unfit_begin();
    const clattn_status status = job->build(c, job->p, CLATTN_OK, &passed);
    cla_unfit_end();
    // A waiting call owns the marks of a failure. Without one, the context owns them.
    if (status != CLATTN_OK && !passed) cla_unfit_settle(c, true);
    cla_os_mutex_lock(&c->program_lock);
    job->over = true;
    cla_os_condition_wake_all(&c->program_built);
    cla_os_mutex_unlock(&c->program_lock);
}

// Join finished threads. The caller holds program_lock, which each thread releases last.
static void join_ended(clattn_context *c) {
    for (build_job **at = &c->jobs; *at;) {
        build_job *job = *at;
        if (!job->over) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        cla_os_watch_end(job->thread);
        cla_host_release(&c->host, job);
    }
}

// The caller holds program_lock, so that the thread does not end before it is known.
static bool start(clattn_context *c, program *p, behind_builder *build) {
    build_job *job = cla_host_take_zeroed(&c->host, 1, sizeof *job);
    join_ended(c);
    if (!job) return false;
    job->context = c, job->p = p, job->build = build;
    job->thread = cla_os_watch_begin(&c->host, 0, run, job);
    if (!job->thread) {
        cla_host_release(&c->host, job);
        return false;
    }
    p->behind = true;
    job->next = c->jobs;
    c->jobs = job;
    return true;
}

static void tell(const clattn_context *c, const program *p) {
    cla_log_send(&c->log, CLATTN_LOG_INFO,
                 "kernel %s: not compiled within compile_limit_ms (%.0f): the call goes on with other "
                 "kernels, and the build goes on behind it",
                 clattn_kernel_sources[p->spec.id].name, (double)c->compile_limit_ns / 1e6);
}

// Let the call continue without program p, because its time limit has passed. False: there is no
// memory to note that.
static bool go_on(clattn_context *c, program *p) {
    if (p->late) return true;
    if (!cla_unfit_late(c, &p->spec)) return false;
    p->late = true;
    tell(c, p);
    return true;
}

// A call that needs a late kernel again has no other kernel. It waits until any late build ends.
clattn_status cla_behind_wait(clattn_context *c, const program_spec *spec) {
    program *p = cla_program_find(c, spec);
    build_wait own = {.thread = cla_unfit_thread()};
    const uint64_t ended = c->late_ended, start_ns = cla_os_time_ns(), left = left_ns(c);
    bool last = p->late, limited = !last, again = false;
    if (!cla_behind_applies(c, spec)) last = limited = false;
    if (p->behind && !p->waits && cla_unfit_can_plan_again()) p->waits = &own;
    for (;;) {
        const uint64_t spent = cla_os_time_ns() - start_ns;
        if (limited && spent >= left) {
            again = go_on(c, p);
            if (again) break;
            limited = false;
        }
        if (limited)
            cla_os_condition_wait_for(&c->program_built, &c->program_lock, left - spent);
        else
            cla_os_condition_wait(&c->program_built, &c->program_lock);
        p = cla_program_find(c, spec);
        if (own.over || !p || !p->building) break;
        again = last && c->late_ended != ended;
        if (again) break;
    }
    if (limited) *cla_unfit_waited_ns() += cla_os_time_ns() - start_ns;
    if (own.over) return own.status;
    if (p && p->waits == &own) p->waits = NULL;
    return again ? ENTRY_PLAN_AGAIN : CLATTN_OK;
}

bool cla_behind_build(clattn_context *c, program *p, const program_spec *spec, behind_builder *build,
                      clattn_status *status) {
    cla_os_mutex_lock(&c->program_lock);
    const bool started = start(c, p, build);
    if (started) *status = cla_behind_wait(c, spec);
    cla_os_mutex_unlock(&c->program_lock);
    return started;
}

bool cla_behind_over(clattn_context *c, program *p, clattn_status status) {
    build_wait *waits = p->waits;
    if (p->late) {
        cla_unfit_ready(c, &p->spec);
        p->late = false;
        c->late_ended++;
    }
    if (!waits) return false;
    p->waits = NULL;
    waits->status = status, waits->over = true;
    if (status != CLATTN_OK) cla_unfit_pass(c, waits->thread);
    return true;
}

uint64_t cla_behind_running(const clattn_context *c) {
    uint64_t count = 0;
    for (const build_job *job = c->jobs; job; job = job->next) count += !job->over;
    return count;
}

void cla_behind_finish(clattn_context *c) {
    cla_os_mutex_lock(&c->program_lock);
    while (cla_behind_running(c) > 0) cla_os_condition_wait(&c->program_built, &c->program_lock);
    join_ended(c);
    cla_os_mutex_unlock(&c->program_lock);
}
