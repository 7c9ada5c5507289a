// error.c: errors of a group's calls: the message for the caller, and log lines about members that
// failed.
#include "group/group.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static clattn_status keep_line(clattn_group *g, clattn_status status, const char *line) {
    cla_os_mutex_lock(&g->error_lock);
    snprintf(g->last_error, sizeof g->last_error, "%s", line);
    cla_os_mutex_unlock(&g->error_lock);
    cla_log_send(&g->log, CLATTN_LOG_ERROR, "%s", line);
    return status;
}

clattn_status cla_group_fail(clattn_group *g, clattn_status status, const char *format, ...) {
    char line[sizeof g->last_error];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    return keep_line(g, status, line);
}

clattn_status cla_group_fail_as(clattn_group *g, clattn_status status, clattn_context *context) {
    char line[sizeof g->last_error];
    clattn_context_last_error(context, line, sizeof line);
    return keep_line(g, status, line);
}

void cla_group_tell(const clattn_group *g, int d) {
    const group_member *m = &g->members[d];
    char line[sizeof g->last_error];
    clattn_context_last_error(m->context, line, sizeof line);
    cla_log_send(&g->log, CLATTN_LOG_INFO, "group: device %d (%s) failed, its work goes to others: %s: %s", d,
                 m->context->capabilities.name, clattn_status_name(m->status), line);
}

size_t clattn_group_last_error(clattn_group *g, char *text, size_t size) {
    if (!g) return 0;
    cla_os_mutex_lock(&g->error_lock);
    const size_t length = strlen(g->last_error);
    if (text && size) snprintf(text, size, "%s", g->last_error);
    cla_os_mutex_unlock(&g->error_lock);
    return length;
}
