// tuned.c: see tuned.h.
#include "cli/tune/tuned.h"

#include <ctype.h>

#include "cli/files/file.h"

const char *tuned_head(const clattn_capabilities *device, char line[TUNED_HEAD]) {
    snprintf(line, TUNED_HEAD, "# %s, %s, clattn %s", device->name, device->driver, clattn_version());
    return line;
}

// The file's name shows the device to a reader. Only the first line of the file decides whose rows
// these are.
bool tuned_path(const char *folder, const clattn_capabilities *device, char *path, size_t size) {
    char name[100];
    size_t used = 0;
    for (const char *c = device->name; *c && used + 1 < sizeof name; c++)
        if (isalnum((unsigned char)*c) || (used && name[used - 1] != '-'))
            name[used++] = isalnum((unsigned char)*c) ? *c : '-';
    name[used] = '\0';
    const int length = snprintf(path, size, "%s/tuned-%s.txt", folder, used ? name : "device");
    return length > 0 && (size_t)length < size;
}

static bool is_for(const char *rows, const clattn_capabilities *device) {
    char head[TUNED_HEAD];
    const size_t length = strlen(tuned_head(device, head));
    return !strncmp(rows, head, length) && (rows[length] == '\n' || rows[length] == '\0');
}

int tuned_rows(const common_options *o, const char *folder, cl_device_id device, char **rows, bool *given) {
    char path[4200], why[512];
    unsigned char *text = NULL;
    size_t bytes = 0;
    clattn_capabilities of;
    *rows = NULL;
    *given = o->tuned && strcmp(o->tuned, "off");
    if (o->tuned && !*given) return -1;
    if (*given) {
        if (!file_read_whole(o->tuned, &text, &bytes, why)) return tool_wrong("--tuned %s", why);
        if (strlen((char *)text) != bytes)
            return free(text), tool_wrong("--tuned %s: holds a NUL: it is no text", o->tuned);
        *rows = (char *)text;
        return -1;
    }
    if (!folder || clattn_device_describe(device, &of) != CLATTN_OK ||
        !tuned_path(folder, &of, path, sizeof path))
        return -1;
    if (!file_read_whole(path, &text, &bytes, why)) return -1;
    if (is_for((char *)text, &of) && strlen((char *)text) == bytes) {
        *rows = (char *)text;
        return -1;
    }
    if (o->verbose)
        printable_printf(stderr, "clattn%s: %s is not used: it was made for another driver or version\n",
                         tool_name(), path);
    free(text);
    return -1;
}
