// mod_rules.h: derivatives of the operators and functions of score_mod's language, as templates.
// Independent of the text.
#ifndef CLATTN_ATTENTION_MODS_MOD_RULES_H
#define CLATTN_ATTENTION_MODS_MOD_RULES_H
#include "attention/mods/mod_parse.h"

#define RULE_PARTS 3 // the most parts of any function
#define RULE_CONDITIONS 2

// In a template, $n is part n (from 1 on) as a float, #n is part n with its own type, and ?n is
// part n as a condition. Templates are factors of a product, so sums need brackets. A leading -
// changes the sign. A leading / divides what is before it. An empty template is 1.
typedef struct mod_rule {
    const char *name;
    const char *when[RULE_CONDITIONS]; // templates of conditions, tested in order; NULL: the end
    // The factor on the derivative of each part; NULL: the part contributes nothing. One row per
    // condition, then one for the case that none holds. A part has a factor in at most one row.
    const char *by[RULE_CONDITIONS + 1][RULE_PARTS];
} mod_rule;

// The rule of an operator, cast, choice or call; NULL: no rule is known.
const mod_rule *cla_mod_rule(const mod_node *x);
#endif
