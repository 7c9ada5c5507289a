// page.c: the command `clattn report`: one HTML page from files of `clattn bench --save` and
// `--submit`. It shows devices with rooflines, every case, differences between the files with their
// certainty, and a model's heads. The page loads nothing from a network and is readable without
// scripts.
#include "cli/page/page.h"

#include <math.h>

#include "cli/compare/compare.h"
#include "cli/files/file.h"

// Write the device's capabilities if the file has them.
static void write_abilities(const page *p, const json_t *device) {
    static const char *const names[] = {"half", "double", "subgroups"}, *const words[] = {"float16",
                                                                                          "float64",
                                                                                          "sub-groups"};
    if (!json_object_get(device, "memory_bytes")) return;
    page_put(p->to, ", %.1f GiB", row_number(device, "memory_bytes") / 0x1p30);
    for (int i = 0; i < 3; i++)
        page_put(p->to, json_is_true(json_object_get(device, names[i])) ? ", %s" : ", no %s", words[i]);
}

static void write_limits(const page *p, const json_t *device) {
    json_t *cache, *engine;
    size_t i;
    page_put(p->to, "Measured in that run: FMA %.1f GFLOP/s", row_number(device, "fma_gflops"));
    if (row_number(device, "fma_loads_gflops") > 0.0)
        page_put(p->to, ", %.1f with the loads of a matrix product out of the first-level cache",
                 row_number(device, "fma_loads_gflops"));
    json_array_foreach(json_object_get(device, "engine_peaks"), i, engine) {
        page_put(p->to, ", %s %.1f", row_text(engine, "name"), row_number(engine, "gflops"));
    }
    page_put(p->to, "; reading");
    json_array_foreach(json_object_get(device, "caches"), i, cache) {
        page_put(p->to, " from %s (%.0f KiB) %.1f GB/s,", row_text(cache, "name"),
                 row_number(cache, "bytes") / 1024.0, row_number(cache, "read_gbytes_per_s"));
    }
    page_put(p->to,
             row_number(device, "read_gbytes_per_s") > 0.0 ? " past the caches %.1f GB/s." : " not measured.",
             row_number(device, "read_gbytes_per_s"));
}

static void write_devices(const page *p, int file) {
    json_t *device;
    size_t d;
    char name[256];
    json_array_foreach(json_object_get(p->files[file], "devices"), d, device) {
        page_put(p->to, p->file_count > 1 ? "<section><h3>%s in %s</h3>\n" : "<section><h3>%s</h3>\n",
                 row_text(device, "device"), page_file_name(p, file, name));
        page_roofline(p, file, (int)d);
        page_put(p->to, "<p class=\"soft\">%s: %s, driver %s, %lld compute units", page_kind(device),
                 row_text(device, "platform"), row_text(device, "driver"),
                 (long long)json_integer_value(json_object_get(device, "compute_units")));
        write_abilities(p, device);
        page_put(p->to, ". ");
        write_limits(p, device);
        page_put(p->to, "</p>\n");
        if (row_text(device, "contended")[0])
            page_put(p->to, "<p class=\"bad\">%s</p>\n", row_text(device, "contended"));
        fputs("</section>\n", p->to);
    }
}

// Write a number's cell. Sorting uses the value in data-v. A value of 0 or less means none.
static void write_number(const page *p, const char *format, double x) {
    if (x <= 0.0) {
        fputs("<td>-</td>", p->to);
        return;
    }
    page_put(p->to, "<td data-v=\"%.9g\">", x);
    page_put(p->to, format, x);
    page_put(p->to, "</td>");
}

// Write the cell of a field that the row may lack.
static void write_field(const page *p, const json_t *row, const char *key) {
    if (json_is_number(json_object_get(row, key)))
        page_put(p->to, "<td class=\"x2\" data-v=\"%.9g\">%.1f</td>", row_number(row, key),
                 row_number(row, key));
    else
        fputs("<td class=\"x2\">-</td>", p->to);
}

// Write the percentage with a bar and the limit's name. Files of earlier versions have no limit
// name.
static void write_share(const page *p, const json_t *row) {
    const double percent = row_number(row, "limit_percent");
    const char *name = row_text(row, "limit_name");
    if (!*name) name = strcmp(row_text(row, "op"), "decode") ? "FMA" : "reading";
    if (!json_is_number(json_object_get(row, "limit_percent"))) {
        fputs("<td>-</td>", p->to);
        return;
    }
    page_put(p->to,
             "<td class=\"share\" data-v=\"%.6g\">%.0f %%<span class=\"bar\"><i style=\"width:%.0f%%\"></i>"
             "</span><small class=\"soft\"> of %s</small></td>",
             percent, percent, fmin(fmax(percent, 0.0), 100.0), name);
}

static void write_detail(const page *p, const char *name, const char *text) {
    if (*text) page_put(p->to, "<dt>%s</dt><dd>%s</dd>", name, text);
}

static void write_measure(const page *p, const json_t *row, const char *key, const char *name,
                          const char *unit) {
    char rate[32];
    if (json_is_number(json_object_get(row, key)))
        page_put(p->to, "<dt>%s</dt><dd>%s %s</dd>", name, page_rate(row_number(row, key), rate), unit);
}

// Write the values that have no column, or no column on a narrow page.
static void write_details(const page *p, int file, const json_t *row) {
    char name[256];
    fputs("<dl>", p->to);
    write_detail(p, "device", row_text(row, "device"));
    write_detail(p, "kind", page_kind(page_device(p, file, row)));
    write_detail(p, "op", row_text(row, "op"));
    write_detail(p, "type", row_text(row, "dtype"));
    write_detail(p, "kernel", row_text(row, "kernel"));
    write_detail(p, "file", page_file_name(p, file, name));
    if (row_ok(row)) {
        page_put(p->to, "<dt>time</dt><dd>%.3f ms, spread %.1f %%</dd>", row_number(row, "time_ns") / 1e6,
                 100.0 * row_number(row, "time_ns_spread") / row_number(row, "time_ns"));
        write_measure(p, row, "gflops", "operations", "GFLOP/s");
        write_measure(p, row, "gbytes_per_s", "tensors", "GB/s");
        write_measure(p, row, "limit", "limit", row_text(row, "limit_unit"));
        if (json_is_number(json_object_get(row, "error_nmse")))
            page_put(p->to, "<dt>error</dt><dd>%.1e (NMSE)</dd>", row_number(row, "error_nmse"));
        else
            write_detail(p, "error", "not checked");
        write_measure(p, row, "build_ms", "build", "ms");
    }
    fputs("</dl>", p->to);
}

// True if a case's name does not identify its device.
static bool has_devices(const page *p) {
    return p->file_count > 1 || json_array_size(json_object_get(p->files[0], "devices")) > 1;
}

static void write_case(const page *p, int file, size_t at, const json_t *row) {
    char name[256];
    const int number = page_number(p, file, at);
    page_put(p->to, "<tr id=\"case-%d\"", number);
    page_facts(p, file, row);
    page_put(p->to,
             "><td class=\"text case\" data-v=\"%s\"><details><summary><span class=\"soft\">%d</span> %s",
             row_text(row, "case"), number, row_text(row, "case"));
    if (has_devices(p))
        page_put(p->to, "<small class=\"soft phone\"> on %s</small>", row_text(row, "device"));
    if (p->file_count > 1)
        page_put(p->to, "<small class=\"soft phone\"> in %s</small>", page_file_name(p, file, name));
    fputs("</summary>", p->to);
    write_details(p, file, row);
    page_put(p->to, "</details></td><td class=\"text x1\">%s", row_text(row, "device"));
    if (p->file_count > 1)
        page_put(p->to, "<small class=\"soft\"> in %s</small>", page_file_name(p, file, name));
    page_put(p->to, "</td><td class=\"text kernel x2\">%s</td>", row_text(row, "kernel"));
    if (!row_ok(row)) {
        page_put(p->to, "<td class=\"text bad\" colspan=\"5\">%s: %s</td></tr>\n", row_text(row, "status"),
                 row_text(row, "why"));
        return;
    }
    const double spread = 100.0 * row_number(row, "time_ns_spread") / row_number(row, "time_ns");
    write_number(p, "%.3f", row_number(row, "time_ns") / 1e6);
    page_put(p->to, "<td class=\"x2%s\" data-v=\"%.6g\">%.1f %%</td>", spread > 10.0 ? " bad" : "", spread,
             spread);
    page_put(p->to, "<td class=\"x1\" data-v=\"%.9g\">%.1f</td>", row_number(row, "gflops"),
             row_number(row, "gflops"));
    write_field(p, row, "gbytes_per_s");
    write_share(p, row);
    page_put(p->to, "</tr>\n");
}

static const char table_end[] = "</tbody></table></div>\n";

// Begin a table. `columns` ends with NULL. A prefix of a name sets the column's kind: ':' text, '-'
// a picture. Before it, '1' hides the column on a phone and '2' shows it on a wide page only.
static void begin_table(const page *p, const char *name, const char *const *columns) {
    page_put(p->to,
             "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s, can be scrolled\">"
             "<table aria-label=\"%s\">\n<thead><tr>",
             name, name);
    for (; *columns; columns++) {
        const char *column = *columns, *level = *column == '1' ? " x1" : *column == '2' ? " x2" : "";
        if (*level) column++;
        const bool text = *column == ':', sorts = *column != '-';
        page_put(p->to, "<th scope=\"col\" class=\"%s%s\"", text ? "text" : "", level);
        page_put(p->to, sorts ? " data-sort>%s</th>" : ">%s</th>", column + (text || !sorts));
    }
    fputs("</tr></thead>\n<tbody>\n", p->to);
}

static void write_cases(const page *p) {
    static const char *const columns[] = {":case",    "1:device", "2:kernel", "ms", "2spread",
                                          "1GFLOP/s", "2GB/s",    "of limit", NULL};
    json_t *row;
    size_t i;
    page_put(p->to,
             "<h2 id=\"cases\">Cases</h2>\n<p class=\"soft\">The limit is the device's, measured in the same "
             "run: the peak of the engine that multiplies, or reading from the cache or memory that the "
             "case's bytes fit. A spread (interquartile range by median) above 10 %% is red: the machine had "
             "other work. A case opens for the rest of its numbers; a column's name sorts by it.</p>\n");
    begin_table(p, "cases", columns);
    for (int file = 0; file < p->file_count; file++)
        json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
            progress_more(p->progress, 1.0, "cases");
            write_case(p, file, i, row);
        }
    fputs(table_end, p->to);
}

// Write each device's number of measured cases and its limits.
static void write_summary(const page *p) {
    static const char *const columns[] = {":device", "cases", "FMA, GFLOP/s", "reading, GB/s", NULL};
    json_t *device, *row;
    size_t d, i;
    char name[256];
    page_put(p->to, "<h2 id=\"summary\">Summary</h2>\n");
    begin_table(p, "summary", columns);
    for (int file = 0; file < p->file_count; file++)
        json_array_foreach(json_object_get(p->files[file], "devices"), d, device) {
            int measured = 0, all = 0;
            json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
                const bool own = page_device(p, file, row) == device;
                all += own, measured += own && row_ok(row);
            }
            page_put(p->to, "<tr><td class=\"text\" data-v=\"%s\">%s", row_text(device, "device"),
                     row_text(device, "device"));
            if (p->file_count > 1)
                page_put(p->to, "<small class=\"soft\"> in %s</small>", page_file_name(p, file, name));
            if (row_text(device, "contended")[0])
                page_put(p->to, "<small class=\"bad\"> %s</small>", row_text(device, "contended"));
            page_put(p->to,
                     measured < all ? "</td><td data-v=\"%d\">%d of %d</td>"
                                    : "</td><td data-v=\"%d\">%d</td>",
                     measured, measured, all);
            write_number(p, "%.1f", row_number(device, "fma_gflops"));
            write_number(p, "%.1f", row_number(device, "read_gbytes_per_s"));
            fputs("</tr>\n", p->to);
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
    fputs("<tr", p->to);
    page_facts(p, file, row);
    page_put(
        p->to, "><td class=\"text case\" data-v=\"%s\">%s<small class=\"soft\"> on %s, in %s</small></td>",
        row_text(row, "case"), row_text(row, "case"), row_text(row, "device"), page_file_name(p, file, name));
    page_put(p->to, "<td class=\"x1\" data-v=\"%.9g\">%.3f</td><td class=\"x1\" data-v=\"%.9g\">%.3f</td>",
             row_number(first, "time_ns"), row_number(first, "time_ns") / 1e6, row_number(row, "time_ns"),
             row_number(row, "time_ns") / 1e6);
    page_put(p->to,
             "<td data-v=\"%.9g\">%.3f<small class=\"soft\"> %.3f to %.3f</small></td><td class=\"x1\">",
             r.ratio, r.ratio, r.low, r.high);
    page_interval(p->to, r.ratio, r.low, r.high);
    page_put(p->to, "</td><td class=\"text%s\">%s</td></tr>\n",
             r.verdict == COMPARE_FASTER   ? " good"
             : r.verdict == COMPARE_SLOWER ? " bad"
                                           : "",
             compare_verdicts[r.verdict]);
    return 1;
}

static void write_ratios(const page *p) {
    static const char *const columns[] = {":case",           "1first file, ms", "1ms", "ratio",
                                          "1-half to twice", ":verdict",        NULL};
    json_t *row;
    size_t i;
    char name[256];
    int count = 0;
    if (p->file_count < 2) return;
    page_put(p->to,
             "<h2 id=\"ratios\">Against %s</h2>\n<p class=\"soft\">The ratio is a file's time divided by the "
             "first file's, for the same case on a device of the same name, with a bootstrap interval of 95 "
             "%% where both keep their samples; below 1 is faster.</p>\n",
             page_file_name(p, 0, name));
    begin_table(p, "ratios", columns);
    for (int file = 1; file < p->file_count; file++)
        json_array_foreach(json_object_get(p->files[file], "rows"), i, row) {
            progress_more(p->progress, PAGE_RATIO_ROWS, "ratios");
            count += write_ratio(p, file, row);
        }
    fputs(table_end, p->to);
    if (!count)
        page_put(p->to, "<p>No case was measured on one device in the first file and in another.</p>\n");
}

// Write a file's origin. A submission's hash is correct here, because loading rejects one with a
// wrong hash.
static void write_source(const page *p, int file) {
    const json_t *of = p->files[file], *submission = json_object_get(of, "submission");
    page_put(p->to, "<li>%s: clattn %s", p->paths[file], row_text(of, "clattn"));
    if (submission)
        page_put(p->to, ", set %s %lld of %s, at most %g ms a case; its hash is right",
                 row_text(submission, "set"),
                 (long long)json_integer_value(json_object_get(submission, "set_version")),
                 row_text(submission, "date"), row_number(submission, "max_ms"));
    fputs("</li>\n", p->to);
}

static void write_head(const page *p) {
    page_put(p->to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>%s</title>\n", p->title);
    fputs(page_head, p->to), fputs(page_style, p->to);
    page_put(p->to, "</head>\n<body>\n<h1>%s</h1>\n<ul class=\"soft\">\n", p->title);
    for (int file = 0; file < p->file_count; file++) write_source(p, file);
    page_put(p->to, "</ul>\n<nav><a href=\"#cases\">Cases</a>");
    if (p->file_count > 1) page_put(p->to, "<a href=\"#ratios\">Ratios</a>");
    page_put(p->to, "<a href=\"#devices\">Rooflines</a>");
    if (p->weights) page_put(p->to, "<a href=\"#heads\">Heads</a>");
    fputs("</nav>\n", p->to);
}

static int write_page(const page *p) {
    write_head(p);
    write_summary(p);
    fputs(page_filter, p->to);
    write_cases(p);
    write_ratios(p);
    page_put(
        p->to,
        "<h2 id=\"devices\">Rooflines</h2>\n<p class=\"soft\">The slope is reading a buffer larger than the "
        "caches, dotted slopes are the caches, and levels are the peaks of multiply-adds. Blue: prefill, "
        "layers and projections; red: decode. A point has its case's number in the table above; when it is "
        "tapped or focused, the line above the chart has its case, and Enter goes to the table's row."
        "</p>\n<div class=\"devices\">\n");
    for (int file = 0; file < p->file_count; file++) write_devices(p, file);
    fputs("</div>\n", p->to);
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
        return tool_wrong("a file of clattn bench --save or --submit is needed; see clattn report --help");
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
        {"json", NULL, "print the page's contents as JSON, and an error as one object on stderr",
         AS_SWITCH(request, json)},
        {"quiet", NULL, "show no progress", AS_SWITCH(request, quiet)},
    };
    progress shown;
    request r = {.page = {.title = "clattn report", .progress = &shown}};
    const option_group groups[] = {{"options", OPTION_ROWS(rows), &r}};
    command_line line = {
        .command = "report",
        .summary = "files of clattn bench --save and --submit as one HTML page that needs no network",
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
