// pairs.h: a covering array: cases in which every two values of two options meet, for every two options of an attention
// call, of its gradients, or of a layer. Most faults of software with many switches need no more than two of them. [Kuhn, Wallace
// and Gallo 2004] Leaves out running the cases: test_pairs.c and verify do.
//
//   struct pairs array;
//   pairs_make("flash", 1, &array);
//   for (int n = 0; n < array.count; n++) { const struct test_case test = pairs_case(&array, n); ... }
//   pairs_free(&array);
//
// The values that are compiled into a kernel change less often than the others: `configuration` counts their combinations,
// which is about how many kernels there are.
#ifndef CLATTN_EVIDENCE_SETS_PAIRS_H
#define CLATTN_EVIDENCE_SETS_PAIRS_H

#include "verification/case/case.h"

#define PAIRS_MOST_FACTORS 27
#define PAIRS_MOST_LEVELS 12

// One option: its values as tokens of a case's name ("": none), the first of which goes with every value of any other; or, of one
// that is `laid`, words of `lay` below, whose numbers follow from the other values.
enum pairs_when { PAIRS_RUN, PAIRS_COMPILED, PAIRS_COUNTED };
struct pairs_factor {
    const char *name;
    enum pairs_when
        when; // the kernel knows it; COUNTED: decode's, whose passes are as many rows as a key head has
    bool laid;
    const char *levels[PAIRS_MOST_LEVELS];
};

// The options of a kind of call, and what a case cannot say: a value with one of two tokens does not go with one that has the other.
struct pairs_options {
    const char *op; // that their cases begin with
    int least;      // cases that an array of them has
    const struct pairs_factor *factors;
    int count;
    const char *const (*apart)[2];
    int apart_count;
    void (*lay)(struct test_case *test, const char *word);
};
extern const struct pairs_options pairs_of_attention, pairs_of_layer, pairs_of_backward;
const struct pairs_options *pairs_options_of(int family);
bool pairs_is_compiled(int family, int factor);
int pairs_level_count(const struct pairs_options *options, int factor);

// A family is the planner's choice among all kernels, or a path with what its kernels can do; "backward": gradients, and "layer":
// whole layers, as planned. NULL ends the names.
extern const char *const pairs_families[];
// Whether the family takes a value at all, and two of them together: mask_mod and RoPE of i8 keys, say.
bool pairs_has(int family, int factor, int level);
bool pairs_meet(int family, int factor_a, int level_a, int factor_b, int level_b);
// Three values that no family takes though every two go together: expressions beside past keys of i8, say. The result has a bit
// for each such three and each of its values that the level is.
unsigned pairs_thirds(int family, int factor, int level);
bool pairs_is_third(unsigned thirds);
clattn_kernel pairs_kernel(int family);

struct pairs_row {
    unsigned char level[PAIRS_MOST_FACTORS];
    int configuration;
};

struct pairs {
    int family; // -1: none, of options of the caller's
    const struct pairs_options *options;
    int count, configurations;
    uint64_t seed;
    struct pairs_row *rows;
};

// As many cases as are usual or as it takes; the same seed gives the same ones. False: no such family.
bool pairs_make(const char *family, uint64_t seed, struct pairs *array);
// The same of options that are no family's: every two values go together, and their rows are no cases for pairs_case.
void pairs_make_of(const struct pairs_options *options, uint64_t seed, struct pairs *array);
void pairs_free(struct pairs *array);

// How many pairs there are, and how many of them are in no row.
int pairs_all(int family);
int pairs_missing(const struct pairs *array);

// Row n as a case of its own seed, with the family's kernel.
struct test_case pairs_case(const struct pairs *array, int n);

// Two options that a call refuses together: case names both, and the refusal's line says `word`.
struct pairs_refused {
    const char *token_a, *token_b, *word;
    clattn_status status;
};
extern const struct pairs_refused pairs_refused[];
extern const int pairs_refused_count;

#endif
