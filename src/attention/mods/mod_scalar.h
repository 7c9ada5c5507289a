// mod_scalar.h: a checked expression for one score at a time: the caller's text, in which what C leaves open is guarded.
#ifndef CLATTN_ATTENTION_MODS_MOD_SCALAR_H
#define CLATTN_ATTENTION_MODS_MOD_SCALAR_H
#include "attention/mods/mod_parse.h"

struct clattn_host_memory;

// A text from `host` that goes back there; NULL: no memory. One that is not checked, or has nothing to guard, stays as it is.
char *cla_mod_scalar(const struct clattn_host_memory *host, const mod_source *source);
#endif
