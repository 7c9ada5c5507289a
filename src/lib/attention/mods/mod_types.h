// mod_types.h: the types of an expression's nodes. They decide what has no vector form, what needs
// a guard, and what no compiler accepts. Only mod_parse.c uses this.
#ifndef CLATTN_ATTENTION_MODS_MOD_TYPES_H
#define CLATTN_ATTENTION_MODS_MOD_TYPES_H
#include "attention/mods/mod_parse.h"

typedef struct mod_parser {
    const mod_source *source;
    mod_tree *tree;
    const char *at;
    int depth;
    char *why;        // the first reason against a vector form
    mod_fault *fault; // the error in the expression
} mod_parser;

// Set the fault, unless there is one. Returns -1, which is not a node.
#if defined(__GNUC__) && !defined(__MINGW32__)
__attribute__((__format__(__printf__, 4, 5)))
#endif
int cla_mod_refuse(mod_parser *p, const char *at, int length, const char *format, ...);
// Set the reason against a vector form, unless there is one.
void cla_mod_note(mod_parser *p, const char *reason, const char *at, int length);

// Set a node's type from those of its parts. False: rejected, because no compiler accepts it or its
// type is unknown. A cast's type must already be set. `level` is the precedence of mod_parse.c.
bool cla_mod_type_unary(mod_parser *p, mod_node *x);
bool cla_mod_type_call(mod_parser *p, mod_node *x);
bool cla_mod_type_conversion(mod_parser *p, mod_node *x);
void cla_mod_type_load(mod_parser *p, mod_node *x);
// Convert a number to type `to`. In a vector, a vector of that type is accepted too. False:
// rejected.
bool cla_mod_type_becomes(mod_parser *p, mod_node *x, mod_type to, bool in_vector);
bool cla_mod_type_join(mod_parser *p, mod_node *x, int level);
bool cla_mod_type_choice(mod_parser *p, mod_node *x);
// The unsigned type of the same size; an unsigned or floating type stays itself.
mod_type cla_mod_unsigned(mod_type t);
#endif
