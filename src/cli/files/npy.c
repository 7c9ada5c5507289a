// npy.c: .npy files: magic, version, header length, data; a parser for the Python literals in the
// header's dictionary, such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }; and the
// checks of sizes.
#include "cli/files/formats.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data goes between file and memory unchanged");

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

#define ACCEPTED "<f2 <f4 <i4 <i8 |b1 <u2 (bfloat16 as <u2) are read"

static const struct {
    const char *descr;
    array_type type;
} descrs[] = {{"<f4", ARRAY_F32},  {"<f2", ARRAY_F16}, {"<i4", ARRAY_I32}, {"<i8", ARRAY_I64},
              {"|b1", ARRAY_BOOL}, {"<u2", ARRAY_U16}, {"<u2", ARRAY_BF16}};

typedef struct reader {
    const char *at, *end;
    const char *name; // name of the file, for messages
    char *why;
} reader;

static bool malformed(reader *r, const char *what) {
    return refuse(r->why, "%s: damaged .npy header: %s", r->name, what);
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

// Skip white space, and consume `wanted` if it is the next character.
static bool take(reader *r, char wanted) {
    skip_space(r);
    if (r->at == r->end || *r->at != wanted) return false;
    r->at++;
    return true;
}

static bool take_word(reader *r, const char *word) {
    size_t length = strlen(word);
    skip_space(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

// Parse a string in single or double quotes, of at most size - 1 plain characters.
static bool take_string(reader *r, char *text, size_t size) {
    skip_space(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return malformed(r, "a string is missing");
    char quote = *r->at++;
    size_t length = 0;
    for (; r->at < r->end && *r->at != quote; r->at++) {
        if (*r->at == '\\' || *r->at == '\0' || length + 1 >= size)
            return malformed(r, "a string is not plain");
        text[length++] = *r->at;
    }
    if (r->at == r->end) return malformed(r, "a string does not end");
    r->at++;
    text[length] = '\0';
    return true;
}

static bool take_size(reader *r, int64_t *size) {
    skip_space(r);
    const char *first = r->at;
    int64_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        int digit = *r->at - '0';
        if (value > (INT64_MAX - digit) / 10) return malformed(r, "a size is too large");
        value = value * 10 + digit;
    }
    if (r->at == first) return malformed(r, "a size is not a number");
    (void)take(r, 'L'); // Python 2 wrote long integers with this suffix
    *size = value;
    return true;
}

// How to convert the array `x` in NumPy to a supported type.
static const char *conversion(const char *descr, char text[80]) {
    const char code = descr[0] ? descr[1] : '\0';
    if (descr[0] == '>')
        for (size_t d = 0; d < sizeof descrs / sizeof *descrs; d++)
            if (strcmp(descr + 1, descrs[d].descr + 1) == 0) {
                (void)snprintf(text, 80, "big-endian: save x.astype('%s')", descrs[d].descr);
                return text;
            }
    if (code == 'V' && strcmp(descr + 2, "2") == 0)
        return "if these are bfloat16 numbers, save x.view('<u2')";
    if (code == 'c') return "complex: save x.real.astype('<f4')";
    if (code == 'i' || code == 'u' || code == 'b')
        return "integers: save x.astype('<i4'), or a mask as x.astype(bool)";
    return code == 'f' ? "save x.astype('<f4')" : "save an array of numbers";
}

static bool read_descr(reader *r, array *header) {
    char descr[32], text[80];
    if (take(r, '['))
        return refuse(r->why, "%s: a structured type; " ACCEPTED "; save one field of it", r->name);
    if (!take_string(r, descr, sizeof descr)) return false;
    for (size_t d = 0; d < sizeof descrs / sizeof *descrs; d++) {
        if (strcmp(descr, descrs[d].descr) != 0) continue;
        header->type = descrs[d].type;
        return true;
    }
    return refuse(r->why, "%s: type %s; " ACCEPTED "; %s", r->name, descr, conversion(descr, text));
}

static bool read_order(reader *r) {
    if (take_word(r, "False")) return true;
    if (!take_word(r, "True")) return malformed(r, "fortran_order is not True or False");
    return refuse(r->why, "%s: Fortran order; save numpy.ascontiguousarray(x)", r->name);
}

static bool read_shape(reader *r, array *header) {
    if (!take(r, '(')) return malformed(r, "shape is not a tuple");
    header->rank = 0;
    while (!take(r, ')')) {
        if (header->rank == ARRAY_MAX_RANK)
            return refuse(r->why, "%s: more than %d axes", r->name, ARRAY_MAX_RANK);
        if (!take_size(r, &header->shape[header->rank++])) return false;
        bool comma = take(r, ',');
        if (!comma && (header->rank == 1 || r->at == r->end || *r->at != ')'))
            return malformed(r, "shape is not a tuple");
    }
    return true;
}

// Parse one "key: value". `seen` has one bit for each key.
static bool read_item(reader *r, array *header, unsigned *seen) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    if (!take_string(r, key, sizeof key)) return false;
    unsigned k = 0;
    while (k < 3 && strcmp(key, keys[k]) != 0) k++;
    if (k == 3) return malformed(r, "a key that is not descr, fortran_order or shape");
    if (*seen & 1u << k) return malformed(r, "a key occurs twice");
    *seen |= 1u << k;
    if (!take(r, ':')) return malformed(r, "a colon is missing");
    if (k == 0) return read_descr(r, header);
    return k == 1 ? read_order(r) : read_shape(r, header);
}

// Parse text[length], and read nothing past it. Each of the three keys must occur once, and other
// keys are errors.
static bool parse_header(const char *text, size_t length, const char *name, array *header, reason why) {
    reader r = {text, text + length, name, why};
    *header = (array){0};
    unsigned seen = 0;
    if (!take(&r, '{')) return malformed(&r, "no dictionary");
    while (!take(&r, '}')) {
        if (!read_item(&r, header, &seen)) return false;
        if (!take(&r, ',') && (r.at == r.end || *r.at != '}')) return malformed(&r, "a comma is missing");
    }
    skip_space(&r);
    if (r.at != r.end) return malformed(&r, "text after the dictionary");
    if (seen != 7) return malformed(&r, "descr, fortran_order or shape is missing");
    return true;
}

// Write the dictionary without padding. Returns its length, or 0 for an unsupported type or rank.
// `size` is at least 300.
static size_t format_header(const array *a, char *text, size_t size) {
    size_t d = 0;
    while (d < sizeof descrs / sizeof *descrs && descrs[d].type != a->type) d++;
    if (d == sizeof descrs / sizeof *descrs || a->rank < 0 || a->rank > ARRAY_MAX_RANK) return 0;
    int used = snprintf(text, size, "{'descr': '%s', 'fortran_order': False, 'shape': (", descrs[d].descr);
    for (int axis = 0; axis < a->rank; axis++) {
        const char *comma = a->rank == 1 ? "," : axis + 1 < a->rank ? ", " : "";
        used += snprintf(text + used, size - (size_t)used, "%lld%s", (long long)a->shape[axis], comma);
    }
    used += snprintf(text + used, size - (size_t)used, "), }");
    return (size_t)used;
}

// Find the dictionary: it follows magic, version and a length of 2 bytes in format 1 or of 4 bytes
// in formats 2 and 3.
static bool find_header(const file_source *source, uint64_t *start, size_t *length, reason why) {
    unsigned char head[12];
    if (!file_read_at(source, 0, head, 10, why)) return false;
    if (memcmp(head, magic, sizeof magic) != 0) return refuse(why, "%s: not a .npy file", source->name);
    if (head[6] < 1 || head[6] > 3 || head[7] != 0)
        return refuse(why, "%s: .npy format %d.%d; 1.0, 2.0 and 3.0 are read", source->name, head[6],
                      head[7]);
    *start = head[6] == 1 ? 10 : 12;
    if (!file_read_at(source, 0, head, (size_t)*start, why)) return false;
    *length = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) *length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (*length > source->size - *start)
        return refuse(why, "%s: header of %zu bytes, the file has %llu", source->name, *length,
                      (unsigned long long)source->size);
    return true;
}

static bool read_header(const file_source *source, array *header, uint64_t *data, reason why) {
    uint64_t start = 0;
    size_t length = 0;
    if (!find_header(source, &start, &length, why)) return false;
    char *text = malloc(length ? length : 1);
    if (!text) return refuse(why, "%s: no memory for the header", source->name);
    bool good = file_read_at(source, start, text, length, why) &&
                parse_header(text, length, source->name, header, why);
    free(text);
    *data = start + length;
    return good;
}

bool npy_find(const file_source *source, array *shape, uint64_t *data, reason why) {
    *shape = (array){0};
    if (!read_header(source, shape, data, why)) return false;
    if (!array_measure(shape->type, shape->rank, shape->shape, &shape->bytes))
        return refuse(why, "%s: the shape's product is too large", source->name);
    if (shape->bytes != source->size - *data)
        return refuse(why, "%s: the header asks for %zu bytes of data, the file has %llu", source->name,
                      shape->bytes, (unsigned long long)(source->size - *data));
    return true;
}

size_t npy_head(const array *a, char head[NPY_HEAD]) {
    size_t length = format_header(a, head + 10, NPY_HEAD - 10);
    if (length == 0) return 0;
    // The data starts at a multiple of 64, for readers that map the file.
    size_t total = (10 + length + 1 + 63) / 64 * 64;
    memset(head + 10 + length, ' ', total - 10 - length);
    head[total - 1] = '\n';
    memcpy(head, magic, sizeof magic);
    memcpy(head + 6, (char[]){1, 0, (char)((total - 10) & 0xff), (char)((total - 10) >> 8)}, 4);
    return total;
}

bool npy_write(const char *path, const array *a, reason why) {
    char head[NPY_HEAD];
    const size_t total = npy_head(a, head);
    if (total == 0) return refuse(why, "%s: %s cannot be written", path, array_type_name(a->type));
    return file_write_parts(path, (file_part[]){{head, total}, {a->data, a->bytes}}, 2, why);
}
