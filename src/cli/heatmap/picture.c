// picture.c: map weights to colours, and draw a picture: title, a grid of panels with labels on
// both axes, and a colour bar. PNG and SVG share this drawing.
#include "cli/heatmap/picture.h"

#include <math.h>

float picture_weight(const picture *p, int head, int row, int column) {
    return p->weights[p->head_numbers[head] * p->head_stride + row * p->row_stride + column];
}

static void range_of(const picture *p, int first, int end, float *least, float *greatest) {
    *least = INFINITY;
    *greatest = -INFINITY;
    for (int h = first; h < end; h++)
        for (int i = 0; i < p->rows; i++)
            for (int j = 0; j < p->columns; j++) {
                float weight = picture_weight(p, h, i, j);
                if (!isfinite(weight)) continue;
                *least = fminf(*least, weight);
                *greatest = fmaxf(*greatest, weight);
            }
    if (*least > *greatest) *least = *greatest = 0;
}

picture_signs picture_signs_of(const picture *p) {
    picture_signs signs = {false, false};
    for (int h = 0; h < p->heads; h++)
        for (int i = 0; i < p->rows; i++)
            for (int j = 0; j < p->columns; j++) {
                const float weight = picture_weight(p, h, i, j);
                signs.minus_infinity = signs.minus_infinity || weight == -INFINITY;
                signs.not_finite = signs.not_finite || isnan(weight) || weight == INFINITY;
            }
    return signs;
}

void picture_range(const picture *p, float *least, float *greatest) {
    range_of(p, 0, p->heads, least, greatest);
}

picture_scale picture_scale_of(const picture *p, int head) {
    picture_scale scale;
    range_of(p, p->by_head ? head : 0, p->by_head ? head + 1 : p->heads, &scale.least, &scale.greatest);
    if (p->most > 0) scale.greatest = p->most;
    scale.logarithmic = p->logarithmic && scale.greatest > 0;
    // Show a tiny least weight, such as 1e-26, as 0.
    if (scale.least > 0 && scale.least < 0.01f * scale.greatest) scale.least = 0;
    return scale;
}

double picture_share(const picture_scale *scale, float weight) {
    if (!isfinite(weight)) return -1;
    // In double, because the difference of two finite floats may overflow.
    double share = scale->greatest > scale->least
                       ? ((double)weight - scale->least) / ((double)scale->greatest - scale->least)
                       : 0;
    if (scale->logarithmic)
        share = weight > 0 ? 1 + log10((double)weight / scale->greatest) / PICTURE_DECADES : 0;
    return fmin(fmax(share, 0), 1);
}

int picture_index(const picture *p, const picture_scale *scale, float weight) {
    if (p->words) return weight > 0 ? COLOUR_GREATEST : COLOUR_HIDDEN;
    if ((p->hides_zero && weight == 0) || weight == -INFINITY) return COLOUR_HIDDEN;
    double share = picture_share(scale, weight);
    return share < 0 ? COLOUR_NOT_FINITE
                     : COLOUR_LEAST + (int)(share * (COLOUR_GREATEST - COLOUR_LEAST) + 0.5);
}

float picture_greatest(const picture *p, int head, int row, int column, int height, int width) {
    float most = -INFINITY;
    for (int i = row; i < row + height && i < p->rows; i++)
        for (int j = column; j < column + width && j < p->columns; j++) {
            float weight = picture_weight(p, head, i, j);
            if (isnan(weight) || weight == INFINITY) return NAN;
            most = fmaxf(most, weight);
        }
    return most;
}

void picture_colour(int index, unsigned char rgb[3]) {
    static const unsigned char fixed[COLOUR_LEAST][3] = {
        {255, 255, 255}, {32, 32, 36}, {150, 150, 155}, {255, 130, 130}, {222, 222, 226}};
    // Ten points of viridis, whose lightness rises evenly: it is readable in grey and by the
    // colour-blind. Source: van der Walt and Smith 2015, matplotlib.
    static const unsigned char points[10][3] = {
        {0x44, 0x01, 0x54}, {0x48, 0x28, 0x78}, {0x3e, 0x4a, 0x89}, {0x31, 0x68, 0x8e}, {0x26, 0x82, 0x8e},
        {0x1f, 0x9e, 0x89}, {0x35, 0xb7, 0x79}, {0x6e, 0xce, 0x58}, {0xb5, 0xde, 0x2b}, {0xfd, 0xe7, 0x25}};
    int steps = COLOUR_GREATEST - COLOUR_LEAST;
    int place = (index - COLOUR_LEAST) * 9;
    int point = place / steps, part = place % steps;
    for (int c = 0; c < 3; c++) {
        if (index < COLOUR_LEAST)
            rgb[c] = fixed[index][c];
        else if (point == 9)
            rgb[c] = points[9][c];
        else
            rgb[c] =
                (unsigned char)((points[point][c] * (steps - part) + points[point + 1][c] * part) / steps);
    }
}

int picture_colour_index(float weight, float least, float greatest) {
    const picture plain = {.title = ""};
    return picture_index(&plain, &(picture_scale){least, greatest, false}, weight);
}

// All in pixels.
#define MARGIN 24
#define HEADER (2 * TEXT_HEIGHT + 22)
#define PANEL_TITLE 28
#define PANEL_GAP 30
#define LABEL_GAP 6
#define BAR_WIDTH 22
#define BAR_SPACE (BAR_WIDTH + 10 + 9 * TEXT_ADVANCE)
#define BAR_LIMIT 480

// The most cells along a panel's side.
#define MOST_CELLS 1188

static int blocks(int count, int block) {
    return (count + block - 1) / block;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

static int longest_label(const char *const *labels, int count) {
    int longest = 1;
    for (int i = 0; i < count; i++) {
        const label text = label_at(labels, i, LABEL_LIMIT);
        longest = larger(longest, label_width(&text));
    }
    return longest * TEXT_ADVANCE + LABEL_GAP;
}

static label title_of(const picture *p) {
    return label_from_utf8(p->title, LABEL_CAPACITY);
}

static label legend_of(const picture *p) {
    char line[128];
    const char *const grey = !p->signs.minus_infinity ? p->hides_zero ? "; grey is exactly 0" : ""
                             : p->hides_zero          ? "; grey is 0 or -inf"
                                                      : "; grey is -inf";
    (void)snprintf(line, sizeof line, "rows are queries, columns are keys%s%s", p->words ? "" : grey,
                   p->signs.not_finite ? "; red is nan, inf" : "");
    return label_from_utf8(line, LABEL_CAPACITY);
}

// The cell's size. Cells are as high as a line of text while the panel fits a page, so that every
// token has a label; smaller for larger panels.
static int cell_size(int count) {
    if (count <= 15) return 32;
    if (count <= 26) return 480 / count;
    return count <= 66 ? TEXT_HEIGHT : larger(1, 1188 / count);
}

// The number of weights between two labels that fit. Numbers use steps of 1, 2, 5, 10, 20, 50 and
// so on.
static int label_step(const picture_layout *l, bool numbers) {
    const int least = (TEXT_HEIGHT + l->cell - 1) / l->cell * l->block;
    int step = 1;
    for (int n = 0; numbers && step < least; n++) step = n % 3 == 1 ? step / 2 * 5 : 2 * step;
    return numbers ? step : least;
}

// The number of panels across that brings the picture closest to a page's shape with few empty
// places.
static int choose_across(const picture *p, int panel_width, int panel_height) {
    int best = 1;
    double best_badness = 1e30;
    for (int across = 1; across <= p->heads; across++) {
        int down = (p->heads + across - 1) / across;
        double shape = (double)across * panel_width / ((double)down * panel_height) / 1.4;
        double badness = (shape > 1 ? shape : 1 / shape) + 2.0 * (across * down - p->heads) / p->heads;
        if (badness >= best_badness) continue;
        best = across;
        best_badness = badness;
    }
    return best;
}

picture_layout picture_plan(const picture *p) {
    const int block = blocks(larger(p->rows, p->columns), MOST_CELLS);
    const int rows = blocks(p->rows, block), columns = blocks(p->columns, block);
    picture_layout l = {.cell = cell_size(larger(rows, columns)),
                        .block = block,
                        .left = longest_label(p->row_labels, p->rows),
                        .below = longest_label(p->column_labels, p->columns)};
    l.panel_width = l.left + larger(columns * l.cell, 8 * TEXT_ADVANCE) + PANEL_GAP;
    l.panel_height = PANEL_TITLE + rows * l.cell + l.below + PANEL_GAP;
    l.panels_across = choose_across(p, l.panel_width, l.panel_height);
    int down = (p->heads + l.panels_across - 1) / l.panels_across;
    const label title = title_of(p), legend = legend_of(p);
    const int header = larger(label_width(&title), label_width(&legend)) * TEXT_ADVANCE;
    l.width = (int64_t)l.panels_across * l.panel_width + BAR_SPACE;
    l.width = 2 * MARGIN + (l.width > header ? l.width : header);
    l.height = 2 * MARGIN + HEADER + (int64_t)down * l.panel_height - PANEL_GAP;
    return l;
}

// The upper left corner of a panel's cells, and the panel's index in head_numbers.
typedef struct panel {
    int head, left, top;
} panel;

static int colour_at(const picture *p, const picture_layout *l, const picture_scale *scale, int head, int row,
                     int column) {
    return picture_index(p, scale,
                         picture_greatest(p, head, row * l->block, column * l->block, l->block, l->block));
}

// Draw the cells. Neighbours of equal colour are one box.
static void draw_cells(const picture *p, const picture_layout *l, const panel *at, const canvas *c) {
    const picture_scale scale = picture_scale_of(p, at->head);
    const int cell = l->cell, rows = blocks(p->rows, l->block), columns = blocks(p->columns, l->block);
    c->box(c->state, at->left - 1, at->top - 1, columns * cell + 2, rows * cell + 2, COLOUR_FRAME);
    c->box(c->state, at->left, at->top, columns * cell, rows * cell, COLOUR_LEAST);
    for (int i = 0; i < rows; i++) {
        for (int j = 0, next = 0; j < columns; j = next) {
            int colour = colour_at(p, l, &scale, at->head, i, j);
            for (next = j + 1; next < columns; next++)
                if (colour_at(p, l, &scale, at->head, i, next) != colour) break;
            if (colour != COLOUR_LEAST)
                c->box(c->state, at->left + j * cell, at->top + i * cell, (next - j) * cell, cell, colour);
        }
    }
}

static void draw_labels(const picture *p, const picture_layout *l, const panel *at, const canvas *c) {
    const int cell = l->cell, below = at->top + blocks(p->rows, l->block) * cell + LABEL_GAP;
    for (int i = 0; i < p->rows; i += label_step(l, !p->row_labels)) {
        label text = label_at(p->row_labels, i, LABEL_LIMIT);
        c->text(c->state, at->left - LABEL_GAP, at->top + i / l->block * cell + cell / 2, &text, TEXT_END);
    }
    for (int j = 0; j < p->columns; j += label_step(l, !p->column_labels)) {
        label text = label_at(p->column_labels, j, LABEL_LIMIT);
        c->text(c->state, at->left + j / l->block * cell + cell / 2, below, &text, TEXT_UP);
    }
}

// Draw the legend of a mask: its two colours.
static void draw_words(const picture *p, int x, int y, const canvas *c) {
    for (int value = 1; value >= 0; value--, y += 2 * TEXT_HEIGHT) {
        const label text = label_from_utf8(p->words[value], LABEL_LIMIT);
        c->box(c->state, x - 1, y - 1, BAR_WIDTH + 2, BAR_WIDTH + 2, COLOUR_FRAME);
        c->box(c->state, x, y, BAR_WIDTH, BAR_WIDTH, picture_index(p, NULL, (float)value));
        c->text(c->state, x + BAR_WIDTH + 10, y + BAR_WIDTH / 2, &text, TEXT_START);
    }
}

// Draw the colour bar. It has no numbers if each panel has its own scale.
static void draw_bar(const picture *p, int x, int y, int height, const canvas *c) {
    c->box(c->state, x - 1, y - 1, BAR_WIDTH + 2, height + 2, COLOUR_FRAME);
    int last = height - 1;
    for (int row = 0; row < height; row++) {
        int colour = COLOUR_GREATEST - (COLOUR_GREATEST - COLOUR_LEAST) * row / (last ? last : 1);
        c->box(c->state, x, y + row, BAR_WIDTH, 1, colour);
    }
    const picture_scale scale = picture_scale_of(p, 0);
    for (int tick = 0; tick <= 4; tick++) {
        char number[32];
        double value = ((double)scale.greatest * (4 - tick) + (double)scale.least * tick) / 4;
        if (scale.logarithmic) value = scale.greatest * pow(10, -PICTURE_DECADES * tick / 4.0);
        (void)snprintf(number, sizeof number, "%.3g", value);
        if (p->by_head) (void)snprintf(number, sizeof number, "%s", tick == 0 ? "most" : "");
        label text = label_from_utf8(number, LABEL_LIMIT);
        int at = y + last * tick / 4;
        c->box(c->state, x + BAR_WIDTH, at, 5, 1, COLOUR_INK);
        c->text(c->state, x + BAR_WIDTH + 10, at, &text, TEXT_START);
    }
}

static void draw_head_title(const picture *p, const panel *at, const canvas *c) {
    char name[64], most[32] = "";
    if (p->by_head)
        (void)snprintf(most, sizeof most, ": to %.3g", (double)picture_scale_of(p, at->head).greatest);
    (void)snprintf(name, sizeof name, "head %d%s", p->head_numbers[at->head], most);
    label text = label_from_utf8(name, LABEL_CAPACITY);
    c->text(c->state, at->left, at->top - PANEL_TITLE + TEXT_HEIGHT / 2, &text, TEXT_START);
}

void picture_draw(const picture *p, const picture_layout *l, const canvas *c) {
    const label title = title_of(p), legend = legend_of(p);
    c->box(c->state, 0, 0, (int)l->width, (int)l->height, COLOUR_PAPER);
    c->text(c->state, MARGIN, MARGIN + TEXT_HEIGHT / 2, &title, TEXT_START);
    c->text(c->state, MARGIN, MARGIN + TEXT_HEIGHT / 2 + 24, &legend, TEXT_START);
    int first_top = MARGIN + HEADER + PANEL_TITLE;
    for (int h = 0; h < p->heads; h++) {
        panel at = {.head = h,
                    .left = MARGIN + h % l->panels_across * l->panel_width + l->left,
                    .top = first_top + h / l->panels_across * l->panel_height};
        draw_head_title(p, &at, c);
        draw_cells(p, l, &at, c);
        draw_labels(p, l, &at, c);
    }
    int cells = blocks(p->rows, l->block) * l->cell;
    int bar_height = larger(4 * TEXT_HEIGHT, cells < BAR_LIMIT ? cells : BAR_LIMIT);
    const int left = MARGIN + l->panels_across * l->panel_width;
    if (p->words)
        draw_words(p, left, first_top, c);
    else
        draw_bar(p, left, first_top, bar_height, c);
}
