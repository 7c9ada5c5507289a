// mods.h: the caller's score_mod and mask_mod: check the text, and write the OpenCL C that
// cl/call/mods.clh includes. A context caches its texts, so a repeated call costs one comparison.
#ifndef CLATTN_ATTENTION_MODS_MODS_H
#define CLATTN_ATTENTION_MODS_MODS_H
#include "args/args.h"
#include "attention/mods/mod_parse.h"
#include "launch/chain.h"

#define MOD_TYPES                                                                                            \
    (1u << CLATTN_TYPE_F32 | 1u << CLATTN_TYPE_F16 | 1u << CLATTN_TYPE_BF16 | 1u << CLATTN_TYPE_BOOL |       \
     1u << CLATTN_TYPE_I8 | 1u << CLATTN_TYPE_I32)

// Check that a text is one expression that cannot escape the function around it, and, if checked,
// is in the language of mod_parse.h. The error says where it is not.
clattn_status cla_mods_check_text(clattn_context *context, const mod_source *source);
// Derive a checked score_mod by `score`. The result is allocated from the context. UNSUPPORTED
// names the part without a derivative.
clattn_status cla_mods_derive(clattn_context *context, const mod_source *source, char **derived);

// `inserted`: the OpenCL C of the expressions and buffers, NULL without expressions. It lives as
// long as the current call (cla_mods_begin of program/program.h). `lane_by_lane`: why score_mod and
// mask_mod have no vector form; empty: they have one.
typedef struct mods_found {
    const char *inserted;
    char lane_by_lane[2][MOD_WHY];
} mods_found;
clattn_status cla_mods_find(clattn_context *context, const clattn_score *score, mods_found *found);
// As cla_mods_find, with score_mod's derivative. The caller passes it as `gradient`; if NULL, it is
// computed. UNSUPPORTED: that is impossible.
clattn_status cla_mods_find_gradient(clattn_context *context, const clattn_score *score, const char *gradient,
                                     mods_found *found);
void cla_mods_release(clattn_context *context);

// The buffers as kernel arguments.
mod_args cla_mods_arguments(const clattn_score *score);
// Add the kernel arguments, in the order of MOD_ARGUMENTS. Adds none if score_ops has no
// expressions.
void cla_mods_set(const clattn_score *score, int score_ops, const mod_args *args, launch *l);
#endif
