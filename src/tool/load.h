/* The one way in which the command line names a tensor: x.npy or FILE.safetensors#TENSOR. Called by every
 * sub-command that reads tensors. */
#ifndef CLATTN_TOOL_LOAD_H
#define CLATTN_TOOL_LOAD_H

#include "array.h"

/* Read what `spec` names. On failure *out is zeroed and error holds one line. Release *out with array_free.
 */
bool load_array(const char *spec, array *out, char *error, size_t error_size);

#endif
