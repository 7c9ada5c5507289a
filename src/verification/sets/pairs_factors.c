// pairs_factors.c: the options of attention for pairs.h as tables: values, pairs that exclude each
// other, and the abilities of the families.
#include "verification/sets/pairs.h"

#include <stddef.h>
#include <string.h>

#define RUN PAIRS_RUN, false
#define RUN_LAID PAIRS_RUN, true
#define COMPILED PAIRS_COMPILED, false
#define COMPILED_LAID PAIRS_COMPILED, true
#define COUNTED PAIRS_COUNTED, false

static const struct pairs_factor attention[] = {
    {"types",
     COMPILED,
     {"f32", "f16", "bf16", "f32-kvf16", "f16-kvf32-outbf16", "bf16-outf32", "f32-kvi8",
      "bf16-kvf8e4m3-outf16", "bf16-kvq8_0", "f16-valuesi8", "f32-kvq8_0-valuesq4_0",
      "f16-kvi4-valuesu4-groups32-scalesf16-zeros"}},
    {"head sizes", COMPILED, {"d64", "d32", "d40", "d128", "d80-dv48", "d33-dv17"}},
    {"heads", COUNTED, {"h2", "h4-hkv2", "h6-hkv2", "h8-hkv1", "h3"}},
    {"batch", RUN, {"b1", "b2", "b3"}},
    // More and fewer rows and keys than tiles of 16 to 128 and a split of 256, and less than one
    // vector.
    {"rows",
     COUNTED,
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
    {"sinks", RUN, {"", "sinks", "sinks-devicesinks"}},
    {"scale", COMPILED, {"", "scalem0.3", "headscales"}},
    {"expressions", COMPILED, {"", "mods-modsread", "mods-modsread-blocks"}},
    {"layout", COMPILED, {"", "bshd", "padded", "spaced", "packed", "scattered"}},
    {"rope",
     RUN,
     {"", "ropehalf", "ropeinterleaved-rotary16-ropepos1000",
      "ropehalf-rotary16-ropescaleyarn-ropefactor4-ropeoriginal32",
      "ropehalf-ropescalellama3-ropefactor8-ropeoriginal64", "ropehalf-positions",
      "ropeinterleaved-rotary24-positions-sectiont4-sectionh4-sectionw4",
      "ropehalf-rotary24-positions-sectiont4-sectionh4-sectionw4-sectionsmixed"}},
    {"outputs",
     RUN,
     {"lse", "", "lse-weights", "weightsf16", "weightsbf16", "scoresraw", "lse-scoressoftcap", "scoresmasked",
      "scoressoftmax"}},
    {"splits", RUN, {"", "splits1", "splits3", "splits7"}},
    {"keys lie",
     COMPILED_LAID,
     {"", "pages16", "pages7", "past", "past-lengths", "past-shared", "past-cascade"}},
    {"values", COMPILED_LAID, {"", "latent"}},
    {"rotation", RUN, {"", "krotation8-vrotation8", "krotation4", "vrotation4"}},
    // Laid after the options that place the keys.
    {"new rows", RUN_LAID, {"", "append1", "appendall"}},
    {"ragged",
     COMPILED,
     {"", "raggedhost", "raggeddevice", "raggedgaps", "raggedgapsdevice", "raggedcache",
      "raggedcachedevice"}},
    {"dropout", COMPILED, {"", "dropout0.3:7"}},
    {"contents", RUN, {"", "unseennan", "huge", "hugeneg", "dominant", "seennan", "rownan"}},
};
_Static_assert(sizeof attention / sizeof attention[0] <= PAIRS_MOST_FACTORS, "rows have room for all");

const struct pairs_refused pairs_refused[] = {
    {"past", "pages", "block_table: not with past_k", CLATTN_UNSUPPORTED},
    // Ragged keys; for a cache, only queries are ragged.
    {"raggedhost", "pages", "keys lie in pages, not packed", CLATTN_INVALID_ARGUMENT},
    {"raggeddevice", "pages", "keys lie in pages, not packed", CLATTN_INVALID_ARGUMENT},
    {"raggedgaps", "pages", "keys lie in pages, not packed", CLATTN_INVALID_ARGUMENT},
    {"raggedhost", "append", "k_new goes to caches", CLATTN_INVALID_ARGUMENT},
    {"raggeddevice", "append", "k_new goes to caches", CLATTN_INVALID_ARGUMENT},
    {"raggedgaps", "append", "k_new goes to caches", CLATTN_INVALID_ARGUMENT},
    {"rope", "kvi8", "rope of i8 keys", CLATTN_UNSUPPORTED},
    {"rope", "kvf8", "rope of i8 keys", CLATTN_UNSUPPORTED},
    {"rope", "kvq", "rope of i8 keys, float8 ones, those of 4 bits and of blocks", CLATTN_UNSUPPORTED},
    {"rope", "kvi4", "rope of i8 keys, float8 ones, those of 4 bits", CLATTN_UNSUPPORTED},
    {"rope", "krotation", "rope of rotated keys", CLATTN_UNSUPPORTED},
};
const int pairs_refused_count = (int)(sizeof pairs_refused / sizeof pairs_refused[0]);

// Pairs of tokens that no case has.
static const char *const apart[][2] = {
    {"packed", "nkv"}, // one buffer has one size and type
    {"packed", "dv"},
    {"packed", "kvf"},
    {"packed", "kvi"},
    {"packed", "kvq"},
    {"packed", "values"},
    {"latent", "values"}, // the values are part of the keys
    {"kvq", "d40"},       // whole blocks
    {"kvq", "d80"},
    {"kvq", "d33"},
    {"groups", "d40"}, // whole groups
    {"groups", "d80"},
    {"groups", "d33"},
    {"zeros", "huge"},
    {"kvq", "huge"},     // a float16 scale cannot represent these numbers
    {"packed", "pages"}, // one buffer contains no other tensor
    {"packed", "past"},
    {"packed", "append"},
    {"packed", "latent"},
    {"packed", "ragged"},
    {"ragged", "append1"}, // as many new rows as query rows
    {"ropehalf", "d33"},   // an odd number of columns has no pairs
    {"krotation", "d33"},
    {"vrotation", "d33"},
    {"latent", "krotation4"}, // values are a view of the keys
    {"latent", "vrotation4"},
    {"cascade",
     // A shared past that is read once: excluded by clattn_cascade's conditions; past-shared covers
     // these.
     "b1"},
    {"cascade", "topleft"},
    {"cascade", "offset20"},
    {"cascade", "offsetm9"},
    {"cascade", "offsets"},
    {"cascade", "window"},
    {"cascade", "alibi"},
    {"cascade", "headscales"},
    {"cascade", "mods"},
    {"cascade", "blocks"},
    {"cascade", "spaced"},
    {"cascade", "weights"},
    {"cascade", "scores"},
    {"cascade", "splits"},
    {"cascade", "ragged"},
    {"cascade", "dropout"},
    {"infbias", "seennan"}, // a case has one kind of contents
    {"infbias", "unseennan"},
    {"infbias", "rownan"},
    // The rounding of equal or large scores exceeds the terms that these options add.
    {"huge", "bias"},
    {"huge", "sinks"}, // only float32 can represent the weights
    {"dominant", "sinks"},
    {"huge", "alibi"},
    {"huge",
     // Equal keys are equal values: their mean has a rounding error that the plain computation does
     // not have.
     "latent"},
    {"huge", "rope"},
    {"dominant", "bias"},
    {"dominant", "alibi"},
    {"dominant", "rope"},
    {"huge", "krotation"},
    {"dominant", "krotation"},
};

// Place the keys of a case by a word: in pages, in past and new rows, or as a latent; and set the
// number of appended keys. The numbers follow from the case's sizes, which are adjusted to fit.
static void lay_pages(struct test_case *t, int64_t page_size) {
    t->page_size = page_size;
    t->n_kv = (t->n_kv + page_size - 1) / page_size * page_size;
}

// Two thirds of the keys are past ones. With `lengths`, the first item has all of the past, the
// second none, the third half, and so on.
static void lay_past(struct test_case *t, bool lengths, bool shared) {
    t->has_past = true;
    t->past = (2 * t->n_kv + 2) / 3;
    t->past_shared = shared;
    t->past_count = lengths ? (int)t->batch : 0;
    for (int b = 0; b < t->past_count; b++)
        t->past_length[b] = b % 3 == 0 ? (double)t->past : b % 3 == 1 ? 0 : (double)(t->past / 2);
}

// A past that all rows see by their positions, so that it can be read once. Each item has its own
// keys after it.
static void lay_prefix(struct test_case *t) {
    const int64_t own = t->n_q + 5;
    int32_t lengths[CASE_GIVEN_MOST] = {0};
    if (t->n_kv < own + 15) t->n_kv = own + 15;
    lay_past(t, false, true);
    if (t->past > t->n_kv - own) t->past = t->n_kv - own;
    t->cascade = CASE_CASCADE_TRY;
    for (int64_t b = 0; b < t->batch && b < CASE_GIVEN_MOST; b++)
        lengths[b] = (int32_t)(t->n_kv - (3 * b + (int64_t)(t->seed % 5)) % 6);
    if (t->hosts & CASE_HOST_BIT(CASE_KV_LENGTHS)) case_give(t, CASE_KV_LENGTHS, (int)t->batch, lengths);
}

// Appended rows are among an item's keys after its past. A ragged batch appends as many as an item
// has query rows.
static void lay_append(struct test_case *t, int64_t rows) {
    const int64_t most = t->n_kv - t->past, page = t->page_size > 0 ? t->page_size : 1;
    const bool given = t->given[CASE_KV_LENGTHS].count > 0;
    if (t->ragged && most < rows) t->n_kv = (t->past + rows + page - 1) / page * page;
    t->append = (int32_t)(rows < t->n_kv - t->past ? rows : t->n_kv - t->past);
    for (int b = 0; given && b < t->batch; b++)
        if (t->given[CASE_KV_LENGTHS].x[b] < (double)(t->past + t->append))
            t->given[CASE_KV_LENGTHS].x[b] = (double)(t->past + t->append);
}

static void lay(struct test_case *t, const char *word) {
    if (strncmp(word, "pages", 5) == 0)
        lay_pages(t, strcmp(word, "pages7") == 0 ? 7 : 16);
    else if (strcmp(word, "past-cascade") == 0)
        lay_prefix(t);
    else if (strncmp(word, "past", 4) == 0)
        lay_past(t, strcmp(word, "past-lengths") == 0, strcmp(word, "past-shared") == 0);
    else if (strncmp(word, "append", 6) == 0)
        lay_append(t, strcmp(word, "appendall") == 0 ? t->n_q : 1);
    else if (strcmp(word, "latent") == 0)
        t->latent = true;
}

const struct pairs_options pairs_of_attention = {"attend",  500,
                                                 attention, (int)(sizeof attention / sizeof attention[0]),
                                                 apart,     (int)(sizeof apart / sizeof apart[0]),
                                                 lay};

const char *const pairs_families[] = {"planner", "unfused", "flash",    "matrix", "matrix_integers",
                                      "decode",  "rows",    "backward", "layer",  NULL};
enum { PLANNER, UNFUSED, FLASH, MATRIX, MATRIX_INTEGERS, DECODE, ROWS, BACKWARD, LAYER };
#define ALL ((1u << BACKWARD) - 1) // families that run attention
#define ALL_BUT(family) (ALL & ~(1u << (family)))
#define DECODES (1u << DECODE | 1u << ROWS)

// Tokens that these families (a bit each) do not support.
static const struct {
    unsigned families;
    const char *token;
} lacks[] = {
    {ALL_BUT(DECODE) & ALL_BUT(ROWS), "splits"},
    {ALL_BUT(PLANNER) & ALL_BUT(UNFUSED), "weights"},
    {ALL_BUT(PLANNER) & ALL_BUT(UNFUSED), "scores"},
    {DECODES, "n65"}, // at most 16 rows
    {DECODES, "n33"},
    {DECODES, "n130"},
    {DECODES, "n97"},
    {1u << MATRIX, "f32"},
    {1u << MATRIX, "f16"},
    {1u << MATRIX, "kvi8"},
    {1u << MATRIX, "kvf8"},
    {1u << MATRIX, "kvq"},
    {1u << MATRIX, "kvi4"},
    {1u << MATRIX_INTEGERS, "rope"}, // with kvi8, no call supports this
    {1u << MATRIX_INTEGERS, "packed"},
    {1u << UNFUSED, "cascade"},
    {1u << ROWS, "bias"}, // options that differ between the rows of a vector
    {1u << ROWS, "mask"},
    {1u << ROWS, "alibi"},
    {1u << ROWS, "headscales"},
    {1u << ROWS, "mods"},
    {1u << ROWS, "blocks"},
    {1u << ROWS, "dropout"},
    {1u << ROWS, "ragged"},
    {1u << ROWS, "infbias"},
};

// Options of which these families support only the values with this token.
static const struct {
    unsigned families;
    const char *option, *token;
} only[] = {
    {1u << MATRIX_INTEGERS, "types", "kvi8"},
};

// Pairs of tokens that these families do not support together.
static const struct {
    unsigned families;
    const char *token[2];
} seconds[] = {
    // Two kernels round a score of 6e6 differently, by half a unit each. A hard case covers both
    // parts with one kernel.
    {1u << PLANNER, {"cascade", "huge"}},
    {1u << MATRIX_INTEGERS, {"past", "mods"}}, // and kvi8: see below
};

// Triples of tokens that these families do not support, although they support every two of them.
static const struct {
    unsigned families;
    const char *token[3];
} thirds[] = {
    // Needs more kernel arguments than every device supports.
    {ALL_BUT(PLANNER) & ALL_BUT(UNFUSED), {"past", "kvi8", "mods"}},
    {ALL_BUT(PLANNER) & ALL_BUT(UNFUSED), {"past", "kvi4", "mods"}},
    {ALL_BUT(PLANNER) & ALL_BUT(UNFUSED), {"past", "kvf8", "mods"}},
    {ALL_BUT(PLANNER) & ALL_BUT(UNFUSED), {"past", "valuesi8", "mods"}},
    {ALL, {"rope", "latent", "append"}}, // RoPE would also be applied to the values
};

// True if a token of the level begins with this token.
static bool has_token(const char *level, const char *token) {
    const size_t n = strlen(token);
    for (; level != NULL; level = strchr(level, '-')) {
        level += *level == '-';
        // A key may be followed by its value. "n1" does not match "n130".
        const bool number = token[n - 1] >= '0' && token[n - 1] <= '9';
        if (strncmp(level, token, n) == 0 && !(number && level[n] >= '0' && level[n] <= '9')) return true;
    }
    return false;
}

const struct pairs_options *pairs_options_of(int family) {
    return family == LAYER ? &pairs_of_layer : family == BACKWARD ? &pairs_of_backward : &pairs_of_attention;
}

static const char *level_of(int family, int factor, int level) {
    return pairs_options_of(family)->factors[factor].levels[level];
}

int pairs_level_count(const struct pairs_options *options, int factor) {
    int n = 0;
    while (n < PAIRS_MOST_LEVELS && options->factors[factor].levels[n] != NULL) n++;
    return n;
}

bool pairs_is_compiled(int family, int factor) {
    const enum pairs_when when = pairs_options_of(family)->factors[factor].when;
    return when == PAIRS_COMPILED || (when == PAIRS_COUNTED && (DECODES | 1u << LAYER) >> family & 1);
}

bool pairs_has(int family, int factor, int level) {
    for (size_t n = 0; n < sizeof lacks / sizeof lacks[0]; n++)
        if (lacks[n].families >> family & 1 && has_token(level_of(family, factor, level), lacks[n].token))
            return false;
    for (size_t n = 0; n < sizeof only / sizeof only[0]; n++)
        if (only[n].families >> family & 1 &&
            strcmp(pairs_options_of(family)->factors[factor].name, only[n].option) == 0 &&
            !has_token(level_of(family, factor, level), only[n].token))
            return false;
    return true;
}

static bool are_both(const char *a, const char *b, const char *token_a, const char *token_b) {
    return (has_token(a, token_a) && has_token(b, token_b)) ||
           (has_token(b, token_a) && has_token(a, token_b));
}

bool pairs_meet(int family, int factor_a, int level_a, int factor_b, int level_b) {
    const char *a = level_of(family, factor_a, level_a), *b = level_of(family, factor_b, level_b);
    const struct pairs_options *o = pairs_options_of(family);
    if (!pairs_has(family, factor_a, level_a) || !pairs_has(family, factor_b, level_b)) return false;
    for (int n = 0; n < o->apart_count; n++)
        if (are_both(a, b, o->apart[n][0], o->apart[n][1])) return false;
    for (size_t n = 0; n < sizeof seconds / sizeof seconds[0]; n++)
        if (seconds[n].families >> family & 1 && are_both(a, b, seconds[n].token[0], seconds[n].token[1]))
            return false;
    for (int n = 0; o == &pairs_of_attention && n < pairs_refused_count; n++)
        if (are_both(a, b, pairs_refused[n].token_a, pairs_refused[n].token_b)) return false;
    return true;
}

unsigned pairs_thirds(int family, int factor, int level) {
    unsigned bits = 0;
    for (size_t n = 0; n < 3 * sizeof thirds / sizeof thirds[0]; n++)
        if (thirds[n / 3].families >> family & 1 &&
            has_token(level_of(family, factor, level), thirds[n / 3].token[n % 3]))
            bits |= 1u << n;
    return bits;
}

bool pairs_is_third(unsigned bits) {
    for (size_t n = 0; n < sizeof thirds / sizeof thirds[0]; n++)
        if ((bits >> 3 * n & 7) == 7) return true;
    return false;
}

clattn_kernel pairs_kernel(int family) {
    static const clattn_kernel kernels[] = {CLATTN_KERNEL_AUTO,   CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_FLASH,
                                            CLATTN_KERNEL_FLASH,  CLATTN_KERNEL_FLASH,   CLATTN_KERNEL_DECODE,
                                            CLATTN_KERNEL_DECODE, CLATTN_KERNEL_AUTO,    CLATTN_KERNEL_AUTO};
    return kernels[family];
}
