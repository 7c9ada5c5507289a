// tune_clblast.c: parameters of CLBlast's GEMM kernels for a device that its database lacks. CLBlast 1.5.3 does not tell a C
// program whether it has the device, nor what it took instead, so that its own choice is what is timed first. Every
// candidate is given to a context as a tuned row, verified, and timed. CLBlast keeps the last candidate until the
// process ends.
#include <stdio.h>

#include "tool/tune/tune.h"

// Sets that its database has for GPUs of several kinds and for CPUs, from small to large work-groups; with what they need.
typedef struct candidate {
    unsigned group, local_bytes;
    const char *parameters;
} candidate;
#define XGEMM(kwg, mdim, mwg, ndim, nwg, local, vwm, vwn)                                                    \
    "GEMMK=0 KREG=1 KWG=" #kwg " KWI=2 MDIMA=" #mdim " MDIMC=" #mdim " MWG=" #mwg " NDIMB=" #ndim            \
    " NDIMC=" #ndim " NWG=" #nwg " SA=" #local " SB=" #local " STRM=0 STRN=0 VWM=" #vwm " VWN=" #vwn
#define DIRECT(mdim, ndim, vwmd, vwnd, wgd)                                                                  \
    "KWID=2 MDIMAD=" #mdim " MDIMCD=" #mdim " NDIMBD=" #ndim " NDIMCD=" #ndim " PADA=1 PADB=1 VWMD=" #vwmd   \
    " VWND=" #vwnd " WGD=" #wgd
static const candidate xgemm[] = {
    {64, 8192, XGEMM(16, 8, 64, 8, 64, 1, 4, 4)},       {64, 0, XGEMM(32, 8, 64, 8, 64, 0, 4, 4)},
    {256, 12288, XGEMM(16, 16, 128, 16, 64, 1, 4, 4)},  {64, 4096, XGEMM(16, 8, 32, 8, 32, 1, 2, 2)},
    {256, 16384, XGEMM(16, 16, 128, 16, 128, 1, 4, 4)}, {128, 6144, XGEMM(16, 16, 64, 8, 32, 1, 4, 4)},
    {128, 24576, XGEMM(32, 8, 128, 16, 64, 1, 4, 4)},   {256, 8192, XGEMM(16, 16, 64, 16, 64, 1, 2, 2)},
    {64, 0, XGEMM(16, 8, 64, 8, 64, 0, 8, 8)}};
static const candidate direct[] = {
    {64, 8448, DIRECT(8, 8, 4, 4, 32)},     {64, 8448, DIRECT(8, 8, 2, 2, 32)},
    {256, 8448, DIRECT(16, 16, 1, 1, 32)},  {64, 2176, DIRECT(8, 8, 1, 1, 16)},
    {256, 33280, DIRECT(16, 16, 4, 4, 64)}, {64, 33280, DIRECT(8, 8, 8, 8, 64)}};
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

// Another set must be so much faster than CLBlast's own, or it is chance.
#define WORTH 0.95

static int try_row(tune *t, const char *row, const struct test_case *test, double *time_ns) {
    session s = {0};
    const int status = session_open_rows(&s, &t->common, row);
    if (status >= 0) return status;
    *time_ns = tune_timed(&s, test, 7, true);
    progress_more(&t->progress, 1.0, "parameters of CLBlast");
    progress_wipe(&t->progress);
    session_close(&s);
    return -1;
}

int tune_clblast(tune *t, tuned_gemm kernel, const struct test_case *test, double *best_ns) {
    const candidate *const all = kernel == TUNE_XGEMM ? xgemm : direct, *best = NULL;
    const char *const word = kernel == TUNE_XGEMM ? "clblast_xgemm" : "clblast_xgemm_direct";
    struct test_case c = *test;
    char device[40], row[512];
    c.projection = CLATTN_PROJECTION_CLBLAST;
    int status = try_row(t, "", &c, best_ns);
    const double own_ns = *best_ns;
    for (int i = 0; status < 0 && own_ns > 0.0 && i < (kernel == TUNE_XGEMM ? COUNT(xgemm) : COUNT(direct));
         i++) {
        double time_ns = 0.0;
        if (t->quick && i % 3 != 0) continue;
        if (all[i].group > t->device.max_work_group || all[i].local_bytes > t->device.local_memory_bytes)
            continue;
        snprintf(row, sizeof row, "%s : %s\n", word, all[i].parameters);
        status = try_row(t, row, &c, &time_ns);
        if (status >= 0 || time_ns == 0.0 || time_ns >= WORTH * own_ns || time_ns >= *best_ns) continue;
        *best_ns = time_ns;
        best = &all[i];
    }
    if (status >= 0 || own_ns == 0.0) return status;
    snprintf(row, sizeof row, "%s %s : %s  # %.2f ms, CLBlast's own %.2f ms", word,
             tune_device_condition(&t->device, device), best ? best->parameters : "", *best_ns / 1e6,
             own_ns / 1e6);
    if (!best)
        snprintf(row, sizeof row, "# %s: CLBlast's own parameters are the fastest: %.2f ms", word,
                 own_ns / 1e6);
    tune_add_line(t, row);
    t->row_count++;
    return -1;
}
