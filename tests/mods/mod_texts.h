// mod_texts.h: random expressions from all words of the language of score_mod and mask_mod
// (attention/mods/mod_words.h). All of them are accepted, also those that overflow, divide by 0 or
// index outside their buffers.
#ifndef CLATTN_TESTS_MOD_TEXTS_H
#define CLATTN_TESTS_MOD_TEXTS_H
#include "attention/mods/mod_parse.h"
#include "verification/reference/random.h"

#define MOD_TEXT_SIZE 16384

struct mod_texts {
    struct random random;
    mod_source source; // the kind (mask or score), and the buffers
    bool in_vectors;   // only texts that the library converts to vectors
    bool used[256];    // the words that occurred, by their place in the table
};

// A text of as many expressions as allowed. Item b of the batch evaluates number b. Returns their
// number.
int mod_texts_make(struct mod_texts *t, int most, char text[MOD_TEXT_SIZE]);
#endif
