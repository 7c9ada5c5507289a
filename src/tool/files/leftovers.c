/* Temporary files of killed runs: see leftovers.h. A name is .clattn-HOST-PROCESS-NUMBER in hexadecimal digits, of
 * which the host is a hash of its name, since folders are shared between hosts, whose processes have numbers of their
 * own. */
#define _XOPEN_SOURCE 700
#include "tool/files/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".clattn-"
#define LOOKED_AT_MOST 100000 /* of a folder's entries: this is a service, and no work */

/* FNV-1a, of 32 bits. */
static unsigned long host_number(void) {
    char name[256] = "";
    uint32_t hash = 0x811c9dc5u;
    (void)gethostname(name, sizeof name - 1);
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x01000193u;
    return hash;
}

int leftovers_name(char *name, size_t size, const char *target, size_t folder, unsigned long n) {
    const int length = snprintf(name, size, "%.*s" PREFIX "%lx-%lx-%lx", (int)folder, target, host_number(),
                                (unsigned long)getpid(), n);
    return length < 0 || (size_t)length >= size ? -1 : 0;
}

void leftovers_hold(int descriptor) {
    (void)flock(descriptor, LOCK_EX | LOCK_NB);
}

/* Hexadecimal digits, and what ends them. */
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
        flock(descriptor, LOCK_SH | LOCK_NB) == 0) /* as NFS takes it of a file that is open to be read */
        (void)unlinkat(folder, name, 0);
    (void)close(descriptor);
}

void leftovers_remove(const char *target, size_t folder) {
    char *path = folder ? strdup(target) : strdup(".");
    if (path && folder) path[folder] = '\0';
    DIR *entries = path ? opendir(path) : NULL;
    free(path);
    if (!entries) return;
    const struct dirent *entry;
    for (int n = 0; n < LOOKED_AT_MOST && (entry = readdir(entries)) != NULL; n++)
        if (is_of_gone_process(entry->d_name)) remove_one(dirfd(entries), entry->d_name);
    (void)closedir(entries);
}
