/* One tensor out of a safetensors file: finds it in the checked index, translates its type, reads its bytes.
 * The checks are safetensors_index.c's. Called by load.c and by the layer sub-command. */
#include "tool/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "tool/cli/nearest.h"
#include "tool/cli/refuse.h"
#include "tool/files/safetensors_index.h"

static const struct {
    const char *dtype;
    array_type type;
} read_types[] = {{"F32", ARRAY_F32}, {"F16", ARRAY_F16}, {"BF16", ARRAY_BF16},
                  {"I32", ARRAY_I32}, {"I64", ARRAY_I64}, {"BOOL", ARRAY_BOOL}};

static bool missing(const file_source *source, const safetensors_index *index, const char *tensor,
                    char *error, size_t error_size) {
    char near[400] = "";
    const char **names = calloc(index->count + 1, sizeof *names);
    for (size_t e = 0; names && e < index->count; e++) names[e] = index->entries[e].name;
    if (names) nearest_names(tensor, names, index->count, near, sizeof near);
    free(names);
    return refuse(error, error_size, "%s: no tensor %.200s among its %zu%s%s", source->name, tensor,
                  index->count, near[0] ? "; the nearest are " : "", near);
}

static bool check_entry(const file_source *source, const safetensors_entry *entry, array *out, char *error,
                        size_t error_size) {
    size_t t = 0, rank = json_array_size(entry->shape), bytes = 0;
    const size_t type_count = sizeof read_types / sizeof *read_types;
    while (t < type_count && strcmp(entry->dtype, read_types[t].dtype) != 0) t++;
    if (t == type_count)
        return refuse(error, error_size,
                      "%s: tensor %.200s: type %.40s; F32, F16, BF16, I32, I64 and BOOL are read",
                      source->name, entry->name, entry->dtype);
    if (rank > ARRAY_MAX_RANK)
        return refuse(error, error_size, "%s: tensor %.200s: %zu axes; at most %d are read", source->name,
                      entry->name, rank, ARRAY_MAX_RANK);
    int64_t shape[ARRAY_MAX_RANK] = {0};
    for (size_t axis = 0; axis < rank; axis++)
        shape[axis] = json_integer_value(json_array_get(entry->shape, axis));
    if (!array_measure(read_types[t].type, (int)rank, shape, &bytes) || bytes != entry->end - entry->begin)
        return refuse(error, error_size, "%s: tensor %.200s: the shape's product is too large", source->name,
                      entry->name);
    *out = (array){.type = read_types[t].type, .rank = (int)rank, .bytes = bytes};
    memcpy(out->shape, shape, sizeof shape);
    return true;
}

bool safetensors_find(const file_source *source, const char *tensor, array *shape, uint64_t *data,
                      char *error, size_t error_size) {
    safetensors_index index;
    bool done = false;
    *shape = (array){0};
    if (!safetensors_index_open(source, &index, error, error_size)) goto end;
    size_t e = 0;
    while (e < index.count && strcmp(index.entries[e].name, tensor) != 0) e++;
    done = e < index.count ? check_entry(source, &index.entries[e], shape, error, error_size)
                           : missing(source, &index, tensor, error, error_size);
    if (done) *data = index.data_start + index.entries[e].begin;
end:
    safetensors_index_close(&index);
    return done;
}

static bool read_tensor(const file_source *source, const char *tensor, array *out, char *error,
                        size_t error_size) {
    array found;
    uint64_t data = 0;
    *out = (array){0};
    if (!safetensors_find(source, tensor, &found, &data, error, error_size)) return false;
    if (!array_create(out, found.type, found.rank, found.shape))
        return refuse(error, error_size, "%s: no memory for %zu bytes", source->name, found.bytes);
    if (file_read_at(source, data, out->data, found.bytes, error, error_size)) return true;
    array_free(out);
    return false;
}

bool safetensors_parse(const unsigned char *bytes, size_t size, const char *tensor, array *out, char *error,
                       size_t error_size) {
    file_source source = file_from_memory(bytes, size);
    return read_tensor(&source, tensor, out, error, error_size);
}

bool safetensors_read(const char *path, const char *tensor, array *out, char *error, size_t error_size) {
    *out = (array){0};
    file_source source;
    bool done =
        file_open(path, &source, error, error_size) && read_tensor(&source, tensor, out, error, error_size);
    file_close(&source);
    return done;
}

/* The pointers first, then the text that they point to. */
static char **copy_names(const safetensors_index *index) {
    size_t bytes = (index->count + 1) * sizeof(char *);
    for (size_t e = 0; e < index->count; e++) bytes += strlen(index->entries[e].name) + 1;
    char **names = malloc(bytes);
    if (!names) return NULL;
    char *text = (char *)(names + index->count + 1);
    for (size_t e = 0; e < index->count; e++) {
        size_t length = strlen(index->entries[e].name) + 1;
        names[e] = memcpy(text, index->entries[e].name, length);
        text += length;
    }
    names[index->count] = NULL;
    return names;
}

bool safetensors_names(const char *path, char ***names, size_t *count, char *error, size_t error_size) {
    file_source source;
    safetensors_index index = {0};
    *names = NULL;
    *count = 0;
    bool done = file_open(path, &source, error, error_size) &&
                safetensors_index_open(&source, &index, error, error_size);
    if (done) {
        *count = index.count;
        *names = copy_names(&index);
        if (!*names) done = refuse(error, error_size, "%s: no memory for the names", path);
    }
    safetensors_index_close(&index);
    file_close(&source);
    return done;
}
