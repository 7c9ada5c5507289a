// page_html.c: text that HTML cannot misread; how a report looks, light and dark, and the one thing that a script adds: a click on a
// column sorts by it.
#include "tool/page/page.h"

#include <stdarg.h>

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

const char page_head[] =
    "<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n"
    ":root { --ink: #1c2024; --soft: #60646c; --line: #d9d9e0; --paper: #fcfcfd; --card: #fff; --blue: "
    "#0d74ce; --good: #1a7f45;\n"
    "  --bad: #c62a2f; --bar: #b7d9f8; --empty: #eceef1; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #b0b4ba; --line: #363a3f; "
    "--paper: #111113; --card: #18191b;\n"
    "  --blue: #70b8ff; --good: #4cc38a; --bad: #ff9592; --bar: #104d87; --empty: #2a2c30; } }\n"
    "body { margin: 0 auto; max-width: 78rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: "
    "var(--ink);\n"
    "  font: 15px/1.5 system-ui, \"DejaVu Sans\", sans-serif; }\n"
    "h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; } h3 { "
    "font-size: 1rem; margin: 1.5rem 0 .25rem; }\n"
    "p { margin: .4rem 0; max-width: 60rem; } .soft, caption { color: var(--soft); } nav a { margin-right: "
    "1rem; } a { color: var(--blue); }\n"
    ".wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; "
    "background: var(--card); }\n"
    "th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: "
    "nowrap; }\n"
    "th { font-weight: 600; position: sticky; top: 0; background: var(--card); } th.text, td.text { "
    "text-align: left; }\n"
    "th[data-sort] { cursor: pointer; } th[aria-sort=ascending]::after { content: \" \\25b2\"; } "
    "th[aria-sort=descending]::after { content: \" \\25bc\"; }\n"
    "tbody tr:hover { background: var(--empty); } .good { color: var(--good); } .bad { color: var(--bad); }\n"
    ".bar { display: inline-block; width: 5rem; height: .7rem; background: var(--empty); border-radius: 2px; "
    "margin-left: .5rem; }\n"
    ".bar i { display: block; height: 100%; background: var(--bar); border-radius: 2px; max-width: 100%; }\n"
    "svg { max-width: 100%; height: auto; background: var(--card); border: 1px solid var(--line); "
    "border-radius: 4px; }\n"
    "svg.plain { border: 0; vertical-align: middle; } svg text { fill: var(--soft); font-size: 12px; } svg "
    ".grid { stroke: var(--line); }\n"
    "svg .roof { stroke: var(--ink); stroke-width: 1.5; fill: none; } svg .point { fill: var(--blue); "
    "fill-opacity: .75; stroke: var(--card); }\n"
    "svg .point.decode { fill: var(--bad); } svg .axis { stroke: var(--soft); } .heads { display: flex; "
    "flex-wrap: wrap; gap: 1rem; }\n"
    "figure { margin: 0; } figcaption { font-size: .85rem; color: var(--soft); }\n"
    "</style>\n";

const char page_script[] =
    "<script>\n"
    "for (const head of document.querySelectorAll('th[data-sort]')) head.addEventListener('click', () => {\n"
    "  const table = head.closest('table'), body = table.tBodies[0], at = head.cellIndex;\n"
    "  const down = head.getAttribute('aria-sort') === 'ascending';\n"
    "  const key = row => { const v = row.cells[at].dataset.v ?? row.cells[at].textContent; return isNaN(v) "
    "|| v === '' ? v : Number(v); };\n"
    "  const rows = [...body.rows].sort((a, b) => { const x = key(a), y = key(b);\n"
    "    return typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y)); "
    "});\n"
    "  if (down) rows.reverse();\n"
    "  for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');\n"
    "  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');\n"
    "  body.append(...rows);\n"
    "});\n"
    "</script>\n";
