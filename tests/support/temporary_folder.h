/* temporary_folder.h: a folder for the files of one suite, as an unchecked fixture. Used by
 * suites of the program's files; the library's cache has cache_fixture.h. POSIX only. */
#ifndef CLATTN_TESTS_TEMPORARY_FOLDER_H
#define CLATTN_TESTS_TEMPORARY_FOLDER_H

#include <stdbool.h>

extern char folder[];

/* Create the folder; remove it with its contents. */
void enter(void);
void leave(void);

/* Return the number of entries in the folder. `remove_them` also removes them. */
int entries(bool remove_them);

/* The path of a name in the folder; valid for the next 63 calls. */
char *in_folder(const char *name);

#endif
