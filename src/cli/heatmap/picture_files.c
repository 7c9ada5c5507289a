// picture_files.c: write a picture to the terminal, an SVG or a PNG, chosen by the name. An SVG's
// labels are real text that can be searched. A PNG is an 8-bit canvas of palette indices, written
// by libpng's simplified interface.
#include "cli/heatmap/picture.h"

#ifndef _WIN32
#include <sys/ioctl.h>
#endif
#include <unistd.h>
#ifdef CLATTN_HAVE_PNG
#include <png.h>
#endif

#include "cli/common/tool.h"
#include "cli/files/file.h"
#include "cli/heatmap/font.h"

// A file of about 100 MB, more than viewers can open.
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
    // dy puts the middle of the small letters at y, because viewers draw dominant-baseline
    // differently.
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

#ifdef CLATTN_HAVE_PNG
// A quarter of the pixels that a 32-bit size can count. Viewers also fail to show larger pictures.
#define PIXEL_LIMIT (INT64_C(1) << 28)

typedef struct raster {
    unsigned char *pixels;
    int width, height;
    glyphs *fonts; // fonts for code points outside the bitmap font; NULL: none
} raster;

// The place of a glyph's dots on the raster.
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

// Above the bitmap font's top, for the marks over capital letters.
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
    if (!columns) return; // a combining mark without a glyph is not drawn
    for (int row = 0; row < 2 * FONT_ROWS; row++)
        for (int column = 0; column < 2 * FONT_COLUMNS; column++)
            if (font_dot_double(code_point, column, row)) turned_dot(&t, column, row);
}

static void raster_text(void *state, int x, int y, const label *text, text_anchor anchor) {
    const int length = label_width(text) * TEXT_ADVANCE;
    // Letters have seven rows above the base line and two below: their middle is above the glyph's
    // middle.
    int across = 7, next = 0;
    for (int k = 0; k < text->length; k++) {
        const int columns = label_columns(text->code_points[k]);
        // A combining mark goes over the previous letter.
        const int along = columns ? next : next - TEXT_ADVANCE;
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
    return refuse(why, "%s: built without libpng; .svg and - for the terminal are available", path);
}

#endif

static bool has_suffix(const char *path, const char *suffix) {
    const size_t length = strlen(path), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(path + length - suffix_length, suffix) == 0;
}

bool picture_out_is_terminal(const char *path) {
    return strcmp(path, "-") == 0;
}

bool picture_out_accepts(const char *path) {
    return picture_out_is_terminal(path) || has_suffix(path, ".png") || has_suffix(path, ".svg");
}

// The width to draw in: $COLUMNS, else the terminal's width, else 80.
static int terminal_columns(void) {
    const char *given = getenv("COLUMNS");
    char why[256];
    int64_t columns = 0;
    if (given && option_integer(given, 1, 1000, &columns, why)) return (int)columns;
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    return 80;
}

static bool is_coloured(int wanted) {
    const char *without = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (wanted) return wanted == 1;
    return isatty(STDOUT_FILENO) && !(without && *without) && terminal && strcmp(terminal, "dumb") != 0;
}

bool picture_out(const picture *p, const char *path, int colour, reason why) {
    picture drawn = *p;
    drawn.signs = picture_signs_of(p);
    if (has_suffix(path, ".png")) return picture_png(&drawn, path, why);
    if (has_suffix(path, ".svg")) return picture_svg(&drawn, path, why);
    picture_terminal(&drawn, terminal_columns(), is_coloured(colour), stdout);
    return true;
}
