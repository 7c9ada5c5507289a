// linear_fragments.cl: y = x W^T + bias for many rows on a GPU's matrix engine, shared by the
// work-items of a warp (fragments.clh). x and W are both float16 or both bfloat16, with float32
// sums; with BF16_TERMS at least one is float32, and the other may be bfloat16.
//
// A work-group of GROUP_ROWS x GROUP_COLUMNS warps has a tile of y. A warp has FRAGMENT_ROWS *
// ROW_VECTORS rows by COLUMN_TILE columns of it in registers. Rows of x are the warp's own operand;
// warps share rows of W, like keys in attention. Local memory has CHUNK numbers of the reduction of
// all these rows, in two buffers: the next chunk is loaded while the current one is multiplied.
// RoPE is applied before y is stored: one work-item has both columns of a pair. The rows of all
// batch items form one sequence.
//
// Local size FRAGMENT_GROUP; global size (FRAGMENT_GROUP * ceil(B*rows / TILE_ROWS), ceil(columns /
// TILE_COLUMNS)).
//
// With BF16_TERMS, a float32 is the sum of three bfloat16 terms. Only products of terms that affect
// float32 are computed: six for two float32 operands, three for one and a bfloat16. Numbers are
// split on their way to local memory, where a chunk has one buffer; the next chunk waits in
// registers. Engines do not round their sums to nearest. So each chunk has its own sums, with the
// product of the first terms separate, which are added to the total. Function `mend` handles
// numbers that terms cannot represent.
#if defined(BF16_TERMS) && BF16_TERMS > 1
#define TYPES_OF 0
#else
#define TYPES_OF 1
#endif
#ifndef TYPE_Q
#define TYPE_Q TYPES_OF
#endif
#ifndef TYPE_KV
#define TYPE_KV TYPES_OF
#endif
#ifndef GROUP_ROWS
#define GROUP_ROWS 2
#endif
#ifndef GROUP_COLUMNS
#define GROUP_COLUMNS 2
#endif
#ifndef COLUMN_TILE
#define COLUMN_TILE 32
#endif
#define FRAGMENT_GROUP (GROUP_ROWS * GROUP_COLUMNS * FRAGMENT_ITEMS)
#if BF16_TERMS > 1
#define TYPE_FRAGMENT STORE_BF16
#define STORAGE_FOURS
#endif
#include "fragments/fragments.clh"
#include "linear/linear.clh"

#if BF16_TERMS == 1 && TYPE_Q != TYPE_KV
#error "x and the weights are of one type of 16 bits"
#endif
#if BF16_TERMS == 2 ||                                                                                       \
    (BF16_TERMS == 3 && TYPE_Q + TYPE_KV != STORE_F32 && TYPE_Q + TYPE_KV != STORE_BF16) ||                  \
    (BF16_TERMS == 3 && TYPE_Q == STORE_F16)
#error "BF16_TERMS is 3 with x and weights of float32, or one of them of bfloat16; 1 with others"
#endif
#if FRAGMENT_TILES
#error "products are of fragments that are loaded: MATRIX_ENGINE and EMULATED are none of wgmma"
#endif
#if ALIGNED_VECTORS != 0 && ALIGNED_VECTORS != 2
#error "rows are read by eights or one by one"
#endif
#if CHUNK != 32 && CHUNK != 64
#error "CHUNK is 32 or 64"
#endif
#if GROUP_ROWS * GROUP_COLUMNS > 16 || ROW_VECTORS > 4 || COLUMN_TILE > 64 ||                                \
    COLUMN_TILE % FRAGMENT_TILE_STEP != 0
#error "at most 16 warps, ROW_VECTORS 4, and COLUMN_TILE 64, whole fragments"
#endif

#define WARP_ROWS (FRAGMENT_ROWS * ROW_VECTORS)
#define TILE_ROWS (WARP_ROWS * GROUP_ROWS)
#define TILE_COLUMNS (COLUMN_TILE * GROUP_COLUMNS)
#define WARP_ROW (FRAGMENT_WARP / GROUP_COLUMNS)
#define WARP_COLUMN (FRAGMENT_WARP % GROUP_COLUMNS)
#define COLUMN_PARTS (COLUMN_TILE / FRAGMENT_COLUMNS)
#define PIECES (CHUNK / 8) // pieces of eight numbers of a row, in local memory
#define STEPS (CHUNK / FRAGMENT_STEP)

// A line of local memory has FOLD rows of a tile, since lines have 64 numbers on NVIDIA. The tile's
// first half has one row per line, and the second half follows in the same lines.
#define FOLD LINEAR_FRAGMENTS_FOLD(FRAGMENT_ENGINE, CHUNK)
#define LINE_BYTES FRAGMENTS_PITCH(FRAGMENT_ENGINE, FOLD *CHUNK)
#define X_LINES (TILE_ROWS / FOLD)
#define W_LINES (TILE_COLUMNS / FOLD)
#define X_BYTES (X_LINES * LINE_BYTES)
// Buffers, or terms in one buffer. W comes first.
#define X_TERMS LINEAR_FRAGMENTS_TERMS(BF16_TERMS, TYPE_Q == STORE_F32)
#define W_TERMS LINEAR_FRAGMENTS_TERMS(BF16_TERMS, TYPE_KV == STORE_F32)
#define X_AT (W_TERMS * W_LINES * LINE_BYTES)
#define LOCAL_BYTES                                                                                          \
    LINEAR_FRAGMENTS_LOCAL_BYTES(FRAGMENT_ENGINE, X_TERMS *TILE_ROWS + W_TERMS * TILE_COLUMNS, CHUNK)
#if X_LINES % FRAGMENT_ROWS != 0 || W_LINES % FRAGMENT_TILE_STEP != 0 || FRAGMENT_GROUP % PIECES != 0
#error "a tile's half is no whole fragments"
#endif

// A work-item loads the same piece of every PASS_ROWS-th row of a tile.
#define PASS_ROWS (FRAGMENT_GROUP / PIECES)
#define PASSES(rows) (((rows) + PASS_ROWS - 1) / PASS_ROWS)
#define OWN_PIECE ((int)get_local_id(0) % PIECES)
#define PASS_ROW(n) ((int)get_local_id(0) / PIECES + (n)*PASS_ROWS)
#define EACH_PASS(n, rows)                                                                                   \
    FRAGMENT_UNROLL for (int n = 0; n < PASSES(rows);                                                        \
                         n++) if ((rows) % PASS_ROWS == 0 || PASS_ROW(n) < (rows))
// The row's line, and its index within the line. If passes divide a tile's lines, both depend on
// the pass alone.
#define IS_HALVES(lines) ((lines) % PASS_ROWS == 0)
#define PASS_LINE(n, lines) (IS_HALVES(lines) ? PASS_ROW(0) + (n)*PASS_ROWS % (lines) : PASS_ROW(n) % (lines))
#define PASS_FOLD(n, lines) (IS_HALVES(lines) ? (n)*PASS_ROWS / (lines) : PASS_ROW(n) / (lines))
#define PASS_PLACE(n, lines)                                                                                 \
    FRAGMENT_PLACE(PASS_LINE(n, lines), PASS_FOLD(n, lines) * PIECES + OWN_PIECE, LINE_BYTES)

#if BF16_TERMS > 1
typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global const ELEMENT(TYPE_KV) * matrix_pointer;
typedef float8 piece; // eight numbers of a row in registers
#else
typedef __global const ushort *x_pointer, *matrix_pointer;
typedef uint4 piece;
#endif
typedef __global const ELEMENT(TYPE_BIAS) * bias_pointer;

// The rows of x and W whose pieces a work-item loads, and the pieces in its registers.
typedef struct tile_rows {
    x_pointer x[PASSES(TILE_ROWS)];
    matrix_pointer w[PASSES(TILE_COLUMNS)];
} tile_rows;
typedef struct fetched {
    piece x[PASSES(TILE_ROWS)], w[PASSES(TILE_COLUMNS)];
} fetched;
typedef struct warp_sums {
    fragment_sums s[ROW_VECTORS][COLUMN_PARTS];
} warp_sums;

// The tile's column in line n. A work-item has both columns of a pair: if its elements are every
// second line, each four lines are reordered.
int line_column(int n) {
#if ROPE && FRAGMENT_RUN == 1
    return n / 4 * 4 + n % 2 * 2 + n / 2 % 2;
#else
    return n;
#endif
}

// Rows past the last row are copies of it, and are not stored; so are columns.
FRAGMENT_INLINE long place_of_row(const linear_args *a, long wanted) {
    const long row = min(wanted, (long)a->batch * a->rows - 1);
    return a->x_offset + row / a->rows * a->x_batch + row % a->rows * a->x_row;
}
FRAGMENT_INLINE long place_of_column(const linear_args *a, int wanted) {
    return a->w_offset + walk_column(a, min(wanted, a->columns - 1)) * a->w_row;
}
FRAGMENT_INLINE void find_rows(tile_rows *to, const linear_args *a, x_pointer x, matrix_pointer w,
                               long first_row, int first_column) {
    EACH_PASS(n, TILE_ROWS) to->x[n] = x + place_of_row(a, first_row + PASS_ROW(n));
    EACH_PASS(n, TILE_COLUMNS) to->w[n] = w + place_of_column(a, first_column + line_column(PASS_ROW(n)));
}

// The offset of number d of a row, whose heads of `columns` numbers may not be contiguous.
FRAGMENT_INLINE long number_place(int d, int columns, long head) {
    return d < columns ? d : d / columns * head + d % columns;
}

// Load the chunk from number k on to a buffer. begin_chunk runs before the current chunk is
// multiplied, end_chunk after it. A whole chunk is contiguous.
#define IS_WHOLE(a, k)                                                                                       \
    (ALIGNED_VECTORS == 2 && (k) + CHUNK <= (a)->reduction && (a)->x_head_columns == (a)->reduction)
#if BF16_TERMS > 1
// Numbers d to d + 7 of a row; 0 past the reduction.
#define TAKE_PIECE(x, type, row, d, columns, head)                                                           \
    {                                                                                                        \
        float each_[8];                                                                                      \
        for (int i_ = 0; i_ < 8; i_++)                                                                       \
            each_[i_] =                                                                                      \
                (d) + i_ < a->reduction ? LOAD(type, row, number_place((d) + i_, columns, head)) : 0.0f;     \
        (x) = (float8)(each_[0], each_[1], each_[2], each_[3], each_[4], each_[5], each_[6], each_[7]);      \
    }
#if ALIGNED_VECTORS == 2 // eight numbers are contiguous
#define BRING(x, type, row, d, columns, head)                                                                \
    if (whole || (d) + 8 <= a->reduction)                                                                    \
        (x) = LOAD_EIGHT(type, row, whole ? (d) : number_place(d, columns, head));                           \
    else                                                                                                     \
        TAKE_PIECE(x, type, row, d, columns, head)
#else
#define BRING(x, type, row, d, columns, head) TAKE_PIECE(x, type, row, d, columns, head)
#endif
FRAGMENT_INLINE void begin_chunk(fetched *f, const tile_rows *rows, const linear_args *a, int k,
                                 const bool whole, int buffer, fragment_memory *memory) {
    const int d = k + 8 * OWN_PIECE;
    EACH_PASS(n, TILE_ROWS) {
        BRING(f->x[n], TYPE_Q, rows->x[n], d, a->x_head_columns, a->x_head);
    }
    EACH_PASS(n, TILE_COLUMNS) {
        BRING(f->w[n], TYPE_KV, rows->w[n], d, a->reduction, 0);
    }
    (void)buffer, (void)memory;
}

// Flags of numbers that terms cannot represent. Bits 0 to 7 (x) and 8 to 15 (W): one is 2^50 or
// more. Bits 16 to 31: one is below 2^-45 but not 0. The bit is the pass modulo 8. Without flags,
// products are between 2^-90 and 2^100.
#define LARGEST (177u << 23) // bits of 2^50
#define LEAST (82u << 23)    // bits of 2^-45
#define X_BIT(pass) ((pass) % 8)
#define W_BIT(pass) ((pass) % 8 + 8)
#define SMALL_BIT 16
FRAGMENT_INLINE uint strange_among(const float *x) {
    // `least`: the smallest bits of the numbers other than 0, minus 1
    uint most = 0, least = 0xffffffffu;
    FRAGMENT_UNROLL for (int i = 0; i < 8; i++) {
        const uint bits = as_uint(x[i]) & 0x7fffffffu;
        most = max(most, bits), least = min(least, bits - 1u);
    }
    return (uint)(most >= LARGEST) | (uint)(least < LEAST - 1u) << SMALL_BIT;
}
FRAGMENT_INLINE uint put_terms(fragment_memory *memory, int to, int term_bytes, const int terms,
                               float8 read) {
    float x[8] = {read.s0, read.s1, read.s2, read.s3, read.s4, read.s5, read.s6, read.s7};
    const uint strange = strange_among(x);
    FRAGMENT_UNROLL for (int i = 0; i < terms; i++)
        FRAGMENT_PUT(*memory, to + term_bytes * i, fragment_next_term(x));
    return strange;
}
FRAGMENT_INLINE uint end_chunk(const fetched *f, int buffer, fragment_memory *memory) {
    uint strange = 0;
    EACH_PASS(n, TILE_ROWS)
    strange |= put_terms(memory, X_AT + PASS_PLACE(n, X_LINES), X_BYTES, X_TERMS, f->x[n]) << X_BIT(n);
    EACH_PASS(n, TILE_COLUMNS)
    strange |= put_terms(memory, PASS_PLACE(n, W_LINES), W_LINES * LINE_BYTES, W_TERMS, f->w[n]) << W_BIT(n);
    (void)buffer;
    return strange;
}
#else
// Numbers d to d + 7 of a row; 0 past the reduction. Eight numbers are contiguous with
// ALIGNED_VECTORS.
FRAGMENT_INLINE uint4 piece_of(x_pointer row, int d, const linear_args *a, int columns, long head) {
    uint x[8];
    for (int i = 0; i < 8; i++)
        x[i] = d + i < a->reduction ? (uint)row[number_place(d + i, columns, head)] : 0;
    return FRAGMENT_PIECE(x);
}

#define PIECE_BYTES(d) (whole ? 16 : 2 * clamp(a->reduction - (d), 0, 8))
#define PIECE_PLACE(d, columns, head) (whole ? (d) : (d) < a->reduction ? number_place(d, columns, head) : 0)
// Load a piece of a row to the work-item's registers, or to its place.
#if FRAGMENT_FETCHES && ALIGNED_VECTORS == 2
#define BRING(own, to, row, at, d, bytes, columns, head) (own) = fragment_piece((row) + (at), bytes)
#elif FRAGMENT_FETCHES
#define BRING(own, to, row, at, d, bytes, columns, head) (own) = piece_of(row, d, a, columns, head)
#elif ALIGNED_VECTORS == 2
#define BRING(own, to, row, at, d, bytes, columns, head) FRAGMENT_COPY(*memory, to, (row) + (at), bytes)
#else
#define BRING(own, to, row, at, d, bytes, columns, head)                                                     \
    FRAGMENT_PUT(*memory, to, piece_of(row, d, a, columns, head))
#endif
#define X_PLACE(buffer, n) (X_AT + (buffer)*X_BYTES + PASS_PLACE(n, X_LINES))
#define W_PLACE(buffer, n) ((buffer)*W_LINES * LINE_BYTES + PASS_PLACE(n, W_LINES))
FRAGMENT_INLINE void begin_chunk(fetched *f, const tile_rows *rows, const linear_args *a, int k,
                                 const bool whole, int buffer, fragment_memory *memory) {
    const int d = k + 8 * OWN_PIECE, bytes = PIECE_BYTES(d);
    const long x_at = PIECE_PLACE(d, a->x_head_columns, a->x_head), w_at = PIECE_PLACE(d, a->reduction, 0);
    EACH_PASS(n, TILE_ROWS)
    BRING(f->x[n], X_PLACE(buffer, n), rows->x[n], x_at, d, bytes, a->x_head_columns, a->x_head);
    EACH_PASS(n, TILE_COLUMNS)
    BRING(f->w[n], W_PLACE(buffer, n), rows->w[n], w_at, d, bytes, a->reduction, 0);
    (void)f, (void)buffer, (void)memory, (void)x_at, (void)w_at, (void)bytes;
}
FRAGMENT_INLINE void end_chunk(const fetched *f, int buffer, fragment_memory *memory) {
#if FRAGMENT_FETCHES
    EACH_PASS(n, TILE_ROWS) FRAGMENT_PUT(*memory, X_PLACE(buffer, n), f->x[n]);
    EACH_PASS(n, TILE_COLUMNS) FRAGMENT_PUT(*memory, W_PLACE(buffer, n), f->w[n]);
#else
    (void)f, (void)buffer, (void)memory;
#endif
}
#endif

// The line of row or column `from` of a warp with `count` of them, and its index within the line.
#define WARP_LINE(warp, count, from, lines)                                                                  \
    ((lines) % (count) == 0 ? (warp) * (count) % (lines) + (from) : ((warp) * (count) + (from)) % (lines))
#define WARP_FOLD(warp, count, from, lines)                                                                  \
    ((lines) % (count) == 0 ? (warp) * (count) / (lines) : ((warp) * (count) + (from)) / (lines))

// The line where row vector x, or part y of the columns, begins in the warp.
#define OWN_LINE(x) WARP_LINE(WARP_ROW, WARP_ROWS, FRAGMENT_ROWS *(x), X_LINES)
#define OWN_FOLD(x) WARP_FOLD(WARP_ROW, WARP_ROWS, FRAGMENT_ROWS *(x), X_LINES)
#define SHARED_LINE(y) WARP_LINE(WARP_COLUMN, COLUMN_TILE, FRAGMENT_COLUMNS *(y), W_LINES)
#define SHARED_FOLD(y) WARP_FOLD(WARP_COLUMN, COLUMN_TILE, FRAGMENT_COLUMNS *(y), W_LINES)

// Add the products over a chunk. Rows from a multiple of 8 on begin at their place.
#if BF16_TERMS > 1
FRAGMENT_INLINE void multiply_chunk(warp_sums *t, int buffer, fragment_memory *memory) {
    fragment_own own[ROW_VECTORS][STEPS][X_TERMS];
    EACH_VECTOR(x)
    FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++) FRAGMENT_UNROLL for (int i = 0; i < X_TERMS; i++)
        FRAGMENT_LOAD_OWN(own[x][d][i], *memory, X_AT + X_BYTES * i + OWN_LINE(x) * LINE_BYTES, 0,
                          OWN_FOLD(x) * STEPS + d, LINE_BYTES);
    FRAGMENT_UNROLL for (int y = 0; y < COLUMN_PARTS; y += FRAGMENT_PARTS) {
        fragment_sums high[ROW_VECTORS][FRAGMENT_PARTS], low[ROW_VECTORS][FRAGMENT_PARTS];
        EACH_VECTOR(x) EACH_PART(i) EACH_ELEMENT(e) high[x][i][e] = 0.0f, low[x][i][e] = 0.0f;
        FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++) {
            fragment_shared w[W_TERMS];
            FRAGMENT_UNROLL for (int i = 0; i < W_TERMS; i++) FRAGMENT_LOAD_KEYS(
                w[i], *memory, SHARED_LINE(y) + W_LINES * i, SHARED_FOLD(y) * STEPS + d, LINE_BYTES);
            EACH_VECTOR(x)
            EACH_PART(i)
            FRAGMENT_UNROLL for (int n = 0; n < X_TERMS; n++)
                FRAGMENT_UNROLL for (int m = 0; m < W_TERMS && n + m < BF16_TERMS; m++) {
                if (n + m > 0)
                    FRAGMENT_MULTIPLY_ADD(low[x][i], own[x][d][n], w[m], i, *memory);
                else
                    FRAGMENT_MULTIPLY_ADD(high[x][i], own[x][d][n], w[m], i, *memory);
            }
        }
        EACH_VECTOR(x) EACH_PART(i) EACH_ELEMENT(e) t->s[x][y + i][e] += high[x][i][e] + low[x][i][e];
    }
    (void)buffer;
}
#define HAVE_READ barrier(CLK_LOCAL_MEM_FENCE) // the chunk, which the next one replaces
#else
FRAGMENT_INLINE void multiply_chunk(warp_sums *t, int buffer, fragment_memory *memory) {
    FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++) {
        fragment_own own[ROW_VECTORS];
        EACH_VECTOR(x)
        FRAGMENT_LOAD_OWN(own[x], *memory, X_AT + buffer * X_BYTES + OWN_LINE(x) * LINE_BYTES, 0,
                          OWN_FOLD(x) * STEPS + d, LINE_BYTES);
        FRAGMENT_UNROLL for (int y = 0; y < COLUMN_PARTS; y += FRAGMENT_PARTS) {
            fragment_shared w;
            FRAGMENT_LOAD_KEYS(w, *memory, buffer * W_LINES + SHARED_LINE(y), SHARED_FOLD(y) * STEPS + d,
                               LINE_BYTES);
            EACH_VECTOR(x) EACH_PART(i) FRAGMENT_MULTIPLY_ADD(t->s[x][y + i], own[x], w, i, *memory);
        }
    }
}
#define HAVE_READ
#endif

#if BF16_TERMS > 1
#define STRANGE_PARAMETER , uint *strange
#define STRANGE_VALUE , &strange
#define SEE_STRANGE(found) *strange |= (found)
#define BEGIN_STRANGE(found) uint strange = (found)
// Combine the flags of all work-items, and fix the results.
#define DECLARE_SEEN                                                                                         \
    __local volatile uint seen[32];                                                                          \
    for (int i = (int)get_local_id(0); i < 32; i += FRAGMENT_GROUP) seen[i] = 0
#define MEND                                                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    if (strange) {                                                                                           \
        for (int i = 0; i < 32; i++)                                                                         \
            if (strange >> i & 1u) seen[i] = 1;                                                              \
    }                                                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    for (int i = 0; i < 32; i++) strange |= seen[i] << i;                                                    \
    if (strange) mend(&sums, strange, &args, x, w, first_row, first_column)
#else
#define STRANGE_PARAMETER
#define STRANGE_VALUE
#define SEE_STRANGE(found) found
#define BEGIN_STRANGE(found) found
#define DECLARE_SEEN
#define MEND
#endif

// Multiply the chunk from number k on while the next one is loaded. `whole`: the next one is whole.
FRAGMENT_INLINE int next_chunk(warp_sums *t, fetched *f, const tile_rows *rows, const linear_args *a, int k,
                               const bool whole, int buffer, fragment_memory *memory STRANGE_PARAMETER) {
    const bool more = whole || k + CHUNK < a->reduction; // uniform
    FRAGMENT_WAIT();
    barrier(CLK_LOCAL_MEM_FENCE); // the chunk is loaded, and the previous one has been read
    if (more) begin_chunk(f, rows, a, k + CHUNK, whole, 1 - buffer, memory);
    multiply_chunk(t, buffer, memory);
    HAVE_READ;
    if (more) SEE_STRANGE(end_chunk(f, 1 - buffer, memory));
    return 1 - buffer;
}

#if BF16_TERMS > 1
// Recompute elements by multiply-adds if terms cannot represent their operands. This is the case in
// rows and columns with a number that is too large, infinite or NaN. It is also the case for
// elements below 2^-20 if a number is too small; larger ones do not depend on what engines lose
// below 2^-126.
FRAGMENT_INLINE void mend(warp_sums *t, uint strange, const linear_args *a, x_pointer x_all,
                          matrix_pointer w_all, long first_row, int first_column) {
    // Not unrolled: the first element is fixed and moved to the end.
#pragma unroll 1
    for (int n = 0; n < ROW_VECTORS * COLUMN_PARTS * FRAGMENT_ELEMENTS; n++) {
        const int x = n / (COLUMN_PARTS * FRAGMENT_ELEMENTS), y = n / FRAGMENT_ELEMENTS % COLUMN_PARTS,
                  e = n % FRAGMENT_ELEMENTS,
                  row = WARP_ROWS * WARP_ROW + FRAGMENT_ROWS * x + FRAGMENT_ROW(e / ROW_ELEMENTS),
                  column = COLUMN_TILE * WARP_COLUMN + FRAGMENT_COLUMN(y, e);
        const uint found = strange >> X_BIT(row / PASS_ROWS) | strange >> W_BIT(column / PASS_ROWS);
        float s = t->s[0][0][0];
        if ((found & 1u) || ((found >> SMALL_BIT & 1u) && fabs(s) < 0x1p-20f)) {
            const x_pointer x_row = x_all + place_of_row(a, first_row + row);
            const matrix_pointer w_row = w_all + place_of_column(a, first_column + line_column(column));
            s = 0.0f;
#pragma unroll 1
            for (int d = 0; d < a->reduction; d++)
                s = MULTIPLY_ADD(LOAD(TYPE_Q, x_row, number_place(d, a->x_head_columns, a->x_head)),
                                 LOAD(TYPE_KV, w_row, d), s);
        }
        EACH_VECTOR(x_)
        FRAGMENT_UNROLL for (int y_ = 0; y_ < COLUMN_PARTS; y_++) EACH_ELEMENT(e_) t->s[x_][y_][e_] =
            e_ + 1 < FRAGMENT_ELEMENTS ? t->s[x_][y_][(e_ + 1) % FRAGMENT_ELEMENTS]
            : y_ + 1 < COLUMN_PARTS    ? t->s[x_][(y_ + 1) % COLUMN_PARTS][0]
            : x_ + 1 < ROW_VECTORS     ? t->s[(x_ + 1) % ROW_VECTORS][0][0]
                                       : s;
    }
}
#endif

// Offsets of a work-item's rows in y, -1 past the last row, and with RoPE their positions.
typedef struct item_rows {
    long y[ROW_VECTORS][FRAGMENT_ITEM_ROWS];
    long position[ROW_VECTORS][FRAGMENT_ITEM_ROWS];
} item_rows;
FRAGMENT_INLINE void find_results(item_rows *to, const linear_args *a, __global const int *table,
                                  long first) {
    EACH_VECTOR(x) EACH_ITEM_ROW(n) {
        const long all = (long)a->batch * a->rows, wanted = first + FRAGMENT_ROWS * x + FRAGMENT_ROW(n);
        const int b = (int)(min(wanted, all - 1) / a->rows), i = (int)(min(wanted, all - 1) % a->rows);
        to->y[x][n] = wanted < all ? a->y_offset + b * a->y_batch + i * a->y_row : -1;
#if ROPE
        to->position[x][n] = rope_position(a, table, b, i);
#else
        (void)table;
#endif
    }
}

// With RoPE, which is much code, the loop is not unrolled: the first part is stored, and the others
// move up.
#if ROPE
#define EACH_STORED_PART(y) _Pragma("unroll 1") for (int y = 0; y < COLUMN_PARTS; y++)
#define STORED(t, x, y) (t)->s[x][0]
#define MOVE_UP(t)                                                                                           \
    EACH_VECTOR(x)                                                                                           \
    FRAGMENT_UNROLL for (int z = 0; z + 1 < COLUMN_PARTS; z++) EACH_ELEMENT(e)(t)->s[x][z][e] =              \
        (t)->s[x][z + 1][e]
#else
#define EACH_STORED_PART(y) FRAGMENT_UNROLL for (int y = 0; y < COLUMN_PARTS; y++)
#define STORED(t, x, y) (t)->s[x][y]
#define MOVE_UP(t)
#endif

FRAGMENT_INLINE void store(warp_sums *t, const linear_args *a, const item_rows *rows, int first_column,
                           bias_pointer bias, __global const ulong *frequencies,
                           __global ELEMENT(TYPE_OUT) * y_all) {
    (void)frequencies; // used with RoPE
    EACH_STORED_PART(y) {
        FRAGMENT_UNROLL for (int z = 0; z < ROW_ELEMENTS; z += 2) {
            int walked[2];
            long at[2];
            float2 more = 0.0f;
            FRAGMENT_UNROLL for (int u = 0; u < 2; u++) {
                walked[u] = first_column + line_column(FRAGMENT_COLUMN(y, z + u));
                const int c = walk_column(a, min(walked[u], a->columns - 1));
                at[u] = c / a->y_head_columns * a->y_head + c % a->y_head_columns;
                const float b = (a->flags & ARGS_BIAS) ? LOAD(TYPE_BIAS, bias, a->bias_offset + c) : 0.0f;
                if (u == 0)
                    more.s0 = b;
                else
                    more.s1 = b;
            }
            EACH_VECTOR(x) EACH_ITEM_ROW(n) {
                float2 value =
                    (float2)(STORED(t, x, y)[ROW_ELEMENT(n, z)], STORED(t, x, y)[ROW_ELEMENT(n, z + 1)]) +
                    more;
#if ROPE
                value = rope_pair(a, frequencies, rows->position[x][n], walked[0] % a->y_head_columns, value);
#endif
                const long row = rows->y[x][n];
                if (row >= 0 && walked[0] < a->columns) STORE(TYPE_OUT, y_all, row + at[0], value.s0);
                if (row >= 0 && walked[1] < a->columns) STORE(TYPE_OUT, y_all, row + at[1], value.s1);
            }
        }
        MOVE_UP(t);
    }
}

__kernel FRAGMENT_SIZED __attribute__((reqd_work_group_size(FRAGMENT_GROUP, 1, 1))) void
linear_fragments(x_pointer x, matrix_pointer w, bias_pointer bias, __global ELEMENT(TYPE_OUT) * y,
                 __global const ulong *frequencies, __global const int *table, linear_args args) {
    __local uint4 tile[LOCAL_BYTES / 16] __attribute__((aligned(128)));
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    DECLARE_SEEN;
    const long first_row = (long)get_group_id(0) * TILE_ROWS;
    const int first_column = UNIFORM_ID(1) * TILE_COLUMNS;
    tile_rows rows;
    fetched on_way;
    warp_sums sums;
    item_rows results;
    EACH_VECTOR(x_)
    FRAGMENT_UNROLL for (int y_ = 0; y_ < COLUMN_PARTS; y_++) EACH_ELEMENT(e) sums.s[x_][y_][e] = 0.0f;
    find_rows(&rows, &args, x, w, first_row, first_column);
    begin_chunk(&on_way, &rows, &args, 0, false, 0, &memory);
    BEGIN_STRANGE(end_chunk(&on_way, 0, &memory));
    int buffer = 0, k = 0;
    for (; IS_WHOLE(&args, k + CHUNK); k += CHUNK)
        buffer = next_chunk(&sums, &on_way, &rows, &args, k, true, buffer, &memory STRANGE_VALUE);
    for (; k < args.reduction; k += CHUNK)
        buffer = next_chunk(&sums, &on_way, &rows, &args, k, false, buffer, &memory STRANGE_VALUE);
    MEND;
    find_results(&results, &args, table, first_row + WARP_ROWS * WARP_ROW);
    store(&sums, &args, &results, first_column + COLUMN_TILE * WARP_COLUMN, bias, frequencies, y);
}
