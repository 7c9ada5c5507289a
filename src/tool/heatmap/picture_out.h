/* Where a picture goes: the terminal, a PNG or an SVG, by the name. Called by all that draw one. */
#ifndef CLATTN_TOOL_HEATMAP_PICTURE_OUT_H
#define CLATTN_TOOL_HEATMAP_PICTURE_OUT_H

#include "tool/heatmap/picture.h"

/* "-", the terminal; or a name that ends in .png or .svg and has more than that. */
bool picture_out_accepts(const char *path);
bool picture_out_is_terminal(const char *path);

/* Draw to an accepted path. colour, of the terminal: 0 asks the terminal and NO_COLOR, 1 always, 2 never. False: the file
 * cannot be made; error has one line. The caller checks ferror(stdout). */
bool picture_out(const picture *p, const char *path, int colour, reason why);

#endif
