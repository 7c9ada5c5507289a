/* NumPy's .npy files, formats 1.0, 2.0 and 3.0, C order, little-endian: <f2 <f4 <i4 <i8 |b1 <u2. Leaves out
 * structured types, Fortran order, other types and pickled objects: each is refused by name. Called by load
 * and the sub-commands. Source: numpy.lib.format, "NEP 1: A simple file format for NumPy arrays". */
#ifndef CLATTN_TOOL_FILES_NPY_H
#define CLATTN_TOOL_FILES_NPY_H

#include "tool/files/array.h"
#include "tool/files/file.h"

/* Read one array; <u2, bfloat16's carrier, becomes ARRAY_U16. The sizes in the header are checked against the
 * file's before memory is asked for; bytes past the data are refused. On failure *out is zeroed and error
 * holds one line. Release *out with array_free. */
bool npy_read(const char *path, array *out, char *error, size_t error_size);

/* Its type and shape, and where its bytes begin: checked as by npy_read, and not read. */
bool npy_find(const file_source *source, array *shape, uint64_t *data, char *error, size_t error_size);

/* The same from memory, which is copied. */
bool npy_parse(const unsigned char *bytes, size_t size, array *out, char *error, size_t error_size);

/* What comes before the data in a file of format 1.0, a multiple of 64 bytes; 0: the type cannot be written. size is at least
 * 512. */
size_t npy_head(const array *a, char *head, size_t size);
/* Write format 1.0 as file_write_parts does, whole or not at all; ARRAY_BF16 is written as <u2. */
bool npy_write(const char *path, const array *a, char *error, size_t error_size);

#endif
