// formats.h: files of tensors. The command line names a tensor as x.npy or FILE.safetensors#TENSOR
// (load.c); npy.c and safetensors.c are the formats. Readers check the whole header, and its sizes
// against the file's, before they allocate. On failure outputs are zeroed and `why` has one line.
#ifndef CLATTN_CLI_FILES_FORMATS_H
#define CLATTN_CLI_FILES_FORMATS_H
#include <jansson.h>

#include "cli/files/array.h"
#include "cli/files/file.h"

// Read the tensor that `spec` names. Release *out with array_free.
bool load_array(const char *spec, array *out, reason why);
// Read from an open file or from memory: a tensor of a safetensors file, or with `tensor` NULL a
// .npy file.
bool load_from(const file_source *source, const char *tensor, array *out, reason why);
// The length of the file's name in `spec`.
size_t load_file_length(const char *spec);

// A tensor that was found but not read: its type and shape without data, and the offset of its
// bytes.
typedef struct load_place {
    file_source source;
    array whole;
    uint64_t data;
    char *path; // owned
} load_place;
bool load_find(const char *spec, load_place *place, reason why);
// As load_find, for a safetensors file whose name may have any ending.
bool load_find_tensor(const char *path, const char *tensor, load_place *place, reason why);
void load_leave(load_place *place); // a zeroed place is allowed
// Read some rows of an axis in chunks. No other bytes of the file are read.
bool load_rows(const load_place *place, int axis, int chunks, const int64_t *starts, const int64_t *counts,
               array *out, reason why);

// NumPy's .npy, formats 1.0, 2.0 and 3.0, C order, little-endian: <f2 <f4 <i4 <i8 |b1 <u2. <u2
// becomes ARRAY_U16 and may contain bfloat16. Other types, structured types, Fortran order and
// pickled objects are errors that name the type, and so are bytes after the data. Source:
// numpy.lib.format, "NEP 1: A simple file format for NumPy arrays".
bool npy_find(const file_source *source, array *shape, uint64_t *data, reason why);
// Write the bytes before the data in format 1.0. Returns their number, a multiple of 64, or 0 if
// the type is unsupported.
#define NPY_HEAD 512
size_t npy_head(const array *a, char head[NPY_HEAD]);
// Write format 1.0 atomically, as file_write_parts does. ARRAY_BF16 is written as <u2.
bool npy_write(const char *path, const array *a, reason why);

// Safetensors: named tensors after a JSON header. Writing and sharded models (several files and an
// index.json) are unsupported. Source: github.com/huggingface/safetensors, README, "Format".
typedef struct safetensors_entry {
    const char *name, *dtype; // strings in the JSON
    const json_t *shape;      // array of sizes of 0 or more
    uint64_t begin, end;      // bytes from data_start
} safetensors_entry;
typedef struct safetensors_index {
    json_t *root;               // owns every string
    safetensors_entry *entries; // in the order of their data
    size_t count;
    uint64_t data_start; // bytes from the start of the file
} safetensors_index;
// Read and check the header. Afterwards every entry is well formed. The data of all entries, in
// order, covers the rest of the file without overlap or hole. Shape and bytes agree for every dtype
// of known size. Close the index even after a failure.
bool safetensors_index_open(const file_source *source, safetensors_index *index, reason why);
void safetensors_index_close(safetensors_index *index);
// Find one tensor of type F32, F16, BF16, I32, I64, BOOL, I8, F8_E4M3 or F8_E5M2. The error line
// for a missing tensor lists the nearest names.
bool safetensors_find(const file_source *source, const char *tensor, array *shape, uint64_t *data,
                      reason why);
// The names in the order of their data: names[count] in one malloc'ed block, released by
// free(names).
bool safetensors_names(const char *path, char ***names, size_t *count, reason why);
#endif
