/* The .npy reader: a file's bytes. What is read from memory is read from a file, too, and its header written
 * again, which must be read as the same. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "tool/files/npy.h"
#include "tool/files/npy_header.h"

bool fuzz_one(const uint8_t *data, size_t size) {
    char error[256] = "", text[502];
    array a;
    const bool good = npy_parse(data, size, &a, error, sizeof error);
    fuzz_check_error(good, error);
    /* A failure leaves nothing; a success gave memory for all it claims. */
    FUZZ_CHECK(good || !a.data);
    if (!good) return false;
    FUZZ_CHECK((size_t)array_count(&a) * array_type_size(a.type) == a.bytes);
    npy_header again;
    const size_t length = npy_header_format(&a, text, sizeof text);
    FUZZ_CHECK(length && npy_header_parse(text, length, "again", &again, error, sizeof error));
    FUZZ_CHECK(again.type == a.type && again.rank == a.rank);
    for (int i = 0; i < a.rank; i++) FUZZ_CHECK(again.shape[i] == a.shape[i]);
    fuzz_write("f.npy", data, size);
    array read;
    FUZZ_CHECK(npy_read("f.npy", &read, error, sizeof error) && read.bytes == a.bytes);
    FUZZ_CHECK(a.bytes == 0 || !memcmp(read.data, a.data, a.bytes));
    FUZZ_CHECK(npy_write("f.npy", &a, error, sizeof error));
    array_free(&read);
    array_free(&a);
    return true;
}
