// mod_value.h: the value of an expression of score_mod in double, by C's own functions. It supports
// floats and integers without overflow, and no vectors, bits or conversions.
#ifndef CLATTN_TESTS_MOD_VALUE_H
#define CLATTN_TESTS_MOD_VALUE_H
#include "attention/mods/mod_parse.h"

// i and row are `i`, other integer names 1. Every element of a buffer is `element`.
struct mod_value_at {
    double score, i, j, element;
};

double mod_value(const mod_tree *tree, int node, const struct mod_value_at *at);
// The text must be valid.
double mod_value_of(const mod_source *source, const struct mod_value_at *at);
#endif
