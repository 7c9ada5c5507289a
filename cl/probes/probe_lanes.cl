// probe_lanes.cl: does the device's compiler generate right and fast code for vectors of LANES
// floats, as the lanes kernels use them? It is a small attention of the same parts:
//   - rows transposed to lanes and back
//   - arrays of accumulators that must become registers
//   - masked keys, an online softmax, 16-bit loads, and sums across lanes
// Numbers are small integers and weights powers of two, so every result is exact. It runs before a
// width is used that the device does not report. The host compares every number.
#ifndef LANES
#define LANES 16
#endif
#ifndef ROW_VECTORS
#define ROW_VECTORS 3
#endif
#ifndef KEY_BLOCK
#define KEY_BLOCK 4
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 22
#endif
#ifndef HEAD_DIM_V
#define HEAD_DIM_V (LANES + 1)
#endif
#define LANES_ROWS
#include "lanes/lanes.clh"

#define KEYS 8
#define ACCUMULATORS (KEY_BLOCK * ROW_VECTORS)

// The first words and the strides of k and v. v has two bfloat16 per word.
#define FIRST_K 70
#define STRIDE_K 3
#define FIRST_V 160
#define STRIDE_V 18
#if KEYS % KEY_BLOCK != 0 || ROW_VECTORS > 3 || HEAD_DIM > 64 || HEAD_DIM_V < LANES || HEAD_DIM_V > STRIDE_V
#error "the words hold 48 rows and 8 keys of up to 64 columns, and values of LANES to 18"
#endif

// acc[a][b] += k[a][d] * q[d][b] over all columns, as in lanes_product.clh.
REGISTER_INLINE void multiply(VEC acc[KEY_BLOCK][ROW_VECTORS], const VEC *q_tile, __global const float *k) {
#pragma unroll 1
    for (int d = 0; d < HEAD_DIM; d++) {
        VEC q[ROW_VECTORS];
#pragma unroll
        for (int b = 0; b < ROW_VECTORS; b++) q[b] = q_tile[d * ROW_VECTORS + b];
#pragma unroll
        for (int a = 0; a < KEY_BLOCK; a++) {
            const VEC x = (VEC)(k[a * STRIDE_K + d]);
#pragma unroll
            for (int b = 0; b < ROW_VECTORS; b++) acc[a][b] = fma(x, q[b], acc[a][b]);
        }
    }
}

REGISTER_INLINE void clear(VEC acc[KEY_BLOCK][ROW_VECTORS]) {
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) acc[i / ROW_VECTORS][i % ROW_VECTORS] = (VEC)(0.0f);
}

// Row r sees the keys [r % 3, r % 7 == 6 ? 0 : 5 + r % 4).
REGISTER_INLINE void find_keys(VEC_INT first[ROW_VECTORS], VEC_INT last[ROW_VECTORS]) {
    int from[LANE_ROWS] LANES_ALIGNED, to[LANE_ROWS] LANES_ALIGNED;
    for (int r = 0; r < LANE_ROWS; r++) from[r] = r % 3, to[r] = r % 7 == 6 ? 0 : 5 + r % 4;
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) {
        first[b] = *(const VEC_INT *)(from + b * LANES);
        last[b] = *(const VEC_INT *)(to + b * LANES);
    }
}

// Scores of keys [j, j + KEY_BLOCK), clamped to [-6, 6], or -infinity for hidden keys. m is the
// running maximum.
REGISTER_INLINE void score(VEC *s_tile, VEC *m, const VEC *q_tile, __global const float *k, int j) {
    VEC s[KEY_BLOCK][ROW_VECTORS];
    VEC_INT first[ROW_VECTORS], last[ROW_VECTORS];
    clear(s);
    multiply(s, q_tile, k + j * STRIDE_K);
    find_keys(first, last);
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) {
        const int a = i / ROW_VECTORS, b = i % ROW_VECTORS;
        const VEC_INT sees = (first[b] <= j + a) & (last[b] > j + a);
        VEC x = max_lanes(s[a][b], (VEC)(-6.0f));
        x = x > 6.0f ? (VEC)(6.0f) : x;
        x = select((VEC)(-INFINITY), x, sees);
        m[b] = max_lanes(x, m[b]);
        s_tile[i] = x;
    }
}

// Add the rows' weights to l and the weighted values to o_tile, after rescaling both.
REGISTER_INLINE void weigh(VEC *o_tile, VEC *s_tile, VEC *m, VEC *l, const VEC *m_new, const float *v) {
    VEC keep[ROW_VECTORS];
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) {
        const VEC base = m_new[b] == -INFINITY ? (VEC)(0.0f) : m_new[b];
        VEC sum = (VEC)(0.0f);
        keep[b] = exp2_lanes(m[b] - base);
        m[b] = m_new[b];
        for (int j = 0; j < KEY_BLOCK; j++) {
            const VEC p = exp2_lanes(s_tile[j * ROW_VECTORS + b] - base);
            sum += p;
            s_tile[j * ROW_VECTORS + b] = p;
        }
        l[b] = fma(l[b], keep[b], sum);
    }
    for (int d = 0; d < HEAD_DIM_V; d++)
#pragma unroll
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC o = o_tile[d * ROW_VECTORS + b] * keep[b];
            for (int j = 0; j < KEY_BLOCK; j++)
                o = fma((VEC)(v[j * 2 * LANES + d]), s_tile[j * ROW_VECTORS + b], o);
            o_tile[d * ROW_VECTORS + b] = o;
        }
}

// The result: LANE_ROWS - 3 rows of HEAD_DIM_V sums; LANE_ROWS sums of weights; LANES sums across
// lanes.
REGISTER_INLINE void attend(const VEC *q_tile, __global const uint *words, __global uint *result) {
    __global const float *in = (__global const float *)words;
    __global const ushort *values = (__global const ushort *)(words + FIRST_V);
    __global float *out = (__global float *)result;
    VEC s_tile[ACCUMULATORS] LANES_ALIGNED, o_tile[HEAD_DIM_V * ROW_VECTORS] LANES_ALIGNED;
    VEC m[ROW_VECTORS], m_new[ROW_VECTORS], l[ROW_VECTORS], factor[ROW_VECTORS], t[LANES];
    float v[KEY_BLOCK * 2 * LANES] LANES_ALIGNED;
    for (int i = 0; i < HEAD_DIM_V * ROW_VECTORS; i++) o_tile[i] = (VEC)(0.0f);
    for (int b = 0; b < ROW_VECTORS; b++) m[b] = m_new[b] = (VEC)(-INFINITY), l[b] = (VEC)(0.0f);
#pragma unroll 1
    for (int j = 0; j < KEYS; j += KEY_BLOCK) {
        for (int a = 0; a < KEY_BLOCK; a++) {
            const long at = (j + a) * STRIDE_V;
            *(VEC *)(v + a * 2 * LANES) = LOAD_LANES(2, values, at);
            *(VEC *)(v + a * 2 * LANES + LANES) = LOAD_LANES_PART(2, values, at + LANES, HEAD_DIM_V - LANES);
        }
        score(s_tile, m_new, q_tile, in + FIRST_K, j);
        weigh(o_tile, s_tile, m, l, m_new, v);
    }
    for (int b = 0; b < ROW_VECTORS; b++) factor[b] = select((VEC)(2.0f), (VEC)(1.0f), l[b] == 0.0f);
    store_rows(out, HEAD_DIM_V, LANE_ROWS - 3, o_tile, factor);
    out += (LANE_ROWS - 3) * HEAD_DIM_V;
    for (int b = 0; b < ROW_VECTORS; b++) VSTORE(l[b], b, out);
    for (int i = 0; i < LANES; i++) t[i] = VLOAD(0, in + i);
    VSTORE(sum_each_lanes(t) * sum_lanes(VLOAD(0, in + 3)), 0, out + LANE_ROWS);
}

// With rounds 0, it stores the result of `attend`. Else it runs that many rounds of one block of
// scores.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_lanes(__global const uint *words,
                                                                         __global uint *result, int rounds) {
    __global const float *in = (__global const float *)words;
    VEC q_tile[HEAD_DIM * ROW_VECTORS] LANES_ALIGNED;
    LOAD_ROWS(0, q_tile, in, 1, LANE_ROWS - 3, HEAD_DIM);
    if (rounds == 0) {
        attend(q_tile, words, result);
        return;
    }
    VEC acc[KEY_BLOCK][ROW_VECTORS];
    clear(acc);
#pragma unroll 1
    for (int r = 0; r < rounds; r++) multiply(acc, q_tile, in + FIRST_K + r % 4);
#pragma unroll
    for (int i = 1; i < ACCUMULATORS; i++) acc[0][0] += acc[i / ROW_VECTORS][i % ROW_VECTORS];
    VSTORE(AS_VEC_UINT(acc[0][0]), 0, result);
}
