// mod_scalar.h: a checked expression for one score at a time: the caller's text, in which what C leaves open is guarded, and
// what of cl/call/mods.clh the guards are made of.
#ifndef CLATTN_ATTENTION_MODS_MOD_SCALAR_H
#define CLATTN_ATTENTION_MODS_MOD_SCALAR_H
#include "attention/mods/mod_form.h"
#include "attention/mods/mod_parse.h"

// A text from `host` that goes back there; NULL: no memory. One that is not checked, or has nothing to guard, stays as it is.
// The lines of the functions that it needs come to `needs`, each once, which has a text from the same host.
char *cla_mod_scalar(const struct clattn_host_memory *host, const mod_source *source, mod_form *needs);

// The function in place of a guarded call's own, and of a float that becomes whole, of numbers or of vectors.
#define MOD_NAME_SIZE 48
void cla_mod_own_name(const mod_tree *tree, const mod_node *call, char name[MOD_NAME_SIZE]);
void cla_mod_whole_name(const mod_node *real, char name[MOD_NAME_SIZE]);
#endif
