// mod_token.h: tokens of score_mod and mask_mod: words, numbers and operators. Independent of the
// grammar.
#ifndef CLATTN_ATTENTION_MODS_MOD_TOKEN_H
#define CLATTN_ATTENTION_MODS_MOD_TOKEN_H
#include "attention/mods/mod_words.h"

// Skip spaces and comments. mods_text.c has checked that comments are closed.
const char *cla_mod_skip(const char *at);
// Length of the word, or of the longest C operator, at this place; 0: none.
int cla_mod_word_length(const char *at);
int cla_mod_operator_length(const char *at);

typedef struct mod_number {
    int length; // including all letters, digits and points that follow
    bool valid; // a number of OpenCL C
    mod_type type;
    bool whole;      // an int or uint of value `value`
    long long value; // 0 or more
} mod_number;
bool cla_mod_begins_number(const char *at);
mod_number cla_mod_number(const char *at);
#endif
