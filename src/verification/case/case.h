// case.h: one test case as data: sizes, types, layout and options of an attention call, a layer or
// a projection; and its name. Tests, bench, verify and tune run the same cases, so that a name
// printed by one of them works in all others. Other files have the inputs (case_data.h), the run
// (case_run.h) and the verdict (case_check.h).
//
// A name is a list of tokens joined by '-', in the order below. Defaults have no token, so that
// each case has exactly one name. A letter or word in parentheses is the default.
//
//    attend decode layer linear backward     the call. linear: a layer's query projection alone.
//                                   backward: the gradients of an attention call (case_backward.h)
//    f32 f16 bf16                   storage of q, of x (layer, linear), and the default of all
//                                   other types
//    bN hN hkvN nN nkvN dN dvN      batch, heads, key/value heads (h), query rows, keys (n), head
//                                   size of Q and K, head size of V (d)
//    mN                             model width of a layer, inner size of a linear
//    full causal                    causal is aligned bottom-right, full top-left, unless a later
//                                   token sets the alignment
//    unfused flash decode           the kernel; default auto
//    clblast native                 the projection of a layer or linear. For attend and decode,
//                                   clblast is the composition of CLBlast's products
//    topleft bottomright offsetN    the alignment (N keys before row 0)
//    kvTYPE valuesTYPE matrixTYPE   types of k and v, of v alone, of weight matrices
//    groupsN valuegroupsN           numbers of a row that share a scale, 1: the whole row; the same
//                                   for v alone (groups)
//    scalesTYPE zeros               type of the scales (f32); with zero points
//    outTYPE vectorTYPE             types of out, of a projection's bias
//    myN moN                        width of y (m, if nkv is not n: cross-attention), of out (m)
//    split packed                   projections: the precision; weights packed before the call
//    biases biases[q][k][v][o]      projections: with biases, all or some
//    normheads normwidth            norm of q and k, over a head or over the width. With normplain:
//                                   without weights; normplus: weights 1 + w; normepsX
//    gateheads gateall, gatebias    gate of a layer: one number for each head, or for each element
//    ready                          keys and values of a layer are computed by an earlier call
//    bshd padded spaced scattered   the layout of every tensor (guarded.h)
//    packed                         q, k and v are views of one buffer
//    lse weights[TYPE] scoresTAP    results besides out. TAP: raw softcap masked softmax
//    splitsN scaleX softcapX windowL:R
//    maskAXES biasAXES[:TYPE]       the last axes of b h q k, 1 for an axis of size 1: maskqk,
//                                   bias1hqk, maskb11k
//    pastN pastN:N:... sharedpast   the first N of nkv keys are in past_k and past_v; one N for
//                                   each item; one past for all items
//    cascadenever cascadealways     whether a shared past is read once for all items; default auto
//    cascadetry                     always if the call supports it, else auto
//    pagesN                         keys are in pages of N rows; nkv is a multiple of N
//    krotationN vrotationN          stored keys or values are Hadamard-transformed in blocks of N
//                                   columns
//    latent                         v is the first dv columns of k (multi-head latent attention)
//    dlse gradTYPE                  backward: with a derivative of lse; type of dq, dk and dv
//    onlyLETTERS                    backward: compute only these gradients of q k v b s a h (bias,
//                                   sinks, alibi, headscales); default all
//    alibi sinks headscales qlen kvlen offsets   [H] or [B] numbers from the seed, or listed:
//                                   kvlen9:33:0
//    ropehalf ropeinterleaved rotaryN ropebaseX ropeposN ropescalelinear ropescalentk ropefactorX
//    ropescaleyarn ropescalellama3 ropescaledynamic, with ropeoriginalN ropelengthN ropelowX
//    ropehighX ropefastX ropeslowX ropeattentionX ropeuntruncated
//    ropescalepairs                 with the factors case_pair_factors
//    dropoutX:N                     probability and seed
//    positions                      explicit RoPE positions of rows and keys, from the seed
//    sectiontN sectionhN sectionwN sectionsmixed    sections of M-RoPE in pairs; interleaved
//    appendN                        the call appends the last N keys of each item (k_new, v_new;
//                                   a layer computes them: case_layer.h)
//    mods                           score_mod and mask_mod replace options that they can express
//    modsread                       mods read window, causality and lengths from a buffer
//    modsgradient                   the case provides score_mod's derivative
//    blocks                         with the block mask of its mask or mask_mod
//    devicesinks                    sinks are in a buffer
//    raggedhost raggeddevice        batch items of lengths qlen and kvlen are packed without
//                                   padding; cu_seqlens in host memory or in a buffer
//    raggedgaps raggedgapsdevice    the same, with unused rows between the items
//    raggedcache raggedcachedevice  queries are packed, keys are not
//    hiddennan seennan rownan huge hugeneg dominant infbias unseennan
//                                   contents of the tensors (enum case_contents)
//    seedN                          of all random numbers
//
// A minus sign is written m: windowm1:3, offsetm9, scale1em05. Example:
// attend-bf16-b2-h8-hkv2-n1-nkv300-d64-causal-kvlen300:17-softcap30-sinks
#ifndef CLATTN_VERIFICATION_CASE_CASE_H
#define CLATTN_VERIFICATION_CASE_CASE_H

#include "verification/device/guarded.h"

typedef enum case_op { CASE_ATTEND = 0, CASE_DECODE, CASE_LAYER, CASE_LINEAR, CASE_BACKWARD } case_op;

// A mask or bias: the last `rank` axes of [B, H, Nq, Nkv]. Rank 0: absent. Bit a of `repeat` sets
// the size of axis a to 1.
struct score_map {
    int rank, repeat;
    clattn_type type; // storage type of a bias
};
#define MAP_REPEAT_BATCH 1
#define MAP_REPEAT_HEADS 2
#define MAP_REPEAT_ROWS 4

// The host arrays of clattn_score; case_hosts is their table.
typedef enum case_host {
#define HOST(name, key, of_heads, per, low, high, field, option, help) CASE_##name,
#include "verification/sets/hosts.def"
#undef HOST
    CASE_HOSTS
} case_host;
#define CASE_HOST_BIT(host) (1u << (host))
#define CASE_GIVEN_MOST 16

// Numbers that replace random numbers in the tensors.
typedef enum case_contents {
    CASE_ORDINARY = 0,
    CASE_HIDDEN_NAN, // q, k and v past the lengths are NaN
    CASE_SEEN_NAN,   // one key contains NaN
    CASE_ROW_NAN,    // one query row contains NaN
    CASE_HUGE,       // all scores are equal and huge
    CASE_HUGE_NEGATIVE,
    CASE_DOMINANT, // one key's score is so large that the other weights underflow to 0
    CASE_INF_BIAS, // a row and a column of the bias are -inf
    // Keys that no row sees, rows past their length, and the bias of hidden pairs are NaN.
    CASE_UNSEEN_NAN,
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

// The four projections, as indices of matrices and biases. A linear has only the first.
enum { LAYER_Q, LAYER_K, LAYER_V, LAYER_O, LAYER_MATRICES };
#define LAYER_ALL_BIASES 15

struct test_case {
    const char *name; // the name in a suite or list; not part of case_name's result
    case_op op;
    // 0 means a default: 1 for most, heads for kv_heads, head_dim for head_dim_v, and n_q for n_kv
    // of self-attention.
    int64_t batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    // M of a layer, or K of a linear, whose columns are heads * head_dim.
    int64_t width;
    // A layer's widths of y (0: self-attention) and of out (0: width).
    int64_t width_y, width_out;
    clattn_type q_type, kv_type, out_type; // x, y and out of a layer or linear have q_type
    int32_t values;                        // 0: v has k's type; otherwise 1 + v's type
    // Numbers that share a scale; 0 or 1: a whole row. value_group 0: as scale_group.
    int64_t scale_group, value_group;
    // type of the scales of k and v, or of the scales of a projection's matrices
    clattn_type scale_type;
    bool zeros;                         // k and v, or the matrices, have zero points
    clattn_type matrix_type, bias_type; // types of the projections' matrices and biases
    enum layout layout;                 // layout of every tensor
    bool packed;                        // q, k and v are views of one buffer [B, N, H + 2 Hkv, D]
    bool latent;                        // v is a view of k's rows
    // Attention composed of CLBlast's products: a baseline of the bench.
    bool composed;
    int biases;                     // bit LAYER_Q...: this projection has a bias
    clattn_norm norm;               // of q and k; its weights have bias_type
    bool norm_plain, norm_plus_one; // norm_plain: no weights; norm_plus_one: weights are 1 + w
    float norm_epsilon;
    case_gate gate;
    bool gate_bias;
    bool ready; // an earlier call computes a layer's keys and values
    struct score_map mask, bias;
    // Bit CASE_HOST_BIT(host): this array is present. Its numbers are random unless `given` has
    // them.
    unsigned hosts;
    struct {
        int count;
        double x[CASE_GIVEN_MOST];
    } given[CASE_HOSTS];
    bool no_lse;          // attention does not return the log-sum-exp; true without the token lse
    bool weights, scores; // these are returned; scores_at selects which scores
    clattn_type weights_type;
    clattn_tap scores_at;
    bool dlse;             // a backward has a derivative of lse
    clattn_type grad_type; // type of dq, dk and dv
    int only;              // bit GRADIENT_Q...: compute this gradient; 0: all
    // Scale, softcap, causality, alignment, offset, window and dropout. case_make sets the other
    // fields.
    clattn_score score;
    clattn_rope rope;
    int32_t append;             // number of appended keys (case_kv.h)
    bool positions;             // positions are explicit, from case_positions.h
    bool has_past, past_shared; // some keys are in past_k and past_v (case_kv.h)
    int64_t past;               // rows of the past, of the n_kv
    int past_count;             // 0: all items have the same number of past rows
    double past_length[CASE_GIVEN_MOST];
    clattn_cascade cascade;
    int64_t page_size; // rows of a page; 0: no pages
    // Stored rows are Hadamard-transformed in blocks of this many columns; 0: not transformed.
    int32_t k_rotation, v_rotation;
    bool device_sinks;  // sinks are in a buffer
    bool blocks;        // the call has a block mask, made from mask or mask_mod
    bool mods_read;     // the expressions read numbers from a buffer
    bool mods_gradient; // the case provides score_mod's derivative
    // score_mod and mask_mod replace options that they can express (case_mods.h).
    bool mods;
    clattn_kernel kernel;
    int32_t splits;
    clattn_projection projection;
    clattn_precision precision; // precision of the projections
    // weights of the projections are packed before the call (clattn_linear_pack)
    bool packs;
    case_ragged ragged;
    case_contents contents;
    uint64_t seed;
};

#define CASE_CASCADE_TRY ((clattn_cascade)CLATTN_CASCADE_COUNT)
#define CASE_NAME_SIZE 768

// The type of v.
clattn_type case_v_type(const struct test_case *test);

// Fill in the defaults of a case.
struct test_case case_complete(const struct test_case *test);

// Write the case's name and return it.
const char *case_name(const struct test_case *test, char name[CASE_NAME_SIZE]);

// Parse a name and fill in the defaults. The name must be exactly what case_name prints. False:
// `why` has the reason.
bool case_parse(const char *name, struct test_case *test, char why[256]);
// Parse tokens in any order, including tokens of defaults.
bool case_read(const char *tokens, struct test_case *test, char why[256]);

// True if the tensors of a complete case fit together. Otherwise `why` has the reason.
bool case_valid(const struct test_case *test, char why[256]);

// Set a host array to these integers, one for each batch item.
void case_give(struct test_case *test, case_host host, int count, const int32_t *x);

// One host array: its token, its kind, the range of its random numbers, and its pointer in
// clattn_score.
struct case_host_row {
    const char *key;
    bool of_heads; // [H] floats; otherwise [B] integers
    enum { CASE_PER_ONE, CASE_PER_ROWS, CASE_PER_KEYS } per;
    double low, high; // range of random numbers; `high` is multiplied by Nq or Nkv as `per` says
    size_t field;
};
extern const struct case_host_row case_hosts[CASE_HOSTS];

// true for a forward call of attention without a layer
bool case_attends(const struct test_case *test);
bool case_projects(const struct test_case *test); // a layer or a linear
bool case_is_self(const struct test_case *test);  // a layer whose keys are computed from x

#endif
