// layer_find.c: find a layer's tensors in one file or in the shards of a model's folder.
#include "cli/layer/layer_weights.h"

bool layer_weights_have(const layer_weights *w, char **names, size_t count, const char *name) {
    if (w->shards) return json_object_get(w->shards, name) != NULL;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

// True if the name is that of a file in the folder itself on every system: no path, drive or
// stream. Links are followed.
static bool is_plain(const char *shard) {
    bool good = *shard && !strpbrk(shard, "/\\:") && strcmp(shard, ".") && strcmp(shard, "..");
    for (const char *at = shard; *at && good;) good = printable_next(&at) != PRINTABLE_NONE;
    return good;
}

// Find the file that has a tensor. A shard's name must be plain. Prints a line on failure.
static int find_file(const layer_weights *w, const char *name, char path[1024]) {
    const char *shard = w->shards ? json_string_value(json_object_get(w->shards, name)) : w->file;
    if (!shard) return tool_wrong("--model: no shard holds %s", name);
    if (w->shards && !is_plain(shard))
        return tool_wrong("--model: shard '%s': is not a plain name of a file in the folder", shard);
    const int length =
        snprintf(path, 1024, "%s%s%s", w->shards ? w->folder : "", w->shards ? "/" : "", shard);
    return length > 0 && length < 1024 ? -1 : tool_wrong("--weights: the path is too long");
}

int layer_find(const layer_weights *w, const char *name, load_place *place) {
    char error[512], path[1024];
    const int status = find_file(w, name, path);
    if (status >= 0) return status;
    return load_find_tensor(path, name, place, error) ? -1 : tool_wrong("--weights: %s", error);
}

int layer_find_load(const char *option, const load_place *place, array *a) {
    reason error;
    const int64_t start = 0, all = place->whole.rank ? place->whole.shape[0] : 1;
    if (load_rows(place, 0, 1, &start, &all, a, error)) return -1;
    return tool_wrong("--%s: %s", option, error);
}

int layer_weights_read(const layer_weights *w, const char *name, array *a) {
    load_place place;
    int status = layer_find(w, name, &place);
    if (status >= 0) return status;
    status = layer_find_load("weights", &place, a);
    load_leave(&place);
    return status;
}
