// group.c: creates and destroys a group. Its calls are in call.c.
#include "group/piece.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"

static clattn_status refuse(const clattn_log *log, clattn_status status, const char *why) {
    cla_log_send(log, CLATTN_LOG_ERROR, "group: %s", why);
    return status;
}

static clattn_status check(const clattn_group_params *p) {
    if (!p->members || p->count < 1 || p->count > GROUP_MOST_MEMBERS)
        return refuse(&p->log, CLATTN_INVALID_ARGUMENT, "members: 1 to 64 are needed");
    for (size_t n = 0; n < p->count; n++)
        if (!p->members[n].context)
            return refuse(&p->log, CLATTN_INVALID_ARGUMENT, "members: a context is NULL");
    return CLATTN_OK;
}

static clattn_status open_member(clattn_group *g, const clattn_group_member *from) {
    group_member *m = &g->members[g->count++];
    const clattn_capabilities *can = &from->context->capabilities;
    m->context = from->context;
    m->max_bytes = from->max_bytes ? from->max_bytes : can->global_memory_bytes / 4 * 3;
    m->largest = can->max_allocation_bytes < SIZE_MAX ? can->max_allocation_bytes : SIZE_MAX;
    TRY(cla_context_check(m->context));
    return cla_run_open(m);
}

clattn_status clattn_group_create(const clattn_group_params *params, clattn_group **group) {
    if (group) *group = NULL;
    if (!params) return CLATTN_INVALID_ARGUMENT;
    if (!group) return refuse(&params->log, CLATTN_INVALID_ARGUMENT, "the result pointer is NULL");
    TRY(check(params));
    const clattn_host_memory *const host = &params->members[0].context->host;
    clattn_group *g = cla_host_take_zeroed(host, 1, sizeof *g);
    if (!g) return refuse(&params->log, CLATTN_OUT_OF_MEMORY, "no host memory");
    g->log = params->log, g->host = *host;
    clattn_status status = CLATTN_OK;
    g->locks_ready = cla_os_mutex_init_two(&g->lock, &g->error_lock);
    if (!g->locks_ready) status = refuse(&g->log, CLATTN_OUT_OF_MEMORY, "no memory for its locks");
    for (size_t n = 0; n < params->count && status == CLATTN_OK; n++) {
        status = open_member(g, &params->members[n]);
        if (status != CLATTN_OK) cla_group_fail_as(g, status, params->members[n].context);
    }
    if (status == CLATTN_OK)
        *group = g;
    else
        clattn_group_destroy(g);
    return status;
}

void clattn_group_destroy(clattn_group *g) {
    if (!g) return;
    for (int n = 0; n < g->count; n++) cla_run_close(&g->members[n]);
    if (g->locks_ready) {
        cla_os_mutex_destroy(&g->lock);
        cla_os_mutex_destroy(&g->error_lock);
    }
    const clattn_host_memory host = g->host;
    cla_host_release(&host, g);
}

const char *clattn_partition_name(clattn_partition partition) {
    static const char *const names[] = {"auto", "heads", "rows", "keys", "whole"};
    return (unsigned)partition < CLATTN_PARTITION_COUNT ? names[partition] : "(unknown)";
}
