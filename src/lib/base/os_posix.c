/* os_posix.c: os.h on POSIX.1-2008 systems. Files are opened relative to the folder's descriptor
 * and never through a symbolic link. So the checks made when the folder was opened still hold
 * when a file in it is used. */
#define _POSIX_C_SOURCE 200809L
#define _GNU_SOURCE      /* syscall(), dladdr() */
#define _DARWIN_C_SOURCE /* dladdr() */
#include "base/os.h"

#include "base/host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__) && defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__)
#include <cpuid.h>
#include <sys/syscall.h>
#define HAS_TILE_PERMISSION
#endif

#ifdef __APPLE__
#define st_mtim st_mtimespec /* macOS names the field so when _DARWIN_C_SOURCE is defined */
#endif

uint64_t cla_os_time_ns(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t cla_os_date_s(void) {
    const time_t now = time(NULL);
    return now > 0 ? (int64_t)now : 0;
}

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(os_mutex), "os_mutex holds a pthread mutex");
_Static_assert(alignof(pthread_mutex_t) <= alignof(os_mutex), "os_mutex is aligned for a pthread mutex");

static pthread_mutex_t *native(os_mutex *mutex) {
    return (pthread_mutex_t *)(void *)mutex;
}

bool cla_os_mutex_init(os_mutex *mutex) {
    return pthread_mutex_init(native(mutex), NULL) == 0;
}
void cla_os_mutex_lock(os_mutex *mutex) {
    (void)pthread_mutex_lock(native(mutex));
}
void cla_os_mutex_unlock(os_mutex *mutex) {
    (void)pthread_mutex_unlock(native(mutex));
}
void cla_os_mutex_destroy(os_mutex *mutex) {
    (void)pthread_mutex_destroy(native(mutex));
}

_Static_assert(sizeof(pthread_cond_t) <= sizeof(os_condition), "os_condition holds a pthread condition");
_Static_assert(alignof(pthread_cond_t) <= alignof(os_condition),
               "os_condition is aligned for a pthread condition");

static pthread_cond_t *native_condition(os_condition *condition) {
    return (pthread_cond_t *)(void *)condition;
}

bool cla_os_condition_init(os_condition *condition) {
    return pthread_cond_init(native_condition(condition), NULL) == 0;
}
void cla_os_condition_wait(os_condition *condition, os_mutex *held) {
    (void)pthread_cond_wait(native_condition(condition), native(held));
}
void cla_os_condition_wait_for(os_condition *condition, os_mutex *held, uint64_t ns) {
    const uint64_t second = 1000000000;
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / second);
    until.tv_nsec = (long)(ns % second);
    (void)pthread_cond_timedwait(native_condition(condition), native(held), &until);
}
void cla_os_condition_wake_all(os_condition *condition) {
    (void)pthread_cond_broadcast(native_condition(condition));
}
void cla_os_condition_destroy(os_condition *condition) {
    (void)pthread_cond_destroy(native_condition(condition));
}

struct os_watch {
    pthread_t thread;
    os_mutex lock; /* guards `over` */
    os_condition woken;
    bool over;
    struct timespec until;
    void (*see)(void *user);
    void *user;
    const struct clattn_host_memory *host;
};

static void *watch(void *own) {
    os_watch *w = own;
    int code = 0;
    cla_os_mutex_lock(&w->lock);
    while (!w->over && code == 0)
        code = pthread_cond_timedwait(native_condition(&w->woken), native(&w->lock), &w->until);
    const bool over = w->over;
    cla_os_mutex_unlock(&w->lock);
    if (!over && code == ETIMEDOUT) w->see(w->user);
    return NULL;
}

#define WATCH_STACK_BYTES ((size_t)8 << 20)

static bool start_watch(os_watch *w) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    pthread_attr_t large;
    const bool sized = pthread_attr_init(&large) == 0;
    // The thread may run a compiler. The default stack of macOS and musl, 512 KiB or less, is too
    // small for that.
    if (sized) (void)pthread_attr_setstacksize(&large, WATCH_STACK_BYTES);
    const bool started = pthread_create(&w->thread, sized ? &large : NULL, watch, w) == 0;
    if (sized) (void)pthread_attr_destroy(&large);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void release_watch(os_watch *w) {
    cla_os_condition_destroy(&w->woken);
    cla_os_mutex_destroy(&w->lock);
    cla_host_release(w->host, w);
}

os_watch *cla_os_watch_begin(const struct clattn_host_memory *host, unsigned seconds, void (*see)(void *user),
                             void *user) {
    os_watch *w = cla_host_take_zeroed(host, 1, sizeof *w);
    if (!w) return NULL;
    w->see = see, w->user = user, w->host = host;
    (void)clock_gettime(CLOCK_REALTIME, &w->until);
    w->until.tv_sec += (time_t)seconds;
    if (!cla_os_mutex_init(&w->lock)) {
        cla_host_release(host, w);
        return NULL;
    }
    if (!cla_os_condition_init(&w->woken)) {
        cla_os_mutex_destroy(&w->lock);
        cla_host_release(host, w);
        return NULL;
    }
    if (start_watch(w)) return w;
    release_watch(w);
    return NULL;
}

void cla_os_watch_end(os_watch *w) {
    if (!w) return;
    cla_os_mutex_lock(&w->lock);
    w->over = true;
    cla_os_condition_wake_all(&w->woken);
    cla_os_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    release_watch(w);
}

struct os_folder {
    int fd;
    const struct clattn_host_memory *host;
};

static bool ours_alone(const struct stat *info) {
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Copy the path without trailing "/" and "/.", with which the system would follow a link in the
 * last component. */
static char *without_trailing_slashes(const struct clattn_host_memory *host, const char *path) {
    size_t length = strlen(path);
    char *copy = cla_host_take(host, length + 1);
    if (!copy) return NULL;
    memcpy(copy, path, length + 1);
    while (length > 1 &&
           (copy[length - 1] == '/' || (length > 2 && copy[length - 1] == '.' && copy[length - 2] == '/')))
        copy[--length] = '\0';
    return copy;
}

static int open_directory(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_or_make_directory(const char *path) {
    const int fd = open_directory(path);
    if (fd >= 0 || errno != ENOENT) return fd;
    /* EEXIST: another process has just created it. The second open checks what it created. */
    if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST) return -1;
    return open_directory(path);
}

static const char *why_not_open(int code) {
    switch (code) {
    case ELOOP:
    case ENOTDIR:
        return "it is a symbolic link or no folder";
    case ENOENT:
        return "the folder that it should lie in is missing";
    case EACCES:
    case EPERM:
    case EROFS:
        return "this user may not open or create it";
    default:
        return "the system does not open it";
    }
}

os_folder *cla_os_folder_open(const char *path, const struct clattn_host_memory *host, const char **why) {
    char *bare = without_trailing_slashes(host, path);
    struct stat info = {0};
    *why = "no memory";
    if (!bare) return NULL;
    const int fd = open_or_make_directory(bare);
    if (fd < 0) *why = why_not_open(errno);
    cla_host_release(host, bare);
    if (fd < 0) return NULL;
    const bool ours = fstat(fd, &info) == 0 && ours_alone(&info);
    os_folder *folder = ours ? cla_host_take(host, sizeof *folder) : NULL;
    if (!ours) *why = "it belongs to another user, or group or others may write it";
    if (folder)
        *folder = (os_folder){.fd = fd, .host = host};
    else
        (void)close(fd);
    return folder;
}

void cla_os_folder_close(os_folder *folder) {
    if (!folder) return;
    (void)close(folder->fd);
    cla_host_release(folder->host, folder);
}

/* Read up to `capacity` bytes. Fewer are read only at the end of the file. Returns -1 on an
 * error. */
static ssize_t read_up_to(int fd, unsigned char *bytes, size_t capacity) {
    size_t done = 0;
    while (done < capacity) {
        const ssize_t n = read(fd, bytes + done, capacity - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static bool read_open_file(const struct clattn_host_memory *host, int fd, size_t max_bytes,
                           unsigned char **bytes, size_t *count) {
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || !ours_alone(&info)) return false;
    if (info.st_size < 0 || (uint64_t)info.st_size > max_bytes) return false;
    const size_t size = (size_t)info.st_size;
    /* Read one byte more than the size, to notice a file that has grown since. */
    unsigned char *buffer = cla_host_take(host, size + 1);
    if (!buffer) return false;
    if (read_up_to(fd, buffer, size + 1) != (ssize_t)size) {
        cla_host_release(host, buffer);
        return false;
    }
    *bytes = buffer;
    *count = size;
    return true;
}

bool cla_os_folder_read(os_folder *folder, const char *name, size_t max_bytes, unsigned char **bytes,
                        size_t *count) {
    /* O_NONBLOCK: without it, opening a pipe of that name would wait for a writer. */
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    const bool done = read_open_file(folder->host, fd, max_bytes, bytes, count);
    (void)close(fd);
    return done;
}

enum { TEMPORARY_NAME_BYTES = 64, TEMPORARY_NAME_TRIES = 100 };

/* O_EXCL makes the name unique. Process id and time only make collisions rare, also between
 * containers that share the folder and have equal process ids. */
static int create_temporary(const os_folder *folder, char name[TEMPORARY_NAME_BYTES]) {
    int fd = -1;
    for (int i = 0; i < TEMPORARY_NAME_TRIES && fd < 0; i++) {
        (void)snprintf(name, TEMPORARY_NAME_BYTES, OS_TEMPORARY "%lx-%llx", (unsigned long)getpid(),
                       (unsigned long long)cla_os_time_ns());
        fd =
            openat(folder->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
        if (fd < 0 && errno != EEXIST && errno != EINTR) break;
    }
    return fd;
}

static bool write_all(int fd, const unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        const ssize_t n = write(fd, bytes + done, count - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool cla_os_folder_write(os_folder *folder, const char *name, const void *bytes, size_t count) {
    char temporary[TEMPORARY_NAME_BYTES];
    const int fd = create_temporary(folder, temporary);
    if (fd < 0) return false;
    /* Write the data to the disk before the rename. Otherwise a power cut could leave a file of
     * zeros. */
    bool done = write_all(fd, bytes, count) && fsync(fd) == 0;
    done = close(fd) == 0 && done;
    if (done && renameat(folder->fd, temporary, folder->fd, name) != 0)
        done = (errno == EISDIR || errno == EEXIST) && unlinkat(folder->fd, name, AT_REMOVEDIR) == 0 &&
               renameat(folder->fd, temporary, folder->fd, name) == 0;
    if (!done) (void)unlinkat(folder->fd, temporary, 0);
    return done;
}

void cla_os_folder_remove(os_folder *folder, const char *name) {
    (void)unlinkat(folder->fd, name, 0);
}

void cla_os_folder_touch(os_folder *folder, const char *name) {
    (void)utimensat(folder->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/* The handle stores the descriptor plus one, because descriptor 0 is valid. flock's lock ends
 * with the process. */
static int held_descriptor(const os_held *held) {
    return (int)((intptr_t)held->handle - 1);
}

bool cla_os_folder_hold(os_folder *folder, const char *name, bool creates, os_held *held) {
    struct stat info;
    unsigned char digit = '0';
    *held = (os_held){.handle = NULL};
    const int fd = openat(folder->fd, name,
                          O_RDWR | (creates ? O_CREAT : 0) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                          S_IRUSR | S_IWUSR);
    if (fd < 0) return false;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        !ours_alone(&info)) {
        (void)close(fd);
        return false;
    }
    if (read_up_to(fd, &digit, 1) == 1 && digit >= '0' && digit <= '9') held->number = digit - '0';
    held->handle = (void *)((intptr_t)fd + 1);
    return true;
}

void cla_os_held_set(os_held *held, int number) {
    const unsigned char digit = (unsigned char)('0' + (number > 9 ? 9 : number));
    if (held->handle && pwrite(held_descriptor(held), &digit, 1, 0) == 1) held->number = number;
}

/* Remove before unlock: a process that has opened the removed file and locks it next reads 0. */
void cla_os_held_let_go(os_folder *folder, const char *name, os_held *held) {
    if (!held->handle) return;
    if (!held->number) (void)unlinkat(folder->fd, name, 0);
    (void)close(held_descriptor(held));
    held->handle = NULL;
}

/* True if it is a plain file whose name fits into os_file. */
static bool describe(const os_folder *folder, const char *name, const struct timespec *now, os_file *file) {
    struct stat info;
    if (strlen(name) >= sizeof file->name || fstatat(folder->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode) || info.st_size < 0)
        return false;
    const int64_t age = ((int64_t)now->tv_sec - (int64_t)info.st_mtim.tv_sec) * 1000000000 +
                        (now->tv_nsec - info.st_mtim.tv_nsec);
    *file = (os_file){.bytes = (uint64_t)info.st_size, .age_ns = age > 0 ? (uint64_t)age : 0};
    memcpy(file->name, name, strlen(name) + 1);
    return true;
}

void cla_os_folder_visit(os_folder *folder, void (*see)(void *user, const os_file *file), void *user) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    /* Use a second descriptor, because reading the folder moves its descriptor's position. */
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0) (void)close(fd);
        return;
    }
    for (struct dirent *e = readdir(entries); e; e = readdir(entries)) {
        os_file file;
        if (describe(folder, e->d_name, &now, &file)) see(user, &file);
    }
    (void)closedir(entries);
}

bool cla_os_cpu_has_dot_bf16(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

#ifdef HAS_TILE_PERMISSION
/* CPUID leaf 7: bits for AMX-BF16 (1), AMX-TILE (4) and AMX-INT8 (8). */
static unsigned cpu_tiles(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) ? d >> 22 & 13u : 0;
}
static bool cpu_has_tiles(void) {
    return (cpu_tiles() & 5u) == 5u;
}
bool cla_os_cpu_has_amx_i8(void) {
    return (cpu_tiles() & 12u) == 12u;
}

/* True if the system saves the tiles' shape and data (XCR0 bits 17 and 18). XGETBV needs
 * OSXSAVE. */
static bool system_saves_tiles(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1u)) return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a >> 17 & 3u) == 3u;
}

bool cla_os_request_amx(void) {
    /* From asm/prctl.h, Linux 5.16. */
    enum { GET_PERMITTED = 0x1022, REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned long permitted = 0;
    if (!cpu_has_tiles() || !system_saves_tiles()) return false;
    (void)syscall(SYS_arch_prctl, REQUEST, TILE_DATA);
    /* Kernels before 5.16 reject both requests. Only the permission that is granted now counts. */
    return syscall(SYS_arch_prctl, GET_PERMITTED, &permitted) == 0 && (permitted >> TILE_DATA & 1u);
}
#else
bool cla_os_request_amx(void) {
    return false;
}
bool cla_os_cpu_has_amx_i8(void) {
    return false;
}
#endif

void *cla_os_library_open(const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *cla_os_library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

void cla_os_library_close(void *library) {
    if (library) (void)dlclose(library);
}

char *cla_os_beside_library(const struct clattn_host_memory *host, const char *file) {
    /* Copy the function's address as bytes: ISO C has no cast from a function pointer to an
     * object pointer. */
    char *(*const here)(const struct clattn_host_memory *, const char *) = cla_os_beside_library;
    void *address = NULL;
    Dl_info info = {0};
    memcpy(&address, &here, sizeof address);
    const char *slash = dladdr(address, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    if (!slash) return NULL; /* the program's name was found through PATH: its folder is unknown */
    const size_t folder = (size_t)(slash - info.dli_fname) + 1, name = strlen(file) + 1;
    char *path = cla_host_take(host, folder + name);
    if (!path) return NULL;
    memcpy(path, info.dli_fname, folder);
    memcpy(path + folder, file, name);
    return path;
}
