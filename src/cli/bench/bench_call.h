// bench_call.h: the cases of a bench. bench_cases.c makes the list, bench_call.c sets up one case
// on a device, and bench_measure.c compiles, verifies and times it. These functions print nothing.
// Used by bench and tune.
#ifndef CLATTN_CLI_BENCH_BENCH_CALL_H
#define CLATTN_CLI_BENCH_BENCH_CALL_H
#include "verification/case/case_check.h"
#include "verification/device/measure.h"
#include "verification/limits/limits_share.h"
#include "cli/common/session.h"

typedef enum bench_mask {
    BENCH_MASK_RANDOM = 0, // the mask of the case
    BENCH_MASK_KEPT,       // every pair is kept
    // Five documents of different lengths: a row sees the keys of its own document.
    BENCH_MASK_DOCUMENTS,
    BENCH_MASK_DOCUMENTS_MOD // the same documents, as a mask expression (CLATTN_MASK_MOD_DOCUMENT)
} bench_mask;

// True if the host can store such a mask. Otherwise writes the reason to `why`.
bool bench_mask_fits(const struct test_case *test, bench_mask how, char why[256]);
// bench_mask_fill changes the inputs of a case with a mask [Nq, Nkv], before they are bound.
// bench_mask_bind changes the call after binding.
void bench_mask_fill(struct case_data *data, bench_mask how);
void bench_mask_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                     bench_mask how);

// The number of pairs of a query row and a key that the case sees, over all batch items and one
// head.
double bench_mask_pairs(const struct case_data *data, bench_mask how);

// Cases that are measured only for comparison.
typedef enum bench_baseline { BENCH_NO_BASELINE = 0, BENCH_UNFUSED, BENCH_CLBLAST } bench_baseline;

typedef struct bench_case {
    struct test_case test;
    bench_mask mask; // contents of the case's mask
    // CLBLAST: the composition of bench_baseline.h. UNFUSED: test.kernel is UNFUSED, too.
    bench_baseline baseline;
} bench_case;

// The options whose lists multiply. An empty list keeps the preset's value.
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

// The words of the axes that only the bench has. NULL ends each list.
extern const char *const bench_presets[], *const bench_baselines[];

// Multiply the lists into cases. Each case is followed by its baselines (indices into
// bench_baselines) if they support its op. If all lists are empty, the result is the standard set
// with the given baselines, or with all if none is given. The caller frees *cases. False: `why`
// says which input is accepted.
bool bench_cases_make(const option_list lists[BENCH_AXES], const option_list *baselines, bench_case **cases,
                      int *count, char why[256]);

// Parse the cases NAME[,NAME]. A name is as in verification/case/case.h or the alias of a hard
// case.
bool bench_cases_named(const char *names, bench_case **cases, int *count, char why[256]);

typedef enum bench_status { BENCH_OK = 0, BENCH_FAIL, BENCH_UNSUPPORTED } bench_status;

struct composition;

typedef struct bench_call {
    session *session;
    bench_case c;
    struct place place;
    struct case_data *data;
    struct case_arrays arrays;
    cl_mem scratch;                  // the workspace, or the composition's scores
    double bytes;                    // bytes of all buffers
    double build_ns;                 // build time that clattn does not count
    struct composition *composition; // CLBlast's composition, or NULL: clattn runs
    bench_status status;             // status of the last enqueue
    limit_engine engine;             // the engine that the kernel's products run on
    char why[256];
    clattn_progress progress; // progress of a call that bench_call_watch limits
    // Milliseconds since `start_ns` and the finished share, both at the last progress report.
    double watched_ms, share;
    uint64_t start_ns;
    bool late;
} bench_call;

// Create inputs and an output filled with NaN, and plan: `kernel` receives the kernel's name. On
// failure `why` has the reason. Call bench_call_destroy in every case.
bench_status bench_call_create(bench_call *call, session *s, const bench_case *c, char kernel[32],
                               char why[256]);
void bench_call_destroy(bench_call *call);

// Allocate the workspace and compile.
bench_status bench_call_prepare(bench_call *call, char why[256]);
// From now on, cancel a run after most_ms milliseconds; 0: never. Projections alone and CLBlast
// have no slices and cannot be cancelled.
void bench_call_watch(bench_call *call, double most_ms);
// Enqueue once. This is a measure_call whose user pointer is the bench_call.
bool bench_call_enqueue(void *call, cl_event *event);

typedef struct bench_settings {
    measure_settings measure;
    bool check; // verify before timing
    // Runs before timing. The first is verified. 0: one run.
    int64_t warmup;
    // The device's measured peak in GFLOP/s; 0: unknown. Cases that would be too slow at this peak
    // are skipped.
    double fma_gflops;
    const struct limits *limits; // measured before the cases; NULL: skip the read measurement
} bench_settings;

// Milliseconds after which a run is cancelled: ten times --max-ms and at least two seconds. One
// slow case or device then does not block the others.
double bench_patience_ms(const bench_settings *settings);

typedef struct bench_row {
    bench_case c;
    bench_status status;
    char why[256];   // the reason if the status is not ok
    char kernel[32]; // "" without a plan
    measure_times times;
    double gflops, gbytes_per_s;
    limit_engine engine;
    // Read bandwidth over as many bytes as the case has, measured beside the case. 0: not measured.
    double read_gbytes_per_s;
    struct limit_share limit; // the limit that bounds the case
    double error_nmse;        // -1: not verified
    double build_ms, peak_bytes;
    bool cold; // at least one kernel was compiled from source instead of loaded from the cache
} bench_row;

// Measure on a context of its own: `s` is opened and closed here. The build time is then that of
// this case.
void bench_measure(session *s, const bench_case *c, const bench_settings *settings, bench_row *row);

// True if the device's peak allows the case to finish in time. Otherwise writes the reason to
// row->why.
bool bench_can_end(const bench_settings *settings, bench_row *row);

// Run a prepared call for the first time. This run compiles what prepare could not, and its result
// is verified. A run that is too slow is cancelled.
bench_status bench_warm_up(bench_call *call, const bench_settings *settings, double *wall_ns, bench_row *row);

// Copy the times of a run to its row.
void bench_take_times(bench_row *row, const measure_times *times);

// Find the limit that bounds a measured row and the share of that limit that it reaches
// (limits_share.h).
void bench_measure_percent(bench_row *row, const struct limits *of_device);
#endif
