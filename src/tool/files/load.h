/* The one way in which the command line names a tensor: x.npy or FILE.safetensors#TENSOR. Called by every
 * sub-command that reads tensors. */
#ifndef CLATTN_TOOL_FILES_LOAD_H
#define CLATTN_TOOL_FILES_LOAD_H

#include "tool/files/array.h"
#include "tool/files/file.h"

/* Read what `spec` names. On failure *out is zeroed and error holds one line. Release *out with array_free.
 */
bool load_array(const char *spec, array *out, char *error, size_t error_size);

/* Letters of the file's name in it. */
size_t load_file_length(const char *spec);

/* A tensor that is found and not read: its type and shape, without data, and where its bytes are. */
typedef struct load_place {
    file_source source;
    array whole;
    uint64_t data;
    char *path; /* owned */
} load_place;
bool load_find(const char *spec, load_place *place, char *error, size_t error_size);
bool load_find_tensor(const char *path, const char *tensor, load_place *place, char *error,
                      size_t error_size); /* of a safetensors file of any name */
void load_leave(load_place *place);       /* one of zeros, in which nothing was found, is allowed */
/* Read some rows of an axis, the chunks one behind the other, and no other bytes. On failure *out is zeroed. */
bool load_rows(const load_place *place, int axis, int chunks, const int64_t *starts, const int64_t *counts,
               array *out, char *error, size_t error_size);

#endif
