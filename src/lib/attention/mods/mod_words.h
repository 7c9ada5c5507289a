// mod_words.h: the words of the language of score_mod and mask_mod: names, constants, types, and
// functions of OpenCL C 1.2 (6.12.2, .3, .4, .6) without memory access. The parser (mod_parse.c),
// its error messages and the vector form (mod_vector.c) use this one table. Tests generate
// expressions from it.
#ifndef CLATTN_ATTENTION_MODS_MOD_WORDS_H
#define CLATTN_ATTENTION_MODS_MOD_WORDS_H
#include <stdbool.h>
#include <stddef.h>

// The type of a C number, or of a vector's elements. MOD_BOOL is the result of a comparison, which
// C makes an int of 0 or 1. Each signed type precedes the unsigned type of the same size. Only
// bool, int, uint and float have vector forms.
typedef enum mod_type {
    MOD_BOOL,
    MOD_CHAR,
    MOD_UCHAR,
    MOD_SHORT,
    MOD_USHORT,
    MOD_INT,
    MOD_UINT,
    MOD_LONG,
    MOD_ULONG,
    MOD_FLOAT,
    MOD_DOUBLE
} mod_type;
const char *cla_mod_type_name(mod_type type);

// Bits for the things that a value can depend on.
#define MOD_BY_ROW 1u   // i, row
#define MOD_BY_HEAD 2u  // h
#define MOD_BY_KEY 4u   // j
#define MOD_BY_SCORE 8u // score
#define MOD_BY_CALL 16u // other values not in the text: b, lengths, buffer elements

typedef enum mod_word_kind { WORD_NAME, WORD_CONSTANT, WORD_TYPE, WORD_FUNCTION } mod_word_kind;

// Signatures of OpenCL C's functions.
typedef enum mod_shape {
    MOD_FLOATS,    // floats to float
    MOD_SAME,      // integers or floats of one type, to that type
    MOD_MAGNITUDE, // abs, abs_diff: integers to unsigned
    MOD_SELECT,
    MOD_IS,      // floats to a truth value
    MOD_POWERS,  // a float and an int to a float
    MOD_NUMBERS, // integers to an integer
    MOD_COUNTS,  // ilogb, clz: a number to an int, undefined for some
    MOD_QUIET,   // nan: an integer to a float
    MOD_TRUTH,   // any, all: anything to an int
    MOD_JOINED   // upsample: to an integer of twice the size
} mod_shape;

typedef struct mod_word {
    const char *name;
    mod_word_kind kind;
    mod_type type;   // type of a name, constant or type
    unsigned by;     // for a name: what its value depends on
    mod_shape shape; // signature of a function
    int parts;       // number of arguments
    bool alone;      // has no vector form
    // `rounds`: its last bit may differ between vector and scalar. `own`: for integers mods.clh
    // replaces it, because drivers leave some results undefined.
    bool rounds, own;
} mod_word;
extern const mod_word cla_mod_words[];
extern const size_t cla_mod_word_count;

// Find a word. NULL: unknown, or `score` in a mask_mod.
const mod_word *cla_mod_word_find(const char *at, int length, bool is_mask);
// Parse a type such as float4: returns its width (1 for scalars) and sets *type. 0: not a type.
int cla_mod_type_width(const char *at, int length, mod_type *type);

// convert_TYPE or as_TYPE, with one argument. Width 0: the word is neither.
typedef struct mod_conversion {
    mod_type type; // type of the result
    int width;
    bool same_bits, saturates; // as_TYPE; suffix _sat
    char rounding;             // last letter of _rte, _rtz, _rtp or _rtn; 0: none
} mod_conversion;
mod_conversion cla_mod_conversion(const char *at, int length);
// The most similar word of the language; NULL: none is similar.
const char *cla_mod_word_near(const char *at, int length, bool is_mask);
// OpenCL C's form of a word of Python or flex_attention, such as "&&" for `and`; NULL: none is
// known.
const char *cla_mod_word_meant(const char *at, int length);
#endif
