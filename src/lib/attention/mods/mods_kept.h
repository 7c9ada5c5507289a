// mods_kept.h: cache of a context's expression texts and their compiled programs: the MODS_KEPT
// most recently used. A removed text stays in memory until all calls that may use it have ended.
#ifndef CLATTN_ATTENTION_MODS_MODS_KEPT_H
#define CLATTN_ATTENTION_MODS_MODS_KEPT_H
#include "attention/mods/mod_parse.h"
#include "program/program.h"

// Each needs about 1.3 MB once compiled. The public header documents this number.
#define MODS_KEPT 64

// One text and what was generated for it. An absent buffer has rank 0.
typedef struct mod_text {
    struct mod_text *next;
    // Copies; NULL: none. `gradient` is the caller's, or if `derived`, computed from `score`.
    char *score, *mask, *gradient;
    bool derived;
    struct {
        int rank;
        clattn_type type;
    } buffers[CLATTN_MOD_BUFFERS];
    char *inserted;
    // Why score_mod, mask_mod and the gradient have no vector form; empty: they have one.
    char why[3][MOD_WHY];
    program *programs; // set when the text is removed
} mod_text;

void cla_mods_release_text(const clattn_context *c, mod_text *t);
// Find the text of a score, and mark it as most recently used. NULL: not found. The caller holds
// program_lock. `derived`: with a derived gradient.
mod_text *cla_mods_find_text(clattn_context *c, const clattn_score *s, const char *gradient, bool derived);
// Add a text. This may remove old ones. Locks program_lock.
void cla_mods_keep(clattn_context *c, mod_text *t);
#endif
