/* A text that is written as a file is, and is then in memory: open_memstream, and on Windows a temporary file. */
#ifndef CLATTN_TOOL_FILES_MEMORY_FILE_H
#define CLATTN_TOOL_FILES_MEMORY_FILE_H

#include <stdio.h>

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
