// unfit.c: see unfit.h. The record is a list under a lock. While the list is empty, no thread locks
// it.
#include "program/unfit_list.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"

#define MOST_MARKS 1024 // beyond this a failure ends its call at once
#define STATUS_LINE 700

bool cla_unfit_create(clattn_context *c) {
    unfit_list *list = cla_host_take_zeroed(&c->host, 1, sizeof *list);
    if (list && cla_os_mutex_init(&list->lock)) {
        list->host = &c->host;
        c->unfit = list;
        return true;
    }
    cla_host_release(&c->host, list);
    return false;
}

void cla_unfit_destroy(clattn_context *c) {
    if (!c->unfit) return;
    cla_unfit_release(&c->host, c->unfit->marks);
    cla_os_mutex_destroy(&c->unfit->lock);
    cla_host_release(&c->host, c->unfit);
    c->unfit = NULL;
}

static uint64_t hash_of(const char *inserted) {
    return inserted ? cla_unfit_hash(inserted, strlen(inserted)) : 0;
}

static const char *options_of(const char *options) {
    return options ? options : PROGRAM_OPTIONS;
}

unfit_mark cla_unfit_key(const program_spec *spec) {
    return (unfit_mark){.id = spec->id,
                        .knobs = spec->knobs,
                        .options = (char *)(uintptr_t)options_of(spec->options),
                        .inserted = hash_of(spec->inserted)};
}

unfit_mark *cla_unfit_find(const unfit_list *list, const unfit_mark *key, const void *owner) {
    unfit_mark *m = list->marks;
    while (m && !(m->owner == owner && cla_unfit_same(m, key))) m = m->next;
    return m;
}

// Copy the log's first line that contains "error", else its first line that is not blank. Control
// characters become blanks.
static void take_line(const char *log, char line[UNFIT_LINE]) {
    const char *best = NULL;
    line[0] = '\0';
    for (const char *at = log; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        char one[UNFIT_LINE];
        const size_t bytes = strcspn(at, "\r\n");
        if (strspn(at, " \t\r") >= bytes) continue;
        snprintf(one, sizeof one, "%.*s", (int)(bytes < UNFIT_LINE ? bytes : UNFIT_LINE - 1), at);
        const bool names = strstr(one, "error") || strstr(one, "Error");
        if (!best || names) memcpy(line, one, sizeof one), best = at;
        if (names) break;
    }
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
}

unfit_mark *cla_unfit_make(const clattn_context *c, const unfit_failure *f) {
    const clattn_host_memory *host = &c->host;
    const bool room = atomic_load(&c->unfit->count) < MOST_MARKS;
    unfit_mark *m = room ? cla_host_take_zeroed(host, 1, sizeof *m) : NULL;
    bool ok = m != NULL;
    if (!m) return NULL;
    *m = cla_unfit_key(f->spec);
    m->options = cla_text_copy(host, m->options, &ok);
    m->log = cla_text_copy(host, f->log, &ok);
    m->text = cla_text_copy(host, f->text, &ok);
    m->step = f->step, m->code = f->code;
    m->owner = cla_unfit_thread();
    take_line(f->log, m->line);
    if (ok) return m;
    cla_unfit_release(host, m);
    return NULL;
}

// The work-group limit to try after a launch with f->work_group failed. 0: a smaller group does not
// help.
//
//    CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE   the size is at fault: halve it
//    CL_OUT_OF_RESOURCES, CL_INVALID_KERNEL_ARGS             the size may be at fault: half, then 1
static size_t group_after(const unfit_list *list, const unfit_failure *f, const unfit_mark *key) {
    const bool size = f->code == CL_INVALID_WORK_GROUP_SIZE || f->code == CL_INVALID_WORK_ITEM_SIZE,
               maybe = f->code == CL_OUT_OF_RESOURCES || f->code == CL_INVALID_KERNEL_ARGS;
    if (f->step != UNFIT_LAUNCH || f->work_group <= 1 || !(size || maybe)) return 0;
    for (const unfit_mark *m = list->marks; m; m = m->next)
        if (m->smaller && m->work_group <= f->work_group && cla_unfit_same(m, key)) return 0;
    return maybe && atomic_load(&list->group[f->spec->id]) ? 1 : f->work_group / 2;
}

// Returns true if the record has changed. The caller holds the lock.
static bool record(clattn_context *c, const unfit_failure *f) {
    unfit_list *list = c->unfit;
    const unfit_mark key = cla_unfit_key(f->spec);
    unfit_mark *m = cla_unfit_find(list, &key, cla_unfit_thread());
    if (m && !m->smaller) return false;
    const size_t group = group_after(list, f, &key);
    if (!m) {
        m = cla_unfit_make(c, f);
        if (!m) return false;
        cla_unfit_add(list, m);
    }
    m->step = f->step, m->code = f->code;
    m->work_group = f->work_group;
    m->group = (uint32_t)(group < UINT32_MAX ? group : UINT32_MAX);
    m->smaller = group > 0;
    cla_unfit_count(list);
    return true;
}

static clattn_status fail(clattn_context *c, enum kernel_id id, const char *call, cl_int code,
                          const char *log, const char *text) {
    if (log && c->log.fn) c->log.fn(c->log.user, CLATTN_LOG_ERROR, log);
    if (text) return cla_context_fail(c, CLATTN_BUILD_FAILED, "%s", text);
    char of_kernel[128];
    snprintf(of_kernel, sizeof of_kernel, "%s (kernel %s)", call, clattn_kernel_sources[id].name);
    return cla_context_fail_opencl(c, code, of_kernel);
}

// True if an error code may be the kernel's fault. Codes for memory, lost devices and the caller's
// objects are not. Adreno's compilers return CL_OUT_OF_HOST_MEMORY if they cannot make a pipeline
// of a kernel. Others return CL_OUT_OF_RESOURCES if a kernel needs too many registers.
static bool is_of_kernel(clattn_context *c, unfit_step step, cl_int code) {
    static const cl_int never[] = {CL_DEVICE_NOT_AVAILABLE,
                                   CL_MEM_OBJECT_ALLOCATION_FAILURE,
                                   CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                   CL_INVALID_CONTEXT,
                                   CL_INVALID_COMMAND_QUEUE,
                                   CL_INVALID_MEM_OBJECT,
                                   CL_INVALID_EVENT_WAIT_LIST,
                                   CL_INVALID_EVENT};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (code == never[i]) return false;
    if (code == CL_OUT_OF_HOST_MEMORY) return step == UNFIT_BUILD || step == UNFIT_CREATE;
    if (code == CL_OUT_OF_RESOURCES) return step != UNFIT_SOURCE;
    if (code != OPENCL_ILLEGAL_ACCESS) return true;
    cla_os_mutex_lock(&c->error_lock);
    const bool has_run = c->has_run; // true: an earlier kernel may have caused the illegal access
    cla_os_mutex_unlock(&c->error_lock);
    return !has_run;
}

clattn_status cla_unfit_failed(clattn_context *c, const unfit_failure *f) {
    const bool in_call = cla_unfit_in_call(), final = f->final || (in_call && !cla_unfit_can_plan_again());
    bool changed = false;
    if ((in_call || final) && is_of_kernel(c, f->step, f->code)) {
        cla_os_mutex_lock(&c->unfit->lock);
        changed = record(c, f);
        cla_os_mutex_unlock(&c->unfit->lock);
    }
    if (changed && !final) return ENTRY_PLAN_AGAIN;
    if (changed) cla_unfit_settle(c, true);
    return fail(c, f->spec->id, f->call ? f->call : cla_unfit_steps[f->step], f->code, f->log, f->text);
}

static bool is_build(const unfit_mark *m) {
    return m->step <= UNFIT_INFO;
}

// Copy the failed build of another or earlier call into this call's record. The caller holds the
// lock.
static bool adopt(clattn_context *c, const program_spec *spec, const unfit_mark *key) {
    const unfit_mark *m = c->unfit->marks;
    while (m && !(is_build(m) && cla_unfit_same(m, key))) m = m->next;
    if (!m) return false;
    const unfit_failure f = {.spec = spec, .step = m->step, .code = m->code, .log = m->log, .text = m->text};
    return record(c, &f);
}

clattn_status cla_unfit_check(clattn_context *c, const program_spec *spec, bool waited) {
    unfit_list *list = c->unfit;
    char text[STATUS_LINE] = "";
    char *log = NULL;
    if (atomic_load_explicit(&list->count, memory_order_acquire) == 0) return CLATTN_OK;
    const unfit_mark key = cla_unfit_key(spec);
    cla_os_mutex_lock(&list->lock);
    unfit_mark *mine = cla_unfit_find(list, &key, cla_unfit_thread());
    const bool failed = mine && is_build(mine), adopted = !mine && waited && adopt(c, spec, &key);
    const unfit_step step = mine ? mine->step : UNFIT_BUILD;
    const cl_int code = mine ? mine->code : CL_SUCCESS;
    if (failed && mine->text) snprintf(text, sizeof text, "%s", mine->text);
    if (failed) log = mine->log, mine->log = NULL;
    cla_os_mutex_unlock(&list->lock);
    if (adopted) return ENTRY_PLAN_AGAIN;
    if (!failed) return CLATTN_OK;
    const clattn_status status = fail(c, spec->id, cla_unfit_steps[step], code, log, text[0] ? text : NULL);
    cla_host_release(&c->host, log);
    return status;
}

static void tell(const clattn_context *c, const unfit_mark *m) {
    const char *name = clattn_kernel_sources[m->id].name, *error = cla_opencl_error_name(m->code);
    if (m->log && c->log.fn && c->log.level >= CLATTN_LOG_INFO)
        c->log.fn(c->log.user, CLATTN_LOG_INFO, m->log);
    if (m->smaller)
        cla_log_send(
            &c->log, CLATTN_LOG_INFO,
            "unfit: kernel %s: %s failed with groups of %zu work-items: OpenCL error %d (%s): groups have "
            "at most %u from now on",
            name, cla_unfit_steps[m->step], m->work_group, (int)m->code, error, (unsigned)m->group);
    else
        cla_log_send(&c->log, CLATTN_LOG_INFO,
                     "unfit: kernel %s: %s failed: OpenCL error %d (%s): other kernels take its place%s%s",
                     name, cla_unfit_steps[m->step], (int)m->code, error, m->line[0] ? ": " : "", m->line);
}

// Remove this thread's marks from the list, in order.
static unfit_mark *take_own(unfit_list *list) {
    unfit_mark *own = NULL, **end = &own;
    for (unfit_mark **at = &list->marks; *at;) {
        unfit_mark *m = *at;
        if (m->owner != cla_unfit_thread()) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        m->next = NULL;
        *end = m, end = &m->next;
    }
    return own;
}

// Move a mark to the context's record, unless another call has left an equal or stricter mark
// there.
static bool leave(clattn_context *c, unfit_mark *m) {
    cla_os_mutex_lock(&c->unfit->lock);
    const unfit_mark *old = cla_unfit_find(c->unfit, m, NULL);
    const bool isnew = !old || (old->smaller && (!m->smaller || m->group < old->group));
    m->owner = NULL;
    if (isnew) cla_unfit_add(c->unfit, m);
    cla_os_mutex_unlock(&c->unfit->lock);
    return isnew;
}

// A kernel that failed before has run in the repeated call, so the kernel was not at fault.
void cla_unfit_worked(clattn_context *c, const program_spec *spec) {
    unfit_list *list = c->unfit;
    const unfit_mark key = cla_unfit_key(spec);
    unfit_mark *gone = NULL;
    cla_os_mutex_lock(&list->lock);
    for (unfit_mark **at = &list->marks; *at && !gone; at = &(*at)->next) {
        if ((*at)->owner != cla_unfit_thread() || (*at)->smaller || !cla_unfit_same(*at, &key)) continue;
        gone = *at;
        *at = gone->next, gone->next = NULL;
        break;
    }
    if (gone) cla_unfit_count(list);
    cla_os_mutex_unlock(&list->lock);
    cla_unfit_release(&c->host, gone);
}

void cla_unfit_settle(clattn_context *c, bool went_well) {
    unfit_list *list = c->unfit;
    bool kept = false;
    cla_os_mutex_lock(&list->lock);
    unfit_mark *own = take_own(list);
    cla_unfit_count(list);
    cla_os_mutex_unlock(&list->lock);
    while (own) {
        unfit_mark *m = own;
        own = m->next, m->next = NULL;
        const bool build = is_build(m);
        if (went_well) tell(c, m);
        if (went_well && leave(c, m))
            kept |= build;
        else
            cla_unfit_release(&c->host, m);
    }
    if (kept) cla_unfit_keep(c);
}

uint32_t cla_unfit_group(const clattn_context *c, enum kernel_id id) {
    return c->unfit ? atomic_load_explicit(&c->unfit->group[id], memory_order_relaxed) : 0;
}

const unfit_list *cla_unfit_known(const clattn_context *c) {
    const unfit_list *list = c->unfit;
    return list && (atomic_load_explicit(&list->count, memory_order_acquire) > 0 ||
                    atomic_load_explicit(&list->first, memory_order_relaxed))
               ? list
               : NULL;
}

// Reason texts never move, because plans keep pointers to them.
static const char *reason_of(unfit_list *list, unfit_step step, cl_int code) {
    int i = 0;
    while (i < list->reason_count && (list->reasons[i].step != step || list->reasons[i].code != code)) i++;
    if (step == UNFIT_LATE) return "is still being compiled, for longer than compile_limit_ms";
    if (i == UNFIT_REASONS) return "the driver refused it on this device";
    if (i < list->reason_count) return list->reasons[i].text;
    list->reasons[i].step = step, list->reasons[i].code = code;
    snprintf(list->reasons[i].text, sizeof list->reasons[i].text, "%s failed here: OpenCL error %d (%s)",
             cla_unfit_steps[step], (int)code, cla_opencl_error_name(code));
    list->reason_count++;
    return list->reasons[i].text;
}

// The gradient kernels for q and for k and v share one plan for all types, so these knobs are
// ignored.
static bool has_plan(const unfit_mark *m, unfit_mark key) {
    key.knobs.type_gradient = m->knobs.type_gradient, key.knobs.gradient_of_kv = m->knobs.gradient_of_kv;
    return cla_unfit_same(m, &key);
}

const char *cla_unfit_refusal(const unfit_list *list, enum kernel_id id, const knobs *k, const char *options,
                              const char *inserted) {
    if (!list) return NULL;
    // The lock and the reason texts may change. The marks do not.
    unfit_list *of = (unfit_list *)(uintptr_t)list;
    const unfit_mark key =
        cla_unfit_key(&(program_spec){.id = id, .knobs = *k, .options = options, .inserted = inserted});
    const char *why = cla_unfit_first_refusal(of, id);
    cla_os_mutex_lock(&of->lock);
    for (const unfit_mark *m = of->marks; m && !why; m = m->next)
        if (!m->smaller && m->id == id && has_plan(m, key)) why = reason_of(of, m->step, m->code);
    cla_os_mutex_unlock(&of->lock);
    return why;
}

bool cla_unfit_has(const unfit_list *list, enum kernel_id id) {
    if (!list) return false;
    unfit_list *of = (unfit_list *)(uintptr_t)list;
    bool has = false;
    cla_os_mutex_lock(&of->lock);
    for (const unfit_mark *m = of->marks; m; m = m->next) has |= !m->smaller && m->id == id;
    cla_os_mutex_unlock(&of->lock);
    return has;
}
