// session.h: a device ready for use, and what came of calls on it.
#ifndef CLATTN_TOOL_CLI_SESSION_H
#define CLATTN_TOOL_CLI_SESSION_H
#include "verification/device/guarded.h"
#include "cli/common/tool.h"

typedef struct session {
    common_options options;
    clattn_device device;
    clattn_context *context;
    const clattn_capabilities *capabilities;
    cl_command_queue queue;
    char message[1024];  // of the last failed call
    bool measures_again; // what is kept of rates is not read
} session;

// The log that keeps the last error line of a session and prints build logs with --verbose.
clattn_log session_log(session *s);
// All devices; the caller frees. EXIT_FAILED (with a line) where there is none.
int session_devices(session *s, clattn_device **devices, size_t *count);
// EXIT_WRONG with a line: the option, or variable, names none of the devices, which the line lists.
int session_no_device(const char *option, const char *spec, const clattn_device *devices, size_t count);
int session_open(session *s, const common_options *o);
// The same with tuned rows of one's own; and on a given device. Rows NULL: those of --tuned, else those that clattn tune has
// kept for the device.
int session_open_rows(session *s, const common_options *o, const char *rows);
int session_open_device(session *s, const clattn_device *device, const char *rows);
void session_close(session *s);
// Print the line of a failed clattn call and return the exit status for it: a wrong request is 2, one that Ctrl-C cancelled
// 130, the rest 1.
int session_status(session *s, clattn_status status);
// A buffer of these bytes; NULL data leaves it unset. *buffer stays NULL for 0 bytes.
int session_buffer(session *s, const void *data, size_t bytes, cl_mem *buffer);
int session_read(session *s, cl_mem buffer, void *data, size_t bytes);
int session_finish(session *s);
// The session as the place where a case of the evidence runs, with guard zones around every tensor. It stays open while that is used.
struct place session_place(const session *s);

// The folder of compiled kernels: --cache-dir, else the user's cache folder; NULL: off.
const char *tool_cache_dir(const common_options *o, char *text, size_t size);

// linker.c. Before OpenCL is first used; then whether a kernel on this device would end the process, for want of a linker.
void linker_look(void);
bool linker_on_path(const char *name); // a program that PATH finds; not on Windows
bool linker_is_missing(const clattn_capabilities *device);
#endif
