// doctor_system.h: facts about OpenCL that need no OpenCL call: variables, driver files,
// permissions of device files.
#ifndef CLATTN_CLI_DOCTOR_DOCTOR_SYSTEM_H
#define CLATTN_CLI_DOCTOR_DOCTOR_SYSTEM_H
#include <jansson.h>
#include <stdbool.h>

#include "cli/common/tool.h"

// The environment variables that OpenCL, its drivers and clattn read: an array of {"name",
// "value"}.
json_t *doctor_environment(void);

// The driver files (.icd) in the places where a loader searches: an array of {"folder", "from",
// "there", "files": [{"file", "library"}]}.
json_t *doctor_driver_files(void);

// Append a text to an array of texts.
void doctor_say(json_t *texts, const char *format, ...) TOOL_PRINTF(2);

// Advice for the user, an array of texts. `report` contains loader, platforms, driver_files and
// devices.
json_t *doctor_hints(const json_t *report);
#endif
