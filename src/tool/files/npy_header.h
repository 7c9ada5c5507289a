/* The dictionary in a .npy header, such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
 * Called by npy.c alone. */
#ifndef CLATTN_TOOL_FILES_NPY_HEADER_H
#define CLATTN_TOOL_FILES_NPY_HEADER_H

#include "tool/files/array.h"

typedef struct npy_header {
    array_type type;
    int rank;
    int64_t shape[ARRAY_MAX_RANK];
} npy_header;

/* Read text[length]; `name` opens the error line. The three keys are required once each, others are refused.
 */
bool npy_header_parse(const char *text, size_t length, const char *name, npy_header *header, char *error,
                      size_t error_size);

/* Write the dictionary, not padded, and return its length; 0 where the type or rank is none. size is at least
 * 300. */
size_t npy_header_format(const array *a, char *text, size_t size);

#endif
