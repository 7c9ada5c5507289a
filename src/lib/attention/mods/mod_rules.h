// mod_rules.h: the derivatives of operators and functions of the language of score_mod, as templates. It knows no text.
#ifndef CLATTN_ATTENTION_MODS_MOD_RULES_H
#define CLATTN_ATTENTION_MODS_MOD_RULES_H
#include "attention/mods/mod_parse.h"

#define RULE_PARTS 3 // more than any function takes
#define RULE_CONDITIONS 2

// A template is text in which $n stands for part n, from 1 on, as a float, #n for it with the type that it has, and ?n for it as a
// condition. In a product it begins with - where its sign changes, or with / where it divides what is before it, and has no sum
// outside of brackets; an empty one is 1.
typedef struct mod_rule {
    const char *name;
    const char *when[RULE_CONDITIONS]; // whole templates, in turn; NULL: no more
    // What the derivative of each part is multiplied with; NULL: nothing becomes of it. One row for each condition, and one for where
    // none holds. No part has two.
    const char *by[RULE_CONDITIONS + 1][RULE_PARTS];
} mod_rule;

// That of an operator, cast, choice or call; NULL: none is known.
const mod_rule *cla_mod_rule(const mod_node *x);
#endif
