// variant.h: the planner: a pure function from capabilities, problem and tuned rows to a kernel, its knobs,
// and why. It knows no OpenCL handle and never looks at a name.
#ifndef CLATTN_PLAN_VARIANT_H
#define CLATTN_PLAN_VARIANT_H
#include "probe/probe_results.h"
#include "plan/problem.h"
#include "plan/rows/tuned.h"

// The result of a measurement of projections on the device, by the rows that they have.
enum { PLAN_FEW_ROWS, PLAN_MANY_ROWS, PLAN_MEASURES };
enum plan_measured { PLAN_NOT_MEASURED = 0, PLAN_NATIVE_FASTER, PLAN_CLBLAST_FASTER };

// All that the planner knows besides the problem.
typedef struct plan_input {
    const clattn_capabilities *device;
    const tuned_rows *own, *shipped; // the caller's rows, then the library's
    probe_results probes;
    enum plan_measured measured[PLAN_MEASURES];
    bool has_clblast;                   // projections can go there
    uint32_t group_limit[KERNEL_COUNT]; // work-items that a kernel allowed once it was compiled; 0: not known
    uint32_t own_local[KERNEL_COUNT];   // bytes of a group's local memory that the driver keeps for itself
    const struct unfit_list *unfit;     // kernels that the driver refused (program/unfit.h); NULL: none
    // Sums of a work-item that were not in registers once flash_tiles was compiled: fewer are wanted. 0: not known, and for good
    // where the driver counts what is in registers, too.
    uint32_t spilled_sums;
} plan_input;

typedef struct family family;

typedef struct variant {
    const family *family;
    knobs knobs;        // of the main kernel
    int work_group;     // work-items of a group of the main kernel
    int rows_per_group; // query rows of a group
    int sums;           // of a work-item, which should be in registers and are the most of it; 0: no matter
    size_t groups[3];   // work-groups; key ranges are neighbours in the first dimension
    int splits, split_keys; // key ranges computed apart and then combined; 1: none
    size_t local_bytes;
    uint64_t partial_lse;   // bytes from the start of the variant's workspace to the splits' maxima and sums
    uint64_t packed_values; // bytes from there to the values in tiles
    uint64_t packed_bytes;  // of those; 0: values are taken as they lie
    uint64_t workspace_bytes; // scores of a chunk, or partial results of the splits and packed values
    const char *options;      // of the compiler where the family's are not the ones; NULL: the family's
    bool unfit;               // the driver refused this kernel, and no other is left
    const char *refusal;      // why it cannot be done; of the unfused path, why no fused one could
} variant;

// Choose for attention. On UNSUPPORTED `refusal` says what cannot be done.
clattn_status cla_variant_choose(const plan_input *in, const problem *p, variant *v);

// Up to so many query rows take the decode path.
int cla_plan_few_rows(const plan_input *in);

// The refusal as one line that names the path.
void cla_variant_refusal(const variant *v, char why[256]);

// Why it was chosen, as one line: apart, because a call does not need it.
void cla_variant_explain(const plan_input *in, const problem *p, const variant *v, char why[256]);

// Ask family number `index` about the problem, for the path that the problem asks for (AUTO: its own): whether it is
// `chosen`'s, else why not. False past the end; families of projections are passed over.
bool cla_variant_review(const plan_input *in, const problem *p, const variant *chosen, int *index,
                        const family **which, char why[256]);

// The vector that kernels with lanes have, 4, 8 or 16 floats; 0: none, and kernels for other devices are then the planner's
// choice. A CPU device's report is a hint: the width that was probed right and fastest, the reported one where others are
// not much faster or were not probed.
int cla_plan_lanes(const plan_input *in);
bool cla_plan_has_lanes(const plan_input *in);
// The same for a kernel that a row names: at least 4.
int cla_variant_lanes(const plan_input *in);
// The number that a tuned row's condition `lanes` is compared with: the width that is taken, else the reported one.
int cla_plan_lanes_key(const plan_input *in);

// How the unfused path cuts its scores: items of (batch, head) and rows that it holds at once.
typedef struct unfused_chunk {
    int items, rows;
} unfused_chunk;
unfused_chunk cla_unfused_chunk(const problem *p);
// Whether its scores lie in the caller's weights.
bool cla_unfused_in_weights(const problem *p);

#endif
