// case_fields.h: the grammar of a case's name as a table: each token, where it stands in struct test_case, and what
// its default is. A new option of a case is a row here. Used by case_name.c alone.
#ifndef CLATTN_EVIDENCE_CASE_CASE_FIELDS_H
#define CLATTN_EVIDENCE_CASE_CASE_FIELDS_H

#include "verification/case/case.h"

enum field_kind {
    FIELD_SIZE,    // key and a number that is always there
    FIELD_INT64,   // key and a number; its default is 0, or the field at `like`
    FIELD_PLACE,   // likewise, which may be below 0
    FIELD_INT32,   // key and a number; default 0
    FIELD_FLOAT,   // likewise
    FIELD_DOUBLE,  // likewise
    FIELD_FLAG,    // key alone; default false
    FIELD_ABSENT,  // key alone where the flag is false; default false in a suite, true in a name
    FIELD_WORD,    // key and a word of `names`; the first is the default
    FIELD_TYPE,    // key and a type; default the type at `like`
    FIELD_CAUSAL,  // full or causal, always there
    FIELD_ALIGN,   // topleft, bottomright or offsetN
    FIELD_WIDTH_Y, // key and a number; default m where nkv is not n, else none
    FIELD_BIASES,  // key and letters of q k v o
    FIELD_WEIGHTS, // key and a type; default f32
    FIELD_SCORES,  // key and a tap
    FIELD_ONLY,    // key and letters of q k v b s a h
    FIELD_WINDOW,  // keyL:R
    FIELD_PAST,    // keyP, or keyP:L0:L1..., a length a batch item
    FIELD_DROPOUT, // keyX:N
    FIELD_MAP,     // key and axes
    FIELD_HOST     // a row of case_hosts: `at` is its number
};

#define FIELD_ATTEND (1u << CASE_ATTEND | 1u << CASE_DECODE)
#define FIELD_LAYER (1u << CASE_LAYER)
#define FIELD_LINEAR (1u << CASE_LINEAR)
#define FIELD_BACKWARD (1u << CASE_BACKWARD)
#define FIELD_TENSORS (FIELD_ATTEND | FIELD_BACKWARD) // q, k, v and out are the call's own
#define FIELD_SCORED (FIELD_ATTEND | FIELD_LAYER)
#define FIELD_GRADED (FIELD_SCORED | FIELD_BACKWARD) // scores, and what of them has a gradient
#define FIELD_ANY (FIELD_GRADED | FIELD_LINEAR)

struct case_field {
    const char *key;
    enum field_kind kind;
    unsigned ops; // that have it
    size_t at, like;
    const char *const *names;
};

// In the order of the tokens; key NULL ends it.
extern const struct case_field case_fields[];

// Numbers of fields, whatever their width.
double case_field_get(const struct test_case *test, enum field_kind kind, size_t at);
void case_field_set(struct test_case *test, enum field_kind kind, size_t at, double x);

// The alignment that leaves no token.
clattn_alignment case_usual_alignment(const struct test_case *test);
int64_t case_usual_width_y(const struct test_case *test);

// Factors of the scaling `pairs` in every case: of pair d entry d.
#define CASE_PAIRS 512
extern const float case_pair_factors[CASE_PAIRS];
#endif
