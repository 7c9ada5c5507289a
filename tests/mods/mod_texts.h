// mod_texts.h: expressions at random, made of all words of the language of score_mod and mask_mod
// (attention/mods/mod_words.h): whatever is accepted, and so also what overflows, divides by 0 and
// reads outside its buffers.
#ifndef CLATTN_TESTS_MOD_TEXTS_H
#define CLATTN_TESTS_MOD_TEXTS_H
#include "attention/mods/mod_parse.h"
#include "verification/reference/random.h"

#define MOD_TEXT_SIZE 16384

struct mod_texts {
    struct random random;
    mod_source source; // what it is for: mask or score, and buffers
    bool in_vectors;   // only what the library makes vectors of
    bool used[256];    // the words that were, by their place in the table
};

// A text of as many expressions as it may have, of which item b of the batch is asked number b.
// Returns their number.
int mod_texts_make(struct mod_texts *t, int most, char text[MOD_TEXT_SIZE]);
#endif
