// mod_vector.h: a caller's expression as OpenCL C over vectors, the same operations in the same order. What it cannot be sure
// of stays as the caller wrote it, for one lane at a time, and the plan says why. Pure: no OpenCL here.
#ifndef CLATTN_ATTENTION_MODS_MOD_VECTOR_H
#define CLATTN_ATTENTION_MODS_MOD_VECTOR_H
#include "attention/mods/mod_parse.h"

// The things that a kernel's vectors can hold: the values of MOD_LANES in cl/call/mods.clh.
#define MOD_LANES_ROWS 1  // neighbouring query rows of one head, and one key
#define MOD_LANES_HEADS 2 // query rows of several heads, and one key
#define MOD_LANES_KEYS 3  // neighbouring keys, and one query row
#define MOD_LANES_MOST 3

struct clattn_host_memory;

// A text from `host` (base/host.h) that goes back there: the struct own_NAME_kept, own_NAME_begin, which fills it with what is read for all
// keys, and own_NAME_lanes. NULL: `why` says why not; where that is empty memory ran out.
char *cla_mod_vector(const struct clattn_host_memory *host, const mod_source *source, int lanes,
                     char why[MOD_WHY]);
#endif
