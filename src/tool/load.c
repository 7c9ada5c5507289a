/* Chooses the reader by the name: see load.h. A tensor's name may hold '#', so the file ends at the first
 * ".safetensors#". */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "refuse.h"
#include "safetensors.h"

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool load_safetensors(const char *spec, size_t path_length, array *out, char *error,
                             size_t error_size) {
    char *path = malloc(path_length + 1);
    if (!path) return refuse(error, error_size, "no memory");
    memcpy(path, spec, path_length);
    path[path_length] = '\0';
    bool done = safetensors_read(path, spec + path_length + 1, out, error, error_size);
    free(path);
    return done;
}

bool load_array(const char *spec, array *out, char *error, size_t error_size) {
    static const char marker[] = ".safetensors#";
    *out = (array){0};
    const char *found = strstr(spec, marker);
    if (found) {
        size_t path_length = (size_t)(found - spec) + sizeof marker - 2;
        return load_safetensors(spec, path_length, out, error, error_size);
    }
    if (ends_with(spec, ".npy")) return npy_read(spec, out, error, error_size);
    if (ends_with(spec, ".safetensors"))
        return refuse(error, error_size, "%s: say which tensor: %s#NAME", spec, spec);
    return refuse(error, error_size, "%s: tensors are read from FILE.npy or FILE.safetensors#NAME", spec);
}
