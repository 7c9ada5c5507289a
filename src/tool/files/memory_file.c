/* memory_file.c: see memory_file.h. */
#include "tool/files/memory_file.h"

#include <stdlib.h>

#ifdef _WIN32
FILE *memory_file_open(memory_file *m) {
    char *name = _tempnam(NULL, "clattn");
    *m = (memory_file){.to = name ? fopen(name, "w+bTD") : NULL}; /* short-lived, deleted as it is closed */
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
