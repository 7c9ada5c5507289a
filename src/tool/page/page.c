// page.c: clattn report: files of clattn bench --save as one page: devices with their rooflines, every case, what differs between
// the files and how sure that is, and the heads of a model. It asks for nothing from a network and reads without scripts.
#include "tool/page/page.h"

#include <math.h>

#include "tool/compare/compare.h"
#include "tool/files/file.h"

// A file's name for a person: without folder and ending.
static const char *name_of(const page *p, int file, char name[256]) {
    const char *slash = strrchr(p->paths[file], '/');
    snprintf(name, 256, "%s", slash && slash[1] ? slash + 1 : p->paths[file]);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = '\0';
    return name;
}

static void write_devices(const page *p, int file) {
    json_t *device, *cache;
    size_t d, i;
    char name[256];
    json_array_foreach(json_object_get(p->files[file], "devices"), d, device) {
        page_put(p->to, p->file_count > 1 ? "<h3>%s in %s</h3>\n" : "<h3>%s</h3>\n",
                 row_text(device, "device"), name_of(p, file, name));
        page_put(
            p->to,
            "<p class=\"soft\">%s, driver %s, %lld compute units. Measured in that run: FMA %.1f GFLOP/s",
            row_text(device, "platform"), row_text(device, "driver"),
            (long long)json_integer_value(json_object_get(device, "compute_units")),
            row_number(device, "fma_gflops"));
        if (row_number(device, "fma_loads_gflops") > 0.0)
            page_put(p->to, ", %.1f with the loads of a matrix product out of the first-level cache",
                     row_number(device, "fma_loads_gflops"));
        page_put(p->to, "; reading");
        json_array_foreach(json_object_get(device, "caches"), i, cache) {
            page_put(p->to, " from %s (%.0f KiB) %.1f GB/s,", row_text(cache, "name"),
                     row_number(cache, "bytes") / 1024.0, row_number(cache, "read_gbytes_per_s"));
        }
        page_put(p->to, " past the caches %.1f GB/s. %s</p>\n", row_number(device, "read_gbytes_per_s"),
                 row_text(device, "contended"));
        page_roofline(p, file, (int)d);
    }
}

// A column's number, and how it is told: the value that a click sorts by comes first.
static void write_number(const page *p, const char *format, double x) {
    page_put(p->to, "<td data-v=\"%.9g\">", x);
    page_put(p->to, format, x);
    page_put(p->to, "</td>");
}

// With a bar of so many percent.
static void write_bar(const page *p, const char *format, double x, double percent) {
    page_put(p->to, "<td data-v=\"%.6g\">", x);
    page_put(p->to, format, x);
    page_put(p->to, "<span class=\"bar\"><i style=\"width:%.0f%%\"></i></span></td>",
             fmin(fmax(percent, 0.0), 100.0));
}

static void write_case(const page *p, int file, const json_t *row) {
    char name[256];
    page_put(p->to, "<tr>");
    if (p->file_count > 1) page_put(p->to, "<td class=\"text\">%s</td>", name_of(p, file, name));
    page_put(p->to, "<td class=\"text\">%s</td><td class=\"text\">%s</td>", row_text(row, "case"),
             row_text(row, "kernel"));
    if (!row_ok(row)) {
        page_put(p->to, "<td class=\"text bad\" colspan=\"7\">%s: %s</td></tr>\n", row_text(row, "status"),
                 row_text(row, "why"));
        return;
    }
    const double spread = 100.0 * row_number(row, "time_ns_spread") / row_number(row, "time_ns");
    write_number(p, "%.3f", row_number(row, "time_ns") / 1e6);
    page_put(p->to,
             spread > 10.0 ? "<td data-v=\"%.6g\" class=\"bad\">%.1f %%</td>"
                           : "<td data-v=\"%.6g\">%.1f %%</td>",
             spread, spread);
    write_number(p, "%.1f", row_number(row, "gflops"));
    write_number(p, "%.1f", row_number(row, "gbytes_per_s"));
    write_bar(p, "%.0f %%", row_number(row, "limit_percent"), row_number(row, "limit_percent"));
    const double nmse = row_number(row, "error_nmse");
    if (json_is_real(
            json_object_get(row, "error_nmse"))) // errors far below one: the bar goes by powers of ten
        write_bar(p, "%.1e", nmse, nmse > 0.0 ? (16.0 + log10(nmse)) / 0.16 : 0.0);
    else
        page_put(p->to, "<td>not checked</td>");
    write_number(p, "%.1f", row_number(row, "build_ms"));
    page_put(p->to, "</tr>\n");
}

static const char table_end[] = "</tbody></table></div>\n";

static void write_cases(const page *p) {
    json_t *row;
    size_t i;
    page_put(p->to, "<h2 id=\"cases\">Cases</h2>\n<p class=\"soft\">The limit of decode is reading, of the "
                    "rest multiply-adds in float32. "
                    "A spread above 10 %% is red: the machine was busy with other work. A click on a column "
                    "sorts by it.</p>\n"
                    "<div class=\"wide\"><table>\n<thead><tr>");
    if (p->file_count > 1) page_put(p->to, "<th class=\"text\" data-sort>file</th>");
    page_put(
        p->to,
        "<th class=\"text\" data-sort>case</th><th class=\"text\" data-sort>kernel</th><th data-sort>ms</th>"
        "<th data-sort>spread</th><th data-sort>GFLOP/s</th><th data-sort>GB/s</th><th data-sort>of "
        "limit</th>"
        "<th data-sort>error (NMSE)</th><th data-sort>build ms</th></tr></thead>\n<tbody>\n");
    for (int file = 0; file < p->file_count; file++)
        json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
            progress_more(p->progress, 1.0, "cases");
            write_case(p, file, row);
        }
    fputs(table_end, p->to);
}

static json_t *same_case(const json_t *rows, const json_t *wanted) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (row_ok(row) && !strcmp(row_text(row, "case"), row_text(wanted, "case")) &&
            !strcmp(row_text(row, "device"), row_text(wanted, "device")))
            return row;
    }
    return NULL;
}

static int write_ratio(const page *p, int file, const json_t *row) {
    const json_t *first = same_case(json_object_get(p->files[0], "rows"), row);
    compare_times *times = first && row_ok(row) ? malloc(2 * sizeof *times) : NULL;
    char name[256];
    if (!times) return 0;
    compare_times_of(first, &times[0]), compare_times_of(row, &times[1]);
    const compare_ratio r = compare_ratio_of(&times[0], &times[1]);
    free(times);
    page_put(p->to, "<tr><td class=\"text\">%s</td><td class=\"text\">%s</td><td class=\"text\">%s</td>",
             name_of(p, file, name), row_text(row, "case"), row_text(row, "device"));
    write_number(p, "%.3f", row_number(first, "time_ns") / 1e6);
    write_number(p, "%.3f", row_number(row, "time_ns") / 1e6);
    write_number(p, "%.3f", r.ratio);
    page_put(p->to, "<td>");
    page_interval(p->to, r.ratio, r.low, r.high);
    page_put(p->to, "</td><td class=\"text%s\">%s</td></tr>\n",
             r.verdict == COMPARE_FASTER   ? " good"
             : r.verdict == COMPARE_SLOWER ? " bad"
                                           : "",
             compare_verdicts[r.verdict]);
    return 1;
}

static void write_ratios(const page *p) {
    json_t *row;
    size_t i;
    char name[256];
    int count = 0;
    if (p->file_count < 2) return;
    page_put(p->to,
             "<h2 id=\"ratios\">Against %s</h2>\n<p class=\"soft\">The ratio is a file's time by the first "
             "file's, with a bootstrap "
             "interval of 95 %% where both keep their samples; below 1 is faster.</p>\n<div "
             "class=\"wide\"><table>\n<thead><tr>"
             "<th class=\"text\" data-sort>file</th><th class=\"text\" data-sort>case</th><th class=\"text\" "
             "data-sort>device</th>"
             "<th data-sort>first, ms</th><th data-sort>ms</th><th data-sort>ratio</th><th>half to twice</th>"
             "<th class=\"text\" data-sort>so it is</th></tr></thead>\n<tbody>\n",
             name_of(p, 0, name));
    for (int file = 1; file < p->file_count; file++)
        json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
            progress_more(p->progress, PAGE_RATIO_ROWS, "ratios");
            count += write_ratio(p, file, row);
        }
    fputs(table_end, p->to);
    if (!count)
        page_put(p->to, "<p>No case was measured on one device in the first file and in another.</p>\n");
}

static int write_page(const page *p) {
    page_put(p->to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>%s</title>\n", p->title);
    fputs(page_head, p->to);
    page_put(p->to, "</head>\n<body>\n<h1>%s</h1>\n<p class=\"soft\">", p->title);
    for (int file = 0; file < p->file_count; file++)
        page_put(p->to, "%s%s by clattn %s", file ? "; " : "", p->paths[file],
                 row_text(p->files[file], "clattn"));
    page_put(p->to, "</p>\n<nav><a href=\"#devices\">Devices</a><a href=\"#cases\">Cases</a>");
    if (p->file_count > 1) page_put(p->to, "<a href=\"#ratios\">Ratios</a>");
    if (p->weights) page_put(p->to, "<a href=\"#heads\">Heads</a>");
    page_put(p->to, "</nav>\n<h2 id=\"devices\">Devices</h2>\n<p class=\"soft\">Of each device its roofline: "
                    "the slope is reading a buffer "
                    "larger than the caches, the level is multiply-adds in float32, which products of 16-bit "
                    "numbers may pass; what the caches "
                    "hold is read faster than the slope. Blue: prefill, layers and projections; red: decode. "
                    "A point tells its case on hover."
                    "</p>\n");
    for (int file = 0; file < p->file_count; file++) write_devices(p, file);
    write_cases(p);
    write_ratios(p);
    const int status = page_heads(p);
    fprintf(p->to, "%s</body>\n</html>\n", page_script);
    return status;
}

static double count_rows(const page *p) {
    double rows = 0.0;
    for (int file = 0; file < p->file_count; file++)
        rows += (double)json_array_size(json_object_get(p->files[file], "rows")) *
                (file ? 1.0 + PAGE_RATIO_ROWS : 1.0);
    return rows;
}

static int tell(const page *p, const char *out, size_t bytes) {
    size_t rows = 0, devices = 0;
    for (int file = 0; file < p->file_count; file++) {
        rows += json_array_size(json_object_get(p->files[file], "rows"));
        devices += json_array_size(json_object_get(p->files[file], "devices"));
    }
    return report_json(json_pack("{s:o, s:I, s:i, s:I, s:I}", "out", report_text(out), "bytes",
                                 (json_int_t)bytes, "files", p->file_count, "devices", (json_int_t)devices,
                                 "rows", (json_int_t)rows));
}

static int save(page *p, const char *out, bool json) {
    reason error;
    memory_file m;
    p->to = memory_file_open(&m);
    if (!p->to) return tool_failed("no memory for the page");
    p->progress->all = count_rows(p);
    int status = write_page(p);
    progress_wipe(p->progress);
    char *text = memory_file_close(&m);
    if (status < 0 && !text) status = tool_failed("no memory for the page");
    if (status < 0 && !file_write_whole(out, text, m.bytes, error)) status = tool_failed("%s", error);
    free(text);
    return status < 0 && json ? tell(p, out, m.bytes) : status;
}

typedef struct request {
    page page;
    const char *out;
    bool json, quiet;
} request;

static int check_request(const request *r, const command_line *line) {
    if (!line->positional_count)
        return tool_wrong("a file of clattn bench --save is needed; see clattn report --help");
    if (!r->out) return tool_wrong("--out FILE is needed: the page, such as report.html");
    if (!r->page.weights && (r->page.tokens || r->page.item))
        return tool_wrong("--%s: has no effect without --weights", r->page.tokens ? "tokens" : "batch");
    return options_check_outputs(line);
}

int tool_report(int argc, char **argv) {
    static const option_row rows[] = {
        {"out", "FILE", "the page, as HTML", AS_OUTPUT(request, out)},
        {"-o", "FILE", "the same", AS_OUTPUT(request, out)},
        {"title", "TEXT", "its heading; default \"clattn report\"", AS_TEXT(request, page.title)},
        {"weights", "FILE",
         "attention weights to draw, [H, Nq, Nkv] or [B, H, Nq, Nkv], a panel for each head",
         AS_TEXT(request, page.weights)},
        {"tokens", "FILE", "their tokens, one a line; fewer than there are rows crop the panels",
         AS_TEXT(request, page.tokens)},
        {"batch", "N", "the batch item of --weights; default 0",
         AS_INTEGER(request, page.item, 0, INT32_MAX)},
        {"json", NULL, "tell what the page holds as JSON, and an error as one object on stderr",
         AS_SWITCH(request, json)},
        {"quiet", NULL, "show no progress", AS_SWITCH(request, quiet)},
    };
    progress shown;
    request r = {.page = {.title = "clattn report", .progress = &shown}};
    const option_group groups[] = {{"options", OPTION_ROWS(rows), &r}};
    command_line line = {.command = "report",
                         .summary = "files of clattn bench --save as one HTML page that needs no network",
                         .example = "clattn report before.json after.json --out report.html",
                         .groups = groups,
                         .group_count = 1,
                         .positional_max = PAGE_FILES};
    int status = options_parse(&line, argc, argv);
    if (status < 0) status = check_request(&r, &line);
    if (status >= 0) return status;
    r.page.paths = line.positional, r.page.file_count = line.positional_count;
    progress_begin(&shown, r.quiet, 0.0, 500.0);
    status = compare_load_all(r.page.paths, r.page.file_count, r.page.files);
    if (status < 0) status = save(&r.page, r.out, r.json);
    compare_release(r.page.files, r.page.file_count);
    return status < 0 ? EXIT_DONE : status;
}
