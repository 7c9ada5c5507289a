// mod_scalar.h: the scalar form of a checked expression, for one score at a time: the caller's
// text, with guards where C leaves the result undefined. The guards are made from macros of
// cl/call/mods.clh.
#ifndef CLATTN_ATTENTION_MODS_MOD_SCALAR_H
#define CLATTN_ATTENTION_MODS_MOD_SCALAR_H
#include "attention/mods/mod_form.h"
#include "attention/mods/mod_parse.h"

// Returns the text, allocated from `host`; NULL: no memory. An unchecked text, or one without
// guards, is unchanged. Appends to `needs` the definitions of the guard functions, each once.
char *cla_mod_scalar(const struct clattn_host_memory *host, const mod_source *source, mod_form *needs);

// Names of guard functions: for a guarded call, and for the conversion of a float to an integer.
// For numbers and vectors.
#define MOD_NAME_SIZE 48
void cla_mod_own_name(const mod_tree *tree, const mod_node *call, char name[MOD_NAME_SIZE]);
void cla_mod_whole_name(const mod_node *real, char name[MOD_NAME_SIZE]);
#endif
