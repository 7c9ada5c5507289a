// page.h: what the page*.c files share: text escaped for HTML, and the sections of the page.
#ifndef CLATTN_CLI_PAGE_PAGE_H
#define CLATTN_CLI_PAGE_PAGE_H
#include "cli/common/progress.h"
#include "cli/common/tool.h"

#define PAGE_FILES 64

typedef struct page {
    const char *const *paths; // [file_count]
    json_t *files[PAGE_FILES];
    int file_count;
    const char *title, *weights, *tokens;
    int64_t item;
    FILE *to;
    // The unit is table rows. A ratio counts as PAGE_RATIO_ROWS rows, because its interval needs
    // resampling.
    progress *progress;
} page;
#define PAGE_RATIO_ROWS 50.0
#define PAGE_CELLS_ROW 10.0 // cells of a head that need as much time as a row

// page_html.c: fprintf for %s, %d, %lld and real numbers. The format is HTML. A %s argument is
// escaped, and loses control characters.
void page_put(FILE *to, const char *format, ...) TOOL_PRINTF(2);
extern const char page_head[], page_style[], page_filter[], page_script[];
// Formats x with four digits, or as a whole number if that is longer.
const char *page_rate(double x, char text[32]);
// page_file_name: a file's name without folder and ending. The others: the device of a row, and its
// kind (cpu, gpu, other or unknown).
const char *page_file_name(const page *p, int file, char name[256]);
const json_t *page_device(const page *p, int file, const json_t *row);
const char *page_kind(const json_t *device);
// A case's number on the page, from 1. It is used in the row, at the point, and in the row's id,
// case-NUMBER.
int page_number(const page *p, int file, size_t row);
// Write a case's attributes that the filters use: data-kind (of the device), data-dtype, data-op,
// data-name.
void page_facts(const page *p, int file, const json_t *row);

// page_charts.c: draw a device's roofline with a file's cases. Each point is a link to the case's
// row. Pointing at it, tapping or focusing it shows the case.
void page_roofline(const page *p, int file, int device);
// Draw a ratio's interval on a scale from half to twice.
void page_interval(FILE *to, double ratio, double low, double high);

// page_heads.c: draw the heads of attention weights, [H, Nq, Nkv] or [B, H, Nq, Nkv]. Each cell's
// title is its tokens and weight, and each head's text has its greatest weight. Returns -1, or an
// exit status after printing a line.
int page_heads(const page *p);
#endif
