/* One error line. Every reader and writer of the tool says why it failed in a single line of printable text,
 * also where the text quotes bytes of a damaged file. What is done with the line is the caller's matter. */
#ifndef CLATTN_TOOL_CLI_REFUSE_H
#define CLATTN_TOOL_CLI_REFUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h> /* mingw-w64 says there which formats it has */

/* Write one line into error[error_size], cut to fit; control characters become '?'. Always returns false, so
 * that a check reads `return refuse(...)`. error may be NULL with size 0. */
#if defined(__MINGW_PRINTF_FORMAT)
__attribute__((format(__MINGW_PRINTF_FORMAT, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool refuse(char *error, size_t error_size, const char *format, ...);

#endif
