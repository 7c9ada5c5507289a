// variant.h: the planner: a pure function from capabilities, problem and tuned rows to a kernel,
// its knobs, and the reason. It uses no OpenCL handles and no device names.
#ifndef CLATTN_PLAN_VARIANT_H
#define CLATTN_PLAN_VARIANT_H
#include "probe/probe_results.h"
#include "plan/problem.h"
#include "plan/rows/tuned.h"

// Projections are measured on the device with few rows and with many rows. The result of each
// measurement.
enum { PLAN_FEW_ROWS, PLAN_MANY_ROWS, PLAN_MEASURES };
enum plan_measured { PLAN_NOT_MEASURED = 0, PLAN_NATIVE_FASTER, PLAN_CLBLAST_FASTER };

// Everything the planner knows, besides the problem.
typedef struct plan_input {
    const clattn_capabilities *device;
    const tuned_rows *own, *shipped; // the caller's tuned rows, and the library's
    probe_results probes;
    enum plan_measured measured[PLAN_MEASURES];
    bool has_clblast;                   // CLBlast is available for projections
    uint32_t group_limit[KERNEL_COUNT]; // largest work-group of a compiled kernel; 0: not known
    uint32_t own_local[KERNEL_COUNT];   // local memory per group that the driver adds, in bytes
    const struct unfit_list *unfit;     // kernels that the driver rejected; NULL: none
    // flash_tiles spilled registers with this many accumulators per work-item, so plan fewer. 0:
    // not known, or the driver's numbers are useless.
    uint32_t spilled_sums;
} plan_input;

typedef struct family family;

typedef struct variant {
    const family *family;
    knobs knobs;            // knobs of the main kernel
    int work_group;         // work-items per group of the main kernel
    int rows_per_group;     // query rows per group
    int sums;               // accumulators per work-item, to fit registers; 0: not checked
    size_t groups[3];       // work-groups; key ranges are adjacent in dimension 0
    int splits, split_keys; // key ranges, computed separately
    size_t local_bytes;
    uint64_t partial_lse;     // byte offset in the variant's workspace of the splits' (max, sum)
    uint64_t packed_values;   // byte offset of the packed values
    uint64_t packed_bytes;    // size of the packed values; 0: values are read as they are stored
    uint64_t workspace_bytes; // scores of a chunk, or partial results and packed values
    const char *options;      // compiler options; NULL: the family's
    bool unfit;               // the driver rejected this kernel, and no other is left
    // Why the call is unsupported. For the unfused path: why no fused kernel fits.
    const char *refusal;
} variant;

// Choose a kernel for an attention call. On UNSUPPORTED, v->refusal has the reason.
clattn_status cla_variant_choose(const plan_input *in, const problem *p, variant *v);

// The largest number of query rows for which the decode path is preferred.
int cla_plan_few_rows(const plan_input *in);

// Format the refusal as one line that names the path.
void cla_variant_refusal(const variant *v, char why[256]);

// Format the reason for the choice as one line. A call does not need it, so it is computed only on
// request.
void cla_variant_explain(const plan_input *in, const problem *p, const variant *v, char why[256]);

// Test family number *index on the problem, for the requested path. why: the reason for or against
// it. False after the last family. Families of projections are skipped.
bool cla_variant_review(const plan_input *in, const problem *p, const variant *chosen, int *index,
                        const family **which, char why[256]);

// Vector width in floats (4, 8 or 16) for kernels with rows in vector lanes. 0: the device does not
// suit them, so the planner prefers other kernels. A probed width is used if it is correct and
// clearly faster than the width that the device reports.
int cla_plan_lanes(const plan_input *in);
bool cla_plan_has_lanes(const plan_input *in);
// Vector width for a kernel that a tuned row names: at least 4.
int cla_variant_lanes(const plan_input *in);
// The number for the condition `lanes` of tuned rows: the chosen width, else the reported one.
int cla_plan_lanes_key(const plan_input *in);

// Chunk of the unfused path: (batch, head) items and rows whose scores are in memory at once.
typedef struct unfused_chunk {
    int items, rows;
} unfused_chunk;
unfused_chunk cla_unfused_chunk(const problem *p);
// True if the scores are stored in the caller's weights tensor.
bool cla_unfused_in_weights(const problem *p);

#endif
