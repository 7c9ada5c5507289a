// mod_derive.h: the derivative of a caller's score_mod by `score`, as a text in the same language.
#ifndef CLATTN_ATTENTION_MODS_MOD_DERIVE_H
#define CLATTN_ATTENTION_MODS_MOD_DERIVE_H
#include "attention/mods/mod_parse.h"

struct clattn_host_memory;

// Returns the derivative, allocated from `host` (base/host.h), which cla_mod_parse accepts for the
// same source. NULL: `fault` says which part has no derivative and why. If the derivative is too
// large, fault->at is NULL. If memory ran out, fault->why is empty.
char *cla_mod_derive(const struct clattn_host_memory *host, const mod_source *source, mod_fault *fault);
#endif
