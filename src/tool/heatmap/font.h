/* A bitmap font of 5 by 9 dots for the labels of a PNG: seven rows above the base line, two below. Printable
 * ASCII, and a hollow box for the rest. Called by picture_png.c. */
#ifndef CLATTN_TOOL_HEATMAP_FONT_H
#define CLATTN_TOOL_HEATMAP_FONT_H

#include <stdbool.h>
#include <stdint.h>

#define FONT_COLUMNS 5
#define FONT_ROWS 9

/* Whether a code point's glyph has a dot at (column, row); dots outside the glyph are empty. */
bool font_dot(uint32_t code_point, int column, int row);

/* The same for a glyph of twice the size, 10 by 18, with the steps of its diagonals filled. */
bool font_dot_double(uint32_t code_point, int column, int row);

#endif
