// mod_token.h: the words, numbers and operators that a text of score_mod or mask_mod is made of. It knows no grammar.
#ifndef CLATTN_ATTENTION_MODS_MOD_TOKEN_H
#define CLATTN_ATTENTION_MODS_MOD_TOKEN_H
#include "attention/mods/mod_words.h"

// Past spaces and comments, which are closed: mods_text.c has seen to that.
const char *cla_mod_skip(const char *at);
// The length of the word, or of the longest operator of C, that begins here; 0: there is none.
int cla_mod_word_length(const char *at);
int cla_mod_operator_length(const char *at);

typedef struct mod_number {
    int length; // of it and all letters, digits and points behind it
    bool valid; // it is a number of OpenCL C
    mod_type type;
    bool whole;      // an int or uint, which is `value`
    long long value; // at least 0
} mod_number;
bool cla_mod_begins_number(const char *at);
mod_number cla_mod_number(const char *at);
#endif
