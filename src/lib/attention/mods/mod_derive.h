// mod_derive.h: the derivative of a caller's score_mod by `score`, as a text of the same language.
#ifndef CLATTN_ATTENTION_MODS_MOD_DERIVE_H
#define CLATTN_ATTENTION_MODS_MOD_DERIVE_H
#include "attention/mods/mod_parse.h"

struct clattn_host_memory;

// A text from `host` (base/host.h) that goes back there, which cla_mod_parse accepts for the same source. NULL: `fault` says what of the
// text has no derivative here and why; its place is NULL where it is the derivative that is too large, and its reason is empty where
// memory ran out.
char *cla_mod_derive(const struct clattn_host_memory *host, const mod_source *source, mod_fault *fault);
#endif
