// font.h: letters as dots, for the labels of a PNG. Used by picture_files.c.
#ifndef CLATTN_CLI_HEATMAP_FONT_H
#define CLATTN_CLI_HEATMAP_FONT_H
#include <stdbool.h>
#include <stdint.h>

// A bitmap font of 5 by 9 dots: seven rows above the base line, two below. It has printable ASCII
// and a hollow box for all other code points.
#define FONT_COLUMNS 5
#define FONT_ROWS 9

// True if a code point's glyph has a dot at (column, row). The glyph is drawn at twice its size, 10
// by 18, with the steps of its diagonals filled.
bool font_dot_double(uint32_t code_point, int column, int row);

// Letters from the machine's fonts for code points outside ASCII. Needs FreeType and fontconfig in
// the build.
typedef struct glyphs glyphs;

// NULL: the libraries did not start. glyphs_close accepts NULL.
glyphs *glyphs_open(void);
void glyphs_close(glyphs *g);

// Call dot(state, column, row) for each black dot of a code point within `width` columns. Row 0 is
// the upper edge, and `base` is the row of the base line. False: no font of the machine has the
// code point.
bool glyph_draw(glyphs *g, uint32_t code_point, int width, int base,
                void (*dot)(void *state, int column, int row), void *state);
#endif
