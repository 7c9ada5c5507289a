// page_charts.c: the pictures of a report, as SVG within the page. See page.h.
#include <math.h>

#include "tool/compare/compare.h"
#include "tool/page/page.h"

// The roofline's frame, in pixels, and its axes, in powers of two: operations a byte, and GFLOP/s from the limit down.
#define WIDTH 760.0
#define HEIGHT 380.0
#define LEFT 64.0
#define RIGHT 16.0
#define TOP 16.0
#define BOTTOM 44.0
#define LEAST_X -3.0
#define MOST_X 13.0
#define OCTAVES 12.0

typedef struct frame {
    double most_y; // log2 of GFLOP/s at the top
} frame;

static double x_of(double log_x) {
    const double kept = fmin(fmax(log_x, LEAST_X), MOST_X);
    return LEFT + (WIDTH - LEFT - RIGHT) * (kept - LEAST_X) / (MOST_X - LEAST_X);
}

static double y_of(const frame *f, double log_y) {
    const double kept = fmin(fmax(log_y, f->most_y - OCTAVES), f->most_y);
    return TOP + (HEIGHT - TOP - BOTTOM) * (f->most_y - kept) / OCTAVES;
}

static void draw_grid(const page *p, const frame *f) {
    for (double x = LEAST_X + 1.0; x <= MOST_X; x += 2.0)
        page_put(p->to,
                 "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                 "text-anchor=\"middle\">%g</text>\n",
                 x_of(x), TOP, HEIGHT - BOTTOM, x_of(x), HEIGHT - BOTTOM + 16.0, exp2(x));
    for (double y = ceil(f->most_y - OCTAVES); y <= f->most_y; y += 2.0)
        page_put(p->to,
                 "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                 "text-anchor=\"end\">%g</text>\n",
                 LEFT, y_of(f, y), WIDTH - RIGHT, LEFT - 6.0, y_of(f, y) + 4.0, exp2(y));
    page_put(p->to,
             "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">operations a byte of the tensors</text>"
             "<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>\n",
             LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 8.0, TOP + (HEIGHT - TOP - BOTTOM) / 2.0);
}

// Reading limits on the left of where the lines meet, multiply-adds on the right, where the name stands so far below them.
static void draw_roof(const page *p, const frame *f, const char *name, double gflops, double gbytes,
                      const char *dashes, double below) {
    if (gflops <= 0.0 || gbytes <= 0.0) return;
    const double meet = log2(gflops / gbytes), low = fmax(LEAST_X, f->most_y - OCTAVES - log2(gbytes));
    page_put(p->to,
             "<path class=\"roof\" stroke-dasharray=\"%s\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"><title>%s: %.1f "
             "GFLOP/s, reading %.1f "
             "GB/s</title></path>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s %.0f</text>\n",
             dashes, x_of(low), y_of(f, low + log2(gbytes)), x_of(meet), y_of(f, log2(gflops)), WIDTH - RIGHT,
             name, gflops, gbytes, WIDTH - RIGHT - 4.0, y_of(f, log2(gflops)) + below, name, gflops);
}

// Reading from a cache: the slope alone, which ends at the multiply-adds.
static void draw_cache(const page *p, const frame *f, const json_t *cache, double gflops) {
    const double gbytes = row_number(cache, "read_gbytes_per_s");
    const char *name = row_text(cache, "name");
    if (gbytes <= 0.0) return;
    const double low = fmax(LEAST_X, f->most_y - OCTAVES - log2(gbytes)),
                 meet = fmax(log2(gflops / gbytes), low);
    page_put(p->to,
             "<path class=\"roof\" stroke-dasharray=\"1 4\" d=\"M%.1f %.1fL%.1f %.1f\"><title>%s: reading "
             "%.1f GB/s</title></path>\n"
             "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
             x_of(low), y_of(f, low + log2(gbytes)), x_of(meet), y_of(f, log2(gbytes) + meet), name, gbytes,
             x_of(low) + 6.0, y_of(f, low + log2(gbytes)) - 3.0, name);
}

static void draw_point(const page *p, const frame *f, int file, const json_t *row) {
    const double gflops = row_number(row, "gflops"), gbytes = row_number(row, "gbytes_per_s");
    if (gflops <= 0.0 || gbytes <= 0.0) return;
    fputs("<circle", p->to);
    page_facts(p, file, row);
    page_put(p->to,
             " class=\"point%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>%s, %s: %.1f GFLOP/s, %.1f "
             "GB/s, %.3f "
             "ms</title></circle>\n",
             strcmp(row_text(row, "op"), "decode") ? "" : " decode", x_of(log2(gflops / gbytes)),
             y_of(f, log2(gflops)), row_text(row, "case"), row_text(row, "kernel"), gflops, gbytes,
             row_number(row, "time_ns") / 1e6);
}

static bool is_of(const json_t *row, int device) {
    return row_ok(row) && json_integer_value(json_object_get(row, "device_index")) == device;
}

void page_roofline(const page *p, int file, int device) {
    json_t *row, *cache;
    size_t i;
    const json_t *of = json_array_get(json_object_get(p->files[file], "devices"), (size_t)device);
    const json_t *rows = json_object_get(p->files[file], "rows");
    const double fma = row_number(of, "fma_gflops"), read = row_number(of, "read_gbytes_per_s");
    double most = fma;
    json_array_foreach(rows, i, row) {
        if (is_of(row, device)) most = fmax(most, row_number(row, "gflops"));
    }
    if (fma <= 0.0 || read <= 0.0) {
        fputs("<p class=\"soft\">The file holds no limits of this device: no roofline.</p>\n", p->to);
        return;
    }
    const frame f = {ceil(log2(most)) + 0.5};
    page_put(
        p->to,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"roofline, can be scrolled\">"
        "<svg viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\" aria-label=\"Roofline of %s: "
        "GFLOP/s by operations a byte; the table of cases has the numbers\">\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, row_text(of, "device"));
    draw_grid(p, &f);
    draw_roof(p, &f, "FMA", fma, read, "none", -5.0);
    draw_roof(p, &f, "FMA with loads", row_number(of, "fma_loads_gflops"), read, "5 4", 14.0);
    json_array_foreach(json_object_get(of, "caches"), i, cache) draw_cache(p, &f, cache, fma);
    json_array_foreach(rows, i, row) {
        if (is_of(row, device)) draw_point(p, &f, file, row);
    }
    fputs("</svg></div>\n", p->to);
}

void page_interval(FILE *to, double ratio, double low, double high) {
    const double ends[] = {low, high, ratio};
    double x[3];
    for (int i = 0; i < 3; i++) x[i] = 60.0 + 58.0 * fmin(fmax(log2(fmax(ends[i], 1e-3)), -1.0), 1.0);
    page_put(
        to,
        "<svg class=\"plain\" viewBox=\"0 0 120 14\" width=\"120\" height=\"14\" role=\"img\" "
        "aria-label=\"%.3f to %.3f\"><path class=\"axis\" d=\"M60 1V13\"/><path class=\"roof\" d=\"M%.1f "
        "7H%.1f\"/><circle class=\"point\" cx=\"%.1f\" cy=\"7\" r=\"4\"/><title>%.3f, 95 %%: %.3f to "
        "%.3f, on a scale from half to twice</title></svg>",
        low, high, x[0], fmax(x[1], x[0] + 1.0), x[2], ratio, low, high);
}
