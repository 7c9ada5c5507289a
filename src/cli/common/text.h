// text.h: text that somebody else wrote, as it may reach a terminal, and error lines. Of text that is no UTF-8, steers the terminal
// (control characters, those of U+0080 to U+009F, too) or turns what is read around (marks of direction, letters without width) each such
// part becomes a question mark. JSON escapes it instead (JSON_ENSURE_ASCII).
#ifndef CLATTN_TOOL_CLI_TEXT_H
#define CLATTN_TOOL_CLI_TEXT_H
// Nearly every file of the program needs these.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> // mingw-w64 says there which formats it has
#include <stdlib.h>
#include <string.h>

#if defined(__MINGW_PRINTF_FORMAT)
#define TOOL_PRINTF(at) __attribute__((__format__(__MINGW_PRINTF_FORMAT, at, at + 1)))
#elif defined(__GNUC__)
#define TOOL_PRINTF(at) __attribute__((__format__(__printf__, at, at + 1)))
#else
#define TOOL_PRINTF(at)
#endif

// printable_next's answer for a code point that is not to be printed, or a byte that begins none.
#define PRINTABLE_NONE 0xfffd

// One code point, and move on. *text is no empty text.
uint32_t printable_next(const char **text);

// In place, which it may shorten; returns text. printable makes one line of it, printable_lines keeps newlines and tabs.
char *printable(char *text);
char *printable_lines(char *text);
// fprintf of which the result goes through printable_lines.
void printable_printf(FILE *to, const char *format, ...) TOOL_PRINTF(2);

// Why something failed: one printable line, cut to fit. Every reader and writer of files has room for one as its last argument, which may
// be NULL. refuse writes it and returns false, so that a check reads `return refuse(...)`.
typedef char reason[512];
bool refuse(reason why, const char *format, ...) TOOL_PRINTF(2);

// The (at most three) names nearest to `wanted` into text[size], separated by ", ", nearest first, cut to fit. Near is the Levenshtein
// distance over the last 128 bytes of each, where tensor names differ.
void nearest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size);
// The one that was probably meant: the nearest, where it differs in a few letters alone; else NULL.
const char *nearest_name(const char *wanted, const char *const *names, size_t count);
#endif
