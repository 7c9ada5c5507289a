/* Letters that the bitmap font lacks, from the machine's own fonts: any script that some font of them has. Called by
 * picture_png.c where the build has FreeType and fontconfig. */
#ifndef CLATTN_TOOL_HEATMAP_GLYPH_H
#define CLATTN_TOOL_HEATMAP_GLYPH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct glyphs glyphs;

/* NULL: the libraries did not start. Close it; NULL is accepted. */
glyphs *glyphs_open(void);
void glyphs_close(glyphs *g);

/* Call dot(state, column, row) for each black dot of a code point within `width` columns; row 0 is the upper edge, `base` the row
 * of the base line. False: no font of the machine has it. */
bool glyph_draw(glyphs *g, uint32_t code_point, int width, int base,
                void (*dot)(void *state, int column, int row), void *state);

#endif
