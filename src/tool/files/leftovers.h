/* Names of temporary files, and those that stay where a run was killed: the next run that writes to the same folder removes them. Called
 * by file.c alone. */
#ifndef CLATTN_TOOL_FILES_LEFTOVERS_H
#define CLATTN_TOOL_FILES_LEFTOVERS_H

#include <stddef.h>

/* A name for the file that is written in the folder of `target`, of which the first `folder` bytes name it: of this host and process, and
 * n. 0, or -1 where it does not fit. */
int leftovers_name(char *name, size_t size, const char *target, size_t folder, unsigned long n);

/* Whoever writes such a file keeps it open and calls this, so that no other process takes it for a leftover. */
void leftovers_hold(int descriptor);

/* Remove those in that folder that were made on this host by a process that is gone, of this user. One that anybody holds, also in
 * another container, stays; so does every other file. */
void leftovers_remove(const char *target, size_t folder);

#endif
