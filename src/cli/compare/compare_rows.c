// compare_rows.c: read and check the rows of `clattn bench --save` files, and match rows. See
// compare.h.
#include "cli/bench/bench_table.h"
#include "cli/files/file.h"
#include "cli/files/seal.h"

const char *row_text(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

double row_number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

// Times are from 1 ns to 30 years, so that ratios are finite numbers, as JSON requires.
static bool is_time(const json_t *row, const char *key, double least) {
    return json_is_number(json_object_get(row, key)) && row_number(row, key) >= least &&
           row_number(row, key) <= 1e18;
}

// Samples may be absent, or are an array of times.
static bool valid_samples(const json_t *samples) {
    json_t *sample;
    size_t i;
    if (!samples) return true;
    json_array_foreach(samples, i, sample) {
        const double ns = json_number_value(sample);
        if (!json_is_number(sample) || ns < 1.0 || ns > 1e18) return false;
    }
    return json_is_array(samples) && json_array_size(samples) <= COMPARE_SAMPLES;
}

static bool valid_rows(const json_t *rows) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const bool timed = is_time(row, "time_ns", 1.0) && is_time(row, "time_ns_spread", 0.0) &&
                           valid_samples(json_object_get(row, "samples_ns"));
        if (!row_text(row, "case")[0] || !json_is_string(json_object_get(row, "device")) ||
            !row_text(row, "status")[0])
            return false;
        if (!strcmp(row_text(row, "status"), "ok") && !timed) return false;
    }
    return json_is_array(rows);
}

// True if a submission's hash is correct. Other files have no hash.
static bool is_as_written(const json_t *file) {
    const json_t *told = json_object_get(file, "sha256");
    char hash[SEAL_LETTERS + 1];
    if (!told && !json_object_get(file, "submission")) return true;
    return json_is_string(told) && seal_of(file, hash) && !strcmp(json_string_value(told), hash);
}

int compare_load(const char *path, json_t **file) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    reason why;
    json_error_t error;
    if (!file_read_whole(path, &bytes, &count, why)) return tool_wrong("%s", why);
    *file = json_loadb((const char *)bytes, count, 0, &error);
    free(bytes);
    if (!*file)
        return tool_wrong("%s: no JSON of clattn bench --save: line %d: %s", path, error.line, error.text);
    const json_t *version = json_object_get(*file, "format_version");
    if (!json_is_integer(version) || json_integer_value(version) != BENCH_FORMAT_VERSION)
        return tool_wrong("%s: format_version is not %d: a file of clattn bench --save is needed", path,
                          BENCH_FORMAT_VERSION);
    if (!is_as_written(*file))
        return tool_wrong(
            "%s: its sha256 is not that of its content: the file was changed after clattn bench "
            "--submit wrote it; the file as it was written is needed",
            path);
    if (valid_rows(json_object_get(*file, "rows"))) return -1;
    return tool_wrong("%s: rows lack case, device, status or times of 1 to 1e18 ns: a file of clattn bench "
                      "--save is needed",
                      path);
}

const char *row_shown(const json_t *row, const char *key, char buffer[256]) {
    snprintf(buffer, 256, "%s", row_text(row, key));
    return printable(buffer);
}

void compare_times_of(const json_t *row, compare_times *times) {
    const json_t *samples = json_object_get(row, "samples_ns");
    json_t *sample;
    size_t i;
    *times =
        (compare_times){.median = row_number(row, "time_ns"), .spread = row_number(row, "time_ns_spread")};
    json_array_foreach(samples, i, sample) {
        if (times->count < COMPARE_SAMPLES) times->samples[times->count++] = json_number_value(sample);
    }
}

bool row_ok(const json_t *row) {
    return !strcmp(row_text(row, "status"), "ok");
}

int compare_load_all(const char *const *paths, int count, json_t **files) {
    int status = -1;
    for (int i = 0; i < count; i++) files[i] = NULL;
    for (int i = 0; i < count && status < 0; i++) status = compare_load(paths[i], &files[i]);
    return status;
}

void compare_release(json_t **files, int count) {
    for (int i = 0; i < count; i++) json_decref(files[i]);
}

const char *const compare_by_words[] = {"dtype", "device", "kernel", "file", NULL};

// Remove one token from a case's name.
static void without(char *name, const char *token) {
    const size_t length = strlen(token);
    for (char *at = name; length && (at = strstr(at, token)) != NULL; at++) {
        const bool whole = (at == name || at[-1] == '-') && (at[length] == '-' || at[length] == '\0');
        if (!whole) continue;
        memmove(at, at + length, strlen(at + length) + 1);
        return;
    }
}

void compare_by_key(const json_t *row, int file, int by, char key[1024]) {
    static const char *const kernels[] = {"unfused", "flash", "decode", "clblast", "native"};
    char name[600];
    snprintf(name, sizeof name, "%s", row_text(row, "case"));
    if (by == COMPARE_BY_DTYPE) without(name, row_text(row, "dtype"));
    for (size_t i = 0; by == COMPARE_BY_KERNEL && i < sizeof kernels / sizeof kernels[0]; i++)
        without(name, kernels[i]);
    // Remove hyphens left at the end.
    for (size_t length = strlen(name); length && name[length - 1] == '-'; length--) name[length - 1] = '\0';
    snprintf(key, 1024, "%s|%.300s|%d", name, by == COMPARE_BY_DEVICE ? "" : row_text(row, "device"),
             by == COMPARE_BY_FILE ? 0 : file);
}

const char *compare_by_value(const json_t *row, const char *path, int by) {
    return by == COMPARE_BY_FILE ? path : row_text(row, compare_by_words[by - 1]);
}
