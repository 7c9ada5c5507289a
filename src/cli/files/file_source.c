// file_source.c: the parts of file.h that are equal on every system: memory as a source, bounds,
// reading to the end, and text in memory.
#include "cli/files/file.h"

file_source file_from_memory(const unsigned char *bytes, size_t count) {
    return (file_source){.name = "memory", .descriptor = -1, .memory = bytes, .size = count};
}

bool file_read_at(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why) {
    if (offset > source->size || count > source->size - offset)
        return refuse(why, "%s: ends early, at byte %llu", source->name, (unsigned long long)source->size);
    if (source->descriptor < 0) {
        if (count) memcpy(bytes, source->memory + offset, count);
        return true;
    }
    return file_read_disk(source, offset, bytes, count, why);
}

bool file_read_whole(const char *path, unsigned char **bytes, size_t *count, reason why) {
    file_source source;
    unsigned char *memory = NULL;
    bool done = false;
    if (!file_open(path, &source, why)) goto end;
    if (source.size < SIZE_MAX) memory = malloc((size_t)source.size + 1);
    if (!memory) {
        refuse(why, "%s: no memory for %llu bytes", path, (unsigned long long)source.size);
        goto end;
    }
    if (!file_read_at(&source, 0, memory, (size_t)source.size, why)) goto end;
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

bool file_write_whole(const char *path, const void *bytes, size_t count, reason why) {
    return file_write_parts(path, &(file_part){bytes, count}, 1, why);
}

#ifdef _WIN32
FILE *memory_file_open(memory_file *m) {
    char *name = _tempnam(NULL, "clattn");
    // short-lived and deleted when closed
    *m = (memory_file){.to = name ? fopen(name, "w+bTD") : NULL};
    free(name);
    return m->to;
}

char *memory_file_close(memory_file *m) {
    const long end = ferror(m->to) || fseek(m->to, 0, SEEK_END) ? -1 : ftell(m->to);
    if (end >= 0) m->text = malloc((size_t)end + 1);
    if (m->text) {
        rewind(m->to);
        m->bytes = fread(m->text, 1, (size_t)end, m->to);
        m->text[m->bytes] = '\0';
        if (m->bytes != (size_t)end) free(m->text), m->text = NULL;
    }
    (void)fclose(m->to);
    return m->text;
}
#else
FILE *memory_file_open(memory_file *m) {
    *m = (memory_file){.text = NULL};
    return m->to = open_memstream(&m->text, &m->bytes);
}

char *memory_file_close(memory_file *m) {
    const int failed = ferror(m->to);
    if (fclose(m->to) == 0 && !failed) return m->text;
    free(m->text);
    return m->text = NULL;
}
#endif
