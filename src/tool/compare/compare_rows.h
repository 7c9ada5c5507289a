// compare_rows.h: the rows of a file of clattn bench --save. Used by compare and report.
#ifndef CLATTN_TOOL_COMPARE_COMPARE_ROWS_H
#define CLATTN_TOOL_COMPARE_COMPARE_ROWS_H
#include <jansson.h>
#include <stdbool.h>

#include "tool/compare/compare_ratio.h"

// Read a file and check its rows. -1, or an exit status, and its words are said.
int compare_load(const char *path, json_t **file);
// Files of a command line, which the caller releases by compare_release whatever the status is: NULL from the bad one on.
int compare_load_all(const char *const *paths, int count, json_t **files);
void compare_release(json_t **files, int count);

// Of a row: a word ("" where there is none), a number, whether it was measured, its times.
const char *compare_text(const json_t *row, const char *key);
double compare_number(const json_t *row, const char *key);
bool compare_ok(const json_t *row);
void compare_times_of(const json_t *row, compare_times *times);
// A text of a file for the terminal, which control characters would steer.
const char *compare_shown(const json_t *row, const char *key, char buffer[256]);

// Which rows are to be compared with which, where one thing differs: `dtype`, `device`, `kernel` or `file`.
enum { COMPARE_BY_FILES = 0, COMPARE_BY_DTYPE, COMPARE_BY_DEVICE, COMPARE_BY_KERNEL, COMPARE_BY_FILE };
extern const char *const compare_by_words[]; // in the order of the enum, after the first; ending with NULL

// What two rows have in common that differ in that thing alone, and what they have of it.
void compare_by_key(const json_t *row, int file, int by, char key[1024]);
const char *compare_by_value(const json_t *row, const char *path, int by);
#endif
