// case_mods.h: the options of a case that a score_mod or mask_mod can say, said by one: ALiBi, bias, softcap, boolean mask,
// causality, window and key lengths. What is right stays what the options say, so every case with them tests the
// expressions, too.
#ifndef CLATTN_EVIDENCE_CASE_CASE_MODS_H
#define CLATTN_EVIDENCE_CASE_CASE_MODS_H

#include "verification/case/case_run.h"

// Replace what bound arrays ask for in `score`, whose texts then lie in the arrays, with the derivative of its score_mod.
void case_mods_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                    clattn_score *score);

// Make the block mask of the attention call in bound arrays, one for all heads where they share what it holds, and give it
// to that.
void case_blocks_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// Once more, of another mask.
void case_blocks_fill(struct place *place, const clattn_attention_params *params);

#endif
