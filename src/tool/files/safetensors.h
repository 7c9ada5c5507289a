/* safetensors files: named tensors after a JSON header. The whole header is checked, then one tensor's bytes
 * are read, so a model of many gigabytes costs what its one tensor costs. Leaves out sharded models (an
 * index.json beside several files) and writing. Called by load and by the layer sub-command. Source:
 * github.com/huggingface/safetensors, README, "Format". */
#ifndef CLATTN_TOOL_FILES_SAFETENSORS_H
#define CLATTN_TOOL_FILES_SAFETENSORS_H

#include "tool/files/array.h"
#include "tool/files/file.h"

/* Read one tensor: F32, F16, BF16, I32, I64 or BOOL. On failure *out is zeroed and error holds one line; a
 * missing tensor's line lists the nearest names. Release *out with array_free. */
bool safetensors_read(const char *path, const char *tensor, array *out, char *error, size_t error_size);

/* Its type and shape, and where its bytes begin: checked as by safetensors_read, and not read. */
bool safetensors_find(const file_source *source, const char *tensor, array *shape, uint64_t *data,
                      char *error, size_t error_size);

/* The same from memory, which is copied. */
bool safetensors_parse(const unsigned char *bytes, size_t size, const char *tensor, array *out, char *error,
                       size_t error_size);

/* The names in the order of their data: names[count] in one malloc'ed block, which one free(names) releases.
 */
bool safetensors_names(const char *path, char ***names, size_t *count, char *error, size_t error_size);

#endif
