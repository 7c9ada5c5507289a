// reference.h: the expected results in double precision with plain loops: attention with every
// option, RoPE, linear, layer and merge. Independent of OpenCL. Used by every device suite.
//
// With `plain` set to a 16-bit type, the same loops round where an unfused computation in that type
// rounds: RoPE'd q and k, probabilities, projections and output. This is the `plain` of the error
// budget.
#ifndef CLATTN_VERIFICATION_REFERENCE_REFERENCE_H
#define CLATTN_VERIFICATION_REFERENCE_REFERENCE_H

#include <clattn/clattn.h>

// REFERENCE_UNTOUCHED: results that the library must not write (rows past a query length); equals
// STORAGE_UNTOUCHED. REFERENCE_ANY: results that may contain anything (taps before the mask, for
// keys past a length).
#define REFERENCE_UNTOUCHED 0x1p1000
#define REFERENCE_ANY 2e300

// Keys outside of k and v. Past rows are [past_batch, Hkv, past, D or Dv]; item b has the first
// past_lengths[b] (NULL: all) of them, then its `rows` of k. Or pages: k and v are [pages, Hkv,
// page_size, D or Dv], selected by block_table [B, Nkv / page_size]. RoPE was already applied to
// past rows and pages.
struct reference_places {
    const double *past_k, *past_v; // NULL: no past
    int64_t past, past_batch, rows;
    const int32_t *past_lengths, *block_table;
    int64_t page_size; // 0: no pages
    bool turned_pages; // RoPE was already applied to the rows of pages
};

struct reference {
    int64_t batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    const double *q, *k, *v; // dense [B, H, Nq, D], [B, Hkv, Nkv, D], [B, Hkv, Nkv, Dv]
    // Elements between rows of v; 0: Dv. A latent's v is its k, whose rows are longer.
    int64_t v_row;
    struct reference_places places; // zero: all keys are in k and v
    // NULL: absent; read through the strides [B, H, Nq, Nkv].
    const double *mask, *bias;
    int64_t mask_stride[4], bias_stride[4]; // elements; 0 repeats
    // only scalars and host arrays are used; tensors are ignored
    const clattn_score *score;
    const clattn_rope *rope; // NULL: none
    // explicit positions of rows and of keys, [1 or 3, B, N]; NULL: consecutive
    const double *positions[2];
    // Stored keys and values are Hadamard-transformed in blocks of this many columns. 0: none.
    int64_t rotation[2];
    clattn_type plain; // F32: exact
    // Periods of tables that repeat: of q, of k and v, of mask and bias. 0: a whole tensor.
    int64_t period, kv_period[2], map_period;
    // sampled rows as indices of [B, H, Nq], or of [B, Nq] for a layer. NULL: all rows, in order
    const int64_t *rows;
    int64_t row_count;
};

// Dense results, row after row; each may be NULL. tap[CLATTN_TAP_SOFTMAX] is the attention weights.
struct reference_result {
    double *out, *lse, *tap[CLATTN_TAP_COUNT];
};

void reference_attention(const struct reference *problem, const struct reference_result *result);

// reference_kv_row: the row of key j or of its value; NULL: the item has no such row.
// reference_was_roped: true if RoPE was already applied to it.
const double *reference_kv_row(const struct reference *problem, bool value, int64_t b, int64_t h, int64_t j);
bool reference_was_roped(const struct reference *problem, int64_t b, int64_t j);
// The index in k of key j, which is no past key. reference_kv_most is the most keys of an item.
int64_t reference_new_row(const struct reference *r, int64_t b, int64_t j);
int64_t reference_kv_most(const struct reference *problem, int64_t b);

// The shift of batch item b: row i is at position i + shift.
int64_t reference_shift(const struct reference *problem, int64_t b);

// Apply RoPE in place to a row [head_dim] at this position, or with sections at these three.
void reference_rope(const clattn_rope *rope, double *row, int64_t head_dim, const double position[3]);
// Hadamard-transform a row in place, normalised, in blocks of this many columns; 0: no change.
void reference_hadamard(double *row, int64_t size, int64_t block);
bool reference_has_sections(const clattn_rope *rope);

// y[rows, out] = x[rows, in] w^T + b; b may be NULL.
struct reference_linear {
    const double *x, *w, *b;
    int64_t rows, in, out;
    clattn_type plain;
    int64_t x_period, w_period; // periods of tables that repeat; 0: a whole tensor
    const int64_t *sample;      // indices of `rows` rows of x; NULL: all, in order
};
void reference_linear(const struct reference_linear *problem, double *y);
double reference_activation(double x, clattn_activation how);

struct reference_layer {
    int64_t width, width_y, width_out; // M, My, Mo
    const double *x, *y;               // [B, Nq, M], [B, Nkv, My] (NULL: x)
    const double *wq, *wk, *wv, *wo;   // [out, in]
    int64_t w_period;                  // period of the matrices' tables, as in reference_linear
    const double *bq, *bk, *bv, *bo;   // NULL: absent
    // sizes, options, mask, bias and plain; q, k and v are ignored
    struct reference attention;
    clattn_norm norm;              // norm of q and k
    const double *q_norm, *k_norm; // NULL: 1
    double norm_epsilon;
    bool norm_plus_one;
    const double *w_gate, *b_gate; // [gates, M], [gates]
    int64_t gates;                 // gates of a row: H, or H * Dv; 0: no gate
};
// result->out is the layer's output, dense [B, Nq, Mo]. The other results are its attention's. With
// `rows`, and without RoPE, norm and gate, only those rows of out are computed.
void reference_layer(const struct reference_layer *problem, const struct reference_result *result);

// Merge part b into part a: rows of `head_dim_v` with one lse each.
void reference_merge(double *out_a, double *lse_a, const double *out_b, const double *lse_b, int64_t rows,
                     int64_t head_dim_v);

// The factor of the scores of head h.
double reference_scale(const struct reference *problem, int64_t h);

// The sum of a[i] b[i].
double reference_dot(const double *a, const double *b, int64_t n);

// Apply the options to one row's scores [Nkv] in place and compute its weights p. Returns the
// log-sum-exp. Requested taps are stored as row `row->at` of the result.
struct reference_row {
    int64_t b, h, i, p, kv_length;
    int64_t at; // index in the results
};
double reference_finish(const struct reference *problem, const struct reference_row *row, double *scores,
                        double *p, const struct reference_result *result);
// The sum of bias and ALiBi, added to a capped score. *size, which may be NULL, grows by the
// absolute values of both.
double reference_added(const struct reference *problem, const struct reference_row *row, int64_t j,
                       double *size);
// The factor by which dropout multiplies the row's weight of key j.
double reference_dropout(const struct reference *problem, const struct reference_row *row, int64_t j);
// Row `number` of a problem's [B, H, Nq].
struct reference_row reference_row_of(const struct reference *problem, int64_t number);
// True if the row sees key j: causality, window, lengths and mask.
bool reference_sees(const struct reference *problem, const struct reference_row *row, int64_t j);

// `count` zeroed doubles. Exits if memory is short.
double *reference_alloc(int64_t count);

#endif
