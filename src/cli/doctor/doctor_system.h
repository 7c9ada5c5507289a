// doctor_system.h: what the system says of OpenCL without any call of OpenCL: variables, driver files, devices' permissions.
#ifndef CLATTN_TOOL_DOCTOR_DOCTOR_SYSTEM_H
#define CLATTN_TOOL_DOCTOR_DOCTOR_SYSTEM_H
#include <jansson.h>
#include <stdbool.h>

#include "cli/common/tool.h"

// Variables that OpenCL, its drivers and clattn read, with their values: an array of {"name", "value"}.
json_t *doctor_environment(void);

// Driver files (.icd) where a loader looks for them: an array of {"folder", "from", "there", "files": [{"file", "library"}]}.
json_t *doctor_driver_files(void);

// Append a text to an array of texts.
void doctor_say(json_t *texts, const char *format, ...) TOOL_PRINTF(2);

// Advice for a person, an array of texts. `report` has what was found: loader, platforms, driver_files, devices.
json_t *doctor_hints(const json_t *report);
#endif
