// survey.h: run clattn_device_survey in processes of its own (child.h).
#ifndef CLATTN_CLI_COMMON_SURVEY_H
#define CLATTN_CLI_COMMON_SURVEY_H
#include "cli/common/child.h"
#include "cli/common/session.h"

typedef struct survey_report {
    bool finished;
    // Processes that were killed by a signal or by the time limit.
    int deaths;
    char last[128]; // how the last process ended, or why there is no survey
    // `step` is called with each log line. `death` is called with a process's end and its last log
    // line.
    void (*step)(void *user, const char *text);
    void (*death)(void *user, const char *text, const char *at);
    void *user;
} survey_report;

// Survey device `index` of clattn_device_list into the cache folder. `measure`: also measure the
// rates that the folder keeps. `limit_s` is the time limit of each step.
void survey_run(size_t index, const char *folder, bool measure, double limit_s, survey_report *r);

// True if the session's context needs a survey before use. That is so if the driver is unknown and
// the folder has no survey. It is also so if everything is measured again, and the driver is
// unknown or the folder has the mark of a crashed process.
bool survey_is_missing(const session *s, const char *folder);
#endif
