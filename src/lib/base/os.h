/* os.h: the operating system services that the library needs: a clock, locks, a private folder,
 * dynamic libraries, the CPU's model. Only os_posix.c, os_windows.c and os_cpu.c call the
 * system; Meson compiles one of the first two.
 *
 * Threads: every function may be called from any thread, also on one folder. Errors are
 * returned, never printed. */
#ifndef CLATTN_BASE_OS_H
#define CLATTN_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of a monotonic clock. Only differences between two readings have a meaning. */
uint64_t cla_os_time_ns(void);

/* Seconds since 1970 (UTC); 0 if the system does not know the date. */
int64_t cla_os_date_s(void);

/* A non-recursive lock. It is stored by value, so embedding one needs no allocation. */
typedef struct os_mutex {
    union {
        void *pointer;
        uint64_t align;
        unsigned char bytes[64];
    } u;
} os_mutex;

bool cla_os_mutex_init(os_mutex *mutex);
void cla_os_mutex_lock(os_mutex *mutex);
void cla_os_mutex_unlock(os_mutex *mutex);
void cla_os_mutex_destroy(os_mutex *mutex);

/* Initialise both locks, or neither on failure. */
static inline bool cla_os_mutex_init_two(os_mutex *first, os_mutex *second) {
    if (!cla_os_mutex_init(first)) return false;
    if (cla_os_mutex_init(second)) return true;
    cla_os_mutex_destroy(first);
    return false;
}

/* A condition variable. Waiting releases the held lock and acquires it again before it returns.
 * A wait may end spuriously, so callers check their condition in a loop. */
typedef struct os_condition {
    union {
        void *pointer;
        uint64_t align;
        unsigned char bytes[64];
    } u;
} os_condition;

bool cla_os_condition_init(os_condition *condition);
void cla_os_condition_wait(os_condition *condition, os_mutex *held);
/* The same, for so many nanoseconds at most. */
void cla_os_condition_wait_for(os_condition *condition, os_mutex *held, uint64_t ns);
void cla_os_condition_wake_all(os_condition *condition);
void cla_os_condition_destroy(os_condition *condition);

/* A thread that calls see(user) once after `seconds`, unless cla_os_watch_end comes first. The
 * thread blocks all signals. Returns NULL without memory or a thread. After cla_os_watch_end,
 * see() no longer runs; NULL is allowed there. */
struct clattn_host_memory;
typedef struct os_watch os_watch;
os_watch *cla_os_watch_begin(const struct clattn_host_memory *host, unsigned seconds, void (*see)(void *user),
                             void *user);
void cla_os_watch_end(os_watch *watch);

/* A folder that only this user can change, held open. Renaming it or replacing it by a symbolic
 * link later has no effect. `name` is always one path component made by the caller, never text
 * from outside. */
typedef struct os_folder os_folder;
struct clattn_host_memory;

/* Open a folder. A missing last component is created, accessible only to this user. `host`
 * allocates the folder's memory (host.h) and must outlive it. Returns NULL and sets *why, a
 * static text, on any of
 *    a symbolic link, no folder, a missing parent, no memory
 *    a folder that another user owns, or that group or others may write to
 * os_windows.c describes Windows' checks. */
os_folder *cla_os_folder_open(const char *path, const struct clattn_host_memory *host, const char **why);

/* Read a whole file into memory from the folder's host. Free it with cla_host_release, also for an
 * empty file.
 *    max_bytes  below SIZE_MAX
 * Returns false and changes nothing if the file is missing, larger than max_bytes, or changes size
 * meanwhile. Only a plain file that nobody else can write is read. Never blocks on a pipe. */
bool cla_os_folder_read(os_folder *folder, const char *name, size_t max_bytes, unsigned char **bytes,
                        size_t *count);

/* Create or replace a file atomically: readers in any process see the old or the new content,
 * also after a crash. An empty folder of that name is replaced. A failed write leaves no file. A
 * killed process may leave its temporary file, whose name begins with OS_TEMPORARY. */
#define OS_TEMPORARY "tmp-"
bool cla_os_folder_write(os_folder *folder, const char *name, const void *bytes, size_t count);

/* Remove a file. A missing file is no error. */
void cla_os_folder_remove(os_folder *folder, const char *name);

/* A file with one digit that this process locks until it ends, even in a crash. `number` is the
 * digit, 0 in a new file. `hold` returns false on a system error, or if another process holds the
 * file, or if it is missing and `creates` is false. `let_go` unlocks, and removes the file if the
 * digit is 0. */
typedef struct os_held {
    void *handle; /* NULL: not held */
    int number;
} os_held;
bool cla_os_folder_hold(os_folder *folder, const char *name, bool creates, os_held *held);
void cla_os_held_set(os_held *held, int number);
void cla_os_held_let_go(os_folder *folder, const char *name, os_held *held);

/* Set the file's modification time to now, if the system permits it. Its age starts again at 0. */
void cla_os_folder_touch(os_folder *folder, const char *name);

/* A plain file of a folder. */
typedef struct os_file {
    char name[96];
    uint64_t bytes;
    uint64_t age_ns; /* time since it was written or touched; 0 if the clock was set back */
} os_file;

/* Call `see` for each plain file of the folder, in no order; files with names too long for
 * os_file are skipped. `see` may remove the file that it is called for. A folder that cannot be
 * read counts as empty. */
void cla_os_folder_visit(os_folder *folder, void (*see)(void *user, const os_file *file), void *user);

/* NULL is allowed. */
void cla_os_folder_close(os_folder *folder);

/* Model and feature words of the CPU that runs this code. The text is the same on every core and
 * in every process; it is "" if the system does not report a model. */
enum { OS_CPU_MODEL_BYTES = 192 };
void cla_os_cpu_model(char text[OS_CPU_MODEL_BYTES]);

/* True if the CPU has x86's bfloat16 dot product (AVX512_BF16) and the system saves its
 * registers. */
bool cla_os_cpu_has_dot_bf16(void);

/* Lanes of the widest vectors with x86's integer dot products (VNNI) that the CPU and the system
 * support: 16, 8 or 0. */
int cla_os_cpu_dot_i8_lanes(void);

/* Request x86's AMX tile registers from the system, for all threads and until the process ends.
 * The signal frames of threads that use them grow by 8 KiB. Returns true if the CPU has bfloat16
 * tiles, and the system saves and grants them. Without such a CPU or system, nothing is
 * requested. */
bool cla_os_request_amx(void);
/* True if the CPU also has 8-bit integer tiles (AMX-INT8). */
bool cla_os_cpu_has_amx_i8(void);

/* Open a library by name or path; NULL if it cannot be loaded. With a NULL name, open the
 * process itself and the libraries linked with it. Missing symbols are NULL. Closing NULL is
 * allowed. */
void *cla_os_library_open(const char *name);
void *cla_os_library_symbol(void *library, const char *name);
void cla_os_library_close(void *library);

/* The path of `file` in the folder of the library or program that contains this code. NULL if
 * the system does not know the folder. Free the text with cla_host_release. */
char *cla_os_beside_library(const struct clattn_host_memory *host, const char *file);

#endif
