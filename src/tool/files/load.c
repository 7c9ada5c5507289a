/* Chooses the reader by the name: see load.h. A tensor's name may hold '#', so the file ends at the first
 * ".safetensors#". */
#include "tool/files/load.h"

#include <stdlib.h>
#include <string.h>

#include "tool/files/npy.h"
#include "tool/cli/refuse.h"
#include "tool/files/safetensors.h"

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// tensor NULL: the file is of one, .npy.
static bool find(const char *path, size_t length, const char *tensor, load_place *place, char *error,
                 size_t error_size) {
    *place = (load_place){.source = {.descriptor = -1}};
    place->path = malloc(length + 1);
    if (!place->path) return refuse(error, error_size, "no memory");
    memcpy(place->path, path, length);
    place->path[length] = '\0';
    bool done = file_open(place->path, &place->source, error, error_size);
    if (done && !tensor) done = npy_find(&place->source, &place->whole, &place->data, error, error_size);
    if (done && tensor)
        done = safetensors_find(&place->source, tensor, &place->whole, &place->data, error, error_size);
    if (!done) load_leave(place);
    return done;
}

size_t load_file_length(const char *spec) {
    static const char marker[] = ".safetensors#";
    const char *found = strstr(spec, marker);
    return found ? (size_t)(found - spec) + sizeof marker - 2 : strlen(spec);
}

bool load_find(const char *spec, load_place *place, char *error, size_t error_size) {
    const size_t length = load_file_length(spec);
    const bool found = spec[length] != '\0';
    *place = (load_place){.source = {.descriptor = -1}};
    if (!found && ends_with(spec, ".safetensors"))
        return refuse(error, error_size, "%s: say which tensor: %s#NAME", spec, spec);
    if (!found && !ends_with(spec, ".npy"))
        return refuse(error, error_size, "%s: tensors are read from FILE.npy or FILE.safetensors#NAME", spec);
    return find(spec, length, found ? spec + length + 1 : NULL, place, error, error_size);
}

bool load_find_tensor(const char *path, const char *tensor, load_place *place, char *error,
                      size_t error_size) {
    return find(path, strlen(path), tensor, place, error, error_size);
}

void load_leave(load_place *place) {
    if (place->path) file_close(&place->source);
    free(place->path);
    *place = (load_place){.source = {.descriptor = -1}};
}

bool load_rows(const load_place *place, int axis, int chunks, const int64_t *starts, const int64_t *counts,
               array *out, char *error, size_t error_size) {
    const array *whole = &place->whole;
    int64_t shape[ARRAY_MAX_RANK], outer = 1;
    size_t row = array_type_size(whole->type);
    memcpy(shape, whole->shape, sizeof shape);
    shape[axis] = 0;
    for (int c = 0; c < chunks; c++) shape[axis] += counts[c];
    for (int n = 0; n < whole->rank; n++)
        if (n < axis)
            outer *= shape[n];
        else if (n > axis)
            row *= (size_t)shape[n];
    if (!array_create(out, whole->type, whole->rank, shape))
        return refuse(error, error_size, "%s: no memory for its rows", place->source.name);
    unsigned char *to = out->data;
    for (int64_t n = 0; n < outer; n++)
        for (int c = 0; c < chunks; c++) {
            const size_t bytes = (size_t)counts[c] * row;
            const uint64_t at = place->data + (uint64_t)(n * whole->shape[axis] + starts[c]) * row;
            if (!file_read_at(&place->source, at, to, bytes, error, error_size)) {
                array_free(out);
                return false;
            }
            to += bytes;
        }
    return true;
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
