// mod_value.h: the value of a score_mod expression in double precision, computed with C's own
// functions. Supports floats and integers without overflow, but no vectors, bit operations or
// conversions.
#ifndef CLATTN_TESTS_MOD_VALUE_H
#define CLATTN_TESTS_MOD_VALUE_H
#include "attention/mods/mod_parse.h"

// i and row have the value `i`, other integer names are 1, and every buffer element is `element`.
struct mod_value_at {
    double score, i, j, element;
};

double mod_value(const mod_tree *tree, int node, const struct mod_value_at *at);
// The value of a text, which must be valid.
double mod_value_of(const mod_source *source, const struct mod_value_at *at);
#endif
