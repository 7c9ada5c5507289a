/* The checked header of a safetensors file: which tensor lies where. Called by safetensors.c alone. */
#ifndef CLATTN_TOOL_FILES_SAFETENSORS_INDEX_H
#define CLATTN_TOOL_FILES_SAFETENSORS_INDEX_H

#include <jansson.h>

#include "tool/files/array.h"
#include "tool/files/file.h"

typedef struct safetensors_entry {
    const char *name, *dtype; /* the JSON's */
    const json_t *shape;      /* array of sizes that are not negative */
    uint64_t begin, end;      /* bytes from data_start */
} safetensors_entry;

typedef struct safetensors_index {
    json_t *root;               /* owns every string */
    safetensors_entry *entries; /* in the order of their data */
    size_t count;
    uint64_t data_start; /* bytes from the file's start */
} safetensors_index;

/* Read and check the header. What holds afterwards: every entry is well formed; the data of all entries, in
 * order, covers the rest of the file without overlap or hole; a dtype of known size agrees with shape and
 * bytes. Close the index also after a failure. */
bool safetensors_index_open(const file_source *source, safetensors_index *index, char *error,
                            size_t error_size);
void safetensors_index_close(safetensors_index *index);

#endif
