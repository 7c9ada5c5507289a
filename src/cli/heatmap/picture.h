// picture.h: heatmaps of attention weights. Each head is a panel whose rows are queries and whose
// columns are keys. All panels share one colour scale by default. Does not read weights or choose
// heads. Used by heatmap.c.
#ifndef CLATTN_CLI_HEATMAP_PICTURE_H
#define CLATTN_CLI_HEATMAP_PICTURE_H
#include "cli/heatmap/label.h"

// minus_infinity: some weights are -infinity, as masked scores are (grey). not_finite: some are NaN
// or infinity.
typedef struct picture_signs {
    bool minus_infinity, not_finite;
} picture_signs;

// A picture to draw. The caller owns all pointers, and the drawing only reads them.
typedef struct picture {
    const char *title; // UTF-8, one line
    // Weight (h, i, j) is at head_numbers[h]*head_stride + i*row_stride + j.
    const float *weights;
    int64_t head_stride, row_stride;  // elements
    int heads, rows, columns;         // each at least 1
    const int *head_numbers;          // [heads], shown above the panels
    const char *const *row_labels;    // [rows] UTF-8, or NULL: numbers from 0
    const char *const *column_labels; // [columns], or NULL
    float most;                       // the top of the colour scale; 0: the greatest weight
    // The scale shows four powers of ten below the greatest; otherwise it is linear.
    bool logarithmic;
    bool by_head;             // each panel has a scale of its own
    bool hides_zero;          // weights of exactly 0 are hidden pairs, drawn grey
    picture_signs signs;      // which special weights (hidden, not finite) occur, for the legend
    const char *const *words; // for a mask: the words for 0 and 1; NULL: weights
} picture;

picture_signs picture_signs_of(const picture *p);

// The range of a panel's colours.
typedef struct picture_scale {
    float least, greatest;
    bool logarithmic;
} picture_scale;
#define PICTURE_DECADES 4

// The scale of panel `head` (an index in head_numbers), or the common scale of all panels.
picture_scale picture_scale_of(const picture *p, int head);

// A weight's position on a scale, 0 to 1; negative: the weight is not finite.
double picture_share(const picture_scale *scale, float weight);

// The greatest weight in `height` rows and `width` columns from (row, column); NaN if one is NaN or
// infinity.
float picture_greatest(const picture *p, int head, int row, int column, int height, int width);

float picture_weight(const picture *p, int head, int row, int column);

// The least and greatest finite weight of all panels; both 0 if no weight is finite.
void picture_range(const picture *p, float *least, float *greatest);

// Write a file atomically. -infinity is drawn grey, other weights that are not finite red. False:
// the picture is too large, memory is short, the file cannot be written, or a PNG is wanted and the
// build has no libpng; `why` has one line.
bool picture_png(const picture *p, const char *path, reason why);
bool picture_svg(const picture *p, const char *path, reason why);

// Print as UTF-8 in at most `columns` columns (at least 40), with shade characters or a terminal's
// 256 colours. If the keys do not fit, neighbouring keys share a column and neighbouring rows a
// line, which shows their greatest weight. The caller checks ferror(out).
void picture_terminal(const picture *p, int columns, bool coloured, FILE *out);

// True for "-", the terminal, and for a name that ends in .png or .svg and has more letters.
bool picture_out_accepts(const char *path);
bool picture_out_is_terminal(const char *path);

// Draw to an accepted path. `colour` is for the terminal: 0 decides by the terminal and NO_COLOR, 1
// always, 2 never. False: the file cannot be written, and `why` has one line. The caller checks
// ferror(stdout).
bool picture_out(const picture *p, const char *path, int colour, reason why);

// The drawing, as calls on a canvas that PNG and SVG implement.
//
// Indices of the palette.

// Indices of the palette.
enum {
    COLOUR_PAPER = 0,
    COLOUR_INK,
    COLOUR_FRAME,
    COLOUR_NOT_FINITE,
    COLOUR_HIDDEN,
    COLOUR_LEAST, // first colour of the colour map
    COLOUR_GREATEST = 255
};

void picture_colour(int index, unsigned char rgb[3]);

// The palette index of a weight on a scale from least to greatest.
int picture_colour_index(float weight, float least, float greatest);

// The palette index of a picture's weight on a panel's scale.
int picture_index(const picture *p, const picture_scale *scale, float weight);

// Pixels of a character's width and of a line's height.
#define TEXT_ADVANCE 12
#define TEXT_HEIGHT 18

typedef enum text_anchor {
    TEXT_START, // begins at x, centred on y
    TEXT_END,   // ends at x, centred on y
    TEXT_UP     // reads upwards, ends at y, centred on x
} text_anchor;

typedef struct canvas {
    void *state;
    void (*box)(void *state, int x, int y, int width, int height, int colour);
    void (*text)(void *state, int x, int y, const label *text, text_anchor anchor);
} canvas;

typedef struct picture_layout {
    int cell; // pixels of a cell's side
    // Weights along a cell's side: more than one if a weight would be smaller than a pixel.
    int block;
    int left, below;               // pixels of the labels beside and below a panel's cells
    int panel_width, panel_height; // with labels, title and the gap to the next panel
    int panels_across;
    int64_t width, height; // pixels of the picture
} picture_layout;

picture_layout picture_plan(const picture *p);
void picture_draw(const picture *p, const picture_layout *layout, const canvas *canvas);
#endif
