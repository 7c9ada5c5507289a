// mod_parse.h: a caller's expression as a tree, as far as mod_vector.c can make vectors of it. It knows no vectors.
#ifndef CLATTN_ATTENTION_MOD_PARSE_H
#define CLATTN_ATTENTION_MOD_PARSE_H
#include <stdbool.h>

#include <clattn/clattn.h>

#define MOD_NODES 1024
#define MOD_WHY 96 // of a reason, with its end

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
    MOD_LOAD // bufferN(...)
} mod_kind;

// What a number is in C; a bool is what a comparison gives, in C an int of 0 or 1.
typedef enum mod_type { MOD_BOOL, MOD_INT, MOD_UINT, MOD_FLOAT } mod_type;

// What a value depends on.
#define MOD_BY_ROW 1u   // i, row
#define MOD_BY_HEAD 2u  // h
#define MOD_BY_KEY 4u   // j
#define MOD_BY_SCORE 8u // score

typedef struct mod_node {
    mod_kind kind;
    const char *at; // its name, number or operator in the text
    int length;
    int function; // of a call: which of mod_functions; of a load: which buffer
    int part[4], parts;
    mod_type type;
    unsigned by;
    bool constant; // a whole number of the text, which is `value`
    long long value;
} mod_node;

// Functions of OpenCL C by what they take and give.
typedef enum mod_shape {
    MOD_FLOATS,    // floats of floats
    MOD_SAME,      // of whole numbers or floats of one type, that type
    MOD_MAGNITUDE, // abs, abs_diff: of whole numbers, unsigned
    MOD_SELECT,
    MOD_IS // of a float whether
} mod_shape;
typedef struct mod_function {
    const char *name;
    mod_shape shape;
    int parts;
    bool rounds; // its last bit may differ between vectors and numbers
} mod_function;
extern const mod_function cla_mod_functions[];

// A text and the buffers that it may read; the rank of one that is not there is 0.
typedef struct mod_source {
    const char *text;
    struct {
        int rank;
        clattn_type type;
    } buffers[CLATTN_MOD_BUFFERS];
    bool is_mask; // mask_mod: it has no score
} mod_source;

typedef struct mod_tree {
    mod_node nodes[MOD_NODES];
    int count, root;
} mod_tree;

// False: `why` says what in it is not for vectors, or not C at all, which is left to the compiler.
bool cla_mod_parse(const mod_source *source, mod_tree *tree, char why[MOD_WHY]);
#endif
