// case_fields.h: the grammar of a case's name as a table: each token, its field in struct
// test_case, and its default. A new option of a case is one row. Used by case_name.c alone.
#ifndef CLATTN_VERIFICATION_CASE_CASE_FIELDS_H
#define CLATTN_VERIFICATION_CASE_CASE_FIELDS_H

#include "verification/case/case.h"

enum field_kind {
    FIELD_SIZE,    // key and a number; always present
    FIELD_INT64,   // key and a number; default 0, or the field at `like`
    FIELD_PLACE,   // as FIELD_INT64; the number may be negative
    FIELD_INT32,   // key and a number; default 0
    FIELD_FLOAT,   // the same
    FIELD_DOUBLE,  // the same
    FIELD_FLAG,    // key alone; default false
    FIELD_ABSENT,  // the key, if the flag is false; default false in a suite, true in a name
    FIELD_WORD,    // key and a word of `names`; the first is the default
    FIELD_TYPE,    // key and a type; default the type at `like`
    FIELD_CAUSAL,  // full or causal; always present
    FIELD_ALIGN,   // topleft, bottomright or offsetN
    FIELD_WIDTH_Y, // key and a number; default m if nkv is not n, else none
    FIELD_BIASES,  // key and letters of q k v o
    FIELD_WEIGHTS, // key and a type; default f32
    FIELD_SCORES,  // key and a tap
    FIELD_ONLY,    // key and letters of q k v b s a h
    FIELD_WINDOW,  // keyL:R
    FIELD_PAST,    // keyP, or keyP:L0:L1... with a length for each batch item
    FIELD_DROPOUT, // keyX:N
    FIELD_MAP,     // key and axes
    FIELD_HOST     // a row of case_hosts with index `at`
};

#define FIELD_ATTEND (1u << CASE_ATTEND | 1u << CASE_DECODE)
#define FIELD_LAYER (1u << CASE_LAYER)
#define FIELD_LINEAR (1u << CASE_LINEAR)
#define FIELD_BACKWARD (1u << CASE_BACKWARD)
#define FIELD_TENSORS (FIELD_ATTEND | FIELD_BACKWARD) // calls with q, k, v and out
#define FIELD_SCORED (FIELD_ATTEND | FIELD_LAYER)
#define FIELD_GRADED (FIELD_SCORED | FIELD_BACKWARD) // calls with scores
#define FIELD_ANY (FIELD_GRADED | FIELD_LINEAR)

struct case_field {
    const char *key;
    enum field_kind kind;
    unsigned ops; // the ops that have the field
    size_t at, like;
    const char *const *names;
};

// In the order of the tokens; NULL key ends the table.
extern const struct case_field case_fields[];

// Read and write a field as a double, whatever its type.
double case_field_get(const struct test_case *test, enum field_kind kind, size_t at);
void case_field_set(struct test_case *test, enum field_kind kind, size_t at, double x);

// The default alignment and width, which have no token.
clattn_alignment case_usual_alignment(const struct test_case *test);
int64_t case_usual_width_y(const struct test_case *test);

// The factors of the RoPE scaling `pairs`; entry d is for pair d.
#define CASE_PAIRS 512
extern const float case_pair_factors[CASE_PAIRS];
#endif
