// mod_vector.h: the vector form of an expression: OpenCL C with the same operations in the same
// order. If it is not certain to be equivalent, there is no vector form: the scalar form runs lane
// by lane, and the plan says why. Pure text, no OpenCL.
#ifndef CLATTN_ATTENTION_MODS_MOD_VECTOR_H
#define CLATTN_ATTENTION_MODS_MOD_VECTOR_H
#include "attention/mods/mod_parse.h"

// The meaning of a vector's lanes, as MOD_LANES in cl/call/mods.clh.
#define MOD_LANES_ROWS 1  // adjacent query rows of one head, one key
#define MOD_LANES_HEADS 2 // query rows of several heads, one key
#define MOD_LANES_KEYS 3  // adjacent keys, one query row
#define MOD_LANES_MOST 3

struct clattn_host_memory;

// Returns the text, allocated from `host` (base/host.h). It defines struct own_NAME_kept,
// own_NAME_begin, which loads into that struct what does not depend on the key, and own_NAME_lanes.
// NULL: `why` has the reason; empty: memory ran out.
char *cla_mod_vector(const struct clattn_host_memory *host, const mod_source *source, int lanes,
                     char why[MOD_WHY]);
#endif
