/* mods.h: ready texts for score_mod and mask_mod of clattn_score. Included by clattn.h. What is written in a text with
 * #x is the macro's argument, a number such as 128 or 0.5f; what is read from mod_buffers is said beside each.
 * A mask_mod does not tell a kernel which keys it may pass over, as `causal`, `window` and lengths do: give those as well
 * where they hold. */
#ifndef CLATTN_MODS_H
#define CLATTN_MODS_H

/* ALiBi: buffer0 f32 [H] of slopes; as alibi_slopes does. [Press et al. 2022] */
#define CLATTN_SCORE_MOD_ALIBI "score - buffer0(h) * (float)abs(i - j)"

/* Soft capping, of a score that everything was added to; softcap of clattn_score comes before a bias. [Gemma 2] */
#define CLATTN_SCORE_MOD_SOFTCAP(cap) "(" #cap ") * tanh(score / (" #cap "))"

/* A learned bias by distance: buffer0 f32 [H, distances], of |i - j|; the last entry stands for all further away.
 * [T5, Raffel et al. 2020, without its buckets] */
#define CLATTN_SCORE_MOD_DISTANCE_BIAS "score + buffer0(h, abs(i - j))"

/* Key j is not after row i. */
#define CLATTN_MASK_MOD_CAUSAL "j <= i"

/* The last `left` keys before row i, and i's own. [Mistral 7B] */
#define CLATTN_MASK_MOD_SLIDING_WINDOW(left) "j <= i && i - j <= (" #left ")"

/* Every step-th of the keys up to i, `count` of them. [LongNet, Ding et al. 2023] */
#define CLATTN_MASK_MOD_DILATED_WINDOW(step, count)                                                          \
    "j <= i && (i - j) % (" #step ") == 0 && (i - j) / (" #step ") < (" #count ")"

/* Documents packed in one sequence: buffer0 i32 [B, Nq] and buffer1 i32 [B, Nkv] tell each row's and key's document. */
#define CLATTN_MASK_MOD_DOCUMENT "buffer0(b, row) == buffer1(b, j)"

/* Prefix LM: buffer0 i32 [B], how many first keys all rows see; the rest is causal. [Raffel et al. 2020] */
#define CLATTN_MASK_MOD_PREFIX_LM "j <= i || j < buffer0(b)"

/* A tree of drafted tokens behind a cache, the query's rows being the last keys: buffer0 i32 [Nq, ceil(Nq / 32)], bit t %
 * 32 of word t / 32 of a row is set where drafted token t is the row's own or before it on its branch. [SpecInfer, Miao et
 * al. 2024] */
#define CLATTN_MASK_MOD_TREE                                                                                 \
    "j < kv_length - q_length || "                                                                           \
    "(buffer0(row, (j - kv_length + q_length) / 32) >> ((j - kv_length + q_length) % 32) & 1) != 0"
#endif
