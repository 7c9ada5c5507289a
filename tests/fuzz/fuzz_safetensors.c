/* The safetensors reader: the bytes of a file. Each tensor in its index is read by its name, and so
 * is a name that does not exist. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/files/formats.h"

static bool read_one(const uint8_t *data, size_t size, const char *name) {
    reason error = "";
    array a;
    const file_source source = file_from_memory(data, size);
    const bool good = load_from(&source, name, &a, error);
    fuzz_check_error(good, error);
    FUZZ_CHECK(good || !a.data);
    if (good) FUZZ_CHECK((size_t)array_count(&a) * array_type_size(a.type) == a.bytes);
    array_free(&a);
    return good;
}

/* Read the tensors from a file. */
static void read_file(const uint8_t *data, size_t size, size_t names) {
    reason error = "";
    char **list = NULL;
    size_t count = 0;
    fuzz_write("f.safetensors", data, size);
    FUZZ_CHECK(safetensors_names("f.safetensors", &list, &count, error) && count == names);
    FUZZ_CHECK(list[count] == NULL);
    for (size_t i = 0; i < count && i < 2; i++) {
        error[0] = '\0';
        load_place place;
        const bool found = load_find_tensor("f.safetensors", list[i], &place, error);
        fuzz_check_error(found, error);
        if (found) FUZZ_CHECK(place.whole.bytes <= size);
        load_leave(&place);
    }
    free(list);
}

bool fuzz_one(const uint8_t *data, size_t size) {
    reason error = "";
    const file_source source = file_from_memory(data, size);
    safetensors_index index = {0};
    bool any = false;
    const bool good = safetensors_index_open(&source, &index, error);
    fuzz_check_error(good, error);
    for (size_t i = 0; good && i < index.count && i < 8; i++)
        any = read_one(data, size, index.entries[i].name) || any;
    if (any) read_file(data, size, index.count);
    safetensors_index_close(&index);
    (void)read_one(data, size, "no such tensor");
    return any;
}
