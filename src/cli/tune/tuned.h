// tuned.h: tuned rows for a context: those of --tuned FILE, or those that `clattn tune` kept in the
// cache folder. Used by session.c and tune.
#ifndef CLATTN_CLI_TUNE_TUNED_H
#define CLATTN_CLI_TUNE_TUNED_H
#include "cli/common/tool.h"

// The first line of a file of rows: device, driver and version. Rows of another driver or version
// are used only if the user names the file.
#define TUNED_HEAD 700
const char *tuned_head(const clattn_capabilities *device, char line[TUNED_HEAD]);

// The path of a device's rows in this cache folder; false: the path is too long.
bool tuned_path(const char *folder, const clattn_capabilities *device, char *path, size_t size);

// The rows for this device, which the caller frees; NULL: none. *given is true if the user named
// them. Returns -1, or an exit status after printing a line if a named file cannot be read.
int tuned_rows(const common_options *o, const char *folder, cl_device_id device, char **rows, bool *given);
#endif
