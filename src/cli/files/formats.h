// formats.h: files of tensors. The one way in which the command line names one is x.npy or FILE.safetensors#TENSOR (load.c); the two
// formats are npy.c and safetensors.c. The whole header is checked, sizes against the file's, before memory is asked for. On failure what
// would be filled is zeroed, and `why` holds one line.
#ifndef CLATTN_TOOL_FILES_FORMATS_H
#define CLATTN_TOOL_FILES_FORMATS_H
#include <jansson.h>

#include "cli/files/array.h"
#include "cli/files/file.h"

// Read what `spec` names. Release *out with array_free.
bool load_array(const char *spec, array *out, reason why);
// The same of an open file, or of memory: of a safetensors file one tensor; tensor NULL: of a .npy file.
bool load_from(const file_source *source, const char *tensor, array *out, reason why);
// Letters of the file's name in it.
size_t load_file_length(const char *spec);

// A tensor that is found and not read: its type and shape, without data, and where its bytes are.
typedef struct load_place {
    file_source source;
    array whole;
    uint64_t data;
    char *path; // owned
} load_place;
bool load_find(const char *spec, load_place *place, reason why);
// The same in a safetensors file of any name.
bool load_find_tensor(const char *path, const char *tensor, load_place *place, reason why);
void load_leave(load_place *place); // one of zeros, in which nothing was found, is allowed
// Read some rows of an axis, the chunks one behind the other, and no other bytes.
bool load_rows(const load_place *place, int axis, int chunks, const int64_t *starts, const int64_t *counts,
               array *out, reason why);

// NumPy's .npy, formats 1.0, 2.0 and 3.0, C order, little-endian: <f2 <f4 <i4 <i8 |b1 <u2; <u2, bfloat16's carrier, becomes ARRAY_U16.
// Structured types, Fortran order, other types and pickled objects are refused by name; so are bytes past the data.
// Source: numpy.lib.format, "NEP 1: A simple file format for NumPy arrays".
bool npy_find(const file_source *source, array *shape, uint64_t *data, reason why);
// The bytes before the data in a file of format 1.0, a multiple of 64; 0: the type cannot be written.
#define NPY_HEAD 512
size_t npy_head(const array *a, char head[NPY_HEAD]);
// Write format 1.0 as file_write_parts does, whole or not at all; ARRAY_BF16 is written as <u2.
bool npy_write(const char *path, const array *a, reason why);

// safetensors: named tensors after a JSON header. Sharded models (an index.json beside several files) are left out, and writing.
// Source: github.com/huggingface/safetensors, README, "Format".
typedef struct safetensors_entry {
    const char *name, *dtype; // the JSON's
    const json_t *shape;      // array of sizes that are not negative
    uint64_t begin, end;      // bytes from data_start
} safetensors_entry;
typedef struct safetensors_index {
    json_t *root;               // owns every string
    safetensors_entry *entries; // in the order of their data
    size_t count;
    uint64_t data_start; // bytes from the file's start
} safetensors_index;
// Read and check the header. What holds afterwards: every entry is well formed; the data of all entries, in order, covers the rest of the
// file without overlap or hole; a dtype of known size agrees with shape and bytes. Close the index also after a failure.
bool safetensors_index_open(const file_source *source, safetensors_index *index, reason why);
void safetensors_index_close(safetensors_index *index);
// One tensor: F32, F16, BF16, I32, I64, BOOL, I8, F8_E4M3 or F8_E5M2; a missing tensor's line lists the nearest names.
bool safetensors_find(const file_source *source, const char *tensor, array *shape, uint64_t *data,
                      reason why);
// The names in the order of their data: names[count] in one malloc'ed block, which one free(names) releases.
bool safetensors_names(const char *path, char ***names, size_t *count, reason why);
#endif
