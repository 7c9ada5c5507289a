/* .npy files: the envelope (magic, version, header length, data) and the checks of sizes; the header's
 * dictionary is npy_header.c's. Called by load.c and by the sub-commands. */
#include "tool/files/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/files/file.h"
#include "tool/files/npy_header.h"
#include "tool/cli/refuse.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data goes between file and memory unchanged");

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Where the dictionary is: past magic, version and a length of 2 bytes in format 1, 4 bytes in formats 2
 * and 3. */
static bool find_header(const file_source *source, uint64_t *start, size_t *length, char *error,
                        size_t error_size) {
    unsigned char head[12];
    if (!file_read_at(source, 0, head, 10, error, error_size)) return false;
    if (memcmp(head, magic, sizeof magic) != 0)
        return refuse(error, error_size, "%s: not a .npy file", source->name);
    if (head[6] < 1 || head[6] > 3 || head[7] != 0)
        return refuse(error, error_size, "%s: .npy format %d.%d; 1.0, 2.0 and 3.0 are read", source->name,
                      head[6], head[7]);
    *start = head[6] == 1 ? 10 : 12;
    if (!file_read_at(source, 0, head, (size_t)*start, error, error_size)) return false;
    *length = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) *length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (*length > source->size - *start)
        return refuse(error, error_size, "%s: header of %zu bytes, the file has %llu", source->name, *length,
                      (unsigned long long)source->size);
    return true;
}

static bool read_header(const file_source *source, npy_header *header, uint64_t *data, char *error,
                        size_t error_size) {
    uint64_t start = 0;
    size_t length = 0;
    if (!find_header(source, &start, &length, error, error_size)) return false;
    char *text = malloc(length ? length : 1);
    if (!text) return refuse(error, error_size, "%s: no memory for the header", source->name);
    bool good = file_read_at(source, start, text, length, error, error_size) &&
                npy_header_parse(text, length, source->name, header, error, error_size);
    free(text);
    *data = start + length;
    return good;
}

bool npy_find(const file_source *source, array *shape, uint64_t *data, char *error, size_t error_size) {
    npy_header header = {0};
    size_t bytes = 0;
    *shape = (array){0};
    if (!read_header(source, &header, data, error, error_size)) return false;
    if (!array_measure(header.type, header.rank, header.shape, &bytes))
        return refuse(error, error_size, "%s: the shape's product is too large", source->name);
    if (bytes != source->size - *data)
        return refuse(error, error_size, "%s: the header asks for %zu bytes of data, the file has %llu",
                      source->name, bytes, (unsigned long long)(source->size - *data));
    shape->type = header.type, shape->rank = header.rank, shape->bytes = bytes;
    memcpy(shape->shape, header.shape, sizeof header.shape);
    return true;
}

static bool read_array(const file_source *source, array *out, char *error, size_t error_size) {
    array found;
    uint64_t data = 0;
    *out = (array){0};
    if (!npy_find(source, &found, &data, error, error_size)) return false;
    if (!array_create(out, found.type, found.rank, found.shape))
        return refuse(error, error_size, "%s: no memory for %zu bytes", source->name, found.bytes);
    if (file_read_at(source, data, out->data, found.bytes, error, error_size)) return true;
    array_free(out);
    return false;
}

bool npy_parse(const unsigned char *bytes, size_t size, array *out, char *error, size_t error_size) {
    file_source source = file_from_memory(bytes, size);
    return read_array(&source, out, error, error_size);
}

bool npy_read(const char *path, array *out, char *error, size_t error_size) {
    *out = (array){0};
    file_source source;
    bool good = file_open(path, &source, error, error_size) && read_array(&source, out, error, error_size);
    file_close(&source);
    return good;
}

size_t npy_head(const array *a, char *head, size_t size) {
    size_t length = npy_header_format(a, head + 10, size - 10);
    if (length == 0) return 0;
    /* The data starts at a multiple of 64, for readers that map the file. */
    size_t total = (10 + length + 1 + 63) / 64 * 64;
    memset(head + 10 + length, ' ', total - 10 - length);
    head[total - 1] = '\n';
    memcpy(head, magic, sizeof magic);
    head[6] = 1;
    head[7] = 0;
    head[8] = (char)((total - 10) & 0xff);
    head[9] = (char)((total - 10) >> 8);
    return total;
}

bool npy_write(const char *path, const array *a, char *error, size_t error_size) {
    char head[512];
    const size_t total = npy_head(a, head, sizeof head);
    if (total == 0)
        return refuse(error, error_size, "%s: %s cannot be written", path, array_type_name(a->type));
    return file_write_parts(path, (file_part[]){{head, total}, {a->data, a->bytes}}, 2, error, error_size);
}
