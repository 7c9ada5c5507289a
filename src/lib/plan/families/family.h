// family.h: a kernel family is one way to compute attention or a projection. families.c has the
// table of families, in order of preference. Each family's file decides when the family fits and
// which knobs are legal, and explains its plan.
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_H
#define CLATTN_PLAN_FAMILIES_FAMILY_H
#include "program/kernels.h"
#include "program/knobs.h"
#include "plan/linear_plan.h"

// Abilities of a family beyond out and log-sum-exp. `lacks` in families.c has the message for each
// missing ability.
#define CAN_WEIGHTS 1      // returns attention weights as float32
#define CAN_WEIGHTS_16 2   // returns them as f16 or bf16
#define CAN_TAPS 4         // returns score taps
#define CAN_SPLIT 8        // splits keys into the caller's number of ranges
#define CAN_LARGE_HEADS 16 // head sizes above FAMILY_MAX_HEAD
#define CAN_MANY_ROWS 32   // more query rows than FAMILY_FEW_ROWS
#define CAN_PAST_MODS 64   // expressions together with a past that has scales
#define CAN_DROPOUT 128    // applies dropout
#define CAN_RAGGED 256     // packed sequences of different lengths
#define CAN_SUMS 512       // returns weights summed over the query rows

#define FAMILY_MAX_HEAD 576
#define FAMILY_FEW_ROWS 16

struct family {
    const char *name;    // for messages; several families may share a kernel
    const char *tunes;   // knobs that a tuned row may set, each followed by a space
    const char *options; // compiler options; NULL: PROGRAM_OPTIONS of program/program.h
    enum kernel_id id;   // main kernel; tuned rows use the name of its file
    clattn_kernel path;  // AUTO: a projection
    unsigned can;
    // Bits of problem.score_ops that the family does not support, and the message for them.
    int never_ops;
    const char *never_why;
    bool all_keys;  // reads all keys, even those that a block mask hides
    probe_id needs; // probe that must succeed; PROBE_NONE: none
    // The engine that computes the products, and the share of its rate that 16-bit attention of
    // many rows achieved. The planner predicts times from both. PROBE_NONE: no prediction; the
    // order of the table decides.
    probe_id engine;
    float reach;
    int head_step; // head sizes are padded to a multiple; 0: not padded
    // Multiply-adds per query row and key, if not one for each of the D + Dv numbers; else NULL.
    double (*columns)(const problem *p, const variant *v);
    bool shares_heads; // a work-group has rows of all query heads of its key/value head
    bool subgroups;    // may use sub-groups, so cla_planner_input probes them
    bool needs_row;    // used only if a tuned row names its kernel
    // The error in a tuned row's knobs, after adding the family's defaults; NULL: none.
    const char *(*knobs_refusal)(const knobs *row);
    // Attention: set knobs, grid and workspace. Returns NULL, or why the family does not fit.
    const char *(*fit)(const plan_input *in, const problem *p, const tuned_row *row, variant *v);
    void (*explain)(const plan_input *in, const variant *v, char why[200]);
    // A projection: set knobs, tiles and options.
    void (*shape)(const plan_input *in, const linear_problem *p, const tuned_row *row, linear_choice *choice);
};

extern const family *const cla_families[];
extern const int cla_family_count;

// Abilities that the problem needs, as CAN_ bits.
unsigned cla_problem_features(const problem *p);
// The message for the first ability that the family lacks, for any sizes; NULL: none is missing.
const char *cla_family_missing_feature(const family *f, const problem *p, unsigned wants);
// Plan the problem with this family. Returns NULL and fills `v`, or returns why not. If the driver
// rejected the kernel, v->unfit is true and `v` is filled too. `wants`: cla_problem_features.
// `row`: the first tuned row for a kernel of the family's path, or NULL.
const char *cla_family_try(const family *f, const plan_input *in, const problem *p, unsigned wants,
                           const tuned_row *row, variant *v);

// Predicted time of a variant, in arbitrary units: multiply-adds, including padding, divided by the
// rate that the family achieves. 0: unknown.
double cla_family_time(const plan_input *in, const problem *p, const variant *v);

// Set the knobs that describe the data.
void cla_family_data_knobs(const problem *p, knobs *k);
// Size of the partial results: float32 [splits][B, H, Nq, Dv], then (max, sum) [splits][B, H, Nq,
// 2]. *out_bytes is the size of the first part. False if 64 bits are not enough.
bool cla_family_partial_bytes(const problem *p, uint64_t splits, uint64_t *bytes, uint64_t *out_bytes);
// Set key ranges: the caller's number, or as many as `groups` work-groups need to fill the device.
// Lays out the partial results. Returns NULL, or why not.
const char *cla_family_split(const plan_input *in, const problem *p, uint64_t groups, variant *v);
// Set key ranges and the grid (tiles * splits, heads, batch). A tile has v->rows_per_group query
// rows and one work-group. Returns NULL, or why not.
const char *cla_family_tile_grid(const plan_input *in, const problem *p, variant *v);
uint64_t cla_family_tiles(const problem *p, int rows);

// Why a kernel for GPUs does not fit; NULL: it fits. CPUs with vector registers have kernels of
// their own, so there a tuned row must name the kernel.
const char *cla_family_gpu_refusal(const plan_input *in, const tuned_row *row, enum kernel_id id);
// Choose a sub-group size: the knob SUBGROUP of the row (1: none), else the first of 16, 32, 64, 8
// that passed its probe and divides the work-group. If sizes can be requested, smaller ones come
// first: they have more registers per work-item. 0: no sub-groups. Sets knobs and options.
int cla_family_subgroup(const plan_input *in, const tuned_row *row, int work_group, variant *v);

// For kernels without sub-groups that need many registers: request the sub-group size with the most
// registers, if possible.
void cla_family_ask_subgroup(const plan_input *in, knobs *k);

// Why the problem's types do not permit x86's bfloat16 dot product; NULL: they do.
const char *cla_family_dot_refusal(const problem *p);
// Why the types do not permit 16-bit products; NULL: they do. Keys must be exact in 16 bits. Values
// may be rounded, as weights are.
const char *cla_family_halves_refusal(const problem *p);
// Why types or head sizes do not permit the integer dot product; NULL: they do.
const char *cla_family_integer_refusal(const problem *p);
// Why they do not permit byte tiles of a matrix engine; NULL: they do.
const char *cla_family_matrix_integers_refusal(const problem *p);
// Integer products of int8 and q8_0 keys in GPU kernels. True if the rates of integer and float
// products decide, so that their probes must run.
bool cla_family_eights_wanted(const plan_input *in, const problem *p);
// DOT_I8 for such keys: the caller's tuned row decides, else the faster probe. 0: float products.
// Sets *language if the instruction needs other compiler options.
int cla_family_eights(const plan_input *in, const problem *p, const tuned_row *row, const char **language);
// The words for DOT_I8 in a plan's explanation; NULL for float products.
const char *cla_family_integers_word(const knobs *k);
// For families with query rows in lanes: set the bfloat16 dot product if it is the family's engine.
// It needs bfloat16 q, k and v, 16 lanes and pairs of keys. Returns NULL, or why not.
const char *cla_family_take_dot(const problem *p, variant *v);
// The error in a tuned row's tile of scores; NULL: none.
const char *cla_family_tile_refusal(const knobs *k);

// The tile of a register-tiled kernel, and its number of rows.
typedef struct tile_shape {
    int micro_rows, group_rows, group_columns, chunk;
} tile_shape;
static inline int cla_family_tile_rows(const tile_shape *s) {
    return s->micro_rows * s->group_rows;
}
// The tile of a tuned row, with defaults of 8 rows per work-item, 8 x 16 work-items and chunks of
// 32. The error in such a tile; NULL: none.
bool cla_family_row_has_tile(const knobs *row);
tile_shape cla_family_row_tile(const knobs *row);
const char *cla_family_tiles_refusal(const knobs *row);
// Predict whether `sums` accumulators per work-item fit registers, from capabilities and from what
// compiled kernels showed. `subgroup`: the size of sub-groups; 0: none.
bool cla_family_in_registers(const plan_input *in, enum kernel_id id, int sums, int micro_rows, int subgroup);
// Set the knobs of a tile. ALIGNED_VECTORS: rows are loaded 4 or 8 elements at a time.
// cla_family_reads describes this for a plan's explanation.
void cla_family_take_tile(const plan_input *in, const problem *p, const tile_shape *s, knobs *k);
const char *cla_family_reads(const knobs *k);

// Largest work-group of a kernel: the device's limit, or the compiled kernel's, if known.
uint64_t cla_family_group_limit(const plan_input *in, enum kernel_id id);
// Local memory for a work-group: the device's, without what the driver was seen to use.
uint64_t cla_family_local_limit(const plan_input *in, enum kernel_id id);

// True if a knob divides another. A knob of 0 means the default, which always fits.
bool cla_family_divides(int part, int whole);
bool cla_family_is_vector(int lanes);
#endif
