/* One error line, safe to print: see refuse.h. Called by every file reader and writer of the tool. */
#include "tool/cli/refuse.h"

#include <stdarg.h>
#include <stdio.h>

#include "tool/cli/printable.h"

bool refuse(char *error, size_t error_size, const char *format, ...) {
    if (!error || error_size == 0) return false;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    (void)printable(error);
    return false;
}
