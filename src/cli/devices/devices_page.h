// devices_page.h: the facts that `clattn devices` finds about a device, and the page that it
// prints.
#ifndef CLATTN_CLI_DEVICES_DEVICES_PAGE_H
#define CLATTN_CLI_DEVICES_DEVICES_PAGE_H
#include "cli/common/session.h"

#define DEVICES_FAMILIES 32
#define DEVICES_ENGINES 32
#define DEVICES_UNFIT 64

// A typical call, its plan, and each kernel family's answer to it.
typedef struct devices_example {
    const char *name, *rows;
    clattn_type type;
    int64_t n_q;
    clattn_plan plan;
    clattn_family families[DEVICES_FAMILIES];
    size_t count;
} devices_example;

enum { DEVICES_PREFILL, DEVICES_PREFILL_BF16, DEVICES_DECODE, DEVICES_EXAMPLES };

typedef struct devices_engines {
    clattn_engine engines[DEVICES_ENGINES];
    size_t count;
} devices_engines;

typedef struct devices_page {
    size_t index;
    bool follows;    // another page follows
    bool is_default; // commands use this device without --device
    bool opened;     // a context was created on it
    bool verbose;
    clattn_capabilities device;
    devices_engines engines;
    devices_example examples[DEVICES_EXAMPLES];
    clattn_unfit unfit[DEVICES_UNFIT]; // kernels that the driver rejected
    size_t unfit_count;
    double fma_gflops, read_gbytes_per_s; // of the whole device; 0: not measured
} devices_page;

// The time at which an engine was measured, in UTC, in strftime's format; "" if never.
const char *devices_date(const clattn_engine *e, const char *format, char text[32]);
// Measure the device's FMA and read rates, in a few tenths of a second.
void devices_measure(session *s, devices_page *page);
// Print the page: at most 24 lines of 100 columns, or everything with `verbose`.
void devices_print(const devices_page *page);
#endif
