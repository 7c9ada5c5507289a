/* temporary_folder.c: see temporary_folder.h. */
#define _XOPEN_SOURCE 700
#include "support/temporary_folder.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char folder[] = "test-folder-XXXXXX";

void enter(void) {
    if (!mkdtemp(folder)) ck_abort_msg("no temporary folder");
}

int entries(bool remove_them) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    for (struct dirent *entry; open_folder && (entry = readdir(open_folder));) {
        char path[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (remove_them) remove(path);
    }
    if (open_folder) closedir(open_folder);
    return count;
}

void leave(void) {
    entries(true);
    rmdir(folder);
}

char *in_folder(const char *name) {
    static char paths[64][512];
    static int next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
