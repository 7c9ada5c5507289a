/* font.h: letters as dots, for the labels of a PNG. Called by picture_files.c. */
#ifndef CLATTN_TOOL_HEATMAP_FONT_H
#define CLATTN_TOOL_HEATMAP_FONT_H
#include <stdbool.h>
#include <stdint.h>

/* A bitmap font of 5 by 9 dots: seven rows above the base line, two below. Printable ASCII, and a hollow box for the rest. */
#define FONT_COLUMNS 5
#define FONT_ROWS 9

/* Whether a code point's glyph of twice the size, 10 by 18, with the steps of its diagonals filled, has a dot at (column, row). */
bool font_dot_double(uint32_t code_point, int column, int row);

/* Letters that it lacks, from the machine's own fonts, where the build has FreeType and fontconfig. */
typedef struct glyphs glyphs;

/* NULL: the libraries did not start. Close it; NULL is accepted. */
glyphs *glyphs_open(void);
void glyphs_close(glyphs *g);

// Call dot(state, column, row) for each black dot of a code point within `width` columns; row 0 is the upper edge, `base` the row of the
// base line. False: no font of the machine has it.
bool glyph_draw(glyphs *g, uint32_t code_point, int width, int base,
                void (*dot)(void *state, int column, int row), void *state);
#endif
