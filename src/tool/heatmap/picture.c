/* Weights to colours: the range of a picture and the palette. Called by heatmap.c and the back ends. */
#include "tool/heatmap/picture.h"

#include <math.h>

#include "tool/heatmap/picture_canvas.h"

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
    /* A least weight of 1e-26 is nothing to a reader. */
    if (scale.least > 0 && scale.least < 0.01f * scale.greatest) scale.least = 0;
    return scale;
}

double picture_share(const picture_scale *scale, float weight) {
    if (!isfinite(weight)) return -1;
    /* In double, since the difference of two finite floats may overflow. */
    double share = scale->greatest > scale->least
                       ? ((double)weight - scale->least) / ((double)scale->greatest - scale->least)
                       : 0;
    if (scale->logarithmic)
        share = weight > 0 ? 1 + log10((double)weight / scale->greatest) / PICTURE_DECADES : 0;
    return fmin(fmax(share, 0), 1);
}

int picture_index(const picture *p, const picture_scale *scale, float weight) {
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
    /* Ten points of viridis: lightness rises evenly, also in grey and for the colour-blind.
     * Source: van der Walt and Smith 2015, matplotlib. */
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
