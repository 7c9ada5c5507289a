/* Whole files: read at an offset, read to the end, or written so that a reader sees the old file or the new
 * one and never a half. Nothing here knows a format. Called by the format readers and by all that write a
 * result. */
#ifndef CLATTN_TOOL_FILES_FILE_H
#define CLATTN_TOOL_FILES_FILE_H
#include "cli/common/text.h"

/* Bytes that a format is read from: a regular file, or memory, so that a parser has one path for both. */
typedef struct file_source {
    const char *name;            /* for error lines; not copied */
    int descriptor;              /* -1: memory */
    const unsigned char *memory; /* not copied */
    uint64_t size;               /* bytes; a parser checks against it before it allocates */
} file_source;

/* Open a regular file; pipes and folders are refused. Close it with file_close, also after a failure. */
bool file_open(const char *path, file_source *source, reason why);
void file_close(file_source *source);

file_source file_from_memory(const unsigned char *bytes, size_t count);

/* Read exactly count bytes at an offset. False: they are not all there, or the disk failed. */
bool file_read_at(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why);

/* The same of an open file, whose bounds are checked. Called by file_read_at alone. */
bool file_read_disk(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why);

/* A file to its end, in malloc'ed memory with a NUL after the last byte that *count does not count. */
bool file_read_whole(const char *path, unsigned char **bytes, size_t *count, reason why);

typedef struct file_part {
    const void *bytes;
    size_t count;
} file_part;

/* Before there are threads, of a driver's or one's own: the process's umask is read, by setting it for a moment. */
void file_begin(void);
/* Whether file_write_parts could begin now; what is asked before work whose result goes there. False: it is a folder, in
 * no folder, or protected. A full disk shows later. */
bool file_can_write(const char *path, reason why);
/* Whether what is written to `path` would replace the file that `other` names, an output or an input; a device takes any number. */
bool file_same_target(const char *path, const char *other);

/* Write the parts one after another as the file `path`: into a temporary file beside it, synced, then renamed
 * over it; on failure, and on a signal that ends the process, the temporary is removed and a file that was there is
 * untouched; on Linux it has no name until all of it is there, and what killed runs left in the folder is removed
 * first. An existing file keeps its permissions, without set-user-ID, set-group-ID and sticky; a symbolic link keeps
 * pointing where it does, also where nothing is there yet. A device or pipe, such as /dev/null, is written
 * directly. Threads: one at a time, since signal handlers are set. */
bool file_write_parts(const char *path, const file_part *parts, size_t part_count, reason why);
/* The same by several processes: one begins, with as many bytes of zero as the file will have, and tells the others the
 * temporary file's name; all write their parts of it; the one ends, which keeps the file or removes it. path is no device. */
#define FILE_NAME_MOST 4096
bool file_shared_begin(const char *path, uint64_t size, char name[FILE_NAME_MOST], reason why);
bool file_shared_end(const char *path, bool keep, reason why);
/* A part of it: opened, written at offsets, and on the disk when it is closed. */
bool file_shared_open(const char *name, int *descriptor, reason why);
bool file_shared_write(int descriptor, uint64_t offset, const void *bytes, size_t count, reason why);
bool file_shared_close(int descriptor, reason why);

bool file_write_whole(const char *path, const void *bytes, size_t count, reason why);

/* A text that is written as a file is, and is then in memory: open_memstream, and on Windows a temporary file. */
typedef struct memory_file {
    FILE *to;
    char *text; /* malloc'ed, the caller's, once it is closed */
    size_t bytes;
} memory_file;
/* `to`, or NULL: no memory. The struct must not move until it is closed. */
FILE *memory_file_open(memory_file *m);
/* The text, NULL where not all of it could be kept. */
char *memory_file_close(memory_file *m);
#endif
