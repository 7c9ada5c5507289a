// session.h: a device ready for use, and the status of calls on it.
#ifndef CLATTN_CLI_COMMON_SESSION_H
#define CLATTN_CLI_COMMON_SESSION_H
#include "verification/device/guarded.h"
#include "cli/common/tool.h"

typedef struct session {
    common_options options;
    clattn_device device;
    clattn_context *context;
    const clattn_capabilities *capabilities;
    cl_command_queue queue;
    char message[1024];  // message of the last failed call
    bool measures_again; // measure rates again instead of reading them from the cache folder
} session;

// A log that keeps the last error line in the session and prints build logs with --verbose.
clattn_log session_log(session *s);
// List all devices; the caller frees the list. Without a device, prints a line and returns
// EXIT_FAILED.
int session_devices(session *s, clattn_device **devices, size_t *count);
// Prints that the option or variable matches no device, lists the devices, and returns EXIT_WRONG.
int session_no_device(const char *option, const char *spec, const clattn_device *devices, size_t count);
int session_open(session *s, const common_options *o);
// Like session_open, with tuned rows, or on a given device. Rows NULL: the rows of --tuned, else
// the rows that `clattn tune` kept for the device.
int session_open_rows(session *s, const common_options *o, const char *rows);
int session_open_device(session *s, const clattn_device *device, const char *rows);
void session_close(session *s);
// Print the error line of a failed clattn call and return its exit status: 2 for a wrong request,
// 130 after Ctrl-C, 1 otherwise.
int session_status(session *s, clattn_status status);
// Create a buffer of `bytes` bytes. With `data` NULL its contents are undefined. 0 bytes: *buffer
// stays NULL.
int session_buffer(session *s, const void *data, size_t bytes, cl_mem *buffer);
int session_read(session *s, cl_mem buffer, void *data, size_t bytes);
int session_finish(session *s);
// The session as a `place` for verification cases, with guard zones around every tensor. The
// session must outlive the place.
struct place session_place(const session *s);

// The folder of compiled kernels: --cache-dir, else one in the user's cache folder. NULL: off.
const char *tool_cache_dir(const common_options *o, char *text, size_t size);

// linker.c: linker_look must be called before OpenCL is first used. linker_is_missing is true if
// building a kernel on this device would end the process because PoCL finds no linker.
void linker_look(void);
bool linker_on_path(const char *name); // true if PATH has the program; not on Windows
bool linker_is_missing(const clattn_capabilities *device);
#endif
