/* A parser for the subset of Python literals that a .npy header holds; it never looks past the given length
 * and keeps no memory. Called by npy.c. */
#include "tool/files/npy_header.h"

#include <stdio.h>
#include <string.h>

#include "tool/cli/refuse.h"

#define ACCEPTED "<f2 <f4 <i4 <i8 |b1 <u2 (bfloat16 as <u2) are read"

static const struct {
    const char *descr;
    array_type type;
} descrs[] = {{"<f4", ARRAY_F32},  {"<f2", ARRAY_F16}, {"<i4", ARRAY_I32}, {"<i8", ARRAY_I64},
              {"|b1", ARRAY_BOOL}, {"<u2", ARRAY_U16}, {"<u2", ARRAY_BF16}};

typedef struct reader {
    const char *at, *end;
    const char *name; /* of the file */
    char *error;
    size_t error_size;
} reader;

static bool malformed(reader *r, const char *what) {
    return refuse(r->error, r->error_size, "%s: damaged .npy header: %s", r->name, what);
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

/* Take one character past white space if it is the next. */
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

/* A string of at most size - 1 plain characters in either kind of quotes. */
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
    (void)take(r, 'L'); /* Python 2 wrote long integers so */
    *size = value;
    return true;
}

static bool read_descr(reader *r, npy_header *header) {
    char descr[32];
    if (take(r, '[')) return refuse(r->error, r->error_size, "%s: a structured type; " ACCEPTED, r->name);
    if (!take_string(r, descr, sizeof descr)) return false;
    for (size_t d = 0; d < sizeof descrs / sizeof *descrs; d++) {
        if (strcmp(descr, descrs[d].descr) != 0) continue;
        header->type = descrs[d].type;
        return true;
    }
    return refuse(r->error, r->error_size, "%s: type %s; " ACCEPTED, r->name, descr);
}

static bool read_order(reader *r) {
    if (take_word(r, "False")) return true;
    if (!take_word(r, "True")) return malformed(r, "fortran_order is not True or False");
    return refuse(r->error, r->error_size, "%s: Fortran order; save numpy.ascontiguousarray of it", r->name);
}

static bool read_shape(reader *r, npy_header *header) {
    if (!take(r, '(')) return malformed(r, "shape is not a tuple");
    header->rank = 0;
    while (!take(r, ')')) {
        if (header->rank == ARRAY_MAX_RANK)
            return refuse(r->error, r->error_size, "%s: more than %d axes", r->name, ARRAY_MAX_RANK);
        if (!take_size(r, &header->shape[header->rank++])) return false;
        bool comma = take(r, ',');
        if (!comma && (header->rank == 1 || r->at == r->end || *r->at != ')'))
            return malformed(r, "shape is not a tuple");
    }
    return true;
}

/* One "key: value"; `seen` has a bit for each key. */
static bool read_item(reader *r, npy_header *header, unsigned *seen) {
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

bool npy_header_parse(const char *text, size_t length, const char *name, npy_header *header, char *error,
                      size_t error_size) {
    reader r = {text, text + length, name, error, error_size};
    *header = (npy_header){0};
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

size_t npy_header_format(const array *a, char *text, size_t size) {
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
