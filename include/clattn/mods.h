/* mods.h: ready texts for score_mod and mask_mod of clattn_score. Included by clattn.h. #x in a
 * text is the macro's argument, such as 128 or 0.5f. Each comment names the mod_buffers that its
 * text reads.
 *
 * Kernels cannot skip keys by a mask_mod. Set `causal`, `window` and lengths too where they
 * hold. */
#ifndef CLATTN_MODS_H
#define CLATTN_MODS_H

/* ALiBi, as alibi_slopes: buffer0 f32 [H], the slopes. [Press et al. 2022] */
#define CLATTN_SCORE_MOD_ALIBI "score - buffer0(h) * (float)abs(i - j)"

/* Soft capping after all additions; clattn_score.softcap comes before the bias. [Gemma 2] */
#define CLATTN_SCORE_MOD_SOFTCAP(cap) "(" #cap ") * tanh(score / (" #cap "))"

/* A learned bias by distance |i - j|: buffer0 f32 [H, distances]. The last entry is for all larger
 * distances. [T5, Raffel et al. 2020, without its buckets] */
#define CLATTN_SCORE_MOD_DISTANCE_BIAS "score + buffer0(h, abs(i - j))"

/* Key j is not after row i. */
#define CLATTN_MASK_MOD_CAUSAL "j <= i"

/* Key i and the `left` keys before it. [Mistral 7B] */
#define CLATTN_MASK_MOD_SLIDING_WINDOW(left) "j <= i && i - j <= (" #left ")"

/* Every step-th key up to i, `count` of them. [LongNet, Ding et al. 2023] */
#define CLATTN_MASK_MOD_DILATED_WINDOW(step, count)                                                          \
    "j <= i && (i - j) % (" #step ") == 0 && (i - j) / (" #step ") < (" #count ")"

/* Documents packed in one sequence: buffer0 i32 [B, Nq] and buffer1 i32 [B, Nkv], the document of
 * each row and key. */
#define CLATTN_MASK_MOD_DOCUMENT "buffer0(b, row) == buffer1(b, j)"

/* Prefix LM: buffer0 i32 [B], the number of first keys that all rows see; the rest is causal.
 * [Raffel et al. 2020] */
#define CLATTN_MASK_MOD_PREFIX_LM "j <= i || j < buffer0(b)"

/* A tree of drafted tokens behind a cache; the query rows are the last keys. Bits are buffer0 i32
 * [Nq, ceil(Nq / 32)]. In a row, bit t % 32 of word t / 32 is set if drafted token t is the row's
 * own or an ancestor. [SpecInfer, Miao et al. 2024] */
#define CLATTN_MASK_MOD_TREE                                                                                 \
    "j < kv_length - q_length || "                                                                           \
    "(buffer0(row, (j - kv_length + q_length) / 32) >> ((j - kv_length + q_length) % 32) & 1) != 0"
#endif
