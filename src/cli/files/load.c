// load.c: choose the reader by the name; see formats.h. The file's name ends at the first
// ".safetensors#", because a tensor's name may contain '#'.
#include "cli/files/formats.h"

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// `tensor` NULL: a .npy file, which has one tensor.
static bool find_in(const file_source *source, const char *tensor, array *whole, uint64_t *data, reason why) {
    return tensor ? safetensors_find(source, tensor, whole, data, why) : npy_find(source, whole, data, why);
}

static bool find(const char *path, size_t length, const char *tensor, load_place *place, reason why) {
    *place = (load_place){.source = {.descriptor = -1}, .path = malloc(length + 1)};
    if (!place->path) return refuse(why, "no memory");
    (void)snprintf(place->path, length + 1, "%s", path);
    if (file_open(place->path, &place->source, why) &&
        find_in(&place->source, tensor, &place->whole, &place->data, why))
        return true;
    load_leave(place);
    return false;
}

size_t load_file_length(const char *spec) {
    static const char marker[] = ".safetensors#";
    const char *found = strstr(spec, marker);
    return found ? (size_t)(found - spec) + sizeof marker - 2 : strlen(spec);
}

bool load_find(const char *spec, load_place *place, reason why) {
    const size_t length = load_file_length(spec);
    const bool found = spec[length] != '\0';
    *place = (load_place){.source = {.descriptor = -1}};
    if (!found && ends_with(spec, ".safetensors"))
        return refuse(why, "%s: say which tensor: %s#NAME", spec, spec);
    if (!found && !ends_with(spec, ".npy"))
        return refuse(why, "%s: tensors are read from FILE.npy or FILE.safetensors#NAME", spec);
    return find(spec, length, found ? spec + length + 1 : NULL, place, why);
}

bool load_find_tensor(const char *path, const char *tensor, load_place *place, reason why) {
    return find(path, strlen(path), tensor, place, why);
}

void load_leave(load_place *place) {
    if (place->path) file_close(&place->source);
    free(place->path);
    *place = (load_place){.source = {.descriptor = -1}};
}

bool load_rows(const load_place *place, int axis, int chunks, const int64_t *starts, const int64_t *counts,
               array *out, reason why) {
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
        return refuse(why, "%s: no memory for its rows", place->source.name);
    unsigned char *to = out->data;
    for (int64_t n = 0; n < outer; n++)
        for (int c = 0; c < chunks; c++) {
            const size_t bytes = (size_t)counts[c] * row;
            const uint64_t at = place->data + (uint64_t)(n * whole->shape[axis] + starts[c]) * row;
            if (!file_read_at(&place->source, at, to, bytes, why)) {
                array_free(out);
                return false;
            }
            to += bytes;
        }
    return true;
}

static bool read_all(const file_source *source, const array *found, uint64_t data, array *out, reason why) {
    if (!array_create(out, found->type, found->rank, found->shape))
        return refuse(why, "%s: no memory for %zu bytes", source->name, found->bytes);
    if (file_read_at(source, data, out->data, found->bytes, why)) return true;
    array_free(out);
    return false;
}

bool load_from(const file_source *source, const char *tensor, array *out, reason why) {
    array found;
    uint64_t data = 0;
    *out = (array){0};
    return find_in(source, tensor, &found, &data, why) && read_all(source, &found, data, out, why);
}

bool load_array(const char *spec, array *out, reason why) {
    load_place place;
    *out = (array){0};
    if (!load_find(spec, &place, why)) return false;
    const bool done = read_all(&place.source, &place.whole, place.data, out, why);
    load_leave(&place);
    return done;
}
