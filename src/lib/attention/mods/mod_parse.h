// mod_parse.h: a caller's expression as a tree. What is no expression of the language (mod_words.h) is refused with its place; of
// what is, the tree tells what mod_vector.c can make vectors of. It knows no vectors.
#ifndef CLATTN_ATTENTION_MODS_MOD_PARSE_H
#define CLATTN_ATTENTION_MODS_MOD_PARSE_H
#include <clattn/clattn.h>

#include "attention/mods/mod_words.h"

// The most that an expression may have: it is compiled on the caller's thread, whose stack may be 512 KiB (tests/mods/test_mods_checked.c).
#define MOD_TOKENS 1024 // words, numbers, operators and brackets
#define MOD_PREFIXES 32 // operators and casts in front of one another
#define MOD_NESTED 40   // brackets, prefixes and middles of choices in one another
#define MOD_NODES 1024  // never more than tokens
#define MOD_WHY 96      // of a reason, with its end
#define MOD_FAULT 256

typedef enum mod_kind {
    MOD_NUMBER,
    MOD_NAME,   // b, h, i, j, row, q_length, kv_length, score, or a constant
    MOD_UNARY,  // - + ! ~
    MOD_BINARY, // all others but && and ||
    MOD_AND,
    MOD_OR,
    MOD_CHOICE, // a ? b : c
    MOD_CAST,
    MOD_CALL,
    MOD_LOAD,   // bufferN(...)
    MOD_SCALARS // anything that has no vector form
} mod_kind;

// The operations of a checked expression that are guarded, because a compiler assumes that what C does not define never happens: a
// division of whole numbers by what may be 0 or -1; + - * and the sign of signed ones, which may leave their type; a call whose
// numbers a driver's function may not be defined for.
typedef enum mod_guard { GUARD_NONE, GUARD_DIVISION, GUARD_WRAP, GUARD_CALL } mod_guard;

typedef struct mod_node {
    mod_kind kind;
    const char *at; // its name, number or operator in the text
    int length;
    const char *from, *to;     // all of it
    const char *open, *close;  // with the brackets around it
    const mod_word *function;  // of a call; NULL: a conversion,
    mod_conversion conversion; // which is this; of a function, the type that it takes
    int buffer;                // of a load
    int part[4], parts;
    mod_type type;
    int width; // parts of a vector, or 1
    unsigned by;
    bool constant; // a whole number of the text, which is `value`
    long long value;
    mod_guard guard;
    bool is_part;     // it becomes
    mod_type of;      // a part of an operator or call that counts with this type, where it is a number; of
    int of_width;     // GUARD_WRAP the unsigned one
    bool leaves_real; // it is a float or double that becomes
    mod_type whole;   // a whole number of this type
} mod_node;

// A text and the buffers that it may read; the rank of one that is not there is 0.
typedef struct mod_source {
    const char *text;
    struct {
        int rank;
        clattn_type type;
    } buffers[CLATTN_MOD_BUFFERS];
    const char *name; // in messages
    bool is_mask;     // mask_mod: it has no score
    bool is_gradient; // score_mod_gradient: score_mod's derivative
    bool checked;     // and so guarded: mods_unchecked was not asked for
} mod_source;

typedef struct mod_tree {
    mod_node nodes[MOD_NODES];
    int count, root;
} mod_tree;

// Where a text leaves the language, and why.
typedef struct mod_fault {
    const char *at;
    int length; // of what is there
    char why[MOD_FAULT];
} mod_fault;

// False: it is no expression of the language, `fault` says where; without a tree in which that is so, `why` says what of it is
// not for vectors, and is empty where all is.
bool cla_mod_parse(const mod_source *source, mod_tree *tree, mod_fault *fault, char why[MOD_WHY]);
#endif
