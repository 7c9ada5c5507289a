/* One error line, safe to print: see refuse.h. Called by every file reader and writer of the tool. */
#include "refuse.h"

#include <stdarg.h>
#include <stdio.h>

bool refuse(char *error, size_t error_size, const char *format, ...) {
    if (!error || error_size == 0) return false;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    for (char *c = error; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return false;
}
