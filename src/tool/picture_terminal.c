/* The terminal back end: shades in a fixed-width grid, a panel under another. Called by heatmap.c. */
#include "picture.h"

#include <math.h>

#include "label.h"

#define TERMINAL_COLUMNS 80
#define LABEL_COLUMNS 12
#define KEY_LABEL_ROWS 10

/* Lower bounds as shares of the greatest weight; below the first the cell is left blank. */
static const struct {
    float from;
    const char *shade;
} shades[] = {{0.75f, "\u2588"}, {0.5f, "\u2593"}, {0.25f, "\u2592"}, {0.05f, "\u2591"}, {-INFINITY, " "}};

typedef struct grid {
    int keys;  /* keys that share a column */
    int width; /* characters of a column, 2 where there is room, since characters are twice as high as wide */
    float greatest;
} grid;

static label token_label(const char *const *labels, int index, int limit) {
    char number[16];
    if (labels) return label_from_utf8(labels[index], limit);
    (void)snprintf(number, sizeof number, "%d", index);
    return label_from_utf8(number, limit);
}

static void put(FILE *out, const char *text, int times) {
    for (int k = 0; k < times; k++) (void)fputs(text, out);
}

static void put_code_point(FILE *out, uint32_t code_point) {
    char utf8[5];
    (void)fputs(label_utf8(code_point, utf8), out);
}

static const char *shade_of(const picture *p, const grid *g, int head, int row, int first) {
    float most = -INFINITY;
    for (int j = first; j < first + g->keys && j < p->columns; j++) {
        float weight = picture_weight(p, head, row, j);
        if (!isfinite(weight)) return "?";
        most = fmaxf(most, weight);
    }
    /* Shares of a greatest that is 0 or less tell nothing, and the last of them is then above every weight. */
    if (!(g->greatest > 0)) return " ";
    size_t s = 0;
    while (most < shades[s].from * g->greatest) s++;
    return shades[s].shade;
}

static void put_row_label(const picture *p, int row, FILE *out) {
    label text = token_label(p->row_labels, row, LABEL_COLUMNS);
    int columns = 0, shown = 0;
    while (shown < text.length && columns + label_columns(text.code_points[shown]) <= LABEL_COLUMNS)
        columns += label_columns(text.code_points[shown++]);
    put(out, " ", LABEL_COLUMNS - columns);
    for (int k = 0; k < shown; k++) put_code_point(out, text.code_points[k]);
}

/* The keys' labels read downwards, each ending just above its column. */
static void put_key_labels(const picture *p, const grid *g, FILE *out) {
    int rows = 1;
    for (int j = 0; j < p->columns; j += g->keys) {
        int length = token_label(p->column_labels, j, KEY_LABEL_ROWS).length;
        if (length > rows) rows = length;
    }
    for (int row = 0; row < rows; row++) {
        put(out, " ", LABEL_COLUMNS + 2);
        int pending = 0;
        for (int j = 0; j < p->columns; j += g->keys) {
            label text = token_label(p->column_labels, j, KEY_LABEL_ROWS);
            int k = row - (rows - text.length);
            uint32_t code_point = k < 0 ? ' ' : text.code_points[k];
            int columns = label_columns(code_point);
            /* A wide character has no place in a narrow column, a combining one none without its base. */
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
    int columns = (p->columns + g->keys - 1) / g->keys;
    (void)fprintf(out, "\nhead %d\n", p->head_numbers[head]);
    put_key_labels(p, g, out);
    for (int i = 0; i < p->rows; i++) {
        put_row_label(p, i, out);
        (void)fputs(" \u2502", out);
        for (int j = 0; j < columns; j++) put(out, shade_of(p, g, head, i, j * g->keys), g->width);
        (void)fputs("\u2502\n", out);
    }
}

void picture_terminal(const picture *p, FILE *out) {
    const int room = TERMINAL_COLUMNS - LABEL_COLUMNS - 3;
    float least = 0;
    grid g = {.keys = (p->columns + room - 1) / room};
    picture_range(p, &least, &g.greatest);
    g.width = p->columns * 2 <= room ? 2 : 1;
    label title = label_from_utf8(p->title, LABEL_CAPACITY);
    for (int k = 0; k < title.length; k++) put_code_point(out, title.code_points[k]);
    (void)fprintf(out, "\nrows are queries, columns are keys; %.3g to %.3g\n", (double)least,
                  (double)g.greatest);
    for (size_t s = sizeof shades / sizeof *shades - 1; s-- > 0;)
        (void)fprintf(out, "%s from %.3g  ", shades[s].shade, (double)(shades[s].from * g.greatest));
    if (g.keys > 1) (void)fprintf(out, "\neach column is the greatest of %d keys", g.keys);
    (void)fputc('\n', out);
    for (int h = 0; h < p->heads; h++) put_panel(p, &g, h, out);
}
