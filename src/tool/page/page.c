// page.c: clattn report: files of clattn bench --save as one page: devices with their rooflines, every case, what differs between
// the files and how sure that is, and the heads of a model. It asks for nothing from a network and reads without scripts.
#include "tool/page/page.h"

#include <stdlib.h>
#include <string.h>

#include "tool/compare/compare_rows.h"
#include "tool/files/file.h"
#include "tool/cli/text.h"
#include "tool/cli/report.h"

void page_text(FILE *to, const char *text) {
    while (*text) {
        const char *from = text, c = *from;
        const bool good = printable_next(&text) != PRINTABLE_NONE;
        const char *told = c == '<'   ? "&lt;"
                           : c == '>' ? "&gt;"
                           : c == '&' ? "&amp;"
                           : c == '"' ? "&quot;"
                                      : NULL;
        if (told)
            fputs(told, to);
        else
            fprintf(to, "%.*s", good ? (int)(text - from) : 1, good ? from : "?");
    }
}

void page_file_name(const page *p, int file) {
    char name[256];
    const char *slash = strrchr(p->paths[file], '/');
    snprintf(name, sizeof name, "%s", slash && slash[1] ? slash + 1 : p->paths[file]);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = '\0';
    page_text(p->to, name);
}

static void number_cell(const page *p, double x, const char *format) {
    fprintf(p->to, "<td data-v=\"%.9g\">", x);
    fprintf(p->to, format, x);
    fputs("</td>", p->to);
}

static void text_cell(const page *p, const char *text) {
    fputs("<td class=\"text\">", p->to);
    page_text(p->to, text);
    fputs("</td>", p->to);
}

// From each cache that the run has measured, and from memory.
static void write_reading(const page *p, const json_t *device) {
    json_t *cache;
    size_t i;
    fputs("; reading", p->to);
    json_array_foreach(json_object_get(device, "caches"), i, cache) {
        fputs(" from ", p->to);
        page_text(p->to, compare_text(cache, "name"));
        fprintf(p->to, " (%.0f KiB) %.1f GB/s,", compare_number(cache, "bytes") / 1024.0,
                compare_number(cache, "read_gbytes_per_s"));
    }
    fprintf(p->to, " past the caches %.1f GB/s. ", compare_number(device, "read_gbytes_per_s"));
}

static void write_devices(const page *p, int file) {
    json_t *device;
    size_t d;
    json_array_foreach(json_object_get(p->files[file], "devices"), d, device) {
        fputs("<h3>", p->to);
        page_text(p->to, compare_text(device, "device"));
        if (p->file_count > 1) fputs(" in ", p->to), page_file_name(p, file);
        fputs("</h3>\n<p class=\"soft\">", p->to);
        page_text(p->to, compare_text(device, "platform"));
        fputs(", driver ", p->to);
        page_text(p->to, compare_text(device, "driver"));
        fprintf(p->to, ", %lld compute units. Measured in that run: FMA %.1f GFLOP/s",
                (long long)json_integer_value(json_object_get(device, "compute_units")),
                compare_number(device, "fma_gflops"));
        if (compare_number(device, "fma_loads_gflops") > 0.0)
            fprintf(p->to, ", %.1f with the loads of a matrix product out of the first-level cache",
                    compare_number(device, "fma_loads_gflops"));
        write_reading(p, device);
        page_text(p->to, compare_text(device, "contended"));
        fputs("</p>\n", p->to);
        page_roofline(p, file, (int)d);
    }
}

static void write_case(const page *p, int file, const json_t *row) {
    fputs("<tr>", p->to);
    if (p->file_count > 1) {
        fputs("<td class=\"text\">", p->to);
        page_file_name(p, file);
        fputs("</td>", p->to);
    }
    text_cell(p, compare_text(row, "case"));
    text_cell(p, compare_text(row, "kernel"));
    if (!compare_ok(row)) {
        fprintf(p->to, "<td class=\"text bad\" colspan=\"7\">");
        page_text(p->to, compare_text(row, "status"));
        fputs(": ", p->to);
        page_text(p->to, compare_text(row, "why"));
        fputs("</td></tr>\n", p->to);
        return;
    }
    const double spread = 100.0 * compare_number(row, "time_ns_spread") / compare_number(row, "time_ns");
    number_cell(p, compare_number(row, "time_ns") / 1e6, "%.3f");
    fprintf(p->to, "<td data-v=\"%.6g\"%s>%.1f %%</td>", spread, spread > 10.0 ? " class=\"bad\"" : "",
            spread);
    number_cell(p, compare_number(row, "gflops"), "%.1f");
    number_cell(p, compare_number(row, "gbytes_per_s"), "%.1f");
    page_share(p->to, compare_number(row, "limit_percent"));
    if (json_is_real(json_object_get(row, "error_nmse")))
        page_error(p->to, compare_number(row, "error_nmse"));
    else
        fputs("<td>not checked</td>", p->to);
    number_cell(p, compare_number(row, "build_ms"), "%.1f");
    fputs("</tr>\n", p->to);
}

static void write_cases(const page *p) {
    static const char *const columns[] = {"ms",       "spread",       "GFLOP/s", "GB/s",
                                          "of limit", "error (NMSE)", "build ms"};
    fputs("<h2 id=\"cases\">Cases</h2>\n<p class=\"soft\">The limit of decode is reading, of the rest "
          "multiply-adds in float32. A spread above 10 % is red: the machine was busy with other work. A "
          "click on a column sorts by it.</p>\n<div class=\"wide\"><table>\n<thead><tr>",
          p->to);
    if (p->file_count > 1) fputs("<th class=\"text\" data-sort>file</th>", p->to);
    fputs("<th class=\"text\" data-sort>case</th><th class=\"text\" data-sort>kernel</th>", p->to);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        fprintf(p->to, "<th data-sort>%s</th>", columns[i]);
    fputs("</tr></thead>\n<tbody>\n", p->to);
    for (int file = 0; file < p->file_count; file++) {
        json_t *row;
        size_t i;
        json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
            progress_more(p->progress, 1.0, "cases");
            write_case(p, file, row);
        }
    }
    fputs("</tbody></table></div>\n", p->to);
}

static json_t *same_case(const json_t *rows, const json_t *wanted) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (compare_ok(row) && !strcmp(compare_text(row, "case"), compare_text(wanted, "case")) &&
            !strcmp(compare_text(row, "device"), compare_text(wanted, "device")))
            return row;
    }
    return NULL;
}

static int write_ratio(const page *p, int file, const json_t *row) {
    const json_t *first = same_case(json_object_get(p->files[0], "rows"), row);
    compare_times *times = first && compare_ok(row) ? malloc(2 * sizeof *times) : NULL;
    if (!times) return 0;
    compare_times_of(first, &times[0]), compare_times_of(row, &times[1]);
    const compare_ratio r = compare_ratio_of(&times[0], &times[1]);
    free(times);
    fputs("<tr><td class=\"text\">", p->to);
    page_file_name(p, file);
    fputs("</td>", p->to);
    text_cell(p, compare_text(row, "case"));
    text_cell(p, compare_text(row, "device"));
    number_cell(p, compare_number(first, "time_ns") / 1e6, "%.3f");
    number_cell(p, compare_number(row, "time_ns") / 1e6, "%.3f");
    number_cell(p, r.ratio, "%.3f");
    fputs("<td>", p->to);
    page_interval(p->to, r.ratio, r.low, r.high);
    const char *tone = r.verdict == COMPARE_FASTER ? " good" : r.verdict == COMPARE_SLOWER ? " bad" : "";
    fprintf(p->to, "</td><td class=\"text%s\">%s</td></tr>\n", tone, compare_verdicts[r.verdict]);
    return 1;
}

static void write_ratios(const page *p) {
    int count = 0;
    if (p->file_count < 2) return;
    fputs("<h2 id=\"ratios\">Against ", p->to);
    page_file_name(p, 0);
    fputs("</h2>\n<p class=\"soft\">The ratio is a file's time by the first file's, with a bootstrap "
          "interval of 95 % where both keep their samples; below 1 is faster.</p>\n<div "
          "class=\"wide\"><table>\n<thead><tr><th class=\"text\" data-sort>file</th><th class=\"text\" "
          "data-sort>case</th><th class=\"text\" data-sort>device</th><th data-sort>first, ms</th><th "
          "data-sort>ms</th><th data-sort>ratio</th><th>half to twice</th><th class=\"text\" data-sort>so it "
          "is</th></tr></thead>\n<tbody>\n",
          p->to);
    for (int file = 1; file < p->file_count; file++) {
        json_t *row;
        size_t i;
        json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
            progress_more(p->progress, PAGE_RATIO_ROWS, "ratios");
            count += write_ratio(p, file, row);
        }
    }
    fputs("</tbody></table></div>\n", p->to);
    if (!count) fputs("<p>No case was measured on one device in the first file and in another.</p>\n", p->to);
}

static int write_page(const page *p) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>", p->to);
    page_text(p->to, p->title);
    fprintf(p->to, "</title>\n%s</head>\n<body>\n<h1>", page_head);
    page_text(p->to, p->title);
    fputs("</h1>\n<p class=\"soft\">", p->to);
    for (int file = 0; file < p->file_count; file++) {
        if (file) fputs("; ", p->to);
        page_text(p->to, p->paths[file]);
        fputs(" by clattn ", p->to);
        page_text(p->to, compare_text(p->files[file], "clattn"));
    }
    fprintf(p->to, "</p>\n<nav><a href=\"#devices\">Devices</a><a href=\"#cases\">Cases</a>%s%s</nav>\n",
            p->file_count > 1 ? "<a href=\"#ratios\">Ratios</a>" : "",
            p->weights ? "<a href=\"#heads\">Heads</a>" : "");
    fputs("<h2 id=\"devices\">Devices</h2>\n<p class=\"soft\">Of each device its roofline: the slope is "
          "reading a buffer larger than the caches, the level is multiply-adds in float32, which products of "
          "16-bit numbers may pass; what the caches hold is read faster than the slope. Blue: prefill, "
          "layers and projections; red: decode. A point tells its case on hover.</p>\n",
          p->to);
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
