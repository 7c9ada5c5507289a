// doctor_private.h: texts without what is personal: no name of the user or the machine, no path of a home.
#ifndef CLATTN_TOOL_DOCTOR_DOCTOR_PRIVATE_H
#define CLATTN_TOOL_DOCTOR_DOCTOR_PRIVATE_H
#include <jansson.h>

// Every text in the value, in place: (user) and (host) stand for these names, and of a path outside the system's folders the last part
// is left: .../pocl.icd.
void doctor_remove_private(json_t *value);
#endif
