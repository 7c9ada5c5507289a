// tuned.h: tuned rows of a device for a context: of --tuned FILE, or those that clattn tune keeps in the cache folder. Used by
// session.c and tune.
#ifndef CLATTN_TOOL_TUNE_TUNED_H
#define CLATTN_TOOL_TUNE_TUNED_H
#include "cli/common/tool.h"

// The first line of a file of rows: whose they are. Rows of another driver or version are not used unasked.
#define TUNED_HEAD 700
const char *tuned_head(const clattn_capabilities *device, char line[TUNED_HEAD]);

// Where a device's rows are kept in this cache folder; false: the path is too long.
bool tuned_path(const char *folder, const clattn_capabilities *device, char *path, size_t size);

// The rows for this device, which the caller frees; NULL: none. *given says that the user named them. -1, or an exit status
// with its line where a file that was named cannot be read.
int tuned_rows(const common_options *o, const char *folder, cl_device_id device, char **rows, bool *given);
#endif
