// safetensors.c: check the header of a safetensors file before using it, then find a tensor and
// translate its type.
#include "cli/files/formats.h"

// The limit of the reference implementation.
#define HEADER_LIMIT 100000000

// Bits per element of the format's types, and the type to read. For a type that is not listed only
// the position is checked.
#define NOT_READ ARRAY_TYPE_COUNT
static const struct dtype {
    const char *name;
    uint64_t bits;
    array_type type;
} dtypes[] = {{"F32", 32, ARRAY_F32},       {"F16", 16, ARRAY_F16},   {"BF16", 16, ARRAY_BF16},
              {"I32", 32, ARRAY_I32},       {"I64", 64, ARRAY_I64},   {"BOOL", 8, ARRAY_BOOL},
              {"U8", 8, NOT_READ},          {"I8", 8, ARRAY_I8},      {"F8_E5M2", 8, ARRAY_F8E5M2},
              {"F8_E4M3", 8, ARRAY_F8E4M3}, {"F8_E8M0", 8, NOT_READ}, {"I16", 16, NOT_READ},
              {"U16", 16, NOT_READ},        {"U32", 32, NOT_READ},    {"F64", 64, NOT_READ},
              {"U64", 64, NOT_READ},        {"C64", 64, NOT_READ},    {"F4", 4, NOT_READ},
              {"F6_E2M3", 6, NOT_READ},     {"F6_E3M2", 6, NOT_READ}};

static const struct dtype *dtype_of(const safetensors_entry *entry) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        if (strcmp(entry->dtype, dtypes[d].name) == 0) return &dtypes[d];
    return NULL;
}

typedef struct checker {
    const file_source *source;
    char *why;
} checker;

static bool bad_entry(const checker *c, const char *tensor, const char *what) {
    return refuse(c->why, "%s: tensor %.200s: %s", c->source->name, tensor, what);
}

// A size or offset: an integer of at least 0.
static bool take_number(const json_t *value, uint64_t *number) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

// The product of a shape. False if a size is invalid or the product of the nonzero sizes overflows
// 64 bits.
static bool shape_product(const json_t *shape, uint64_t *product) {
    bool empty = false;
    *product = 1;
    for (size_t axis = 0; axis < json_array_size(shape); axis++) {
        uint64_t size = 0;
        if (!take_number(json_array_get(shape, axis), &size)) return false;
        if (size == 0) empty = true;
        if (size && *product > UINT64_MAX / size) return false;
        if (size) *product *= size;
    }
    if (empty) *product = 0;
    return true;
}

static bool check_bytes(const checker *c, const safetensors_entry *entry) {
    uint64_t product = 0;
    if (!shape_product(entry->shape, &product))
        return bad_entry(c, entry->name, "shape is not a list of sizes with a product below 2^64");
    const uint64_t bits = dtype_of(entry) ? dtype_of(entry)->bits : 0;
    if (bits == 0) return true;
    if (product > UINT64_MAX / bits) return bad_entry(c, entry->name, "more than 2^64 bits");
    if (product * bits % 8 != 0 || product * bits / 8 != entry->end - entry->begin)
        return bad_entry(c, entry->name, "shape and dtype do not match data_offsets");
    return true;
}

static bool read_entry(const checker *c, const char *name, const json_t *value, safetensors_entry *entry) {
    if (!json_is_object(value)) return bad_entry(c, name, "not an object");
    const json_t *offsets = json_object_get(value, "data_offsets");
    *entry = (safetensors_entry){.name = name,
                                 .dtype = json_string_value(json_object_get(value, "dtype")),
                                 .shape = json_object_get(value, "shape")};
    if (!entry->dtype) return bad_entry(c, name, "dtype is not a string");
    if (!json_is_array(entry->shape)) return bad_entry(c, name, "shape is not a list");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !take_number(json_array_get(offsets, 0), &entry->begin) ||
        !take_number(json_array_get(offsets, 1), &entry->end))
        return bad_entry(c, name, "data_offsets is not [begin, end]");
    if (entry->begin > entry->end) return bad_entry(c, name, "data_offsets begin after they end");
    return check_bytes(c, entry);
}

static bool check_metadata(const checker *c, json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) return bad_entry(c, "__metadata__", "not an object");
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return bad_entry(
        c, "__metadata__", "a value is not a string");
    return true;
}

static int by_place(const void *left, const void *right) {
    const safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

static bool check_cover(const checker *c, const safetensors_index *index) {
    uint64_t covered = 0;
    uint64_t size = c->source->size - index->data_start;
    for (size_t e = 0; e < index->count; e++) {
        const safetensors_entry *entry = &index->entries[e];
        if (entry->begin < covered) return bad_entry(c, entry->name, "overlaps another tensor");
        if (entry->begin > covered) return bad_entry(c, entry->name, "a hole lies before it");
        if (entry->end > size) return bad_entry(c, entry->name, "reaches past the end of the file");
        covered = entry->end;
    }
    if (covered != size)
        return refuse(c->why, "%s: %llu bytes at the end belong to no tensor", c->source->name,
                      (unsigned long long)(size - covered));
    return true;
}

static bool read_json(const checker *c, safetensors_index *index) {
    unsigned char head[8];
    const file_source *source = c->source;
    if (!file_read_at(source, 0, head, sizeof head, c->why)) return false;
    uint64_t length = 0;
    for (int byte = 7; byte >= 0; byte--) length = length << 8 | head[byte];
    if (length > source->size - sizeof head || length > HEADER_LIMIT)
        return refuse(c->why, "%s: header of %llu bytes: not a safetensors file, or damaged", source->name,
                      (unsigned long long)length);
    index->data_start = sizeof head + length;
    char *text = malloc(length ? (size_t)length : 1);
    if (!text) return refuse(c->why, "%s: no memory for the header", source->name);
    json_error_t problem = {0};
    bool got = file_read_at(source, sizeof head, text, (size_t)length, c->why);
    if (got) index->root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &problem);
    // The specification requires the header to start with '{', without white space before it.
    bool object = got && length && text[0] == '{' && json_is_object(index->root);
    free(text);
    if (got && !object)
        return refuse(c->why, "%s: the header is not a JSON object: %s", source->name,
                      index->root ? "it does not start with {" : problem.text);
    return got;
}

bool safetensors_index_open(const file_source *source, safetensors_index *index, reason why) {
    checker c = {source, why};
    *index = (safetensors_index){0};
    if (!read_json(&c, index)) return false;
    index->entries = calloc(json_object_size(index->root) + 1, sizeof *index->entries);
    if (!index->entries) return refuse(why, "%s: no memory for the header", source->name);
    const char *name;
    json_t *value;
    json_object_foreach(index->root, name, value) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!check_metadata(&c, value)) return false;
        } else if (!read_entry(&c, name, value, &index->entries[index->count++]))
            return false;
    }
    qsort(index->entries, index->count, sizeof *index->entries, by_place);
    return check_cover(&c, index);
}

void safetensors_index_close(safetensors_index *index) {
    json_decref(index->root);
    free(index->entries);
    *index = (safetensors_index){0};
}

static bool missing(const file_source *source, const safetensors_index *index, const char *tensor,
                    reason why) {
    char near[400] = "";
    const char **names = calloc(index->count + 1, sizeof *names);
    for (size_t e = 0; names && e < index->count; e++) names[e] = index->entries[e].name;
    if (names) nearest_names(tensor, names, index->count, near, sizeof near);
    free(names);
    return refuse(why, "%s: no tensor %.200s among its %zu%s%s", source->name, tensor, index->count,
                  near[0] ? "; the nearest are " : "", near);
}

static bool check_entry(const file_source *source, const safetensors_entry *entry, array *out, reason why) {
    const size_t rank = json_array_size(entry->shape);
    const struct dtype *dtype = dtype_of(entry);
    if (!dtype || dtype->type == NOT_READ)
        return refuse(why,
                      "%s: tensor %.200s: type %.40s; F32, F16, BF16, I32, I64, BOOL, I8, F8_E4M3 and "
                      "F8_E5M2 are read%s",
                      source->name, entry->name, entry->dtype,
                      strcmp(entry->dtype, "F64") == 0 ? "; save x.float() in place of float64" : "");
    if (rank > ARRAY_MAX_RANK)
        return refuse(why, "%s: tensor %.200s: %zu axes; at most %d are read", source->name, entry->name,
                      rank, ARRAY_MAX_RANK);
    *out = (array){.type = dtype->type, .rank = (int)rank};
    for (size_t axis = 0; axis < rank; axis++)
        out->shape[axis] = json_integer_value(json_array_get(entry->shape, axis));
    if (array_measure(out->type, out->rank, out->shape, &out->bytes) &&
        out->bytes == entry->end - entry->begin)
        return true;
    return refuse(why, "%s: tensor %.200s: the shape's product is too large", source->name, entry->name);
}

bool safetensors_find(const file_source *source, const char *tensor, array *shape, uint64_t *data,
                      reason why) {
    safetensors_index index;
    bool done = false;
    *shape = (array){0};
    if (!safetensors_index_open(source, &index, why)) goto end;
    size_t e = 0;
    while (e < index.count && strcmp(index.entries[e].name, tensor) != 0) e++;
    done = e < index.count ? check_entry(source, &index.entries[e], shape, why)
                           : missing(source, &index, tensor, why);
    if (done) *data = index.data_start + index.entries[e].begin;
end:
    safetensors_index_close(&index);
    return done;
}

// Copy the names into one block: first the pointers, then the text.
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

bool safetensors_names(const char *path, char ***names, size_t *count, reason why) {
    file_source source;
    safetensors_index index = {0};
    *names = NULL;
    *count = 0;
    bool done = file_open(path, &source, why) && safetensors_index_open(&source, &index, why);
    if (done) {
        *count = index.count;
        *names = copy_names(&index);
        if (!*names) done = refuse(why, "%s: no memory for the names", path);
    }
    safetensors_index_close(&index);
    file_close(&source);
    return done;
}
