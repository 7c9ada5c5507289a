// mod_types.h: the types of an expression's parts, and what follows from them: what is not for vectors, what needs a guard, and what
// no compiler takes. Used by mod_parse.c alone.
#ifndef CLATTN_ATTENTION_MODS_MOD_TYPES_H
#define CLATTN_ATTENTION_MODS_MOD_TYPES_H
#include "attention/mods/mod_parse.h"

typedef struct mod_parser {
    const mod_source *source;
    mod_tree *tree;
    const char *at;
    int depth;
    char *why;        // not for vectors: the first reason counts
    mod_fault *fault; // no expression
} mod_parser;

// Returns no node.
#if defined(__GNUC__) && !defined(__MINGW32__)
__attribute__((__format__(__printf__, 4, 5)))
#endif
int cla_mod_refuse(mod_parser *p, const char *at, int length, const char *format, ...);
void cla_mod_note(mod_parser *p, const char *reason, const char *at, int length);

// The node's own, from those of its parts; false: refused, as no compiler takes it, or as no type of it is known. A cast's type is
// set before; a binary operator binds by `level` as in mod_parse.c.
bool cla_mod_type_unary(mod_parser *p, mod_node *x);
bool cla_mod_type_call(mod_parser *p, mod_node *x);
bool cla_mod_type_conversion(mod_parser *p, mod_node *x);
void cla_mod_type_load(mod_parser *p, mod_node *x);
// A number becomes one of another type, in a vector of which it may be a vector of that type; or is refused.
bool cla_mod_type_becomes(mod_parser *p, mod_node *x, mod_type to, bool in_vector);
bool cla_mod_type_join(mod_parser *p, mod_node *x, int level);
bool cla_mod_type_choice(mod_parser *p, mod_node *x);
// The unsigned type of the size of a signed one, and itself of any other.
mod_type cla_mod_unsigned(mod_type t);
#endif
