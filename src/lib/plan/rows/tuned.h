// tuned.h: tuned rows: which kernel and knobs to use for a device class and problem. The rows are a
// text with one row per line. `clattn tune` writes them, the caller passes them to a context, and
// tuned_rows.c has those that ship. The first row that fits is used.
//
//     flash_lanes cpu=1 lanes=16 type=f32 d=1..96 nq=33.. : ROW_VECTORS=3 KEY_BLOCK=8 TILE_KV=64
//
// Before the colon: the kernel, and conditions that must all hold. A condition is a number or a
// range with open ends. After the colon: knobs that replace the planner's defaults. # starts a
// comment. Parsing rejects a row that its kernel's family cannot run.
#ifndef CLATTN_PLAN_ROWS_TUNED_H
#define CLATTN_PLAN_ROWS_TUNED_H
#include "program/kernels.h"
#include "program/knobs.h"
#include "plan/clblast_parameters.h"

// The word "clblast" instead of a kernel: use CLBlast for projections. "clblast_xgemm" and so on:
// all parameters of one of CLBlast's kernels, for a device:
//
//     clblast_gemm cpu=0 : XGEMM_MIN_INDIRECT_SIZE=512
#define TUNED_CLBLAST KERNEL_COUNT
#define TUNED_CLBLAST_KERNELS (KERNEL_COUNT + 1) // the first id of a CLBlast kernel

typedef struct tuned_range {
    int least, most;
} tuned_range;

enum tuned_condition {
#define CONDITION(word, field, what) CONDITION_##field,
#include "tables/conditions.def"
#undef CONDITION
    CONDITION_COUNT
};

typedef struct tuned_row {
    enum kernel_id id;
    tuned_range when[CONDITION_COUNT];
    union {
        knobs knobs;
        int clblast[CLBLAST_MOST_PARAMETERS]; // parameters, if the row is for a CLBlast kernel
    };
} tuned_row;

typedef struct tuned_rows {
    tuned_row *rows;
    int count;
    bool no_memory;
    const struct clattn_host_memory *host; // owner of `rows` (base/host.h)
} tuned_rows;

// The values that the conditions of a row are compared with.
typedef struct tuned_key {
#define CONDITION(word, field, what) int field;
#include "tables/conditions.def"
#undef CONDITION
} tuned_key;

// Parse a text into memory of `host` (base/host.h; NULL: malloc). On failure why[size] has one
// line: the row's number and its error, or that memory was exhausted, which also sets
// rows->no_memory.
bool cla_tuned_parse_in(const struct clattn_host_memory *host, const char *text, tuned_rows *rows, char *why,
                        size_t size);
static inline bool cla_tuned_parse(const char *text, tuned_rows *rows, char *why, size_t size) {
    return cla_tuned_parse_in(NULL, text, rows, why, size);
}
void cla_tuned_free(tuned_rows *rows);

// A set of kernel ids, including those of CLBlast.
typedef struct tuned_kernels {
    bool has[TUNED_CLBLAST_KERNELS + CLBLAST_KERNELS];
} tuned_kernels;

// The first row that fits, for one of these kernels: in the caller's rows, then in the shipped
// ones. NULL: none. With `after`, the search starts behind that row.
const tuned_row *cla_tuned_find(const tuned_rows *own, const tuned_rows *shipped,
                                const tuned_kernels *kernels, const tuned_key *key, const tuned_row *after);

// True if `row` is an element of `rows`. Either may be NULL.
static inline bool cla_tuned_has(const tuned_rows *rows, const tuned_row *row) {
    return rows && row && rows->count > 0 && row >= rows->rows && row < rows->rows + rows->count;
}

// The text of the shipped rows.
extern const char clattn_tuned_rows_text[];
#endif
