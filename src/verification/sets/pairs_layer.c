// pairs_layer.c: the options of a whole layer for pairs.h as tables: values, and pairs that exclude
// each other. Some values are words that change a case: the source of its keys, when the keys are
// computed, and how the batch is packed. Options of attention alone are one option here, because
// pairs_factors.c covers their pairs.
#include <string.h>

#include "verification/sets/pairs.h"

#define RUN PAIRS_RUN, false
#define RUN_LAID PAIRS_RUN, true
#define COMPILED PAIRS_COMPILED, false
#define COUNTED PAIRS_COUNTED, false

static const struct pairs_factor layer[] = {
    {"types",
     COMPILED,
     {"f32", "f16", "bf16", "f32-matrixbf16", "f32-matrixf16-vectorbf16", "bf16-matrixf32", "bf16-vectorf32",
      "f16-matrixbf16-vectorf32"}},
    {"head sizes", COMPILED, {"d16", "d32", "d64", "d24-dv40", "d33-dv17"}},
    {"model widths", RUN, {"m48", "m64-mo40", "m33-mo7", "m130"}},
    {"heads", COUNTED, {"h4", "h4-hkv2", "h6-hkv1", "h3", "h1"}},
    {"batch", RUN, {"b2", "b1", "b3"}},
    {"rows", COUNTED, {"n19", "n1", "n6", "n37", "n70"}},
    {"keys",
     RUN_LAID,
     {"cross", "own", "crosslong", "readycross", "readyown", "appendown", "appendall", "appendcross"}},
    {"positions",
     RUN,
     {"full", "causal", "causal-topleft", "causal-offset3", "full-bottomright", "causal-offsets"}},
    {"window", RUN, {"", "window5:3", "windowm1:2"}},
    {"key lengths", RUN, {"", "kvlen"}},
    {"row lengths", RUN, {"", "qlen"}},
    {"biases", RUN, {"biases", "", "biasesq", "biaseskv", "biaseso", "biasesqvo"}},
    {"norm",
     RUN,
     {"", "normheads", "normwidth", "normheads-normplain", "normwidth-normplus-normeps0.01",
      "normheads-normplus", "normwidth-normplain"}},
    {"gate", RUN, {"", "gateheads", "gateall", "gateheads-gatebias", "gateall-gatebias"}},
    {"rope",
     RUN,
     {"", "ropehalf", "ropeinterleaved-rotary8-ropepos1000",
      "ropehalf-rotary8-ropescaleyarn-ropefactor4-ropeoriginal32",
      "ropehalf-ropescalellama3-ropefactor8-ropeoriginal64", "ropeinterleaved-ropescalelinear-ropefactor2",
      "ropehalf-positions", "ropeinterleaved-rotary12-positions-sectiont2-sectionh2-sectionw2",
      "ropehalf-rotary12-positions-sectiont2-sectionh2-sectionw2-sectionsmixed"}},
    {"scores",
     COMPILED,
     {"", "softcap1.5", "biasqk", "maskqk", "alibi", "alibi-mods-modsread", "scalem0.1", "dropout0.3:7"}},
    {"sinks", RUN, {"", "sinks", "sinks-devicesinks"}},
    {"projections", RUN, {"", "native"}},
    {"precision", RUN, {"", "split"}},
    {"weights", RUN, {"", "packed"}},
    {"layout", RUN, {"", "padded", "spaced", "scattered"}},
    {"outputs", RUN, {"", "weights", "weightsbf16", "scoresraw", "scoressoftmax"}},
    {"ragged",
     RUN_LAID,
     {"dense", "raggedhost", "raggeddevice", "raggedgaps", "raggedcache", "raggedcachedevice"}},
};
_Static_assert(sizeof layer / sizeof layer[0] <= PAIRS_MOST_FACTORS, "rows have room for all");

static const char *const apart[][2] = {
    {"ropehalf", "d33"}, // an odd number of columns has no pairs
    {"ropeinterleaved-ropescalelinear", "d33"},
    {"own", "raggedcache"}, // keys computed from x are packed like x
    {"own", "raggedgaps"},  // and have the same count
    {"readycross", "ragged"},
    {"readyown", "ragged"},
    {"appendown", "raggedhost"}, // caches are not packed
    {"appendown", "raggeddevice"},
    {"appendown", "raggedgaps"},
    {"appendall", "raggedhost"},
    {"appendall", "raggeddevice"},
    {"appendall", "raggedgaps"},
    {"appendcross", "ragged"},
};

// Set equal query and key lengths, a different one for each item: the keys are computed from x.
static void give_same_lengths(struct test_case *t) {
    int32_t lengths[CASE_GIVEN_MOST];
    for (int b = 0; b < t->batch; b++)
        lengths[b] = b % 3 == 1 ? (int32_t)(t->seed % 2) : (int32_t)(t->n_q - b * (t->n_q / 4));
    case_give(t, CASE_Q_LENGTHS, (int)t->batch, lengths);
    case_give(t, CASE_KV_LENGTHS, (int)t->batch, lengths);
}

static void lay_keys(struct test_case *t, const char *word) {
    const bool own = strstr(word, "own") != NULL || strcmp(word, "appendall") == 0;
    const int64_t more = strcmp(word, "crosslong") == 0 ? 150 : 23;
    const bool append = strncmp(word, "append", 6) == 0;
    t->width_y = own ? 0 : 40;
    t->n_kv = t->n_q + (append && strcmp(word, "appendall") != 0 ? more : own ? 0 : more - 20);
    t->ready = strncmp(word, "ready", 5) == 0;
    t->append = !append ? 0 : own ? (int32_t)t->n_q : 3;
}

static void lay(struct test_case *t, const char *word) {
    static const struct {
        const char *word;
        case_ragged ragged;
    } kinds[] = {{"dense", CASE_DENSE},
                 {"raggedhost", CASE_RAGGED_HOST},
                 {"raggeddevice", CASE_RAGGED_DEVICE},
                 {"raggedgaps", CASE_RAGGED_GAPS},
                 {"raggedcache", CASE_RAGGED_CACHE},
                 {"raggedcachedevice", CASE_RAGGED_CACHE_DEVICE}};
    int n = 0;
    while (n < (int)(sizeof kinds / sizeof kinds[0]) && strcmp(kinds[n].word, word) != 0) n++;
    if (n == (int)(sizeof kinds / sizeof kinds[0])) {
        lay_keys(t, word);
        return;
    }
    t->ragged = kinds[n].ragged;
    if (t->ragged && t->width_y == 0 && !t->append) give_same_lengths(t);
}

const struct pairs_options pairs_of_layer = {
    "layer", 300, layer, (int)(sizeof layer / sizeof layer[0]), apart, (int)(sizeof apart / sizeof apart[0]),
    lay};
