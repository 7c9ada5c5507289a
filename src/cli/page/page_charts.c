// page_charts.c: the charts of a report, as SVG in the page. See page.h.
#include <math.h>

#include "cli/compare/compare.h"
#include "cli/page/page.h"

// The roofline's frame, as wide as a phone, and its axes in powers of two: operations per byte, and
// GFLOP/s from the peak down. The text of the selected point is above the frame.
#define WIDTH 420.0
#define HEIGHT 360.0
#define LEFT 50.0
#define RIGHT 10.0
#define TOP 62.0
#define BOTTOM 42.0
#define LEAST_X -3.0
#define MOST_X 13.0
#define OCTAVES 12.0

#define MOST_LABELS 512 // most labels: points and their numbers
typedef struct box {
    double x, y, width, height;
} box;

typedef struct frame {
    double most_y; // log2 of GFLOP/s at the top
    box labels[MOST_LABELS];
    int label_count;
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
                 x_of(x), TOP, HEIGHT - BOTTOM, x_of(x), HEIGHT - BOTTOM + 15.0, exp2(x));
    for (double y = ceil(f->most_y - OCTAVES); y <= f->most_y; y += 2.0) {
        page_put(
            p->to,
            "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
            LEFT, y_of(f, y), WIDTH - RIGHT, LEFT - 5.0, y_of(f, y) + 4.0);
        // Uses the width that is available.
        page_put(p->to, y < -3.0 ? "%.2f</text>\n" : "%g</text>\n", exp2(y));
    }
    page_put(p->to,
             "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">operations a byte of the tensors</text>"
             "<text x=\"8\" y=\"%.1f\">GFLOP/s</text>\n",
             LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 8.0, TOP - 3.0);
}

// Draw one roof: the reading slope up to the point where the lines meet, then the FMA level. The
// name is at height name_y.
static void draw_roof(const page *p, const frame *f, const char *name, double gflops, double gbytes,
                      const char *dashes, double name_y) {
    if (gflops <= 0.0 || gbytes <= 0.0) return;
    const double meet = log2(gflops / gbytes), low = fmax(LEAST_X, f->most_y - OCTAVES - log2(gbytes));
    page_put(p->to,
             "<path class=\"roof\" stroke-dasharray=\"%s\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"><title>%s: %.1f "
             "GFLOP/s, reading %.1f GB/s</title></path>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s "
             "%.0f</text>\n",
             dashes, x_of(low), y_of(f, low + log2(gbytes)), x_of(meet), y_of(f, log2(gflops)), WIDTH - RIGHT,
             name, gflops, gbytes, WIDTH - RIGHT - 4.0, name_y, name, gflops);
}

// Draw the roofs of float32 FMA, named above both lines, and of FMA with loads, named below them.
static void draw_roofs(const page *p, const frame *f, double fma, double loads, double gbytes) {
    const double y = y_of(f, log2(fma)), other = loads > 0.0 ? y_of(f, log2(loads)) : y;
    draw_roof(p, f, "FMA", fma, gbytes, "none", fmin(y, other) - 5.0);
    draw_roof(p, f, "FMA with loads", loads, gbytes, "5 4", fmax(y, other) + 14.0);
}

// Draw the slope of reading from a cache, which ends at the FMA level.
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

// Draw the level of an engine other than float32 FMA.
static void draw_engine(const page *p, const frame *f, const json_t *engine, double gbytes) {
    const double gflops = row_number(engine, "gflops");
    if (gflops <= 0.0) return;
    page_put(
        p->to,
        "<path class=\"roof\" stroke-dasharray=\"2 3\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
        "text-anchor=\"end\">%s %.0f</text>\n",
        x_of(log2(gflops / gbytes)), y_of(f, log2(gflops)), WIDTH - RIGHT, WIDTH - RIGHT - 4.0,
        y_of(f, log2(gflops)) - 5.0, row_text(engine, "name"), gflops);
}

static bool is_free(const frame *f, const box *b) {
    if (b->x < LEFT || b->x + b->width > WIDTH || b->y < TOP || b->y + b->height > HEIGHT - BOTTOM)
        return false;
    for (int i = 0; i < f->label_count; i++) {
        const box *o = &f->labels[i];
        if (b->x < o->x + o->width && o->x < b->x + b->width && b->y < o->y + o->height &&
            o->y < b->y + b->height)
            return false;
    }
    return true;
}

// Draw a case's number beside its point if one of four places is free. Without it, the number shows
// when the point is selected.
static void draw_number(const page *p, frame *f, int number, double x, double y) {
    const double wide = number < 10 ? 9.0 : number < 100 ? 18.0 : 27.0, high = 13.0;
    const box places[] = {{x + 6.0, y - 6.5, wide, high},
                          {x - 6.0 - wide, y - 6.5, wide, high},
                          {x - wide / 2.0, y - 19.0, wide, high},
                          {x - wide / 2.0, y + 6.0, wide, high}};
    for (int i = 0; i < 4 && f->label_count < MOST_LABELS; i++) {
        if (!is_free(f, &places[i])) continue;
        f->labels[f->label_count++] = places[i];
        page_put(p->to, "<text x=\"%.1f\" y=\"%.1f\">%d</text>", places[i].x, places[i].y + 10.5, number);
        return;
    }
}

#define LETTERS 46 // most letters of a line

// How many bytes of the name fit in a line: up to a hyphen if possible, never within a UTF-8
// character.
static int line_end(const char *name) {
    const int length = (int)strlen(name);
    int end = LETTERS;
    if (length <= LETTERS) return length;
    while (end > LETTERS / 2 && name[end - 1] != '-') end--;
    if (end > LETTERS / 2) return end;
    for (end = LETTERS; end > 1 && ((unsigned char)name[end] & 0xc0) == 0x80;) end--;
    return end;
}

// Draw the text above the chart: the case's name in at most two lines, and its numbers.
static void draw_tip(const page *p, const json_t *row) {
    const char *name = row_text(row, "case");
    char line[LETTERS + 1], rate[32], read[32];
    double y = 15.0;
    fputs("<g class=\"tip\">", p->to);
    for (int n = 0; n < 2 && *name; n++, y += 16.0) {
        const int end = line_end(name);
        snprintf(line, sizeof line, "%.*s", end, name);
        name += end;
        page_put(p->to,
                 n && *name ? "<text x=\"8\" y=\"%.0f\">%s...</text>" : "<text x=\"8\" y=\"%.0f\">%s</text>",
                 y, line);
    }
    page_put(p->to, "<text x=\"8\" y=\"%.0f\">%s: %s GFLOP/s, %s GB/s, %.3f ms</text></g>", y,
             row_text(row, "kernel"), page_rate(row_number(row, "gflops"), rate),
             page_rate(row_number(row, "gbytes_per_s"), read), row_number(row, "time_ns") / 1e6);
}

// The position of a case; false: it has none.
static bool place_of(const frame *f, const json_t *row, double *x, double *y) {
    const double gflops = row_number(row, "gflops"), gbytes = row_number(row, "gbytes_per_s");
    if (gflops <= 0.0 || gbytes <= 0.0) return false;
    *x = x_of(log2(gflops / gbytes)), *y = y_of(f, log2(gflops));
    return true;
}

static void draw_point(const page *p, frame *f, int file, size_t at, const json_t *row) {
    const int number = page_number(p, file, at);
    double x, y;
    if (!place_of(f, row, &x, &y)) return;
    page_put(p->to, "<a class=\"mark\" href=\"#case-%d\" aria-label=\"%d: %s\"", number, number,
             row_text(row, "case"));
    page_facts(p, file, row);
    page_put(
        p->to,
        "><circle class=\"point%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>%s, %s: %.1f GFLOP/s, %.1f GB/s, "
        "%.3f ms</title></circle>",
        strcmp(row_text(row, "op"), "decode") ? "" : " decode", x, y, row_text(row, "case"),
        row_text(row, "kernel"), row_number(row, "gflops"), row_number(row, "gbytes_per_s"),
        row_number(row, "time_ns") / 1e6);
    draw_number(p, f, number, x, y);
    draw_tip(p, row);
    fputs("</a>\n", p->to);
}

static bool is_of(const json_t *row, int device) {
    return row_ok(row) && json_integer_value(json_object_get(row, "device_index")) == device;
}

// log2 of GFLOP/s at the top of the chart, above the fastest limit and the fastest case.
static double top_of(const json_t *of, const json_t *rows, int device) {
    json_t *row, *engine;
    size_t i;
    double most = row_number(of, "fma_gflops");
    json_array_foreach(rows, i, row) {
        if (is_of(row, device)) most = fmax(most, row_number(row, "gflops"));
    }
    json_array_foreach(json_object_get(of, "engine_peaks"), i, engine) {
        most = fmax(most, row_number(engine, "gflops"));
    }
    return ceil(log2(most)) + 0.5;
}

void page_roofline(const page *p, int file, int device) {
    json_t *row, *part;
    size_t i;
    const json_t *of = json_array_get(json_object_get(p->files[file], "devices"), (size_t)device);
    const json_t *rows = json_object_get(p->files[file], "rows");
    const double fma = row_number(of, "fma_gflops"), read = row_number(of, "read_gbytes_per_s");
    if (fma <= 0.0 || read <= 0.0) {
        fputs("<p class=\"soft\">The file holds no limits of this device: no roofline.</p>\n", p->to);
        return;
    }
    frame f = {.most_y = top_of(of, rows, device)};
    page_put(p->to,
             "<svg class=\"roofline\" viewBox=\"0 0 %g %g\" role=\"group\" aria-label=\"Roofline of %s: "
             "GFLOP/s by operations a byte; the table of cases has the numbers\">\n<text class=\"hint\" "
             "x=\"8\" y=\"15\">Tap or focus a point: its case is shown here.</text>\n",
             WIDTH, HEIGHT, row_text(of, "device"));
    draw_grid(p, &f);
    draw_roofs(p, &f, fma, row_number(of, "fma_loads_gflops"), read);
    json_array_foreach(json_object_get(of, "engine_peaks"), i, part) draw_engine(p, &f, part, read);
    json_array_foreach(json_object_get(of, "caches"), i, part) draw_cache(p, &f, part, fma);
    json_array_foreach(rows, i, row) { // reserve each point's place, so that no number covers it
        double x, y;
        if (is_of(row, device) && place_of(&f, row, &x, &y) && f.label_count < MOST_LABELS)
            f.labels[f.label_count++] = (box){x - 5.0, y - 5.0, 10.0, 10.0};
    }
    json_array_foreach(rows, i, row) {
        if (is_of(row, device)) draw_point(p, &f, file, i, row);
    }
    fputs("</svg>\n", p->to);
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
