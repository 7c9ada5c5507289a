// mod_value.h: the value of an expression of score_mod in double precision, by C's own functions.
// It knows floats and whole numbers that do not leave their type; no vectors, bits or conversions.
#ifndef CLATTN_TESTS_MOD_VALUE_H
#define CLATTN_TESTS_MOD_VALUE_H
#include "attention/mods/mod_parse.h"

// i and row are `i`, other whole names 1; every element of a buffer is `element`.
struct mod_value_at {
    double score, i, j, element;
};

double mod_value(const mod_tree *tree, int node, const struct mod_value_at *at);
// Of a text, which must be one.
double mod_value_of(const mod_source *source, const struct mod_value_at *at);
#endif
