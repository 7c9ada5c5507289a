// mod_texts.h: random expressions from all words of the language of score_mod and mask_mod
// (attention/mods/mod_words.h). They include overflows, divisions by 0 and reads outside the
// buffers, since the language accepts these.
#ifndef CLATTN_TESTS_MOD_TEXTS_H
#define CLATTN_TESTS_MOD_TEXTS_H
#include "attention/mods/mod_parse.h"
#include "verification/reference/random.h"

#define MOD_TEXT_SIZE 16384

struct mod_texts {
    struct random random;
    mod_source source; // mask or score, and its buffers
    bool in_vectors;   // only texts that have vector forms
    bool used[256];    // the words used so far, by their index in the table
};

// Generate a text of at most `most` expressions, where batch item b evaluates expression b. Returns
// the number of expressions.
int mod_texts_make(struct mod_texts *t, int most, char text[MOD_TEXT_SIZE]);
#endif
