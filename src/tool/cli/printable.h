/* Text from outside, such as a name in a file, as it may reach a terminal: whatever is no UTF-8, steers the terminal (control characters,
 * those of U+0080 to U+009F, too) or turns what is read around (marks of direction, letters without width) becomes '?'. Called by all
 * that prints such text; JSON escapes it instead (JSON_ENSURE_ASCII). */
#ifndef CLATTN_TOOL_CLI_PRINTABLE_H
#define CLATTN_TOOL_CLI_PRINTABLE_H

#include <stdint.h>
#include <stdio.h> /* mingw-w64 says there which formats it has */

/* What printable_next says of a code point that is not to be printed, or of a byte that begins none. */
#define PRINTABLE_NONE 0xfffd

/* One code point, and move on. *text is no empty text. */
uint32_t printable_next(const char **text);

/* In place, which it may shorten; returns text. printable makes one line of it, printable_lines keeps newlines and tabs. */
char *printable(char *text);
char *printable_lines(char *text);

/* fprintf of which the result goes through printable_lines. */
#if defined(__MINGW_PRINTF_FORMAT)
__attribute__((format(__MINGW_PRINTF_FORMAT, 2, 3)))
#elif defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void printable_printf(FILE *to, const char *format, ...);

#endif
