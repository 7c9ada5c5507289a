// tuned.h: tuned rows: which kernel and knobs suit which device class and problem. Data, not code: a text
// with one row a line, made by `clattn tune`, given to a context, or shipped in tuned_rows.c. The first row
// that fits wins.
//
//     flash_lanes cpu=1 lanes=16 type=f32 d=1..96 nq=33.. : ROW_VECTORS=3 KEY_BLOCK=8 TILE_KV=64
//
// Before the colon: the kernel, and conditions that must all hold; a number or a range with open ends. After
// it: knobs that replace the planner's defaults. # starts a comment. A row that its kernel's family cannot run is
// refused while the text is parsed.
#ifndef CLATTN_PLAN_ROWS_TUNED_H
#define CLATTN_PLAN_ROWS_TUNED_H
#include "program/kernels.h"
#include "program/knobs.h"
#include "plan/clblast_parameters.h"

// The word "clblast" in place of a kernel: projections go to CLBlast. "clblast_xgemm" and so on: parameters of its kernels, all of
// them, for a device:
//
//     clblast_gemm cpu=0 : XGEMM_MIN_INDIRECT_SIZE=512
#define TUNED_CLBLAST KERNEL_COUNT
#define TUNED_CLBLAST_KERNELS (KERNEL_COUNT + 1) // and the next: which kernel of CLBlast

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
        int clblast[CLBLAST_MOST_PARAMETERS]; // of a row for a kernel of CLBlast
    };
} tuned_row;

typedef struct tuned_rows {
    tuned_row *rows;
    int count;
    bool no_memory;
    const struct clattn_host_memory *host; // where they lie (base/host.h)
} tuned_rows;

// The numbers that a row's conditions are compared with.
typedef struct tuned_key {
#define CONDITION(word, field, what) int field;
#include "tables/conditions.def"
#undef CONDITION
} tuned_key;

// Parse a text into memory of a host (base/host.h; NULL: the C library's). False: why[size] has one line with the number of the
// bad row and what is wrong with it, or that there was no memory, which rows->no_memory then says.
bool cla_tuned_parse_in(const struct clattn_host_memory *host, const char *text, tuned_rows *rows, char *why,
                        size_t size);
static inline bool cla_tuned_parse(const char *text, tuned_rows *rows, char *why, size_t size) {
    return cla_tuned_parse_in(NULL, text, rows, why, size);
}
void cla_tuned_free(tuned_rows *rows);

// A set of kernels, and of the words in the place of some, by their ids.
typedef struct tuned_kernels {
    bool has[TUNED_CLBLAST_KERNELS + CLBLAST_KERNELS];
} tuned_kernels;

// The first row for one of these kernels that fits, in the caller's rows, then in the shipped ones; NULL where none does. `after` is a
// row of theirs behind which it is looked for; NULL: all of them.
const tuned_row *cla_tuned_find(const tuned_rows *own, const tuned_rows *shipped,
                                const tuned_kernels *kernels, const tuned_key *key, const tuned_row *after);

// Whether the row, or NULL, is one of these; NULL: there are none.
static inline bool cla_tuned_has(const tuned_rows *rows, const tuned_row *row) {
    return rows && row && rows->count > 0 && row >= rows->rows && row < rows->rows + rows->count;
}

// The rows that the library ships, as text.
extern const char clattn_tuned_rows_text[];
#endif
