/* Whole files on a POSIX system: see file.h. Leaves out pipes as input and any locking. Called by the format
 * readers, the pictures and all that write a result. */
#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "refuse.h"

/* Linux moves at most 2^31 - 4096 bytes in one call. */
#define TRANSFER_BYTES ((size_t)1 << 30)

bool file_open(const char *path, file_source *source, char *error, size_t error_size) {
    *source = (file_source){.name = path, .descriptor = -1};
    struct stat status;
    /* stat comes first: opening a pipe would wait for a writer. */
    if (stat(path, &status)) return refuse(error, error_size, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return refuse(error, error_size, "%s: not a regular file", path);
    source->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (source->descriptor < 0) return refuse(error, error_size, "%s: %s", path, strerror(errno));
    source->size = (uint64_t)status.st_size;
    return true;
}

void file_close(file_source *source) {
    if (source->descriptor >= 0) (void)close(source->descriptor);
    source->descriptor = -1;
}

file_source file_from_memory(const unsigned char *bytes, size_t count) {
    return (file_source){.name = "memory", .descriptor = -1, .memory = bytes, .size = count};
}

bool file_read_at(const file_source *source, uint64_t offset, void *bytes, size_t count, char *error,
                  size_t error_size) {
    if (offset > source->size || count > source->size - offset)
        return refuse(error, error_size, "%s: ends early, at byte %llu", source->name,
                      (unsigned long long)source->size);
    if (source->descriptor < 0) {
        if (count) memcpy(bytes, source->memory + offset, count);
        return true;
    }
    unsigned char *to = bytes;
    while (count) {
        ssize_t got =
            pread(source->descriptor, to, count < TRANSFER_BYTES ? count : TRANSFER_BYTES, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse(error, error_size, "%s: %s", source->name, strerror(errno));
        if (got == 0) return refuse(error, error_size, "%s: became shorter while it was read", source->name);
        to += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return true;
}

bool file_read_whole(const char *path, unsigned char **bytes, size_t *count, char *error, size_t error_size) {
    file_source source;
    unsigned char *memory = NULL;
    bool done = false;
    if (!file_open(path, &source, error, error_size)) goto end;
    if (source.size < SIZE_MAX) memory = malloc((size_t)source.size + 1);
    if (!memory) {
        refuse(error, error_size, "%s: no memory for %llu bytes", path, (unsigned long long)source.size);
        goto end;
    }
    if (!file_read_at(&source, 0, memory, (size_t)source.size, error, error_size)) goto end;
    memory[source.size] = 0;
    *bytes = memory;
    *count = (size_t)source.size;
    memory = NULL;
    done = true;
end:
    free(memory);
    file_close(&source);
    return done;
}

/* 0, or the errno of the write that failed. */
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

static bool write_directly(const char *path, const file_part *parts, size_t part_count, char *error,
                           size_t error_size) {
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return refuse(error, error_size, "%s: %s", path, strerror(errno));
    int failure = write_all(descriptor, parts, part_count);
    if (close(descriptor) && !failure) failure = errno;
    return failure ? refuse(error, error_size, "%s: %s", path, strerror(failure)) : true;
}

/* "FOLDER/.clattn-XXXXXX": a short name of its own, since the target's may already be as long as a name can
 * be. */
static char *temporary_beside(const char *target) {
    static const char name[] = ".clattn-XXXXXX";
    const char *slash = strrchr(target, '/');
    size_t folder = slash ? (size_t)(slash - target) + 1 : 0;
    char *temporary = malloc(folder + sizeof name);
    if (!temporary) return NULL;
    memcpy(temporary, target, folder);
    memcpy(temporary + folder, name, sizeof name);
    return temporary;
}

static mode_t default_mode(void) {
    mode_t mask = umask(0);
    (void)umask(mask);
    return 0666 & ~mask;
}

/* 0, or an errno; the temporary file is gone either way. */
static int replace(const char *target, char *temporary, mode_t mode, const file_part *parts,
                   size_t part_count) {
    int descriptor = mkstemp(temporary);
    if (descriptor < 0) return errno;
    int failure = write_all(descriptor, parts, part_count);
    if (!failure && fchmod(descriptor, mode)) failure = errno;
    if (!failure && fsync(descriptor)) failure = errno;
    if (close(descriptor) && !failure) failure = errno;
    if (!failure && rename(temporary, target)) failure = errno;
    if (failure) (void)unlink(temporary);
    return failure;
}

bool file_write_parts(const char *path, const file_part *parts, size_t part_count, char *error,
                      size_t error_size) {
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return refuse(error, error_size, "%s: is a folder", path);
    if (exists && !S_ISREG(status.st_mode)) return write_directly(path, parts, part_count, error, error_size);
    /* A rename needs only a writable folder and would go over a file that its owner has protected. */
    if (exists && access(path, W_OK)) return refuse(error, error_size, "%s: %s", path, strerror(errno));
    char *target = exists ? realpath(path, NULL) : NULL;
    char *temporary = temporary_beside(target ? target : path);
    int failure = ENOMEM;
    if (temporary && (target || !exists)) {
        mode_t mode = exists ? status.st_mode & 07777 : default_mode();
        failure = replace(target ? target : path, temporary, mode, parts, part_count);
    }
    free(temporary);
    free(target);
    return failure ? refuse(error, error_size, "%s: %s", path, strerror(failure)) : true;
}

bool file_write_whole(const char *path, const void *bytes, size_t count, char *error, size_t error_size) {
    return file_write_parts(path, &(file_part){bytes, count}, 1, error, error_size);
}
