// pairs_backward.c: the options of gradients for pairs.h as tables: values, and pairs that exclude
// each other. Options of the call are the values in pairs_factors.c that have a gradient.
#include <string.h>

#include "verification/sets/pairs.h"

#define RUN PAIRS_RUN, false
#define COMPILED PAIRS_COMPILED, false
#define COMPILED_LAID PAIRS_COMPILED, true

static const struct pairs_factor backward[] = {
    {"types",
     COMPILED,
     {"f32", "f16", "bf16", "f32-kvf16", "f16-kvf32-outbf16", "bf16-outf32", "bf16-gradf32", "f32-gradf16"}},
    {"head sizes", COMPILED, {"d64", "d32", "d40", "d128", "d80-dv48", "d33-dv17"}},
    {"heads", RUN, {"h2", "h4-hkv2", "h6-hkv2", "h8-hkv1", "h3"}},
    {"batch", RUN, {"b1", "b2", "b3"}},
    // More and fewer rows and keys than tiles of 16 to 128, and less than one vector.
    {"rows",
     RUN,
     {"n65", "n13", "n33-nkv130", "n130-nkv33", "n97-nkv257", "n16-nkv300", "n8-nkv70", "n1-nkv200",
      "n3-nkv5"}},
    {"positions",
     RUN,
     {"full", "causal", "causal-topleft", "causal-offset20", "causal-offsetm9", "full-bottomright",
      "full-offset7", "causal-offsets"}},
    {"window", RUN, {"", "window5:3", "window40:m1", "windowm1:2", "window0:0"}},
    {"key lengths", RUN, {"", "kvlen"}},
    {"row lengths", RUN, {"", "qlen"}},
    {"softcap", COMPILED, {"", "softcap1.5", "softcap30"}},
    {"bias",
     COMPILED,
     {"", "biasqk", "bias1hqk:f16", "biasb1qk:bf16", "biask", "biasbhqk", "biasbh1k", "biasqk-infbias"}},
    {"mask", COMPILED, {"", "maskqk", "maskbhqk", "maskb11k", "maskhqk-blocks"}},
    {"alibi", COMPILED, {"", "alibi"}},
    {"sinks", RUN, {"", "sinks", "sinks-devicesinks"}},
    {"scale", COMPILED, {"", "scalem0.3", "headscales"}},
    {"expressions", COMPILED, {"", "mods-modsread", "mods-modsread-modsgradient", "mods-modsread-blocks"}},
    {"layout", COMPILED, {"", "bshd", "padded", "spaced", "packed", "scattered"}},
    {"rope",
     RUN,
     {"", "ropehalf", "ropeinterleaved-rotary16-ropepos1000",
      "ropehalf-rotary16-ropescaleyarn-ropefactor4-ropeoriginal32",
      "ropehalf-ropescalellama3-ropefactor8-ropeoriginal64", "ropehalf-positions",
      "ropeinterleaved-rotary24-positions-sectiont4-sectionh4-sectionw4"}},
    {"dlse", RUN, {"", "dlse"}},
    {"results", COMPILED, {"", "onlyq", "onlyk", "onlyv", "onlyqv", "onlykvbsah"}},
    {"values", COMPILED_LAID, {"", "latent"}},
    {"ragged",
     COMPILED,
     {"", "raggedhost", "raggeddevice", "raggedgaps", "raggedgapsdevice", "raggedcache",
      "raggedcachedevice"}},
    {"dropout", COMPILED, {"", "dropout0.3:7"}},
    {"contents", RUN, {"", "unseennan", "dominant", "seennan", "rownan"}},
};
_Static_assert(sizeof backward / sizeof backward[0] <= PAIRS_MOST_FACTORS, "rows have room for all");

static const char *const apart[][2] = {
    {"packed", "nkv"}, // one buffer has one size and type
    {"packed", "dv"},
    {"packed", "kvf"},
    {"packed", "latent"}, // and contains no other tensor
    {"packed", "ragged"},
    {"ropehalf", "d33"},    // an odd number of columns has no pairs
    {"infbias", "seennan"}, // a case has one kind of contents
    {"infbias", "unseennan"},
    {"infbias", "rownan"},
    // The rounding of large scores exceeds the terms that these options add.
    {"dominant", "bias"},
    {"dominant", "sinks"},
    {"dominant", "alibi"},
    {"dominant", "rope"},
};

static void lay(struct test_case *t, const char *word) {
    t->latent = strcmp(word, "latent") == 0;
}

const struct pairs_options pairs_of_backward = {"backward", 300,
                                                backward,   (int)(sizeof backward / sizeof backward[0]),
                                                apart,      (int)(sizeof apart / sizeof apart[0]),
                                                lay};
