// case.h: one case as data, for attention, a layer or a projection: sizes, types, layout and options; and its name.
// Tests, bench, verify and tune run the same cases, and a name that one prints can be given to any other. Leaves
// out the inputs (case_data.h), the run (case_run.h) and the judgement (case_check.h).
//
// A name is tokens joined by '-', in this order; what has its default leaves none, so that a case has one name:
//   attend decode layer linear backward     what is called; a linear is the query projection of such a layer alone, backward the
//                                  gradients of an attention call, which is made before (case_backward.h)
//   f32 f16 bf16                   storage of q, of x of a layer or linear, and the default of all other types
//   bN hN hkvN nN nkvN dN dvN      batch, heads, key/value heads (h), query rows, keys (n), head size of Q and K, of V (d)
//   mN                             model width of a layer, inner size of a linear
//   full causal                    causal is aligned bottom-right, full top-left, unless a token below says otherwise
//   unfused flash decode           the kernel; default auto
//   clblast native                 who projects in a layer or linear; of attend and decode clblast is its composition
//   topleft bottomright offsetN    the alignment (N keys before row 0)
//   kvTYPE valuesTYPE matrixTYPE   types of k and v, of v alone, of weight matrices
//   groupsN valuegroupsN           of types with scales: numbers of a row that share one, 1 all; of v alone, default as k
//   scalesTYPE zeros               the type of scales, default f32; zero points beside them
//   outTYPE vectorTYPE             types of out, of a projection's bias
//   myN moN                        width of y (cross-attention; m where nkv is not n), of out (m)
//   split packed                   of the projections: the precision; weights that were packed before
//   biases biases[q][k][v][o]      of the projections, all or some
//   normheads normwidth, with normplain normplus normepsX     of q and k: of a head, of the width; without weights, 1 + them
//   gateheads gateall, with gatebias    the gate of a layer: one a head, one a number
//   ready                          keys and values of a layer are made by a call of their own before
//   bshd padded spaced scattered, packed     how every tensor lies; q, k and v as views of one buffer
//   lse weights[TYPE] scoresTAP    what is returned beside out; TAP: raw softcap masked softmax
//   splitsN scaleX softcapX windowL:R
//   maskAXES biasAXES[:TYPE]       the last axes of b h q k, 1 for one that repeats: maskqk, bias1hqk, maskb11k
//   pastN pastN:N:... sharedpast   the first N of nkv keys lie in tensors of their own, of an item its number of them; one for all
//   cascadenever cascadealways     whether a past of all is read once for all items; default the planner's choice
//   cascadetry                     it is where the call allows it
//   pagesN                         keys lie in pages of N rows; nkv is whole pages
//   krotationN vrotationN          stored keys, or values, are rotated by the Hadamard matrix in blocks of N columns
//   latent                         v is no tensor of its own but the first dv columns of k, as in multi-head latent attention
//   dlse gradTYPE                  of a backward: lse has a derivative, too; the type of dq, dk and dv
//   onlyLETTERS                    some gradients alone: of q k v, bias, sinks, alibi, headscales; default all that there are
//   alibi sinks headscales qlen kvlen offsets   [H] or [B] numbers made from the seed, or given: kvlen9:33:0
//   ropehalf ropeinterleaved rotaryN ropebaseX ropeposN ropescalelinear ropescalentk ropefactorX
//   ropescaleyarn ropescalellama3 ropescaledynamic, with ropeoriginalN ropelengthN ropelowX ropehighX ropefastX ropeslowX
//   ropeattentionX ropeuntruncated; ropescalepairs, whose factors are case_pair_factors
//   dropoutX:N                     probability and seed
//   positions                      explicit ones of rows and keys, from the seed
//   sectiontN sectionhN sectionwN sectionsmixed    M-RoPE's sections of pairs, interleaved ones
//   appendN                        the last N keys of each item are appended by the call (k_new, v_new; a layer makes
//                                  them: case_layer.h)
//   mods                           what score_mod and mask_mod can say of all that is said by them
//   modsread                       with the numbers of window, causality and lengths in a buffer
//   modsgradient                   with the derivative of score_mod, which the library else derives
//   blocks                         with the block mask of its mask or mask_mod
//   devicesinks                    sinks lie in a buffer
//   raggedhost raggeddevice        batch items of their lengths (qlen, kvlen) packed one behind the other; cu_seqlens lie there
//   raggedgaps raggedgapsdevice    likewise with rows between them that are no item's
//   raggedcache raggedcachedevice  likewise of queries alone
//   hiddennan seennan rownan huge hugeneg dominant infbias unseennan    hostile contents (enum case_contents)
//   seedN                          of all numbers
// A minus sign is written m: windowm1:3, offsetm9, scale1em05.
// Example: attend-bf16-b2-h8-hkv2-n1-nkv300-d64-causal-kvlen300:17-softcap30-sinks
#ifndef CLATTN_EVIDENCE_CASE_CASE_H
#define CLATTN_EVIDENCE_CASE_CASE_H

#include "verification/device/guarded.h"

typedef enum case_op { CASE_ATTEND = 0, CASE_DECODE, CASE_LAYER, CASE_LINEAR, CASE_BACKWARD } case_op;

// A mask or bias: the last `rank` axes of [B, H, Nq, Nkv]; rank 0: absent. Bit a of `repeat` gives axis a
// size 1.
struct score_map {
    int rank, repeat;
    clattn_type type; // of a bias
};
#define MAP_REPEAT_BATCH 1
#define MAP_REPEAT_HEADS 2
#define MAP_REPEAT_ROWS 4

// The host arrays of clattn_score; the table of them is case_hosts.
typedef enum case_host {
#define HOST(name, key, of_heads, per, low, high, field, option, help) CASE_##name,
#include "verification/sets/hosts.def"
#undef HOST
    CASE_HOSTS
} case_host;
#define CASE_HOST_BIT(host) (1u << (host))
#define CASE_GIVEN_MOST 16

// Numbers that stand in the tensors in place of random ones.
typedef enum case_contents {
    CASE_ORDINARY = 0,
    CASE_HIDDEN_NAN, // q, k and v past the lengths
    CASE_SEEN_NAN,   // one key
    CASE_ROW_NAN,    // one query row
    CASE_HUGE,       // all scores equal and huge
    CASE_HUGE_NEGATIVE,
    CASE_DOMINANT,   // one key so far ahead that the others underflow to nothing
    CASE_INF_BIAS,   // a row and a column of the bias are -inf
    CASE_UNSEEN_NAN, // every key that no row sees, every row past its length, and the bias of every hidden pair
    CASE_CONTENTS
} case_contents;

typedef enum case_gate { CASE_NO_GATE = 0, CASE_GATE_HEADS, CASE_GATE_ALL } case_gate;

// How the batch items are packed (case_ragged.h).
typedef enum case_ragged {
    CASE_DENSE = 0,
    CASE_RAGGED_HOST,
    CASE_RAGGED_DEVICE,
    CASE_RAGGED_GAPS,
    CASE_RAGGED_GAPS_DEVICE,
    CASE_RAGGED_CACHE,
    CASE_RAGGED_CACHE_DEVICE
} case_ragged;

// The four projections, as indices of matrices and biases; a linear has the first.
enum { LAYER_Q, LAYER_K, LAYER_V, LAYER_O, LAYER_MATRICES };
#define LAYER_ALL_BIASES 15

struct test_case {
    const char *name; // what a suite or list calls it; no part of what case_name gives
    case_op op;
    int64_t batch, heads, kv_heads, n_q, n_kv, head_dim,
        head_dim_v;             // 0: 1; kv_heads: heads; head_dim_v: head_dim; n_kv of self-attention: n_q
    int64_t width;              // M of a layer, K of a linear, whose columns are heads * head_dim
    int64_t width_y, width_out; // of a layer; width_y 0: self-attention; width_out 0: width
    clattn_type q_type, kv_type, out_type; // a layer's and a linear's x, y and out have q_type
    int32_t values;                        // 1 and the type of v where it is not k's; 0: it is
    int64_t scale_group,
        value_group; // numbers that share a scale, 0 and 1: all of a row; value_group 0: as scale_group
    clattn_type scale_type;             // of the scales of k and v, or of the matrices of a projection
    bool zeros;                         // these have zero points
    clattn_type matrix_type, bias_type; // of the projections
    enum layout layout;                 // of every tensor
    bool packed;                        // q, k and v are views of one buffer [B, N, H + 2 Hkv, D]
    bool latent;                        // v is a view of k's rows
    bool composed;    // attention as a program makes it of CLBlast's products: a baseline of the bench alone
    int biases;       // bit LAYER_Q...: that projection has a bias
    clattn_norm norm; // of q and k; its weights have bias_type
    bool norm_plain, norm_plus_one; // no weights
    float norm_epsilon;
    case_gate gate;
    bool gate_bias;
    bool ready; // keys and values of a layer are made before, by their own call
    struct score_map mask, bias;
    unsigned hosts; // bit CASE_HOST_BIT(host): that array is there, random unless `given` has its numbers
    struct {
        int count;
        double x[CASE_GIVEN_MOST];
    } given[CASE_HOSTS];
    bool no_lse;          // else the log-sum-exp of attention is always asked for
    bool weights, scores; // ask for them; scores_at says which scores
    clattn_type weights_type;
    clattn_tap scores_at;
    bool dlse;             // of a backward
    clattn_type grad_type; // of dq, dk and dv
    int only;              // bit GRADIENT_Q...: that gradient is asked for; 0: all
    clattn_score score; // scale, softcap, causality, alignment, offset, window and dropout; the rest is made
    clattn_rope rope;
    int32_t append;             // keys that are appended: case_kv.h
    bool positions;             // explicit ones, which case_positions.h makes
    bool has_past, past_shared; // keys lie in past_k and past_v, too: case_kv.h
    int64_t past;               // rows of those, of the n_kv
    int past_count;             // 0: all items have as many
    double past_length[CASE_GIVEN_MOST];
    clattn_cascade cascade;
    int64_t page_size; // keys lie in pages; 0: they do not
    // What is stored of them is rotated in blocks of so many columns; 0: it is not.
    int32_t k_rotation, v_rotation;
    bool device_sinks;  // sinks lie in a buffer
    bool blocks;        // a block mask is made of mask or mask_mod and given to the call
    bool mods_read;     // with numbers that they read
    bool mods_gradient; // and the derivative of score_mod
    bool mods;          // options that an expression can say are given as score_mod and mask_mod: case_mods.h
    clattn_kernel kernel;
    int32_t splits;
    clattn_projection projection;
    clattn_precision precision; // of the projections
    bool packs;                 // their weights are packed before (clattn_linear_pack)
    case_ragged ragged;
    case_contents contents;
    uint64_t seed;
};

#define CASE_CASCADE_TRY ((clattn_cascade)CLATTN_CASCADE_COUNT)
#define CASE_NAME_SIZE 768

// The type of v.
clattn_type case_v_type(const struct test_case *test);

// The case with its defaults filled in.
struct test_case case_complete(const struct test_case *test);

// Its one name; returns name.
const char *case_name(const struct test_case *test, char name[CASE_NAME_SIZE]);

// The case of a name, complete. False: why[256] says what is wrong with the name; it must be as case_name prints it.
bool case_parse(const char *name, struct test_case *test, char why[256]);
// The same of tokens in any order, those of defaults among them.
bool case_read(const char *tokens, struct test_case *test, char why[256]);

// Whether the tensors of a complete case fit together; false: why[256].
bool case_valid(const struct test_case *test, char why[256]);

// A host array with these integers, one for each batch item.
void case_give(struct test_case *test, case_host host, int count, const int32_t *x);

// One host array: its token, what it holds a number for, where random ones lie, and its pointer in clattn_score.
struct case_host_row {
    const char *key;
    bool of_heads; // [H] floats; else [B] integers
    enum { CASE_PER_ONE, CASE_PER_ROWS, CASE_PER_KEYS } per;
    double low, high; // of random ones; high is multiplied by Nq or Nkv where `per` says so
    size_t field;
};
extern const struct case_host_row case_hosts[CASE_HOSTS];

bool case_attends(const struct test_case *test);  // attention's forward call, and no more
bool case_projects(const struct test_case *test); // a layer or a linear
bool case_is_self(const struct test_case *test);  // a layer whose keys are made of x

#endif
