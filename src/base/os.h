/* os.h: the operating system as the library needs it: a clock, a lock, a private folder, a dynamic library.
 * The only place where it is called; os_posix.c or os_windows.c is compiled. What the names, files and
 * libraries mean is left to the callers: cache.c (folder), the loader (library), everything that locks or
 * measures. Threads: all functions may be called from any thread, also on one folder; failures are results,
 * never messages. */
#ifndef CLATTN_BASE_OS_H
#define CLATTN_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of a clock that never goes back and has no meaning but its differences. */
uint64_t cla_os_time_ns(void);

/* Seconds since 1970 (UTC); 0 where the system does not know. */
int64_t cla_os_date_s(void);

/* A lock that is not recursive. Storage by value, so that no allocation can fail where one is embedded. */
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

/* Two, or none. */
static inline bool cla_os_mutex_init_two(os_mutex *first, os_mutex *second) {
    if (!cla_os_mutex_init(first)) return false;
    if (cla_os_mutex_init(second)) return true;
    cla_os_mutex_destroy(first);
    return false;
}

/* What threads wait for while they hold a lock. Waiting lets go of the lock and takes it again; it may end for no
 * reason, so what was waited for is looked at again. */
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

/* A thread that calls see(user) once, unless the watch ends within so many seconds; it takes no signals. NULL where there is no memory
 * or no thread. After its end see() does not run any more; NULL is allowed. */
struct clattn_host_memory;
typedef struct os_watch os_watch;
os_watch *cla_os_watch_begin(const struct clattn_host_memory *host, unsigned seconds, void (*see)(void *user),
                             void *user);
void cla_os_watch_end(os_watch *watch);

/* A folder that nobody but this user can change, held open: a rename or a symbolic link put in its place
 * later changes nothing. `name` is one path component made by the caller, never text from outside. */
typedef struct os_folder os_folder;
struct clattn_host_memory;

/* Open a folder; a missing last component is created for this user alone.
 * Returns NULL when it is a symbolic link or not a folder, belongs to another user, is writable by group or
 * others, when the parent is missing, or without memory. Windows: see os_windows.c for what stands in for
 * owner and mode. *why then says which, in words that last. `host` is where the folder takes its memory from (host.h), and outlives it. */
os_folder *cla_os_folder_open(const char *path, const struct clattn_host_memory *host, const char **why);

/* Read a whole file into memory of the folder's host, which cla_host_release takes back; an empty file gives a pointer too.
 *   max_bytes  below SIZE_MAX
 * Returns false, and touches nothing, when the file is missing, larger than max_bytes, not a plain file of
 * this user alone (see os_folder_open), or changes size while it is read. Never waits on a pipe. */
bool cla_os_folder_read(os_folder *folder, const char *name, size_t max_bytes, unsigned char **bytes,
                        size_t *count);

/* Replace or create a file, whole: a reader in any process sees the old content or the new one, also after a
 * crash. An empty folder of that name gives way. A failed write leaves no file behind; only a process killed half-way
 * leaves its temporary file, whose name begins with OS_TEMPORARY. */
#define OS_TEMPORARY "tmp-"
bool cla_os_folder_write(os_folder *folder, const char *name, const void *bytes, size_t count);

/* Remove a file; a missing one is fine. */
void cla_os_folder_remove(os_folder *folder, const char *name);

/* A file of one number that this process holds until it ends, however it ends: no other process holds the file meanwhile. `number` is
 * what the file had, 0 where it is new. False: another process holds it, or the system cannot. set writes another number;
 * let_go removes the file where the number is 0. */
typedef struct os_held {
    void *handle; /* NULL: nothing is held */
    int number;
} os_held;
bool cla_os_folder_hold(os_folder *folder, const char *name, os_held *held);
void cla_os_held_set(os_held *held, int number);
void cla_os_held_let_go(os_folder *folder, const char *name, os_held *held);

/* Count a file as used now, where the system lets it: its age starts again. */
void cla_os_folder_touch(os_folder *folder, const char *name);

/* One plain file of a folder. */
typedef struct os_file {
    char name[96];
    uint64_t bytes;
    uint64_t age_ns; /* since it was written or touched; 0 where the clock was set back */
} os_file;

/* Show the folder's plain files, those of longer names left out, in no order. `see` may remove the file that it sees. A
 * folder that cannot be read has none. */
void cla_os_folder_visit(os_folder *folder, void (*see)(void *user, const os_file *file), void *user);

/* NULL is allowed. */
void cla_os_folder_close(os_folder *folder);

/* The model of the CPU that runs this code, with what it and its system can: the same on every core and in every process, as far
 * as the machine tells; "" where it does not. */
enum { OS_CPU_MODEL_BYTES = 192 };
void cla_os_cpu_model(char text[OS_CPU_MODEL_BYTES]);

/* Whether the CPU that runs this code has x86's bfloat16 dot product (AVX512_BF16), which its operating
 * system also saves. */
bool cla_os_cpu_has_dot_bf16(void);

/* Lanes of the widest vectors for which that CPU has x86's integer dot products (VNNI), saved likewise: 16, 8, or 0. */
int cla_os_cpu_dot_i8_lanes(void);

/* Ask the system for the tile registers of x86's AMX, for all threads of this process and for good: what a signal saves of a
 * thread that used them grows by 8 KiB. True where they may be used now: the CPU has tiles of bfloat16, the system
 * saves them, and grants them. Where the CPU or the system has none nothing is asked. */
bool cla_os_request_amx(void);
/* Whether that CPU has tiles of bytes, too. */
bool cla_os_cpu_has_amx_i8(void);

/* A library by name or path, NULL where it cannot be loaded; with the name NULL the process itself and what it is linked
 * with. Its symbols, NULL where missing. Closing NULL is allowed. */
void *cla_os_library_open(const char *name);
void *cla_os_library_symbol(void *library, const char *name);
void cla_os_library_close(void *library);

/* The path of a file in the folder of the library, or the program, that holds this code; NULL where the system does not tell. It goes
 * back through cla_host_release. */
char *cla_os_beside_library(const struct clattn_host_memory *host, const char *file);

#endif
