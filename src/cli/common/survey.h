// survey.h: clattn_device_survey in processes of its own (child.h).
#ifndef CLATTN_TOOL_CLI_SURVEY_H
#define CLATTN_TOOL_CLI_SURVEY_H
#include "cli/common/child.h"
#include "cli/common/session.h"

typedef struct survey_report {
    bool finished;
    int deaths;     // processes that ended before they were done: by a signal, or for want of a line
    char last[128]; // the last one's end in words, or why there is no survey
    // Each line of log, and each end with what the process was at.
    void (*step)(void *user, const char *text);
    void (*death)(void *user, const char *text, const char *at);
    void *user;
} survey_report;

// Survey device `index` of clattn_device_list into the cache folder. measure: also the rates that the folder keeps. limit_s: of each
// step.
void survey_run(size_t index, const char *folder, bool measure, double limit_s, survey_report *r);

// Whether the session's context needs a survey before it is used. Its driver is not known, and the folder has no survey; or all is
// measured again, and the driver may end a process: it is not known, or the folder has the mark of a process that ended.
bool survey_is_missing(const session *s, const char *folder);
#endif
