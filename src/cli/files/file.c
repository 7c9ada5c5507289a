// file.c: whole files on a POSIX system; see file.h. Input must be a regular file, and no file is
// locked against other writers.
#define _GNU_SOURCE // O_TMPFILE
#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "cli/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Linux transfers at most 2^31 - 4096 bytes in one call.
#define TRANSFER_BYTES ((size_t)1 << 30)
// Linux follows as many symbolic links.
#define LINKS_MOST 40

bool file_open(const char *path, file_source *source, reason why) {
    *source = (file_source){.name = path, .descriptor = -1};
    struct stat status;
    // stat comes first, because opening a pipe would wait for a writer.
    if (stat(path, &status)) return refuse(why, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return refuse(why, "%s: not a regular file", path);
    source->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (source->descriptor < 0) return refuse(why, "%s: %s", path, strerror(errno));
    source->size = (uint64_t)status.st_size;
    return true;
}

void file_close(file_source *source) {
    if (source->descriptor >= 0) (void)close(source->descriptor);
    source->descriptor = -1;
}

bool file_read_disk(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why) {
    unsigned char *to = bytes;
    while (count) {
        ssize_t got =
            pread(source->descriptor, to, count < TRANSFER_BYTES ? count : TRANSFER_BYTES, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse(why, "%s: %s", source->name, strerror(errno));
        if (got == 0) return refuse(why, "%s: became shorter while it was read", source->name);
        to += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return true;
}

// Returns 0, or the errno of the failed write.
static int write_all(int descriptor, const file_part *parts, size_t part_count) {
    for (size_t p = 0; p < part_count; p++) {
        const unsigned char *from = parts[p].bytes;
        for (size_t left = parts[p].count; left;) {
            ssize_t put = write(descriptor, from, left < TRANSFER_BYTES ? left : TRANSFER_BYTES);
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) return errno;
            from += put;
            left -= (size_t)put;
        }
    }
    return 0;
}

static bool write_directly(const char *path, const file_part *parts, size_t part_count, reason why) {
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return refuse(why, "%s: %s", path, strerror(errno));
    int failure = write_all(descriptor, parts, part_count);
    if (close(descriptor) && !failure) failure = errno;
    return failure ? refuse(why, "%s: %s", path, strerror(failure)) : true;
}

// The length of a path's folder with its slash; 0 if the path has none.
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

// That folder, malloc'ed. NULL: no memory.
static char *folder_of(const char *path) {
    const size_t length = folder_length(path);
    return length ? strndup(path, length) : strdup(".");
}

// The path that writing to `path` changes, malloc'ed. Links are followed one by one, because the
// last may point to a file that does not exist. NULL: errno has the reason.
static char *target_of(const char *path) {
    char *at = strdup(path);
    for (int links = 0; at; links++) {
        char to[PATH_MAX];
        const ssize_t length = readlink(at, to, sizeof to - 1);
        if (length < 0) return at;
        to[length] = '\0';
        const size_t folder = to[0] == '/' ? 0 : folder_length(at);
        char *next = links < LINKS_MOST ? malloc(folder + (size_t)length + 1) : NULL;
        if (next) memcpy(next, at, folder), memcpy(next + folder, to, (size_t)length + 1);
        if (links == LINKS_MOST) errno = ELOOP;
        free(at);
        at = next;
    }
    return NULL;
}

// True if a file can be created in the folder of `target`. Otherwise errno has the reason.
static bool folder_takes_files(const char *target) {
    char *folder = folder_of(target);
    const bool good = folder && access(folder, W_OK | X_OK) == 0;
    free(folder);
    return good;
}

bool file_can_write(const char *path, reason why) {
    struct stat status;
    char *target = path[0] ? target_of(path) : NULL;
    bool good = target != NULL;
    const bool exists = good && stat(target, &status) == 0;
    const bool folder = exists && S_ISDIR(status.st_mode);
    // rename needs only a writable folder, and would replace a file that its owner has protected
    if (good) good = exists ? access(target, W_OK) == 0 : errno == ENOENT;
    if (good && (!exists || S_ISREG(status.st_mode))) good = folder_takes_files(target);
    const int failure = path[0] ? errno : ENOENT;
    free(target);
    if (folder) return refuse(why, "%s: is a folder: a file's name is needed", path);
    return good ? true : refuse(why, "%s: cannot be written: %s", path, strerror(failure));
}

bool file_same_target(const char *path, const char *other) {
    const char *const paths[] = {path, other};
    struct stat folders[2], status;
    char *targets[2] = {target_of(path), target_of(other)};
    bool same = targets[0] && targets[1];
    for (int i = 0; i < 2 && same; i++) {
        char *folder = folder_of(targets[i]);
        same = folder && stat(folder, &folders[i]) == 0;
        free(folder);
        if (stat(paths[i], &status) == 0 && !S_ISREG(status.st_mode))
            same = false; // writing to a device replaces nothing
    }
    if (same)
        same = folders[0].st_dev == folders[1].st_dev && folders[0].st_ino == folders[1].st_ino &&
               !strcmp(targets[0] + folder_length(targets[0]), targets[1] + folder_length(targets[1]));
    free(targets[0]);
    free(targets[1]);
    return same;
}

// Temporary files are named .clattn-HOST-PROCESS-NUMBER, in hexadecimal. A killed run leaves its
// file, which the next run in the same folder removes. HOST is a hash of the host's name: hosts
// that share a folder have processes of equal numbers.
#define PREFIX ".clattn-"
#define LOOKED_AT_MOST 100000 // entries of a folder; bounds the time for cleaning up

// FNV-1a, 32 bits.
static unsigned long host_number(void) {
    char name[256] = "";
    uint32_t hash = 0x811c9dc5u;
    (void)gethostname(name, sizeof name - 1);
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x01000193u;
    return hash;
}

// Write the name of a temporary file in the folder of `target`. -1: the name does not fit.
static int leftovers_name(char *name, size_t size, const char *target, unsigned long n) {
    const int length = snprintf(name, size, "%.*s" PREFIX "%lx-%lx-%lx", (int)folder_length(target), target,
                                host_number(), (unsigned long)getpid(), n);
    return length < 0 || (size_t)length >= size ? -1 : 0;
}

// Lock a file that is being written, so that other processes do not remove it as a leftover.
static void leftovers_hold(int descriptor) {
    (void)flock(descriptor, LOCK_EX | LOCK_NB);
}

// Parse hexadecimal digits followed by `end`.
static bool take(const char **at, char end, unsigned long *number) {
    static const char digits[] = "0123456789abcdef";
    int count = 0;
    *number = 0;
    for (const char *digit; **at && (digit = strchr(digits, **at)) && count < 15; ++*at, count++)
        *number = *number << 4 | (unsigned long)(digit - digits);
    return count && *(*at)++ == end;
}

static bool is_of_gone_process(const char *name) {
    const char *at = name + sizeof PREFIX - 1;
    unsigned long host, process, n;
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) || !take(&at, '-', &host) || !take(&at, '-', &process) ||
        !take(&at, '\0', &n) || host != host_number() || process == 0 || process > INT32_MAX)
        return false;
    return kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

static void remove_one(int folder, const char *name) {
    struct stat status;
    const int descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        // A shared lock, because NFS allows no other on a file opened for reading.
        flock(descriptor, LOCK_SH | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    (void)close(descriptor);
}

// Remove temporary files in the target's folder that an ended process of this user on this host
// left behind. A file stays if any process has locked it, even in another container.
static void leftovers_remove(const char *target) {
    char *path = folder_of(target);
    DIR *entries = path ? opendir(path) : NULL;
    free(path);
    if (!entries) return;
    const struct dirent *entry;
    for (int n = 0; n < LOOKED_AT_MOST && (entry = readdir(entries)) != NULL; n++)
        if (is_of_gone_process(entry->d_name)) remove_one(dirfd(entries), entry->d_name);
    (void)closedir(entries);
}

// The umask can only be read by setting it. A file that another thread creates at that moment would
// be writable by all: call file_begin before there are threads.
static mode_t mask;
static bool mask_is_known;

void file_begin(void) {
    if (mask_is_known) return;
    mask = umask(0);
    (void)umask(mask);
    mask_is_known = true;
}

static mode_t default_mode(void) {
    file_begin();
    return 0666 & ~mask;
}

// The temporary file that a signal handler removes. A handler may read these variables and call
// unlink.
static char temporary[PATH_MAX];
static volatile sig_atomic_t temporary_is_there;
static const int ending[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,   SIGPIPE, SIGALRM,
                             SIGUSR1, SIGUSR2, SIGPROF, SIGVTALRM, SIGXCPU, SIGXFSZ};
#define ENDING (sizeof ending / sizeof *ending)
static struct sigaction before[ENDING];

// Remove the temporary file. The signal then has its previous effect, after this function returns.
static void end_without_temporary(int number) {
    if (temporary_is_there) (void)unlink(temporary);
    for (size_t i = 0; i < ENDING; i++)
        if (ending[i] == number) (void)sigaction(number, &before[i], NULL);
    (void)raise(number);
}

static void watch_signals(bool watch) {
    struct sigaction ours = {.sa_handler = end_without_temporary};
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < ENDING; i++) {
        if (!watch) (void)sigaction(ending[i], &before[i], NULL);
        if (watch && sigaction(ending[i], &ours, &before[i]) == 0 && before[i].sa_handler != SIG_DFL)
            // Restore an ignored or handled signal, as under nohup: it does not end the process.
            (void)sigaction(ending[i], &before[i], NULL);
    }
}

// Name the temporary file beside the target: create a new file, or link the descriptor `unnamed`.
// The name is short, because the target's name may already have the maximum length. The handler
// knows the name before the file exists. -1: errno has the reason.
static int create_temporary(const char *target, int unnamed) {
    char from[64];
    (void)snprintf(from, sizeof from, "/proc/self/fd/%d", unnamed);
    for (unsigned n = 0; n < 100; n++) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (leftovers_name(temporary, sizeof temporary, target, (unsigned long)now.tv_nsec + n))
            return errno = ENAMETOOLONG, -1;
        temporary_is_there = 1;
        const int descriptor = unnamed >= 0 ? linkat(AT_FDCWD, from, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW)
                                            : open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (descriptor >= 0) return unnamed >= 0 ? unnamed : (leftovers_hold(descriptor), descriptor);
        temporary_is_there = 0;
        if (errno != EEXIST) return -1;
    }
    return -1;
}

// Create a file without a name in the target's folder, so that a killed run leaves nothing. It
// later needs a temporary name for a moment, because linkat cannot replace the target. -1: the
// system does not support this.
static int create_unnamed(const char *target) {
#ifdef O_TMPFILE
    char *folder = folder_of(target);
    const bool can = folder && access("/proc/self/fd", X_OK) == 0;
    const int descriptor = can ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600) : -1;
    free(folder);
    if (descriptor >= 0) leftovers_hold(descriptor);
    return descriptor;
#else
    (void)target;
    return -1;
#endif
}

// Replace the target. Returns 0 or an errno. The temporary file is removed in either case.
static int replace(const char *target, mode_t mode, const file_part *parts, size_t part_count) {
    leftovers_remove(target);
    watch_signals(true);
    const int unnamed = create_unnamed(target);
    const int descriptor = unnamed < 0 ? create_temporary(target, -1) : unnamed;
    int failure = descriptor < 0 ? errno : write_all(descriptor, parts, part_count);
    if (!failure && fchmod(descriptor, mode)) failure = errno;
    if (!failure && fsync(descriptor)) failure = errno;
    if (!failure && unnamed >= 0 && create_temporary(target, unnamed) < 0) failure = errno;
    if (!failure && rename(temporary, target)) failure = errno;
    if (failure && temporary_is_there) (void)unlink(temporary);
    if (descriptor >= 0) (void)close(descriptor); // all data is already on the disk
    temporary_is_there = 0;
    watch_signals(false);
    return failure;
}

bool file_write_parts(const char *path, const file_part *parts, size_t part_count, reason why) {
    struct stat status;
    if (!file_can_write(path, why)) return false;
    const bool exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode)) return write_directly(path, parts, part_count, why);
    char *target = target_of(path);
    // Drop set-user-ID, set-group-ID and sticky: they belonged to the old contents, perhaps of
    // another user.
    const mode_t mode = exists ? status.st_mode & 0777 : default_mode();
    const int failure = target ? replace(target, mode, parts, part_count) : errno;
    free(target);
    return failure ? refuse(why, "%s: %s", path, strerror(failure)) : true;
}

// The first process's descriptor, open until the temporary file is renamed or removed.
static int shared = -1;

bool file_shared_begin(const char *path, uint64_t size, char name[FILE_NAME_MOST], reason why) {
    struct stat status;
    if (!file_can_write(path, why)) return false;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return refuse(why, "%s: not a regular file", path);
    char *target = target_of(path);
    if (target) leftovers_remove(target);
    watch_signals(true);
    shared = target ? create_temporary(target, -1) : -1;
    int failure = shared < 0 ? errno : 0;
    if (!failure && ftruncate(shared, (off_t)size)) failure = errno;
    free(target);
    (void)snprintf(name, FILE_NAME_MOST, "%s", temporary);
    if (!failure) return true;
    (void)file_shared_end(path, false, why);
    return refuse(why, "%s: %s", path, strerror(failure));
}

bool file_shared_end(const char *path, bool keep, reason why) {
    struct stat status;
    char *target = target_of(path);
    int failure = target ? 0 : errno;
    const mode_t mode = stat(path, &status) == 0 ? status.st_mode & 0777 : default_mode();
    if (keep && !failure && (chmod(temporary, mode) || rename(temporary, target))) failure = errno;
    if ((!keep || failure) && temporary_is_there) (void)unlink(temporary);
    if (shared >= 0) (void)close(shared);
    shared = -1;
    temporary_is_there = 0;
    watch_signals(false);
    free(target);
    return keep && failure ? refuse(why, "%s: %s", path, strerror(failure)) : true;
}

bool file_shared_open(const char *name, int *descriptor, reason why) {
    *descriptor = open(name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return *descriptor >= 0 ? true : refuse(why, "%s: %s", name, strerror(errno));
}

bool file_shared_write(int descriptor, uint64_t offset, const void *bytes, size_t count, reason why) {
    const unsigned char *from = bytes;
    while (count) {
        const ssize_t put =
            pwrite(descriptor, from, count < TRANSFER_BYTES ? count : TRANSFER_BYTES, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return refuse(why, "the output: %s", strerror(errno));
        from += put, offset += (uint64_t)put, count -= (size_t)put;
    }
    return true;
}

bool file_shared_close(int descriptor, reason why) {
    const int failure = fsync(descriptor) ? errno : 0;
    return (close(descriptor) == 0 && !failure)
               ? true
               : refuse(why, "the output: %s", strerror(failure ? failure : errno));
}
