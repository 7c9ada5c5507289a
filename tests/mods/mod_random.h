// mod_random.h: random expressions whose vector and scalar forms must return identical bits.
#ifndef CLATTN_TESTS_MOD_RANDOM_H
#define CLATTN_TESTS_MOD_RANDOM_H
#include "verification/reference/random.h"

#include <stdbool.h>

#define MOD_RANDOM_SIZE 4096

enum mod_random_kind { RANDOM_INT, RANDOM_FLOAT, RANDOM_BOOL };

// Append a random expression to `text`, which must have room for MOD_RANDOM_SIZE more bytes. The
// expression reads buffer0 and buffer1 (i32, two axes), buffer2 (f32, one axis), buffer3 (f32, two
// axes), and with `score` the score.
void mod_random(struct random *r, enum mod_random_kind kind, int depth, bool score, char *text);
#endif
