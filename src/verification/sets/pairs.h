// pairs.h: covering arrays. A covering array is a set of cases in which every two values of every
// two options occur together. There are arrays for an attention call, its gradients and a layer.
// Most faults of software with many options need at most two of them [Kuhn, Wallace and Gallo
// 2004]. The cases are run by test_pairs.c and verify.
//
//    struct pairs array;
//    pairs_make("flash", 1, &array);
//    for (int n = 0; n < array.count; n++) {
//        const struct test_case test = pairs_case(&array, n);
//        ...
//    }
//    pairs_free(&array);
//
// Values that are compiled into a kernel change less often than others. `configurations` counts
// their combinations, which is about the number of kernels.
#ifndef CLATTN_VERIFICATION_SETS_PAIRS_H
#define CLATTN_VERIFICATION_SETS_PAIRS_H

#include "verification/case/case.h"

#define PAIRS_MOST_FACTORS 27
#define PAIRS_MOST_LEVELS 12

// One option and its values. A value is tokens of a case's name ("": none), and the first fits
// every value of other options. The values of a `laid` option are words for the function `lay`,
// which computes numbers from the other values.
enum pairs_when { PAIRS_RUN, PAIRS_COMPILED, PAIRS_COUNTED };
struct pairs_factor {
    const char *name;
    // COMPILED: the value selects another kernel. COUNTED: only decode has another kernel, because
    // its passes have as many rows as share a key head.
    enum pairs_when when;
    bool laid;
    const char *levels[PAIRS_MOST_LEVELS];
};

// The options of a kind of call, and the pairs that no case can have: `apart` lists pairs of tokens
// that exclude each other.
struct pairs_options {
    const char *op; // the beginning of the cases' names
    int least;      // the least number of cases in an array
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

// The families: the planner's choice among all kernels, or a path with the abilities of its
// kernels; "backward" for gradients, and "layer" for whole layers as planned. NULL ends the list.
extern const char *const pairs_families[];
// pairs_has: true if the family supports a value. pairs_meet: true if it supports two values
// together. For example, RoPE does not meet i8 keys in any family.
bool pairs_has(int family, int factor, int level);
bool pairs_meet(int family, int factor_a, int level_a, int factor_b, int level_b);
// Triples that no family supports although every two of their values fit, such as expressions, a
// past and i8 keys. The result has a bit for each triple and each of its values that the level has.
unsigned pairs_thirds(int family, int factor, int level);
bool pairs_is_third(unsigned thirds);
clattn_kernel pairs_kernel(int family);

struct pairs_row {
    unsigned char level[PAIRS_MOST_FACTORS];
    int configuration;
};

struct pairs {
    int family; // -1: options of the caller
    const struct pairs_options *options;
    int count, configurations;
    uint64_t seed;
    struct pairs_row *rows;
};

// Make an array with the usual number of cases, or more if necessary. Equal seeds mean equal cases.
// False: unknown family.
bool pairs_make(const char *family, uint64_t seed, struct pairs *array);
// As pairs_make, for the caller's options, of which every two values fit. pairs_case cannot make
// cases of the rows.
void pairs_make_of(const struct pairs_options *options, uint64_t seed, struct pairs *array);
void pairs_free(struct pairs *array);

// The number of pairs, and the number of pairs that no row has.
int pairs_all(int family);
int pairs_missing(const struct pairs *array);

// Row n as a case with a seed of its own and the family's kernel.
struct test_case pairs_case(const struct pairs *array, int n);

// Two options that a call rejects together: the case has both tokens, and the error line contains
// `word`.
struct pairs_refused {
    const char *token_a, *token_b, *word;
    clattn_status status;
};
extern const struct pairs_refused pairs_refused[];
extern const int pairs_refused_count;

#endif
