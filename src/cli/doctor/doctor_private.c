// doctor_private.c: see doctor_private.h.
#ifndef _WIN32
#include <pwd.h>
#include <unistd.h>
#endif
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor_private.h"

#define NAMES 8
#define NAME_MOST 128

typedef struct private_names {
    int count;
    struct {
        char name[NAME_MOST];
        const char *shown;
    } of[NAMES];
} private_names;

// Register a name to hide. Names shorter than two letters, and common ones that identify nobody,
// are not hidden.
static void add_name(private_names *all, const char *name, const char *shown) {
    static const char *const common[] = {"root", "localhost", "user", "home", "ubuntu", "debian"};
    if (!name || strlen(name) < 2 || strlen(name) >= NAME_MOST || all->count == NAMES) return;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
        if (!strcmp(name, common[i])) return;
    snprintf(all->of[all->count].name, NAME_MOST, "%s", name);
    all->of[all->count++].shown = shown;
}

static const char *last_part(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static void find_names(private_names *all) {
    static const char *const of_user[] = {"USER", "LOGNAME", "USERNAME", "SUDO_USER"};
    char host[NAME_MOST] = "";
    all->count = 0;
    for (size_t i = 0; i < sizeof of_user / sizeof of_user[0]; i++)
        add_name(all, getenv(of_user[i]), "(user)");
    add_name(all, last_part(getenv("HOME")), "(user)");
#ifndef _WIN32
    const struct passwd *entry = getpwuid(getuid());
    if (entry) add_name(all, entry->pw_name, "(user)");
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
#endif
    add_name(all, host, "(host)");
    host[strcspn(host, ".")] = '\0';
    add_name(all, host, "(host)");
}

static bool is_word(char letter) {
    return isalnum((unsigned char)letter);
}

static bool same_letters(const char *text, const char *name) {
    for (; *name; text++, name++)
        if (tolower((unsigned char)*text) != tolower((unsigned char)*name)) return false;
    return true;
}

typedef struct growing {
    char *text;
    size_t used;
} growing;

// The buffer has room, because no replacement is longer than NAME_MOST.
static void add(growing *g, const char *from, size_t length) {
    memcpy(g->text + g->used, from, length);
    g->used += length;
    g->text[g->used] = '\0';
}

// Append `length` letters of the text with names replaced.
static void add_words(growing *g, const private_names *all, const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        size_t step = 1;
        const bool begins = at == 0 || !is_word(text[at - 1]);
        for (int i = 0; begins && i < all->count; i++) {
            const size_t size = strlen(all->of[i].name);
            if (size > length - at || !same_letters(text + at, all->of[i].name) ||
                (size < length - at && is_word(text[at + size])))
                continue;
            add(g, all->of[i].shown, strlen(all->of[i].shown));
            step = size;
            goto next; // the letters are already replaced
        }
        add(g, text + at, 1);
    next:
        at += step;
    }
}

static bool of_system(const char *path, size_t length) {
    static const char *const folders[] = {"/usr/",
                                          "/etc/",
                                          "/lib",
                                          "/opt/",
                                          "/bin/",
                                          "/sbin/",
                                          "/dev/",
                                          "/proc/",
                                          "/sys/",
                                          "/nix/",
                                          "/run/opengl-driver"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (length >= strlen(folders[i]) && !strncmp(path, folders[i], strlen(folders[i]))) return true;
    return length == 9 && !strncmp(path, "/dev/null", 9);
}

// The length of a path that begins at `at`, or 0. A path begins with a drive, or with a slash that
// follows no letter.
static size_t path_length(const char *text, size_t at) {
    const bool drive = isalpha((unsigned char)text[at]) && text[at + 1] == ':' && text[at + 2] == '\\';
    const char before = at ? text[at - 1] : ' ';
    if (!drive && (text[at] != '/' || is_word(before) || strchr("_-./", before))) return 0;
    if (!drive && (text[at + 1] == '\0' || isspace((unsigned char)text[at + 1]))) return 0;
    return (drive ? 2 : 0) + strcspn(text + at + (drive ? 2 : 0), " \t\n'\"`:;,()<>|=");
}

static char *without_private(const private_names *all, const char *text) {
    const size_t length = strlen(text);
    // The longest replacements are "(user)" for two letters and ".../" for one.
    growing g = {.text = malloc(length * 8 + 8)};
    if (!g.text) return NULL;
    g.text[0] = '\0';
    for (size_t at = 0; at < length;) {
        const size_t path = path_length(text, at);
        size_t end = path ? path : 1;
        if (path && !of_system(text + at, path)) {
            size_t from = path; // keep a slash at the end
            while (from > 1 && text[at + from - 2] != '/' && text[at + from - 2] != '\\') from--;
            add(&g, ".../", 4);
            add_words(&g, all, text + at + (from > 1 ? from - 1 : 1), path - (from > 1 ? from - 1 : 1));
        } else {
            while (!path && at + end < length && !path_length(text, at + end)) end++;
            add_words(&g, all, text + at, end);
        }
        at += end;
    }
    return g.text;
}

static void remove_names(json_t *value, const private_names *all) {
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach(value, key, item) remove_names(item, all);
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, item) remove_names(item, all);
    } else if (json_is_string(value)) {
        char *text = without_private(all, json_string_value(value));
        (void)json_string_set(value, text ? text : "");
        free(text);
    }
}

void doctor_remove_private(json_t *value) {
    private_names all;
    find_names(&all);
    remove_names(value, &all);
}
