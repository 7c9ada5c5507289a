// seal.c: see seal.h. The hash is SHA-256 of a canonical form: the object without "sha256", in
// UTF-8, with sorted keys, without spaces, and with each real number as its %.9g text.
#include "cli/files/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

// Copy the value with every real number replaced by its text.
static json_t *canonical(const json_t *value) {
    const char *key;
    json_t *each, *copy;
    size_t i;
    char number[32];
    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach((json_t *)value, key, each) json_object_set_new(copy, key, canonical(each));
        return copy;
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach(value, i, each) json_array_append_new(copy, canonical(each));
        return copy;
    }
    snprintf(number, sizeof number, "%.9g", json_number_value(value));
    return json_is_real(value) ? json_string(number) : json_deep_copy(value);
}

bool seal_of(const json_t *file, char hash[SEAL_LETTERS + 1]) {
    uint8_t digest[SHA256_BYTES];
    json_t *rest = canonical(file);
    json_object_del(rest, "sha256");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(rest);
    if (!text) return false;
    cla_sha256_of(text, strlen(text), digest);
    free(text);
    for (int i = 0; i < SHA256_BYTES; i++) snprintf(hash + 2 * i, 3, "%02x", digest[i]);
    return true;
}
