// mods.h: the caller's score_mod and mask_mod: checked as text, and written as the OpenCL C that cl/call/mods.clh takes in. A
// context keeps each text that it has met, so that a call costs a comparison.
#ifndef CLATTN_ATTENTION_MODS_MODS_H
#define CLATTN_ATTENTION_MODS_MODS_H
#include "args/args.h"
#include "attention/mods/mod_parse.h"
#include "launch/chain.h"

#define MOD_TYPES                                                                                            \
    (1u << CLATTN_TYPE_F32 | 1u << CLATTN_TYPE_F16 | 1u << CLATTN_TYPE_BF16 | 1u << CLATTN_TYPE_BOOL |       \
     1u << CLATTN_TYPE_I8 | 1u << CLATTN_TYPE_I32)

// Whether a text is one expression that cannot end the function it is put into, and, where it is checked, of the language of
// mod_parse.h. INVALID_ARGUMENT says where it is not.
clattn_status cla_mods_check_text(clattn_context *context, const mod_source *source);
// The derivative of a checked score_mod by `score` as such a text, of the context's memory. UNSUPPORTED says which part has none here.
clattn_status cla_mods_derive(clattn_context *context, const mod_source *source, char **derived);

// The OpenCL C of a checked score's expressions and buffers, NULL where it has none: it lives as long as a call that began before
// (cla_mods_begin of program/program.h); and of score_mod and of mask_mod why kernels with vectors run it for one
// lane at a time, empty where they do not.
typedef struct mods_found {
    const char *inserted;
    char lane_by_lane[2][MOD_WHY];
} mods_found;
clattn_status cla_mods_find(clattn_context *context, const clattn_score *score, mods_found *found);
// With score_mod's derivative, which is given, or NULL: then it is derived, or UNSUPPORTED.
clattn_status cla_mods_find_gradient(clattn_context *context, const clattn_score *score, const char *gradient,
                                     mods_found *found);
void cla_mods_release(clattn_context *context);

// The buffers as the kernels see them.
mod_args cla_mods_arguments(const clattn_score *score);
// The arguments of a launch, in the order of MOD_ARGUMENTS; none where score_ops has none of them.
void cla_mods_set(const clattn_score *score, int score_ops, const mod_args *args, launch *l);
#endif
