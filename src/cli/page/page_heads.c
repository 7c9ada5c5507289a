// page_heads.c: attention weights as panels of a report. The scale is logarithmic: softmax weights
// over many keys are mostly far below one, and a linear scale would show them all as zero. See
// page.h.
#include <math.h>

#include "cli/files/formats.h"
#include "cli/page/page.h"
#include "cli/heatmap/picture.h"

// A cell needs about 60 bytes, so a page has at most 3 MB of cells.
#define MOST_CELLS 50000
#define DECADES 4.0

typedef struct heads {
    array weights;
    float *values;
    tokens words;
    int64_t count, rows, keys;
    float *first; // the selected batch item
    float most;
} heads;

static int check(const page *p, heads *h) {
    reason why;
    if (!load_array(p->weights, &h->weights, why)) return tool_wrong("--weights %s", why);
    const array *w = &h->weights;
    const bool fits = (w->rank == 3 || w->rank == 4) &&
                      (w->type == ARRAY_F32 || w->type == ARRAY_F16 || w->type == ARRAY_BF16);
    if (!fits)
        return tool_wrong("--weights %s: [H, Nq, Nkv] or [B, H, Nq, Nkv] of f32, f16 or bf16 is accepted",
                          p->weights);
    const int64_t items = w->rank == 4 ? w->shape[0] : 1;
    if (p->item >= items)
        return tool_wrong("--batch %lld: %s holds 0 to %lld", (long long)p->item, p->weights,
                          (long long)items - 1);
    h->count = w->shape[w->rank - 3], h->rows = w->shape[w->rank - 2], h->keys = w->shape[w->rank - 1];
    if (p->tokens && !tokens_read(p->tokens, &h->words, why)) return tool_wrong("--tokens %s", why);
    if (p->tokens && (int64_t)h->words.count > (h->rows < h->keys ? h->rows : h->keys))
        return tool_wrong("--tokens %s: %zu tokens; %lld queries and %lld keys are there", p->tokens,
                          h->words.count, (long long)h->rows, (long long)h->keys);
    return -1;
}

// Check the sizes and convert the weights. Fewer tokens than rows crop the panels, which removes
// padding.
static int prepare(const page *p, heads *h) {
    const int64_t row = h->keys, head = h->rows * row;
    if (p->tokens) h->rows = h->keys = (int64_t)h->words.count;
    if (h->count < 1 || h->rows < 1 || h->keys < 1 || h->rows > MOST_CELLS / h->keys ||
        h->count > MOST_CELLS / (h->rows * h->keys))
        return tool_wrong(
            "--weights %s: %lld heads of %lld x %lld; from 1 to %d cells are drawn: --tokens crops",
            p->weights, (long long)h->count, (long long)h->rows, (long long)h->keys, MOST_CELLS);
    if (!array_to_f32(&h->weights, &h->values)) return tool_failed("no memory for the weights");
    h->first = h->values + p->item * h->count * head;
    for (int64_t n = 0; n < h->count; n++)
        for (int64_t i = 0; i < h->rows; i++)
            for (int64_t j = 0; j < h->keys; j++) {
                const float w = h->first[n * head + i * row + j];
                if (isfinite(w) && w > h->most) h->most = w;
            }
    return -1;
}

static const char *token(const heads *h, int64_t at, char number[24]) {
    snprintf(number, 24, "%lld", (long long)at);
    return h->words.count ? h->words.lines[at] : number;
}

static void draw_cell(const page *p, const heads *h, int64_t i, int64_t j, float w, int cell) {
    unsigned char rgb[3];
    char fill[8], row[24], key[24];
    const double decades = w > 0.0f && h->most > 0.0f ? log10((double)w / h->most) : -DECADES;
    if (!isfinite(w) || w == 0.0f) return; // hidden or zero: shows the panel's grey
    picture_colour(picture_colour_index((float)fmax(decades, -DECADES), (float)-DECADES, 0.0f), rgb);
    snprintf(fill, sizeof fill, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
    page_put(
        p->to, "<path d=\"M%d %dh%dv%dh-%dz\" fill=\"%s\"><title>%s \xe2\x86\x92 %s: %.3g</title></path>",
        (int)j * cell, (int)i * cell, cell, cell, cell, fill, token(h, i, row), token(h, j, key), (double)w);
}

// Write the greatest weight of a head in words.
static void write_greatest(const page *p, const heads *h, const float *w, int64_t row) {
    int64_t at_i = -1, at_j = -1;
    char query[24], key[24];
    for (int64_t i = 0; i < h->rows; i++)
        for (int64_t j = 0; j < h->keys; j++)
            if (isfinite(w[i * row + j]) && (at_i < 0 || w[i * row + j] > w[at_i * row + at_j]))
                at_i = i, at_j = j;
    if (at_i >= 0)
        page_put(p->to, ", greatest %.3g: %s \xe2\x86\x92 %s", (double)w[at_i * row + at_j],
                 token(h, at_i, query), token(h, at_j, key));
}

static void draw_head(const page *p, const heads *h, int64_t n) {
    const int64_t row = h->weights.shape[h->weights.rank - 1],
                  head = h->weights.shape[h->weights.rank - 2] * row;
    const int64_t longest = h->rows > h->keys ? h->rows : h->keys;
    const int cell = longest <= 32 ? 9 : longest <= 96 ? 4 : 2;
    const int64_t wide = h->keys * cell, high = h->rows * cell;
    page_put(p->to,
             "<figure><svg viewBox=\"0 0 %lld %lld\" width=\"%lld\" height=\"%lld\" "
             "shape-rendering=\"crispEdges\" role=\"img\" aria-label=\"head %lld\"><rect width=\"100%%\" "
             "height=\"100%%\" fill=\"#808080\" fill-opacity=\".25\"/>\n",
             (long long)wide, (long long)high, (long long)wide, (long long)high, (long long)n);
    for (int64_t i = 0; i < h->rows; i++)
        for (int64_t j = 0; j < h->keys; j++) draw_cell(p, h, i, j, h->first[n * head + i * row + j], cell);
    page_put(p->to, "</svg><figcaption>head %lld", (long long)n);
    write_greatest(p, h, h->first + n * head, row);
    fputs("</figcaption></figure>\n", p->to);
}

int page_heads(const page *p) {
    heads h = {.values = NULL};
    if (!p->weights) return -1;
    int status = check(p, &h);
    if (status < 0) status = prepare(p, &h);
    if (status < 0) {
        page_put(p->to,
                 "<h2 id=\"heads\">Heads</h2>\n<p>%s: rows are queries, columns are keys; colours go by "
                 "powers of ten, from yellow at "
                 "the greatest weight, %.3g, to a ten-thousandth of it; grey is exactly 0. The title of a "
                 "cell has its "
                 "tokens and weight; below a head is its greatest.</p>\n<div class=\"heads\">\n",
                 p->weights, (double)h.most);
        const double each = (double)(h.rows * h.keys) / PAGE_CELLS_ROW;
        p->progress->all += each * (double)h.count;
        for (int64_t n = 0; n < h.count; n++) {
            progress_more(p->progress, each, "heads");
            draw_head(p, &h, n);
        }
        fputs("</div>\n", p->to);
    }
    tokens_free(&h.words);
    free(h.values);
    array_free(&h.weights);
    return status;
}
