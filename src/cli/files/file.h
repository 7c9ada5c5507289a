// file.h: whole files: read at an offset, read to the end, or written atomically, so that a reader
// sees either the old or the new file. Knows no file format.
#ifndef CLATTN_CLI_FILES_FILE_H
#define CLATTN_CLI_FILES_FILE_H
#include "cli/common/text.h"

// The source of a parser's bytes: a regular file or memory.
typedef struct file_source {
    const char *name;            // for error lines; not copied
    int descriptor;              // -1: memory
    const unsigned char *memory; // not copied
    uint64_t size;               // bytes; parsers check sizes against it before they allocate
} file_source;

// Open a regular file; pipes and folders are errors. Call file_close also after a failure.
bool file_open(const char *path, file_source *source, reason why);
void file_close(file_source *source);

file_source file_from_memory(const unsigned char *bytes, size_t count);

// Read exactly `count` bytes at an offset. False: the source is shorter, or reading failed.
bool file_read_at(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why);

// As file_read_at for a file, with bounds already checked. Called only by file_read_at.
bool file_read_disk(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why);

// Read a file to its end into malloc'ed memory. A NUL follows the last byte and is not counted in
// *count.
bool file_read_whole(const char *path, unsigned char **bytes, size_t *count, reason why);

typedef struct file_part {
    const void *bytes;
    size_t count;
} file_part;

// Read the process's umask, by setting it for a moment. Call this before there are threads,
// including a driver's.
void file_begin(void);
// True if file_write_parts could begin now. Checked before long work whose result goes to `path`.
// False: it is a folder, its folder does not exist, or it is protected. A full disk shows later.
bool file_can_write(const char *path, reason why);
// True if writing to `path` would replace the file `other`. Devices never match.
bool file_same_target(const char *path, const char *other);

// Write the parts in order to the file `path` atomically: to a temporary file beside it, which is
// synced and renamed.
//
//    Failure or a signal   the temporary file is removed, and the old file stays
//    Permissions           kept, except set-user-ID, set-group-ID and sticky
//    Symbolic links        followed, even to a file that does not exist yet
//    Devices, pipes        written directly
//    Threads               one at a time, because signal handlers are set
bool file_write_parts(const char *path, const file_part *parts, size_t part_count, reason why);
// Write one file from several processes. The first process calls file_shared_begin, which creates a
// temporary file of `size` zero bytes, and passes its name to the others. All write their parts.
// The first process calls file_shared_end, which renames or removes the file. `path` must not be a
// device.
#define FILE_NAME_MOST 4096
bool file_shared_begin(const char *path, uint64_t size, char name[FILE_NAME_MOST], reason why);
bool file_shared_end(const char *path, bool keep, reason why);
// Write a part: open, write at offsets, close. file_shared_close syncs the data.
bool file_shared_open(const char *name, int *descriptor, reason why);
bool file_shared_write(int descriptor, uint64_t offset, const void *bytes, size_t count, reason why);
bool file_shared_close(int descriptor, reason why);

bool file_write_whole(const char *path, const void *bytes, size_t count, reason why);

// Text that is written through a FILE and then available in memory: open_memstream, or a temporary
// file on Windows.
typedef struct memory_file {
    FILE *to;
    char *text; // malloc'ed; the caller owns it after closing
    size_t bytes;
} memory_file;
// Returns `to`, or NULL without memory. The struct must not move until it is closed.
FILE *memory_file_open(memory_file *m);
// Returns the text, or NULL if it is incomplete.
char *memory_file_close(memory_file *m);
#endif
