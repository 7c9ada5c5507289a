/* The PNG back end: an 8-bit canvas of palette indices, then libpng's simplified interface. Called by
 * heatmap.c. */
#include "tool/heatmap/picture.h"

#include "tool/cli/text.h"

#ifdef CLATTN_HAVE_PNG

#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "tool/files/file.h"
#include "tool/heatmap/font.h"
#include "tool/heatmap/glyph.h"
#include "tool/heatmap/picture_canvas.h"

/* A quarter of the pixels that a 32-bit size holds; past it viewers fail too. */
#define PIXEL_LIMIT (INT64_C(1) << 28)

typedef struct raster {
    unsigned char *pixels;
    int width, height;
    glyphs *fonts; /* of what the bitmap font lacks; NULL: none */
} raster;

/* Where a glyph's own dots go. */
typedef struct turned {
    raster *to;
    int x, y;
    bool up;
} turned;

static void raster_box(void *state, int x, int y, int width, int height, int colour) {
    raster *r = state;
    int end = x + width < r->width ? x + width : r->width;
    for (int row = y; row < y + height && row < r->height; row++)
        if (row >= 0 && x >= 0 && end > x)
            memset(r->pixels + (size_t)row * (size_t)r->width + x, colour, (size_t)(end - x));
}

static void raster_dot(raster *r, int x, int y) {
    if (x >= 0 && y >= 0 && x < r->width && y < r->height)
        r->pixels[(size_t)y * (size_t)r->width + (size_t)x] = COLOUR_INK;
}

/* Above the bitmap font's top: the marks over a capital letter. */
#define LEAST_ROW (-4)

static void turned_dot(void *state, int column, int row) {
    const turned *t = state;
    if (column < 0 || column >= 2 * TEXT_ADVANCE || row < LEAST_ROW || row >= 2 * FONT_ROWS) return;
    raster_dot(t->to, t->up ? t->x + row : t->x + column, t->up ? t->y - column : t->y + row);
}

static void raster_glyph(raster *r, int x, int y, uint32_t code_point, bool up) {
    turned t = {r, x, y, up};
    const int columns = label_columns(code_point), width = (columns ? columns : 1) * TEXT_ADVANCE;
    if (code_point > 0x7e && glyph_draw(r->fonts, code_point, width, 14, turned_dot, &t)) return;
    if (!columns) return; /* a mark over nothing */
    for (int row = 0; row < 2 * FONT_ROWS; row++)
        for (int column = 0; column < 2 * FONT_COLUMNS; column++)
            if (font_dot_double(code_point, column, row)) turned_dot(&t, column, row);
}

static void raster_text(void *state, int x, int y, const label *text, text_anchor anchor) {
    const int length = label_width(text) * TEXT_ADVANCE;
    /* Letters have seven rows above the base line and two below, so their middle is above the glyph's. */
    int across = 7, next = 0;
    for (int k = 0; k < text->length; k++) {
        const int columns = label_columns(text->code_points[k]);
        const int along = columns ? next : next - TEXT_ADVANCE; /* a mark goes over what is before it */
        next += columns * TEXT_ADVANCE;
        if (anchor == TEXT_UP)
            raster_glyph(state, x - across, y + length - 1 - along, text->code_points[k], true);
        else
            raster_glyph(state, (anchor == TEXT_END ? x - length : x) + along, y - across,
                         text->code_points[k], false);
    }
}

static bool encode(const raster *r, const char *path, reason why) {
    unsigned char palette[256][3];
    for (int index = 0; index < 256; index++) picture_colour(index, palette[index]);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)r->width,
                       .height = (png_uint_32)r->height,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = 256};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *encoded = malloc(bytes);
    if (!encoded) return refuse(why, "%s: no memory for the picture", path);
    bool done = png_image_write_to_memory(&image, encoded, &bytes, 0, r->pixels, 0, palette) != 0;
    if (done)
        done = file_write_whole(path, encoded, bytes, why);
    else
        refuse(why, "%s: libpng: %s", path, image.message);
    free(encoded);
    return done;
}

bool picture_png(const picture *p, const char *path, reason why) {
    picture_layout layout = picture_plan(p);
    if (layout.width > PIXEL_LIMIT / layout.height)
        return refuse(why, "%s: %lld x %lld pixels; choose fewer heads or tokens", path,
                      (long long)layout.width, (long long)layout.height);
    raster r = {.width = (int)layout.width, .height = (int)layout.height};
    r.pixels = malloc((size_t)r.width * (size_t)r.height);
    if (!r.pixels) return refuse(why, "%s: no memory for the picture", path);
    r.fonts = glyphs_open();
    picture_draw(p, &layout, &(canvas){&r, raster_box, raster_text});
    glyphs_close(r.fonts);
    bool done = encode(&r, path, why);
    free(r.pixels);
    return done;
}

#else

bool picture_png(const picture *p, const char *path, reason why) {
    (void)p;
    return refuse(why, "%s: built without libpng; .svg and - for the terminal are there", path);
}

#endif
