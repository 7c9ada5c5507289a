// page_html.c: escape text for HTML; the style of a report, for light, dark and narrow screens; and
// the script, which adds sortable columns and filters.
#include "cli/page/page.h"

#include <stdarg.h>

#include "cli/compare/compare.h"

static void put_text(FILE *to, const char *text) {
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

void page_put(FILE *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        char one[24];
        fprintf(to, "%.*s", (int)plain, format);
        format += plain;
        if (!*format) break;
        const size_t length = format[1] == '%' ? 2 : 1 + strcspn(format + 1, "sdfge") + 1;
        snprintf(one, sizeof one, "%.*s", (int)length, format);
        format += length;
        if (one[1] == '%')
            fputc('%', to);
        else if (one[length - 1] == 's')
            put_text(to, va_arg(list, const char *));
        else if (strstr(one, "ll"))
            fprintf(to, one, va_arg(list, long long));
        else if (one[length - 1] == 'd')
            fprintf(to, one, va_arg(list, int));
        else
            fprintf(to, one, va_arg(list, double));
    }
    va_end(list);
}

const char *page_rate(double x, char text[32]) {
    snprintf(text, 32, x < 1e4 ? "%.4g" : "%.0f", x);
    return text;
}

// A file's name without folder and ending.
const char *page_file_name(const page *p, int file, char name[256]) {
    const char *slash = strrchr(p->paths[file], '/');
    snprintf(name, 256, "%s", slash && slash[1] ? slash + 1 : p->paths[file]);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = '\0';
    return name;
}

const json_t *page_device(const page *p, int file, const json_t *row) {
    const json_int_t index = json_integer_value(json_object_get(row, "device_index"));
    return json_array_get(json_object_get(p->files[file], "devices"), (size_t)index);
}

// Files of earlier versions do not contain the kind.
const char *page_kind(const json_t *device) {
    return row_text(device, "type")[0] ? row_text(device, "type") : "unknown";
}

int page_number(const page *p, int file, size_t row) {
    size_t before = 0;
    for (int f = 0; f < file; f++) before += json_array_size(json_object_get(p->files[f], "rows"));
    return (int)(before + row + 1);
}

void page_facts(const page *p, int file, const json_t *row) {
    char name[256];
    page_put(p->to, " data-kind=\"%s\" data-dtype=\"%s\" data-op=\"%s\" data-name=\"%s %s %s %s\"",
             page_kind(page_device(p, file, row)), row_text(row, "dtype"), row_text(row, "op"),
             row_text(row, "device"), row_text(row, "case"), row_text(row, "kernel"),
             page_file_name(p, file, name));
}

const char page_head[] =
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
    "<style>\n"
    ":root { --ink: #1c2024; --soft: #60646c; --line: #d9d9e0; --paper: #fcfcfd; --card: #fff; --blue: "
    "#0d74ce; --good: #1a7f45;\n"
    "--bad: #c62a2f; --bar: #b7d9f8; --empty: #eceef1; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #b0b4ba; --line: #363a3f; "
    "--paper: #111113; --card: #18191b;\n"
    "--blue: #70b8ff; --good: #4cc38a; --bad: #ff9592; --bar: #104d87; --empty: #2a2c30; } }\n"
    "body { margin: 0 auto; max-width: 92rem; padding: 2rem 1.25rem 4rem; background: var(--paper); "
    "color: var(--ink);\n"
    "font: 15px/1.5 system-ui, \"DejaVu Sans\", sans-serif; }\n"
    "h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; } h3 { "
    "font-size: 1rem; margin: 1.5rem 0 .5rem; }\n"
    "p, ul { margin: .4rem 0; max-width: 60rem; } ul { padding-left: 1.2rem; } h1, h3, p, li, dd { "
    "overflow-wrap: anywhere; }\n"
    ".soft { color: var(--soft); } small { display: block; font-size: .8rem; line-height: 1.3; } nav a { "
    "margin-right: 1rem; } a { color: var(--blue); }\n"
    ".wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; "
    "background: var(--card); }\n"
    "th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: "
    "nowrap; vertical-align: top; }\n"
    "th { font-weight: 600; position: sticky; top: 0; background: var(--card); vertical-align: bottom; }\n"
    "th.text, td.text { text-align: left; } td.text { white-space: normal; overflow-wrap: anywhere; "
    "min-width: 7rem; max-width: 24rem; }\n"
    "td.case { min-width: 16rem; } td.kernel { min-width: 9.5rem; } summary { cursor: pointer; } td small "
    "{ white-space: normal; } .phone { display: none; } td.share small { min-width: 8rem; }\n"
    "dl { display: grid; grid-template-columns: auto 1fr; gap: 0 .75rem; margin: .3rem 0 .5rem; "
    "font-size: .85rem; } dt { color: var(--soft); } dd { margin: 0; }\n"
    "tr:target { outline: 2px solid var(--blue); outline-offset: -2px; } tr { scroll-margin-top: 3rem; }\n"
    "th button { all: unset; cursor: pointer; } :focus-visible, th button:focus-visible { outline: 2px "
    "solid var(--blue); outline-offset: 1px; }\n"
    "th[aria-sort=ascending]::after { content: \" \\25b2\"; } th[aria-sort=descending]::after { content: "
    "\" \\25bc\"; }\n"
    "tbody tr:hover { background: var(--empty); } .good { color: var(--good); } .bad { color: var(--bad); "
    "}\n"
    ".bar { display: inline-block; width: 5rem; height: .7rem; background: var(--empty); border-radius: "
    "2px; margin-left: .5rem; }\n"
    ".bar i { display: block; height: 100%; background: var(--bar); border-radius: 2px; max-width: 100%; "
    "}\n";

// The style of charts, filter and narrow pages, separate because a C string literal has at most
// 4095 characters.
const char page_style[] =
    "svg { max-width: 100%; height: auto; background: var(--card); border: 1px solid var(--line); "
    "border-radius: 4px; }\n"
    "svg.plain { border: 0; vertical-align: middle; } svg text { fill: var(--soft); font-size: 10.5px; } "
    "svg .grid { stroke: var(--line); }\n"
    "svg.roofline { display: block; width: 100%; max-width: 38rem; } svg .roof { stroke: var(--ink); "
    "stroke-width: 1.2; fill: none; }\n"
    "svg .point { fill: var(--blue); fill-opacity: .75; stroke: var(--card); } svg .point.decode { fill: "
    "var(--bad); } svg .axis { stroke: var(--soft); }\n"
    ".mark { outline: none; } .mark text { fill: var(--ink); } .mark .tip { display: none; } .mark:hover "
    ".tip, .mark:focus .tip { display: inline; }\n"
    ".mark:hover .point, .mark:focus .point { stroke: var(--ink); stroke-width: 2.5; fill-opacity: 1; }\n"
    "svg .hint { display: none; } @supports selector(:has(a)) { svg .hint { display: inline; }\n"
    "svg:has(.mark:hover) .hint, svg:has(.mark:focus) .hint { display: none; }\n"
    "svg:has(.mark:hover) .mark:focus:not(:hover) .tip { display: none; } }\n"
    ".heads { display: flex; flex-wrap: wrap; gap: 1rem; } .out, [hidden] { display: none !important; }\n"
    ".devices { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, "
    "30rem), 1fr)); } .devices section { min-width: 0; }\n"
    "form { display: flex; flex-wrap: wrap; gap: .5rem 1rem; margin: 1rem 0; align-items: end; } label { "
    "color: var(--soft); }\n"
    "select, input { display: block; box-sizing: border-box; max-width: 100%; padding: .3rem; font: "
    "inherit; color: var(--ink); background: var(--card);\n"
    "border: 1px solid var(--soft); border-radius: 4px; }\n"
    "@media (max-width: 60rem) { .x2 { display: none; } td.case { min-width: 11rem; } }\n"
    "@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; } .x1 { display: none; } .phone { "
    "display: block; } th { white-space: normal; } th, td { padding: .3rem .4rem; }\n"
    "table { width: 100%; } td.case { min-width: 8rem; } td.text { min-width: 5rem; } td.share small { "
    "min-width: 5rem; } .bar { width: 2.5rem; }\n"
    "td.case dl { margin-right: -12rem; } }\n"
    "@media (max-width: 30rem) { svg.roofline text { font-size: 14.5px; } }\n"
    "figure { margin: 0; max-width: 100%; } figcaption { font-size: .85rem; color: var(--soft); width: 0; "
    "min-width: 100%; overflow-wrap: anywhere; }\n"
    "</style>\n";

// Hidden until the script shows it and fills in the choices.
const char page_filter[] =
    "<form id=\"filter\" hidden aria-label=\"filter of devices, cases and ratios\">\n"
    "<label>kind of device <select name=\"kind\"><option value=\"\">all</option></select></label>\n"
    "<label>type <select name=\"dtype\"><option value=\"\">all</option></select></label>\n"
    "<label>op <select name=\"op\"><option value=\"\">all</option></select></label>\n"
    "<label>text <input name=\"text\" type=\"search\" placeholder=\"device, case, kernel, file\"></label>\n"
    "<output></output></form>\n";

const char page_script[] =
    "<script>\n"
    "const key = (row, at) => { const cell = row.cells[at]; if (!cell || cell.colSpan > 1) return null;\n"
    "  const v = cell.dataset.v ?? cell.textContent; return v === '' || isNaN(v) ? v : Number(v); };\n"
    "const order = (x, y) => typeof x === 'number' && typeof y === 'number' ? x - y : "
    "String(x).localeCompare(String(y));\n"
    "for (const head of document.querySelectorAll('th[data-sort]')) {\n"
    "  const button = document.createElement('button');\n"
    "  button.type = 'button'; button.append(...head.childNodes); head.append(button);\n"
    "  head.addEventListener('click', () => {\n"
    "    const body = head.closest('table').tBodies[0], sign = head.getAttribute('aria-sort') === "
    "'ascending' ? -1 : "
    "1;\n"
    "    body.append(...[...body.rows].sort((a, b) => { const x = key(a, head.cellIndex), y = key(b, "
    "head.cellIndex);\n"
    "      return x === null || y === null ? (x === null) - (y === null) : sign * order(x, y); }));\n"
    "    for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');\n"
    "    head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');\n"
    "  });\n"
    "}\n"
    "const form = document.forms.filter, marks = [...document.querySelectorAll('[data-op]')];\n"
    "const selects = [...form.querySelectorAll('select')], cases = document.querySelector('#cases ~ .wide "
    "tbody').rows;\n"
    "for (const select of selects)\n"
    "  for (const x of [...new Set(marks.map(mark => mark.dataset[select.name]))].sort()) if (x) "
    "select.add(new "
    "Option(x));\n"
    "const filter = () => {\n"
    "  const text = form.elements.text.value.toLowerCase(), all = !text && selects.every(s => !s.value);\n"
    "  for (const mark of marks) mark.classList.toggle('out', "
    "!mark.dataset.name.toLowerCase().includes(text) ||\n"
    "    selects.some(s => s.value && s.value !== mark.dataset[s.name]));\n"
    "  for (const device of document.querySelectorAll('.devices section'))\n"
    "    device.classList.toggle('out', !all && !device.querySelector('[data-op]:not(.out)'));\n"
    "  form.querySelector('output').textContent = `${[...cases].filter(row => !row.matches('.out')).length} "
    "of "
    "${cases.length} cases`;\n"
    "};\n"
    "form.addEventListener('input', filter);\n"
    "form.addEventListener('submit', event => event.preventDefault());\n"
    "form.hidden = false;\n"
    "filter();\n"
    "</script>\n";
