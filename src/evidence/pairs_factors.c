// pairs_factors.c: the options that pairs.h pairs, as data: values, what does not go together, and what a family can do.
#include "evidence/pairs.h"

#include <stddef.h>
#include <string.h>

#define RUN false
#define COMPILED true

const struct pairs_factor pairs_factors[] = {
    {"types",
     COMPILED,
     {"f32", "f16", "bf16", "f32-kvf16", "f16-kvf32-outbf16", "bf16-outf32", "f32-kvi8", "bf16-kvi8-outf16"}},
    {"head sizes", COMPILED, {"d64", "d32", "d40", "d128", "d80-dv48", "d33-dv17"}},
    {"heads", RUN, {"h2", "h4-hkv2", "h6-hkv2", "h8-hkv1", "h3"}},
    {"batch", RUN, {"b1", "b2", "b3"}},
    // Across tiles of 16 to 128 rows and keys, a split of 256, and below one vector.
    {"rows",
     RUN,
     {"n65", "n13", "n33-nkv130", "n130-nkv33", "n97-nkv257", "n16-nkv600", "n8-nkv70", "n1-nkv300",
      "n1-nkv777", "n3-nkv5"}},
    {"positions",
     RUN,
     {"full", "causal", "causal-topleft", "causal-offset20", "causal-offsetm9", "full-bottomright",
      "full-offset7", "causal-offsets"}},
    {"window", RUN, {"", "window5:3", "window40:m1", "windowm1:2", "window0:0"}},
    {"key lengths", RUN, {"", "kvlen"}},
    {"row lengths", RUN, {"", "qlen"}},
    {"softcap", COMPILED, {"", "softcap1.5", "softcap30"}},
    {"bias", COMPILED, {"", "biasqk", "bias1hqk:f16", "biasb1qk:bf16", "biask", "biasqk-infbias"}},
    {"mask", COMPILED, {"", "maskqk", "maskbhqk", "maskb11k", "maskhqk-blocks"}},
    {"alibi", COMPILED, {"", "alibi"}},
    {"sinks", RUN, {"", "sinks"}},
    {"scale", COMPILED, {"", "scalem0.3", "headscales"}},
    {"expressions", COMPILED, {"", "mods", "mods-blocks"}},
    {"layout", COMPILED, {"", "bshd", "padded", "spaced", "packed"}},
    {"rope",
     RUN,
     {"", "ropehalf", "ropeinterleaved-rotary16-ropepos1000",
      "ropehalf-ropescaleyarn-ropefactor4-ropeoriginal32",
      "ropehalf-ropescalellama3-ropefactor8-ropeoriginal64"}},
    {"outputs",
     RUN,
     {"lse", "", "lse-weights", "weightsf16", "weightsbf16", "scoresraw", "lse-scoressoftcap", "scoresmasked",
      "scoressoftmax"}},
    {"splits", RUN, {"", "splits1", "splits3", "splits7"}},
    {"contents", RUN, {"", "unseennan", "huge", "hugeneg", "dominant", "seennan", "rownan"}},
};
const int pairs_factor_count = (int)(sizeof pairs_factors / sizeof pairs_factors[0]);
_Static_assert(sizeof pairs_factors / sizeof pairs_factors[0] <= PAIRS_MOST_FACTORS,
               "rows have room for all");

// A value with one of these tokens does not go with one that has the other: what a call refuses, and what a case cannot say.
static const char *const apart[][2] = {
    {"packed", "nkv"}, // one buffer has one size and type
    {"packed", "dv"},
    {"packed", "kvf"},
    {"packed", "kvi"},
    {"rope", "kvi"},        // keys of i8 were turned before
    {"ropehalf", "d33"},    // pairs of an odd number
    {"infbias", "seennan"}, // one kind of contents a case
    {"infbias", "unseennan"},
    {"infbias", "rownan"},
    // Equal or far scores are right to a rounding of theirs, which is more than what is added to them.
    {"huge", "bias"},
    {"huge", "sinks"}, // weights that no type holds but float32
    {"dominant", "sinks"},
    {"huge", "alibi"},
    {"huge", "rope"},
    {"dominant", "bias"},
    {"dominant", "alibi"},
    {"dominant", "rope"},
};

const char *const pairs_families[] = {"planner", "unfused", "flash", "matrix", "decode", NULL};
enum { PLANNER, UNFUSED, FLASH, MATRIX, DECODE };

// Tokens of which a family takes none; and of which it takes some, by the option.
static const struct {
    int family;
    const char *token;
} lacks[] = {
    {PLANNER, "splits"}, {UNFUSED, "splits"}, {FLASH, "splits"}, {MATRIX, "splits"}, {FLASH, "weights"},
    {MATRIX, "weights"}, {DECODE, "weights"}, {FLASH, "scores"}, {MATRIX, "scores"}, {DECODE, "scores"},
    {DECODE, "n65"},     {DECODE, "n33"},     {DECODE, "n130"},  {DECODE, "n97"}, // at most 16 rows
    {MATRIX, "f32"},     {MATRIX, "f16"},     {MATRIX, "kvi8"},
};

// Whether one of the tokens of a level begins so.
static bool has_token(const char *level, const char *token) {
    const size_t n = strlen(token);
    for (; level != NULL; level = strchr(level, '-')) {
        level += *level == '-';
        // A key is followed by what it says, or ends there; "n1" is not "n130".
        const bool number = token[n - 1] >= '0' && token[n - 1] <= '9';
        if (strncmp(level, token, n) == 0 && !(number && level[n] >= '0' && level[n] <= '9')) return true;
    }
    return false;
}

int pairs_level_count(int factor) {
    int n = 0;
    while (n < PAIRS_MOST_LEVELS && pairs_factors[factor].levels[n] != NULL) n++;
    return n;
}

bool pairs_has(int family, int factor, int level) {
    for (size_t n = 0; n < sizeof lacks / sizeof lacks[0]; n++)
        if (lacks[n].family == family && has_token(pairs_factors[factor].levels[level], lacks[n].token))
            return false;
    return true;
}

bool pairs_meet(int family, int factor_a, int level_a, int factor_b, int level_b) {
    const char *a = pairs_factors[factor_a].levels[level_a], *b = pairs_factors[factor_b].levels[level_b];
    if (!pairs_has(family, factor_a, level_a) || !pairs_has(family, factor_b, level_b)) return false;
    for (size_t n = 0; n < sizeof apart / sizeof apart[0]; n++)
        if ((has_token(a, apart[n][0]) && has_token(b, apart[n][1])) ||
            (has_token(b, apart[n][0]) && has_token(a, apart[n][1])))
            return false;
    return true;
}

clattn_kernel pairs_kernel(int family) {
    static const clattn_kernel kernels[] = {CLATTN_KERNEL_AUTO, CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_FLASH,
                                            CLATTN_KERNEL_FLASH, CLATTN_KERNEL_DECODE};
    return kernels[family];
}
