// doctor_private.h: remove personal data from texts: the names of the user and the machine, and
// paths of a home folder.
#ifndef CLATTN_CLI_DOCTOR_DOCTOR_PRIVATE_H
#define CLATTN_CLI_DOCTOR_DOCTOR_PRIVATE_H
#include <jansson.h>

// Change every text in the value in place. Names become (user) and (host). A path outside the
// system's folders keeps only its last part, as in .../pocl.icd.
void doctor_remove_private(json_t *value);
#endif
