// bench_submit.c: see bench_table.h. The hash is that of a canonical form, so that it does not depend on white space or order: JSON
// without "sha256", its keys sorted and no space between, in UTF-8, each real number as the text that %.9g makes of it.
#include <time.h>

#include "base/sha256.h"
#include "tool/bench/bench_table.h"

// Prefill of small and large heads, decode of one item and of eight, gradients, and a layer with its projections.
const char bench_submit_cases[] =
    "attend-f32-b1-h12-n1024-d64-full,attend-f16-b1-h12-n1024-d64-full,attend-bf16-b1-h12-n1024-d64-full,"
    "attend-f32-b1-h12-n2048-d64-causal,attend-bf16-b1-h12-n2048-d64-causal,"
    "attend-f32-b1-h16-n4096-d128-full,attend-f16-b1-h16-n4096-d128-full,attend-bf16-b1-h16-n4096-d128-full,"
    "decode-f32-b1-h32-hkv8-n1-nkv4096-d128-full,decode-f16-b1-h32-hkv8-n1-nkv4096-d128-full,"
    "decode-bf16-b1-h32-hkv8-n1-nkv4096-d128-full,decode-bf16-b8-h32-hkv8-n1-nkv4096-d128-full,"
    "backward-f32-b1-h12-n1024-d64-full,backward-bf16-b1-h12-n1024-d64-full,"
    "layer-f32-b1-h12-n512-d64-m768-full,layer-bf16-b1-h12-n512-d64-m768-full";

int bench_submit_check(const command_line *line) {
    static const char *const accepted[] = {"submit",    "save", "max-ms", "-o",      "device",
                                           "cache-dir", "json", "quiet",  "verbose", NULL};
    EACH_OPTION(line, group, row, n) {
        int known = 0;
        while (accepted[known] && strcmp(accepted[known], row->name)) known++;
        if (line->values[n] && !accepted[known])
            return tool_wrong("--submit: its cases and how they are measured are the same everywhere: no %s%s "
                              "beside it; --max-ms, --device, --cache-dir, --save, -o, --json, --quiet and "
                              "--verbose are accepted",
                              option_dashes(row), row->name);
    }
    return -1;
}

// A copy with every real number as its text.
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

static bool hash_of(const json_t *file, char hash[2 * SHA256_BYTES + 1]) {
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

char *bench_submit_text(const json_t *table, double max_ms, size_t *bytes) {
    char date[32] = "", hash[2 * SHA256_BYTES + 1];
    const time_t now = time(NULL);
    const struct tm *parts = gmtime(&now);
    if (parts) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", parts);
    json_t *whole = json_copy((json_t *)table);
    json_object_set_new(whole, "submission",
                        json_pack("{s:s, s:i, s:s, s:f}", "set", BENCH_SUBMIT_SET, "set_version",
                                  BENCH_SUBMIT_VERSION, "date", date, "max_ms", max_ms));
    char *text = bench_table_text(whole, BENCH_JSON, bytes);
    json_decref(whole);
    json_t *file = text ? json_loads(text, 0, NULL) : NULL; // the hash is of what a reader will see
    free(text);
    text = NULL;
    if (file && hash_of(file, hash)) {
        json_object_set_new(file, "sha256", json_string(hash));
        text = bench_table_text(file, BENCH_JSON, bytes);
    }
    json_decref(file);
    return text;
}

bool bench_submit_fits(const json_t *file) {
    const json_t *told = json_object_get(file, "sha256");
    char hash[2 * SHA256_BYTES + 1];
    if (!told && !json_object_get(file, "submission")) return true;
    return json_is_string(told) && hash_of(file, hash) && !strcmp(json_string_value(told), hash);
}
