// case_mods.h: replace the options of a case by score_mod and mask_mod where these can express
// them: ALiBi, bias, softcap, boolean mask, causality, window and key lengths. The reference uses
// the options, so every such case also verifies the expressions.
#ifndef CLATTN_VERIFICATION_CASE_CASE_MODS_H
#define CLATTN_VERIFICATION_CASE_CASE_MODS_H

#include "verification/case/case_run.h"

// Replace options in `score` of bound arrays. The arrays hold the texts, with the derivative of
// score_mod.
void case_mods_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                    clattn_score *score);

// Make the block mask of the bound attention call and set it in the call. Heads share one mask if
// they mask the same pairs.
void case_blocks_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// Make the block mask again after the mask has changed.
void case_blocks_fill(struct place *place, const clattn_attention_params *params);

#endif
