/* picture_out.c: see picture_out.h. */
#include "tool/heatmap/picture_out.h"

#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/ioctl.h>
#endif
#include <unistd.h>

#include "tool/cli/tool.h"

static bool has_suffix(const char *path, const char *suffix) {
    const size_t length = strlen(path), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(path + length - suffix_length, suffix) == 0;
}

bool picture_out_is_terminal(const char *path) {
    return strcmp(path, "-") == 0;
}

bool picture_out_accepts(const char *path) {
    return picture_out_is_terminal(path) || has_suffix(path, ".png") || has_suffix(path, ".svg");
}

/* As wide as the terminal that it goes to, else as a page; COLUMNS has the last word. */
static int terminal_columns(void) {
    const char *given = getenv("COLUMNS");
    char why[256];
    int64_t columns = 0;
    if (given && option_integer(given, 1, 1000, &columns, why)) return (int)columns;
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    return 80;
}

static bool is_coloured(int wanted) {
    const char *without = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (wanted) return wanted == 1;
    return isatty(STDOUT_FILENO) && !(without && *without) && terminal && strcmp(terminal, "dumb") != 0;
}

bool picture_out(const picture *p, const char *path, int colour, reason why) {
    picture drawn = *p;
    drawn.signs = picture_signs_of(p);
    if (has_suffix(path, ".png")) return picture_png(&drawn, path, why);
    if (has_suffix(path, ".svg")) return picture_svg(&drawn, path, why);
    picture_terminal(&drawn, terminal_columns(), is_coloured(colour), stdout);
    return true;
}
