// picture_terminal.c: the terminal back end: shades or colours in a grid of fixed width, one panel
// below another. Used by heatmap.c.
#include "cli/heatmap/picture.h"

#include <math.h>

#define LEAST_COLUMNS 40
#define LABEL_COLUMNS 12
#define KEY_LABEL_ROWS 10

// Lower bounds as shares of the scale. Below the first bound the cell is blank.
static const struct {
    double from;
    const char *shade;
} shades[] = {{0.75, "\u2588"}, {0.5, "\u2593"}, {0.25, "\u2592"}, {0.05, "\u2591"}, {-1, " "}};

typedef struct grid {
    int keys;  // keys that share a column
    int rows;  // queries that share a line: characters are twice as high as wide
    int width; // characters of a column; 2 if there is room
    bool coloured;
} grid;

static void put(FILE *out, const char *text, int times) {
    for (int k = 0; k < times; k++) (void)fputs(text, out);
}

static void put_code_point(FILE *out, uint32_t code_point) {
    char utf8[5];
    (void)fputs(label_utf8(code_point, utf8), out);
}

// The nearest of the 6 x 6 x 6 colours of a terminal with 256 colours.
static int terminal_colour(const unsigned char rgb[3]) {
    int index = 16;
    for (int c = 0, weight = 36; c < 3; c++, weight /= 6) index += weight * ((rgb[c] * 5 + 127) / 255);
    return index;
}

static void put_cell(const picture *p, const grid *g, const picture_scale *scale, float weight, FILE *out) {
    unsigned char rgb[3];
    double share = picture_share(scale, weight);
    const bool minus_infinity = weight == -INFINITY;
    if (share < 0 && !(minus_infinity && g->coloured)) {
        put(out, minus_infinity ? "\u00b7" : "?", g->width);
        return;
    }
    if (g->coloured) {
        picture_colour(picture_index(p, scale, weight), rgb);
        (void)fprintf(out, "\033[48;5;%dm%*s\033[0m",
                      picture_index(p, scale, weight) == COLOUR_HIDDEN ? 238 : terminal_colour(rgb), g->width,
                      "");
        return;
    }
    // Without a positive greatest weight, a share means nothing: use the last shade.
    size_t s = scale->greatest > 0 ? 0 : sizeof shades / sizeof *shades - 1;
    if (scale->least > 0 && !scale->logarithmic) share = (double)weight / scale->greatest;
    while (share < shades[s].from) s++;
    put(out, shades[s].shade, g->width);
}

static void put_row_label(const picture *p, int row, FILE *out) {
    label text = label_at(p->row_labels, row, LABEL_COLUMNS);
    int columns = 0, shown = 0;
    while (shown < text.length && columns + label_columns(text.code_points[shown]) <= LABEL_COLUMNS)
        columns += label_columns(text.code_points[shown++]);
    put(out, " ", LABEL_COLUMNS - columns);
    for (int k = 0; k < shown; k++) put_code_point(out, text.code_points[k]);
}

// Print the keys' labels downwards, each ending above its column.
static void put_key_labels(const picture *p, const grid *g, FILE *out) {
    int rows = 1;
    for (int j = 0; j < p->columns; j += g->keys) {
        int length = label_at(p->column_labels, j, KEY_LABEL_ROWS).length;
        if (length > rows) rows = length;
    }
    for (int row = 0; row < rows; row++) {
        put(out, " ", LABEL_COLUMNS + 2);
        int pending = 0;
        for (int j = 0; j < p->columns; j += g->keys) {
            label text = label_at(p->column_labels, j, KEY_LABEL_ROWS);
            int k = row - (rows - text.length);
            uint32_t code_point = k < 0 ? ' ' : text.code_points[k];
            int columns = label_columns(code_point);
            // A wide character does not fit a narrow column, and a combining one needs its base.
            if (columns == 0 || columns > g->width) code_point = '?', columns = 1;
            if (code_point == ' ') {
                pending += g->width;
                continue;
            }
            put(out, " ", pending);
            put_code_point(out, code_point);
            pending = g->width - columns;
        }
        (void)fputc('\n', out);
    }
}

static void put_panel(const picture *p, const grid *g, int head, FILE *out) {
    const picture_scale scale = picture_scale_of(p, head);
    (void)fprintf(out, "\nhead %d", p->head_numbers[head]);
    if (p->by_head) (void)fprintf(out, ": %.3g to %.3g", (double)scale.least, (double)scale.greatest);
    (void)fputc('\n', out);
    put_key_labels(p, g, out);
    for (int i = 0; i < p->rows; i += g->rows) {
        put_row_label(p, i, out);
        (void)fputs(" \u2502", out);
        for (int j = 0; j < p->columns; j += g->keys)
            put_cell(p, g, &scale, picture_greatest(p, head, i, j, g->rows, g->keys), out);
        (void)fputs("\u2502\n", out);
    }
}

static void put_words(const picture *p, const grid *g, const picture_scale *scale, FILE *out) {
    for (int value = 1; value >= 0; value--) {
        if (g->coloured)
            put_cell(p, g, scale, (float)value, out);
        else
            (void)fputs(value ? shades[0].shade : "blank", out);
        (void)fprintf(out, " is %s%s", p->words[value], value ? ", " : "");
    }
}

static void put_legend(const picture *p, const grid *g, FILE *out) {
    const picture_scale scale = picture_scale_of(p, 0);
    if (p->words) {
        put_words(p, g, &scale, out);
    } else if (g->coloured && !p->by_head) {
        for (int k = 0; k <= 10; k++) {
            const float at = scale.logarithmic
                                 ? scale.greatest * powf(10, (float)PICTURE_DECADES * ((float)k / 10 - 1))
                                 : scale.least + (scale.greatest - scale.least) * (float)k / 10;
            put_cell(p, g, &scale, k || !p->hides_zero ? at : 1e-30f, out);
        }
        (void)fprintf(out, " %.3g to %.3g",
                      scale.logarithmic ? scale.greatest * pow(10, -PICTURE_DECADES) : (double)scale.least,
                      (double)scale.greatest);
    } else if (!p->by_head) {
        for (size_t s = sizeof shades / sizeof *shades - 1; s-- > 0;)
            (void)fprintf(out, "%s from %.3g  ", shades[s].shade,
                          scale.logarithmic ? scale.greatest * pow(10, PICTURE_DECADES * (shades[s].from - 1))
                                            : shades[s].from * scale.greatest);
    }
    if (!g->coloured && p->signs.minus_infinity) (void)fputs("\u00b7 is -inf", out);
    if (g->rows > 1)
        (void)fprintf(out, "\neach cell is the greatest of %d queries and %d keys", g->rows, g->keys);
    else if (g->keys > 1)
        (void)fprintf(out, "\neach column is the greatest of %d keys", g->keys);
    (void)fputc('\n', out);
}

void picture_terminal(const picture *p, int columns, bool coloured, FILE *out) {
    const int room = (columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns) - LABEL_COLUMNS - 3;
    float least = 0, greatest = 0;
    grid g = {.keys = (p->columns + room - 1) / room, .coloured = coloured};
    picture_range(p, &least, &greatest);
    g.width = p->columns * 2 <= room ? 2 : 1;
    g.rows = g.keys > 1 && p->rows > room ? 2 * g.keys : 1;
    label title = label_from_utf8(p->title, LABEL_CAPACITY);
    for (int k = 0; k < title.length; k++) put_code_point(out, title.code_points[k]);
    (void)fputs("\nrows are queries, columns are keys", out);
    if (!p->words) (void)fprintf(out, "; %.3g to %.3g", (double)least, (double)greatest);
    (void)fputc('\n', out);
    put_legend(p, &g, out);
    for (int h = 0; h < p->heads; h++) put_panel(p, &g, h, out);
}
