// mods_kept.h: the texts of a context and the programs that were compiled of them: the MODS_KEPT used last. Those that go stay in
// memory until every call that may have found them has ended.
#ifndef CLATTN_ATTENTION_MODS_MODS_KEPT_H
#define CLATTN_ATTENTION_MODS_MODS_KEPT_H
#include "attention/mods/mod_parse.h"
#include "program/program.h"

#define MODS_KEPT 64 // about 1.3 MB each once compiled; the header says so

// A text and what was written for it. The rank of a buffer that is not there is 0.
typedef struct mod_text {
    struct mod_text *next;
    char *score, *mask,
        *gradient; // copies; NULL: none. A gradient is the caller's, or the derivative of `score`, where
    bool derived;  // it was not given
    struct {
        int rank;
        clattn_type type;
    } buffers[CLATTN_MOD_BUFFERS];
    char *inserted;
    // Why score_mod, mask_mod and the gradient run lane by lane; empty: they run as vectors.
    char why[3][MOD_WHY];
    program *programs; // once it has gone
} mod_text;

void cla_mods_release_text(const clattn_context *c, mod_text *t);
// The text of a score as the one used last, or NULL; the caller holds program_lock. `derived`: that with score_mod's derivative.
mod_text *cla_mods_find_text(clattn_context *c, const clattn_score *s, const char *gradient, bool derived);
// One more, after which some may go. Takes program_lock.
void cla_mods_keep(clattn_context *c, mod_text *t);
#endif
