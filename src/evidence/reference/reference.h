// reference.h: what the numbers are, in double precision and plain loops: attention with every option, rotary
// embedding, linear, layer and merge. Leaves out speed and everything of OpenCL. Used by every device suite.
//
// With `plain` set to a 16-bit type the same loops round where an unfused computation in that storage type
// rounds: rotated q and k, the probabilities, projections and the output. That is the `plain` of the error
// budget.
#ifndef CLATTN_EVIDENCE_REFERENCE_REFERENCE_H
#define CLATTN_EVIDENCE_REFERENCE_REFERENCE_H

#include <clattn/clattn.h>

// Results that the library must leave alone (rows past a query length; equals STORAGE_UNTOUCHED), and results
// that may hold anything (score taps of keys past a length, taken before the mask).
#define REFERENCE_UNTOUCHED 0x1p1000
#define REFERENCE_ANY 2e300

// Keys that do not all lie in k and v. Past rows [past_batch, Hkv, past, D or Dv], of which item b has the first
// past_lengths[b] (NULL: all) before its `rows` of k; or pages: k and v are [pages, Hkv, page_size, D or Dv], and block_table
// [B, Nkv / page_size] says which. Rows of both were turned before.
struct reference_places {
    const double *past_k, *past_v; // NULL: no past
    int64_t past, past_batch, rows;
    const int32_t *past_lengths, *block_table;
    int64_t page_size; // 0: no pages
    bool turned_pages; // whose rows are
};

struct reference {
    int64_t batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    const double *q, *k, *v; // dense [B, H, Nq, D], [B, Hkv, Nkv, D], [B, Hkv, Nkv, Dv]
    int64_t v_row; // from one row of v to the next; 0: Dv. A latent's v is its k, whose rows are longer
    struct reference_places places;         // zero: keys lie in k and v
    const double *mask, *bias;              // NULL: absent; read through the strides [B, H, Nq, Nkv]
    int64_t mask_stride[4], bias_stride[4]; // elements; 0 repeats
    const clattn_score *score;              // its scalars and host arrays; its tensors are not looked at
    const clattn_rope *rope;                // NULL: none
    const double *positions[2];             // explicit ones of rows and keys, [1 or 3, B, N]; NULL: counted
    int64_t rotation
        [2]; // keys, values as they are stored are rotated in blocks of so many columns; 0: they are not
    clattn_type plain; // F32: exact
    int64_t period, kv_period[2],
        map_period;      // of q; of k and of v; of mask and bias: tables that repeat; 0: whole
    const int64_t *rows; // of [B, H, Nq]; of [B, Nq] in a layer. NULL: all, in order
    int64_t row_count;
};

// Dense results, one row after the other; each may be NULL. tap[CLATTN_TAP_SOFTMAX] is the attention weights.
struct reference_result {
    double *out, *lse, *tap[CLATTN_TAP_COUNT];
};

void reference_attention(const struct reference *problem, const struct reference_result *result);

// Where keys lie: the row of key j or of its value, NULL where the item has no such row; whether it was
// turned before; and the keys of an item at most.
const double *reference_kv_row(const struct reference *problem, bool value, int64_t b, int64_t h, int64_t j);
bool reference_was_turned(const struct reference *problem, int64_t b, int64_t j);
// The row of k that key j is, where it is none of the past.
int64_t reference_new_row(const struct reference *r, int64_t b, int64_t j);
int64_t reference_kv_most(const struct reference *problem, int64_t b);

// The shift of batch item b: row i stands at p = i + shift.
int64_t reference_shift(const struct reference *problem, int64_t b);

// Turn a row [head_dim] in place, which has this position, or with sections these three.
void reference_rope(const clattn_rope *rope, double *row, int64_t head_dim, const double position[3]);
// A row times the normalised Hadamard matrix in blocks of so many columns; 0 leaves it.
void reference_rotate(double *row, int64_t size, int64_t block);
bool reference_has_sections(const clattn_rope *rope);

// y[rows, out] = x[rows, in] w^T + b; b may be NULL.
struct reference_linear {
    const double *x, *w, *b;
    int64_t rows, in, out;
    clattn_type plain;
    int64_t x_period, w_period; // of a table that repeats; 0: a whole tensor
    const int64_t *sample;      // rows of x, `rows` of them; NULL: all, in order
};
void reference_linear(const struct reference_linear *problem, double *y);
double reference_activation(double x, clattn_activation how);

struct reference_layer {
    int64_t width, width_y, width_out; // M, My, Mo
    const double *x, *y;               // [B, Nq, M], [B, Nkv, My] (NULL: x)
    const double *wq, *wk, *wv, *wo;   // [out, in]
    int64_t w_period;                  // of the matrices' tables, as in reference_linear
    const double *bq, *bk, *bv, *bo;   // NULL: absent
    struct reference attention;        // sizes, options, mask, bias, plain; its q, k, v are not looked at
    clattn_norm norm;                  // of q and k
    const double *q_norm, *k_norm;     // NULL: 1
    double norm_epsilon;
    bool norm_plus_one;
    const double *w_gate, *b_gate; // [gates, M], [gates]
    int64_t gates;                 // 0: none; H or H * Dv
};
// result->out is the layer's, dense [B, Nq, Mo]; the rest is its attention's. With `rows` and no rotary embedding, norm or
// gate, out alone is made, exact, at the cost of those rows.
void reference_layer(const struct reference_layer *problem, const struct reference_result *result);

// Merge part b into part a: rows of `head_dim_v` with one lse each.
void reference_merge(double *out_a, double *lse_a, const double *out_b, const double *lse_b, int64_t rows,
                     int64_t head_dim_v);

// The factor of the scores of head h.
double reference_scale(const struct reference *problem, int64_t h);

// The sum of a[i] b[i].
double reference_dot(const double *a, const double *b, int64_t n);

// One row's scores [Nkv] become what the options make of them, in place; p: the attention weights. Returns the
// log-sum-exp. The taps that are asked for are kept as result row `at_row`.
struct reference_row {
    int64_t b, h, i, p, kv_length;
    int64_t at; // of the results
};
double reference_finish(const struct reference *problem, const struct reference_row *row, double *scores,
                        double *p, const struct reference_result *result);
// What is added to a capped score, bias and ALiBi; *size, which may be absent, grows by its parts' sizes.
double reference_added(const struct reference *problem, const struct reference_row *row, int64_t j,
                       double *size);
// The factor by which dropout multiplies the row's weight of key j.
double reference_dropout(const struct reference *problem, const struct reference_row *row, int64_t j);
// Row `number` of a problem's [B, H, Nq].
struct reference_row reference_row_of(const struct reference *problem, int64_t number);
// Whether it sees key j: causality, window, lengths and mask.
bool reference_sees(const struct reference *problem, const struct reference_row *row, int64_t j);

// count doubles, all 0; ends the program when there is no memory.
double *reference_alloc(int64_t count);

#endif
