// page.h: what the parts of clattn report share: text that HTML cannot misread, and the page's sections. Used by page*.c.
#ifndef CLATTN_TOOL_PAGE_PAGE_H
#define CLATTN_TOOL_PAGE_PAGE_H
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
    progress *progress; // in rows of tables; a ratio is many, for its interval is drawn
} page;
#define PAGE_RATIO_ROWS 50.0
#define PAGE_CELLS_ROW 10.0 // cells of a head that are as long as a row

// page_html.c: fprintf of %s, %d, %lld and real numbers; the format is HTML, a text of %s gets its signs told and loses control
// characters.
void page_put(FILE *to, const char *format, ...) TOOL_PRINTF(2);
extern const char page_head[], page_style[], page_filter[], page_script[];
// Four digits, or the whole number.
const char *page_rate(double x, char text[32]);
// A file's name for a person, without folder and ending; a row's device; and its kind: cpu, gpu, other or unknown.
const char *page_file_name(const page *p, int file, char name[256]);
const json_t *page_device(const page *p, int file, const json_t *row);
const char *page_kind(const json_t *device);
// A case's number on the page, from 1: that of its row, of its point, and of the row's id, case-NUMBER.
int page_number(const page *p, int file, size_t row);
// What the filters ask of a case, as attributes of its mark: data-kind (of device), data-dtype, data-op, data-name.
void page_facts(const page *p, int file, const json_t *row);

// page_charts.c: a device's roofline with the cases of a file that were measured on it: each a link to its row, with its number, that
// shows its case where it is pointed at, tapped or focused.
void page_roofline(const page *p, int file, int device);
// A ratio's interval on a scale from half to twice.
void page_interval(FILE *to, double ratio, double low, double high);

// page_heads.c: the heads of attention weights, [H, Nq, Nkv] or [B, H, Nq, Nkv]; each cell has its tokens and weight as a title,
// and a head the greatest in words.
// -1, or an exit status with its line.
int page_heads(const page *p);
#endif
