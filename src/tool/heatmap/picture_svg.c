/* The SVG back end: the same drawing as text, with the labels as real text that can be searched. Called by
 * heatmap.c. */
#define _POSIX_C_SOURCE 200809L
#include "tool/heatmap/picture.h"

#include <stdlib.h>

#include "tool/files/file.h"
#include "tool/heatmap/picture_canvas.h"
#include "tool/cli/text.h"

/* A file of about 100 MB, more than viewers take. */
#define CELL_LIMIT 2000000

static void svg_box(void *state, int x, int y, int width, int height, int colour) {
    unsigned char rgb[3];
    picture_colour(colour, rgb);
    (void)fprintf(state, "<path d=\"M%d %dh%dv%dh-%dz\" fill=\"#%02x%02x%02x\"/>\n", x, y, width, height,
                  width, rgb[0], rgb[1], rgb[2]);
}

static void svg_text(void *state, int x, int y, const label *text, text_anchor anchor) {
    (void)fprintf(state, "<text x=\"%d\" y=\"%d\"", x, y);
    if (anchor != TEXT_START) (void)fputs(" text-anchor=\"end\"", state);
    if (anchor == TEXT_UP) (void)fprintf(state, " transform=\"rotate(-90 %d %d)\"", x, y);
    /* dy puts the middle of the small letters on y; dominant-baseline is not drawn alike everywhere. */
    (void)fputs(" dy=\"5\">", state);
    for (int k = 0; k < text->length; k++) {
        uint32_t code_point = text->code_points[k];
        char utf8[5];
        const char *escaped = code_point == '<'   ? "&lt;"
                              : code_point == '>' ? "&gt;"
                              : code_point == '&' ? "&amp;"
                                                  : label_utf8(code_point, utf8);
        (void)fputs(escaped, state);
    }
    (void)fputs("</text>\n", state);
}

static void write_svg(const picture *p, FILE *out) {
    picture_layout layout = picture_plan(p);
    unsigned char ink[3];
    picture_colour(COLOUR_INK, ink);
    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" viewBox=\"0 0 "
                  "%lld %lld\" shape-rendering=\"crispEdges\" xml:space=\"preserve\" font-family=\"DejaVu "
                  "Sans Mono, Menlo, Consolas, monospace\" font-size=\"16\">\n"
                  "<g fill=\"#%02x%02x%02x\">\n",
                  (long long)layout.width, (long long)layout.height, (long long)layout.width,
                  (long long)layout.height, ink[0], ink[1], ink[2]);
    picture_draw(p, &layout, &(canvas){out, svg_box, svg_text});
    (void)fputs("</g>\n</svg>\n", out);
}

bool picture_svg(const picture *p, const char *path, reason why) {
    const int block = picture_plan(p).block;
    if ((int64_t)p->heads * (p->rows / block) > CELL_LIMIT / (p->columns / block + 1))
        return refuse(why, "%s: %d x %d x %d cells; as SVG at most %d, more as .png", path, p->heads, p->rows,
                      p->columns, CELL_LIMIT);
    memory_file m;
    char *text = NULL;
    if (memory_file_open(&m)) {
        write_svg(p, m.to);
        text = memory_file_close(&m);
    }
    bool done = text ? file_write_whole(path, text, m.bytes, why)
                     : refuse(why, "%s: no memory for the picture", path);
    free(text);
    return done;
}
