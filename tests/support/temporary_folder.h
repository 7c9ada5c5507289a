/* temporary_folder.h: a folder for the files of one suite, as an unchecked fixture. Used by suites of the program's files;
 * the library's cache has cache_fixture.h. POSIX only. */
#ifndef CLATTN_TESTS_TEMPORARY_FOLDER_H
#define CLATTN_TESTS_TEMPORARY_FOLDER_H

#include <stdbool.h>

extern char folder[];

/* Make it; remove it with what is in it. */
void enter(void);
void leave(void);

/* How many entries it has; they go where that is said. */
int entries(bool remove_them);

/* The path of a name in it; valid for the next 63 calls. */
char *in_folder(const char *name);

#endif
