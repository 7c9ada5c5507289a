// bench_call.h: cases of a bench, and one of them on one device: which there are (bench_cases.c); made real (bench_call.c); built,
// verified and timed (bench_measure.c). What is printed is left out. Used by bench and tune.
#ifndef CLATTN_TOOL_BENCH_BENCH_CALL_H
#define CLATTN_TOOL_BENCH_BENCH_CALL_H
#include "verification/case/case_check.h"
#include "verification/device/measure.h"
#include "verification/limits/limits_share.h"
#include "cli/common/session.h"

typedef enum bench_mask {
    BENCH_MASK_RANDOM = 0,   // what the case says
    BENCH_MASK_KEPT,         // all
    BENCH_MASK_DOCUMENTS,    // each row and key is of one of five documents of several lengths
    BENCH_MASK_DOCUMENTS_MOD // the same, said by CLATTN_MASK_MOD_DOCUMENT in place of the mask
} bench_mask;

// Whether the host holds such a mask whole; else one line that says why not.
bool bench_mask_fits(const struct test_case *test, bench_mask how, char why[256]);
// In the inputs of a case with a mask [Nq, Nkv], before it is bound; and in the call, after it.
void bench_mask_fill(struct case_data *data, bench_mask how);
void bench_mask_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                     bench_mask how);

// Pairs of row and key, of all batch items and one head, that the case sees.
double bench_mask_pairs(const struct case_data *data, bench_mask how);

// The kind of a case that is there for comparison.
typedef enum bench_baseline { BENCH_NO_BASELINE = 0, BENCH_UNFUSED, BENCH_CLBLAST } bench_baseline;

typedef struct bench_case {
    struct test_case test;
    bench_mask mask;         // what the mask of the case is
    bench_baseline baseline; // CLBLAST: its composition (bench_baseline.h); UNFUSED: the kernel says it, too
} bench_case;

// The axes of the product; an empty list leaves the preset's value.
enum {
    BENCH_AXIS_PRESET,
    BENCH_AXIS_OP,
    BENCH_AXIS_DTYPE,
    BENCH_AXIS_KERNEL,
    BENCH_AXIS_PROJECTION,
    BENCH_AXIS_PRECISION,
    BENCH_AXIS_PACKED,
    BENCH_AXIS_CAUSAL,
    BENCH_AXIS_B,
    BENCH_AXIS_HEADS,
    BENCH_AXIS_KV_HEADS,
    BENCH_AXIS_MODEL,
    BENCH_AXIS_D,
    BENCH_AXIS_DV,
    BENCH_AXIS_N,
    BENCH_AXIS_N_KV,
    BENCH_AXES
};

// Names of the values on the axes whose words are the bench's own; NULL ends each.
extern const char *const bench_presets[], *const bench_baselines[];

// The product of the lists, each case followed by those of the baselines (indices into bench_baselines) that
// there are for its op. Where all lists are empty: the standard set, with those of its baselines that are
// asked for, or with all where none is named. The caller frees *cases. False: why[256] says what would be
// accepted.
bool bench_cases_make(const option_list lists[BENCH_AXES], const option_list *baselines, bench_case **cases,
                      int *count, char why[256]);

// The cases of NAME[,NAME]: names (verification/case/case.h) or aliases of hard cases.
bool bench_cases_named(const char *names, bench_case **cases, int *count, char why[256]);

typedef enum bench_status { BENCH_OK = 0, BENCH_FAIL, BENCH_UNSUPPORTED } bench_status;

struct composition;

typedef struct bench_call {
    session *session;
    bench_case c;
    struct place place;
    struct case_data *data;
    struct case_arrays arrays;
    cl_mem scratch;                  // workspace, or the scores of the composition
    double bytes;                    // of all buffers
    double build_ns;                 // of what clattn does not count
    struct composition *composition; // CLBlast's, in place of clattn (bench_baseline.h); NULL elsewhere
    bench_status status;             // of the last enqueue
    limit_engine engine;             // of the kernel's products
    char why[256];
    clattn_progress progress; // of a watched call
    double watched_ms, share; // since `start_ns`, what was done when it was looked at last
    uint64_t start_ns;
    bool late;
} bench_call;

// Inputs, output (filled with NaN) and the name of the kernel. why[256] says what is in the way. Destroy it
// in every case.
bench_status bench_call_create(bench_call *call, session *s, const bench_case *c, char kernel[32],
                               char why[256]);
void bench_call_destroy(bench_call *call);

// Make the workspace and compile.
bench_status bench_call_prepare(bench_call *call, char why[256]);
// From here on a run that takes longer is given up; 0: as long as it takes. What has no slices is not given up: projections alone,
// CLBlast.
void bench_call_watch(bench_call *call, double most_ms);
// Enqueue once: a measure_call, whose user is the bench_call.
bool bench_call_enqueue(void *call, cl_event *event);

typedef struct bench_settings {
    measure_settings measure;
    bool check;     // verify before timing
    int64_t warmup; // runs before, the first of which is verified; 0: one
    double
        fma_gflops; // what the device reaches at most, by which a case that would take too long is known; 0: not known
    const struct limits *limits; // measured before the cases; NULL: reading is not measured beside them
} bench_settings;

// A run that takes longer is given up: ten times --max-ms, and two seconds at least, so that one case or one slow device does not
// keep the others.
double bench_patience_ms(const bench_settings *settings);

typedef struct bench_row {
    bench_case c;
    bench_status status;
    char why[256];   // where the status is not ok
    char kernel[32]; // "" where no plan was made
    measure_times times;
    double gflops, gbytes_per_s;
    limit_engine engine;
    double read_gbytes_per_s; // reading as many bytes as the case has, measured beside it; 0: not measured
    struct limit_share limit; // the one that the case meets
    double error_nmse;        // -1: not verified
    double build_ms, peak_bytes;
    bool cold; // some kernel came from its source and not from the cache
} bench_row;

// On a context of its own (`s` is opened and closed here), so that the build time is the case's.
void bench_measure(session *s, const bench_case *c, const bench_settings *settings, bench_row *row);

// Whether the case can end in that time by what the device reaches at most; else row->why says so.
bool bench_can_end(const bench_settings *settings, bench_row *row);

// The first run of a call that is prepared: it compiles what prepare could not, and gives the result that is verified. It is
// given up where it takes too long.
bench_status bench_warm_up(bench_call *call, const bench_settings *settings, double *wall_ns, bench_row *row);

// Times of a run into its row.
void bench_take_times(bench_row *row, const measure_times *times);

// The limit that a measured row meets, and its share of it (limits_share.h).
void bench_measure_percent(bench_row *row, const struct limits *of_device);
#endif
