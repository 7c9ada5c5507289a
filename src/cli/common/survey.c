// survey.c: see survey.h.
#ifndef _WIN32
#include <dirent.h>
#endif
#include <string.h>

#include "cli/common/survey.h"

#define MOST_DEATHS 40 // more than the number of probes

typedef struct lines {
    survey_report *report;
    char at[256]; // the last log line
} lines;

static void take_line(void *user, const char *text) {
    lines *l = user;
    json_t *line = json_loads(text, 0, NULL);
    const char *log = json_string_value(json_object_get(line, "log"));
    if (log) snprintf(l->at, sizeof l->at, "%s", log);
    if (log && l->report->step) l->report->step(l->report->user, log);
    json_decref(line);
}

void survey_run(size_t index, const char *folder, bool measure, double limit_s, survey_report *r) {
    char number[24];
    bool more = true;
    snprintf(number, sizeof number, "%zu", index);
    r->finished = false, r->deaths = 0, r->last[0] = '\0';
    while (more && r->deaths < MOST_DEATHS) {
        const char *const arguments[] = {"survey", number, folder, r->deaths ? "1" : "0", measure ? "1" : "0",
                                         NULL};
        lines l = {.report = r};
        child c;
        child_run(&c, arguments, NULL, limit_s, take_line, &l);
        child_text(&c, limit_s, r->last);
        more = c.end == CHILD_DIED || c.end == CHILD_TIMED_OUT;
        r->finished = c.end == CHILD_DONE && c.number == EXIT_DONE;
        if (!more) continue;
        r->deaths++;
        if (r->death) r->death(r->user, r->last, l.at);
    }
}

// Files that mark an unfinished build in the cache folder: src/lib/base/cache.h.
static bool has_marks(const char *folder) {
    bool found = false;
#ifndef _WIN32
    DIR *files = opendir(folder);
    for (struct dirent *e = files ? readdir(files) : NULL; e && !found; e = readdir(files)) {
        const char *end = strrchr(e->d_name, '.');
        found = end && !strcmp(end, ".begun");
    }
    if (files) (void)closedir(files);
#else
    (void)folder;
#endif
    return found;
}

bool survey_is_missing(const session *s, const char *folder) {
    clattn_features features;
    const bool known = s->capabilities->driver_known;
    if (s->measures_again) return !known || has_marks(folder);
    return !known && clattn_features_get(s->context, &features) == CLATTN_OK && !features.surveyed;
}
