// text.h: make text from outside safe for a terminal, and format error lines. Each of these becomes
// a question mark: bytes that are not UTF-8; control characters, including U+0080 to U+009F;
// direction marks; zero-width characters. JSON escapes them instead (JSON_ENSURE_ASCII).
#ifndef CLATTN_CLI_COMMON_TEXT_H
#define CLATTN_CLI_COMMON_TEXT_H
// Headers that nearly every file of the program needs.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> // also defines mingw-w64's printf dialect
#include <stdlib.h>
#include <string.h>

#if defined(__MINGW_PRINTF_FORMAT)
#define TOOL_PRINTF(at) __attribute__((__format__(__MINGW_PRINTF_FORMAT, at, at + 1)))
#elif defined(__GNUC__)
#define TOOL_PRINTF(at) __attribute__((__format__(__printf__, at, at + 1)))
#else
#define TOOL_PRINTF(at)
#endif

// printable_next returns this for an unprintable code point or an invalid byte.
#define PRINTABLE_NONE 0xfffd

// Returns the next code point and advances *text, which must not be empty.
uint32_t printable_next(const char **text);

// Replace in place, and return `text`, which may become shorter. printable also replaces newlines
// and tabs; printable_lines keeps them.
char *printable(char *text);
char *printable_lines(char *text);
// fprintf through printable_lines.
void printable_printf(FILE *to, const char *format, ...) TOOL_PRINTF(2);

// Why an operation failed: one printable line, cut to fit. Each reader and writer of files has a
// `reason`, which may be NULL, as its last parameter. refuse() writes the line and returns false,
// so that a check is `return refuse(...)`.
typedef char reason[512];
bool refuse(reason why, const char *format, ...) TOOL_PRINTF(2);

// Write the at most three names nearest to `wanted` to text[size], nearest first, separated by ", "
// and cut to fit. The distance is Levenshtein's over the last 128 bytes of each name, where tensor
// names differ.
void nearest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size);
// The nearest name if it differs by a few letters only, else NULL: the name that the user probably
// meant.
const char *nearest_name(const char *wanted, const char *const *names, size_t count);
#endif
