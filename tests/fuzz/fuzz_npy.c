/* The .npy reader: the bytes of a file. Whatever is read from memory must also be read from a file.
 * Its header is written again and must be read as the same. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/files/formats.h"

bool fuzz_one(const uint8_t *data, size_t size) {
    reason error = "";
    char text[NPY_HEAD];
    const file_source source = file_from_memory(data, size);
    array a, again;
    const bool good = load_from(&source, NULL, &a, error);
    fuzz_check_error(good, error);
    /* A failure leaves no memory. A success has allocated all of the array. */
    FUZZ_CHECK(good || !a.data);
    if (!good) return false;
    FUZZ_CHECK((size_t)array_count(&a) * array_type_size(a.type) == a.bytes);
    const size_t length = npy_head(&a, text);
    FUZZ_CHECK(length);
    fuzz_write("f.npy", data, size);
    FUZZ_CHECK(load_array("f.npy", &again, error) && again.bytes == a.bytes);
    FUZZ_CHECK(a.bytes == 0 || !memcmp(again.data, a.data, a.bytes));
    array_free(&again);
    /* Write its header again, before the same data. */
    unsigned char *whole = malloc(length + a.bytes);
    memcpy(whole, text, length), memcpy(whole + length, a.data, a.bytes);
    const file_source written = file_from_memory(whole, length + a.bytes);
    FUZZ_CHECK(load_from(&written, NULL, &again, error));
    FUZZ_CHECK(again.type == a.type && again.rank == a.rank);
    for (int i = 0; i < a.rank; i++) FUZZ_CHECK(again.shape[i] == a.shape[i]);
    FUZZ_CHECK(npy_write("f.npy", &a, error));
    free(whole);
    array_free(&again);
    array_free(&a);
    return true;
}
