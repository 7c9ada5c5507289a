// mod_parse.h: parse a caller's expression to a tree. An expression outside the language
// (mod_words.h) is rejected with its place. The tree has what mod_vector.c needs to write a vector
// form.
#ifndef CLATTN_ATTENTION_MODS_MOD_PARSE_H
#define CLATTN_ATTENTION_MODS_MOD_PARSE_H
#include <clattn/clattn.h>

#include "attention/mods/mod_words.h"

// Limits of an expression. It is compiled on the caller's thread, whose stack may be 512 KiB
// (tests/mods/test_mods_checked.c).
#define MOD_TOKENS 1024 // words, numbers, operators and brackets
#define MOD_PREFIXES 32 // consecutive prefix operators and casts
#define MOD_NESTED 40   // nested brackets, prefixes and middle parts of ?:
#define MOD_NODES 1024  // at most one per token
#define MOD_WHY 96      // size of a reason, with its terminator
#define MOD_FAULT 256

typedef enum mod_kind {
    MOD_NUMBER,
    MOD_NAME,   // b, h, i, j, row, q_length, kv_length, score, or a constant
    MOD_UNARY,  // - + ! ~
    MOD_BINARY, // all except && and ||
    MOD_AND,
    MOD_OR,
    MOD_CHOICE, // a ? b : c
    MOD_CAST,
    MOD_CALL,
    MOD_LOAD,   // bufferN(...)
    MOD_SCALARS // anything without a vector form
} mod_kind;

// Operations of a checked expression that need a guard, because a compiler assumes that undefined
// behaviour never happens. DIVISION: an integer division by a value that may be 0 or -1. WRAP:
// signed + - * and negation, which may overflow. CALL: a function that drivers may leave undefined
// for some values.
typedef enum mod_guard { GUARD_NONE, GUARD_DIVISION, GUARD_WRAP, GUARD_CALL } mod_guard;

typedef struct mod_node {
    mod_kind kind;
    const char *at; // its name, number or operator in the text
    int length;
    const char *from, *to;     // the whole text of the node
    const char *open, *close;  // the node's text with surrounding brackets
    const mod_word *function;  // function of a call; NULL: a conversion
    mod_conversion conversion; // the conversion; for a function: its operand type
    int buffer;                // buffer that a load reads
    int part[4], parts;
    mod_type type;
    int width; // elements of a vector, or 1
    unsigned by;
    bool constant; // an integer literal of value `value`
    long long value;
    mod_guard guard;
    // The operator or call around this node computes with type `of` (unsigned for GUARD_WRAP) and
    // of_width elements.
    bool is_part;
    mod_type of;
    int of_width;
    // A float or double that is converted to the integer type `whole`.
    bool leaves_real;
    mod_type whole;
} mod_node;

// An expression and the buffers it may read. An absent buffer has rank 0.
typedef struct mod_source {
    const char *text;
    struct {
        int rank;
        clattn_type type;
    } buffers[CLATTN_MOD_BUFFERS];
    const char *name; // for messages
    bool is_mask;     // mask_mod: has no `score`
    bool is_gradient; // score_mod_gradient: score_mod's derivative
    bool checked;     // the context is not mods_unchecked, so add guards
} mod_source;

typedef struct mod_tree {
    mod_node nodes[MOD_NODES];
    int count, root;
} mod_tree;

// The place where an expression leaves the language, and the reason.
typedef struct mod_fault {
    const char *at;
    int length; // length of the text at `at`
    char why[MOD_FAULT];
} mod_fault;

// Parse. False: the text is not in the language, and `fault` says where. True: `why` is empty if
// the whole expression has a vector form, else it names the obstacle.
bool cla_mod_parse(const mod_source *source, mod_tree *tree, mod_fault *fault, char why[MOD_WHY]);
#endif
