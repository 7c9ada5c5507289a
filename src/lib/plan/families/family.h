// family.h: a kernel family: one way to compute attention, or a projection. families.c has the table, in order of
// preference; one file a family has what it needs: when it fits, which knobs are legal, what it says of itself.
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_H
#define CLATTN_PLAN_FAMILIES_FAMILY_H
#include "program/kernels.h"
#include "program/knobs.h"
#include "plan/linear_plan.h"

// The things that a family can do beyond out and log-sum-exp; `lacks` in families.c says what it lacks.
#define CAN_WEIGHTS 1      // returns attention weights, as float32
#define CAN_WEIGHTS_16 2   // also as f16 or bf16
#define CAN_TAPS 4         // returns score taps
#define CAN_SPLIT 8        // splits keys into as many ranges as the caller asks for
#define CAN_LARGE_HEADS 16 // head sizes above FAMILY_MAX_HEAD
#define CAN_MANY_ROWS 32   // more query rows than FAMILY_FEW_ROWS
#define CAN_PAST_MODS 64   // expressions beside a past of i8: their arguments are in kernels apart
#define CAN_DROPOUT 128    // drops weights
#define CAN_RAGGED 256     // sequences of different lengths
#define CAN_SUMS 512       // returns weights that are summed over the query rows

#define FAMILY_MAX_HEAD 576
#define FAMILY_FEW_ROWS 16

struct family {
    const char *name;    // in reports; a kernel has several families where it has several ways
    const char *tunes;   // the knobs that a tuned row may set, each followed by a space
    const char *options; // of the compiler, besides the knobs; NULL: PROGRAM_OPTIONS of program/program.h
    enum kernel_id id;   // the main kernel; its file's name is the word in tuned rows
    clattn_kernel path;  // AUTO: a projection
    unsigned can;
    int never_ops; // the bits of problem.score_ops that it does not do, and what is said then
    const char *never_why;
    bool all_keys;  // it looks at all of them, whatever a block mask says of them
    probe_id needs; // PROBE_NONE: any device
    // Where its products are done, and the share of that engine's rate that 16-bit attention of many rows reached: what
    // the planner predicts by. PROBE_NONE: by none; it is taken where it stands.
    probe_id engine;
    float reach;
    int head_step; // head sizes are filled up to a multiple; 0: they are not
    // What a query row and a key take of the engine, in multiply-adds, where it is not one for each of their D + Dv numbers; or NULL.
    double (*columns)(const problem *p, const variant *v);
    bool shares_heads; // a group has rows of all query heads that read its key/value head
    bool subgroups;    // may use sub-groups, whose probes then run: cla_planner_input
    bool needs_row;    // taken only where a tuned row names its kernel
    // The fault of a row's knobs, completed by the family's own defaults; NULL: nothing.
    const char *(*knobs_refusal)(const knobs *row);
    // Attention: fill knobs, grid and bytes. Returns why it cannot be, or NULL.
    const char *(*fit)(const plan_input *in, const problem *p, const tuned_row *row, variant *v);
    void (*explain)(const plan_input *in, const variant *v, char why[200]);
    // A projection: the shape of its work.
    void (*shape)(const plan_input *in, const linear_problem *p, const tuned_row *row, linear_choice *choice);
};

extern const family *const cla_families[];
extern const int cla_family_count;

// All that a problem asks beyond out and log-sum-exp, as bits of `can`.
unsigned cla_family_wants(const problem *p);
// The first of those things that it lacks, whatever the sizes are; or NULL.
const char *cla_family_lacks(const family *f, const problem *p, unsigned wants);
// Why this family does not take the problem that wants so much, or NULL and `v` filled. Where the driver refused its kernel, v->unfit is
// true and the rest of `v` is filled, too. `row` is the first tuned row for a
// kernel of its path, or NULL.
const char *cla_family_try(const family *f, const plan_input *in, const problem *p, unsigned wants,
                           const tuned_row *row, variant *v);

// How long attention by this variant takes beside another one: operations with those that fill its tiles, by the rate of its
// family's engine and what the family reaches of it. 0: nothing is known of it.
double cla_family_time(const plan_input *in, const problem *p, const variant *v);

// The knobs that say what the data are, from the problem.
void cla_family_data_knobs(const problem *p, knobs *k);
// Key ranges: where `groups` work-groups are too few for the device, or as the caller says. Lays out the partial
// results: float32 [splits][B, H, Nq, Dv] and [splits][B, H, Nq, 2]. Returns why it cannot be, or NULL.
// Bytes of such partial results, all splits, and those of them before the maxima and sums; false where 64 bits do not count them.
bool cla_family_partial_bytes(const problem *p, uint64_t splits, uint64_t *bytes, uint64_t *out_bytes);
const char *cla_family_split(const plan_input *in, const problem *p, uint64_t groups, variant *v);
// Key ranges and grid of one work-group of v->work_group work-items a tile of v->rows_per_group query rows: (tiles * splits,
// heads, batch). Returns why it cannot be, or NULL.
const char *cla_family_tile_grid(const plan_input *in, const problem *p, variant *v);
uint64_t cla_family_tiles(const problem *p, int rows);

// Why a kernel for devices that are no CPU is not for this problem: the row for it names another one, or no row does and the
// device is a CPU whose work-items own vector registers, which has kernels of its own; or NULL.
const char *cla_family_gpu_refusal(const plan_input *in, const tuned_row *row, enum kernel_id id);
// The size of the sub-groups that a kernel uses: what the row asks for (its knob SUBGROUP; 1 asks for none), else the first
// of 16, 32, 64, 8 (the least first where a size can be asked for: its work-items have the most registers) that was probed
// right and divides the work-group; 0: none. Fills the knobs and options for it.
int cla_family_subgroup(const plan_input *in, const tuned_row *row, int work_group, variant *v);

// A kernel that uses no sub-groups, but many registers, asks for the size with the most, where it can be asked for.
void cla_family_ask_subgroup(const plan_input *in, knobs *k);

// Why x86's bfloat16 dot product is not for this problem, by its types; or NULL.
const char *cla_family_dot_refusal(const problem *p);
// Why no product of 16 bits is for this problem, by its types: keys stay exact, and values may be rounded as weights are; or NULL.
const char *cla_family_halves_refusal(const problem *p);
// Why no integer dot product is for this problem, by the types of its keys and values and by head sizes; or NULL.
const char *cla_family_integer_refusal(const problem *p);
// Likewise why no tiles of bytes are.
const char *cla_family_matrix_integers_refusal(const problem *p);
// Products of keys of int8 and q8_0 in kernels of GPUs: whether the rates of the device's own integer products and of floats decide, for
// which the probes must have run; and DOT_I8, 0 for floats: what a tuned row of the caller's says of it, else the faster. `language`,
// of the compiler, is changed where the instruction needs another.
bool cla_family_eights_wanted(const plan_input *in, const problem *p);
int cla_family_eights(const plan_input *in, const problem *p, const tuned_row *row, const char **language);
// What a plan says of DOT_I8; NULL where products are of floats.
const char *cla_family_integers_word(const knobs *k);
// Families with query rows in lanes and tiles of scores: the dot product, where it is the family's engine, takes the variant.
// All three inputs must then be bfloat16 in vectors of sixteen, and keys come in pairs; and what is wrong with a row's knobs,
// the tile's completed.
const char *cla_family_take_dot(const problem *p, variant *v);
const char *cla_family_tile_refusal(const knobs *k);

// The tile of a register-tiled kernel, and its rows.
typedef struct tile_shape {
    int micro_rows, group_rows, group_columns, chunk;
} tile_shape;
static inline int cla_family_tile_rows(const tile_shape *s) {
    return s->micro_rows * s->group_rows;
}
// What a tuned row says of it, if anything: the rest is 8 rows a work-item, of 8 by 16, chunks of 32. Why it cannot be, or NULL.
bool cla_family_row_has_tile(const knobs *row);
tile_shape cla_family_row_tile(const knobs *row);
const char *cla_family_tiles_refusal(const knobs *row);
// Whether so many sums of a work-item stay in registers, as far as capabilities tell, and what compiled kernels did; `subgroup` of
// sub-groups, 0: none.
bool cla_family_in_registers(const plan_input *in, enum kernel_id id, int sums, int micro_rows, int subgroup);
// The knobs of this tile. WIDE: rows are read by eights where that makes loads of 16 bytes of smaller types; and that in words.
void cla_family_take_tile(const plan_input *in, const problem *p, const tile_shape *s, knobs *k);
const char *cla_family_reads(const knobs *k);

// Work-items of a group of this kernel: what the device allows, or the compiled kernel, where that is known.
uint64_t cla_family_group_limit(const plan_input *in, enum kernel_id id);
// Bytes of local memory of a group likewise: what the device has, without what its driver was seen to keep of it.
uint64_t cla_family_local_limit(const plan_input *in, enum kernel_id id);

// Whether a part of a row's knobs fits: 0 leaves the default, which fits.
bool cla_family_divides(int part, int whole);
bool cla_family_is_vector(int lanes);
#endif
