/* Heatmaps of attention weights: a panel for each head, rows queries, columns keys, one colour scale for all
 * panels so that they can be compared. Leaves out reading the weights and choosing heads. Called by
 * heatmap.c. */
#ifndef CLATTN_TOOL_HEATMAP_PICTURE_H
#define CLATTN_TOOL_HEATMAP_PICTURE_H
#include "cli/heatmap/label.h"

/* Whether there are weights that are -infinity, as masked scores are: grey; or NaN or infinity. */
typedef struct picture_signs {
    bool minus_infinity, not_finite;
} picture_signs;

/* A picture to draw. Everything is the caller's and is only read. */
typedef struct picture {
    const char *title;                /* UTF-8, one line */
    const float *weights;             /* weight (h, i, j) at head_numbers[h]*head_stride + i*row_stride + j */
    int64_t head_stride, row_stride;  /* elements */
    int heads, rows, columns;         /* each at least 1 */
    const int *head_numbers;          /* [heads], shown above the panels */
    const char *const *row_labels;    /* [rows] UTF-8, or NULL: numbers from 0 */
    const char *const *column_labels; /* [columns], or NULL */
    float most;                       /* of the colour scale; 0: the greatest weight */
    bool logarithmic;                 /* four powers of ten below the greatest, in place of a share of it */
    bool by_head;                     /* each panel on a scale of its own */
    bool hides_zero;                  /* exactly 0 is what nobody sees: grey */
    picture_signs signs;              /* which are there, for the legend */
    const char *const *words;         /* of a mask: what 0 and what 1 is called; NULL: these are weights */
} picture;

picture_signs picture_signs_of(const picture *p);

/* The meaning of colours in a panel. */
typedef struct picture_scale {
    float least, greatest;
    bool logarithmic;
} picture_scale;
#define PICTURE_DECADES 4

/* The scale of the panel at this place of head_numbers; all panels' where they share one. */
picture_scale picture_scale_of(const picture *p, int head);

/* Where a weight is on a scale, 0 to 1; below 0: it is not finite. */
double picture_share(const picture_scale *scale, float weight);

/* The greatest of the weights in `height` rows and `width` columns from (row, column); NaN where one is NaN or infinity. */
float picture_greatest(const picture *p, int head, int row, int column, int height, int width);

float picture_weight(const picture *p, int head, int row, int column);

/* The least and greatest finite weight in all panels; both 0 where none is finite. */
void picture_range(const picture *p, float *least, float *greatest);

/* Write a file, whole or not at all. False: too large, no memory, or the file cannot be written; error has
 * one line. picture_png also fails where the build has no libpng. A weight of -infinity is drawn grey,
 * another that is not finite red. */
bool picture_png(const picture *p, const char *path, reason why);
bool picture_svg(const picture *p, const char *path, reason why);

/* Print in at most so many columns of UTF-8 (at least 40 are taken), with shade characters, or in the colours of a terminal of
 * 256; where the keys do not fit, neighbouring ones share a column, and as many rows a line, that shows the greatest. The caller
 * checks ferror(out). */
void picture_terminal(const picture *p, int columns, bool coloured, FILE *out);

/* "-", the terminal; or a name that ends in .png or .svg and has more than that. */
bool picture_out_accepts(const char *path);
bool picture_out_is_terminal(const char *path);

/* Draw to an accepted path. colour, of the terminal: 0 asks the terminal and NO_COLOR, 1 always, 2 never. False: the file
 * cannot be made; error has one line. The caller checks ferror(stdout). */
bool picture_out(const picture *p, const char *path, int colour, reason why);

/* The drawing itself, as calls on a canvas that PNG and SVG implement. */

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
