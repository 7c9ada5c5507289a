// mod_words.h: the words of the language of score_mod and mask_mod: names, constants, types and functions of OpenCL C 1.2
// (6.12.2, .3, .4, .6) that neither write nor read memory. The one table that the parser (mod_parse.c), its refusals and the
// vector form (mod_vector.c) go by; tests make texts of it. It knows no text.
#ifndef CLATTN_ATTENTION_MODS_MOD_WORDS_H
#define CLATTN_ATTENTION_MODS_MOD_WORDS_H
#include <stdbool.h>
#include <stddef.h>

// The type of a number in C, and of the numbers of a vector; a bool is what a comparison gives, in C an int of 0 or 1. Each
// signed type stands before the unsigned one of its size. There are vector forms of bool, int, uint and float alone.
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

// The things that a value can depend on.
#define MOD_BY_ROW 1u   // i, row
#define MOD_BY_HEAD 2u  // h
#define MOD_BY_KEY 4u   // j
#define MOD_BY_SCORE 8u // score
#define MOD_BY_CALL 16u // anything else that is not in the text, such as b or an element of a buffer

typedef enum mod_word_kind { WORD_NAME, WORD_CONSTANT, WORD_TYPE, WORD_FUNCTION } mod_word_kind;

// Functions of OpenCL C by what they take and give.
typedef enum mod_shape {
    MOD_FLOATS,    // floats of floats
    MOD_SAME,      // of whole numbers or floats of one type, that type
    MOD_MAGNITUDE, // abs, abs_diff: of whole numbers, unsigned
    MOD_SELECT,
    MOD_IS,      // of floats whether
    MOD_POWERS,  // a float of a float and an int
    MOD_NUMBERS, // a whole number of whole numbers
    MOD_COUNTS,  // ilogb, clz: an int of one number; for some there is none
    MOD_QUIET,   // nan: a float of a whole number
    MOD_TRUTH,   // any, all: an int of anything
    MOD_JOINED   // upsample: a larger whole number
} mod_shape;

typedef struct mod_word {
    const char *name;
    mod_word_kind kind;
    mod_type type;   // of a name, a constant or a type
    unsigned by;     // of a name
    mod_shape shape; // of a function,
    int parts;       // how many numbers it takes,
    bool alone;      // whether there is no vector form of it,
    bool rounds,     // whether its last bit may differ between vectors and numbers,
        own;         // and whether its function is ours where it is of whole numbers (mods.clh): drivers'
                     // leave open what it gives for some
} mod_word;
extern const mod_word cla_mod_words[];
extern const size_t cla_mod_word_count;

// The word that is written there; NULL: none, or none of a mask_mod, which has no score.
const mod_word *cla_mod_word_find(const char *at, int length, bool is_mask);
// A type such as float4 as the number of its parts, 1 of a plain one, and their type; 0: it is no type.
int cla_mod_type_width(const char *at, int length, mod_type *type);

// convert_TYPE or as_TYPE, which takes one part; the width of its type is 0 where it is neither.
typedef struct mod_conversion {
    mod_type type; // of what it gives
    int width;
    bool same_bits, saturates; // as_; _sat
    char rounding;             // the last letter of _rte, _rtz, _rtp or _rtn, or 0
} mod_conversion;
mod_conversion cla_mod_conversion(const char *at, int length);
// The word nearest to one that is none; NULL: none is near.
const char *cla_mod_word_near(const char *at, int length, bool is_mask);
// Returns OpenCL C's form of a word of Python or of flex_attention's arguments, such as "&&" for `and`; NULL: none is known.
const char *cla_mod_word_meant(const char *at, int length);
#endif
