/* What the drawn pictures share: the palette, and the drawing itself as calls on a canvas that PNG and SVG
 * implement. Called by picture_png.c and picture_svg.c. */
#ifndef CLATTN_TOOL_HEATMAP_PICTURE_CANVAS_H
#define CLATTN_TOOL_HEATMAP_PICTURE_CANVAS_H

#include "tool/heatmap/label.h"
#include "tool/heatmap/picture.h"

/* Indices of the palette. */
enum {
    COLOUR_PAPER = 0,
    COLOUR_INK,
    COLOUR_FRAME,
    COLOUR_NOT_FINITE,
    COLOUR_HIDDEN,
    COLOUR_LEAST, /* the map runs from here */
    COLOUR_GREATEST = 255
};

void picture_colour(int index, unsigned char rgb[3]);

/* The index for a weight on a scale from least to greatest. */
int picture_colour_index(float weight, float least, float greatest);

/* The index for a weight of a picture on a panel's scale. */
int picture_index(const picture *p, const picture_scale *scale, float weight);

/* Pixels that a character takes, and a line of text. */
#define TEXT_ADVANCE 12
#define TEXT_HEIGHT 18

typedef enum text_anchor {
    TEXT_START, /* begins at x, centred on y */
    TEXT_END,   /* ends at x, centred on y */
    TEXT_UP     /* reads upwards, ends at y, centred on x */
} text_anchor;

typedef struct canvas {
    void *state;
    void (*box)(void *state, int x, int y, int width, int height, int colour);
    void (*text)(void *state, int x, int y, const label *text, text_anchor anchor);
} canvas;

typedef struct picture_layout {
    int cell;        /* pixels of a cell's side */
    int block;       /* weights of a cell's side, more than one where a weight had less than a pixel */
    int left, below; /* pixels of the labels beside and under a panel's cells */
    int panel_width, panel_height; /* with labels, title and the gap to the next */
    int panels_across;
    int64_t width, height; /* pixels of the whole */
} picture_layout;

picture_layout picture_plan(const picture *p);
void picture_draw(const picture *p, const picture_layout *layout, const canvas *canvas);

#endif
