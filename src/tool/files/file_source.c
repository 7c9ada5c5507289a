/* What of file.h is the same on every system: memory in place of a file, bounds, a file to its end. */
#include "tool/files/file.h"

#include <stdlib.h>
#include <string.h>

#include "tool/cli/refuse.h"

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
    return file_read_disk(source, offset, bytes, count, error, error_size);
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

bool file_write_whole(const char *path, const void *bytes, size_t count, char *error, size_t error_size) {
    return file_write_parts(path, &(file_part){bytes, count}, 1, error, error_size);
}
