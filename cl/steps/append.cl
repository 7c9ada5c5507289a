// append.cl: new rows of keys and values into the rows of a cache: converted to its type, keys turned by RoPE on the way.
// A row of int8 or float8 is divided by the scale that becomes its own: the largest magnitude of the row over the largest number
// of the type. A work-group has a row, because that largest one is of all of it. Of a row in blocks a work-item has a block.
#include "call/rope.clh"
#include "call/items.clh"

#if PAST && PAGED
#error "pages have no past"
#endif

#if WORK_GROUP < 1 || (WORK_GROUP & (WORK_GROUP - 1)) != 0
#error "WORK_GROUP is a power of two"
#endif
typedef __global ELEMENT(TYPE_KV) * cache_pointer;
typedef __global const ELEMENT(TYPE_Q) * new_pointer;

// A row: `pairs` pairs of columns that turn, from which on the columns stand alone.
typedef struct new_row {
    new_pointer x;
    int pairs, size;
    long position;
    int b, n;
} new_row;

// Columns of the pair or, past the pairs, of the column alone that is unit `u`; the second is -1 there.
int first_column(const new_row *row, int u) {
    if (u >= row->pairs) return u + row->pairs;
    return ROPE == 2 ? 2 * u : u;
}
int second_column(const new_row *row, int u) {
    if (u >= row->pairs) return -1;
    return ROPE == 2 ? 2 * u + 1 : u + row->pairs;
}

#if ROPE
#define TURN_PARAMETERS , __global const ulong *turns, float amplitude TURN_POSITIONS
#define TURN_ARGUMENTS , turns, args.amplitude TURN_POSITIONS_GIVEN
#define TURN_PASSED_ON , turns, amplitude TURN_POSITIONS_PASSED_ON
#else
#define TURN_PASSED_ON
#define TURN_PARAMETERS
#define TURN_ARGUMENTS
#endif
#if POSITIONS
#define TURN_POSITIONS , __global const int *positions, const rope_source_args *source
#define TURN_POSITIONS_GIVEN , positions, &source
#define TURN_POSITIONS_PASSED_ON , positions, source
#else
#define TURN_POSITIONS
#define TURN_POSITIONS_GIVEN
#define TURN_POSITIONS_PASSED_ON
#endif

float2 new_unit(const new_row *row, int u TURN_PARAMETERS) {
    const float x0 = LOAD(TYPE_Q, row->x, first_column(row, u));
    if (u >= row->pairs) return (float2)(x0, 0.0f);
    const float x1 = LOAD(TYPE_Q, row->x, second_column(row, u));
#if ROPE
#if POSITIONS
    const long position = positions[view_row(&source->positions, row->b, rope_axis(source, u), row->n)];
#else
    const long position = row->position;
#endif
    const float angle = rope_half_turns(position, turns[u]);
    const float c = cospi(angle) * amplitude, s = sinpi(angle) * amplitude;
    return (float2)(x0 * c - x1 * s, x1 * c + x0 * s);
#else
    return (float2)(x0, x1);
#endif
}

#if STORE_IS_BLOCKS(TYPE_KV)
// One column, turned: the others of its pair are made again.
float new_column(const new_row *row, int c TURN_PARAMETERS) {
    if (c >= 2 * row->pairs) return LOAD(TYPE_Q, row->x, c);
    const int u = ROPE == 2 ? c / 2 : c % row->pairs;
    const float2 x = new_unit(row, u TURN_PASSED_ON);
    return first_column(row, u) == c ? x.s0 : x.s1;
}

// Block n of the row as ggml makes it: scales from the largest number, the one with its sign or the two at the ends, before they
// are rounded to float16. A block with a number that is not finite is one of NaN; a scale may be too large for float16. [ggml]
void store_block(cache_pointer to, const float *x) {
    float far = 0.0f, least = x[0], most = x[0], sum = 0.0f;
    for (int c = 0; c < 32; c++) {
        if (fabs(x[c]) > fabs(far)) far = x[c];
        least = fmin(least, x[c]), most = fmax(most, x[c]), sum += x[c] * 0.0f;
    }
#if TYPE_KV == STORE_Q8_0
    const float d = fabs(far) / 127.0f;
#elif TYPE_KV == STORE_Q4_0
    const float d = far / -8.0f;
#else
    const float d = (most - least) / 15.0f;
    vstore_half_rte(least, 0, (__global half *)&to->least);
#endif
    const float inverse =
        sum == 0.0f && d != 0.0f ? 1.0f / d : 0.0f; // sum is NaN where some number is not finite
    vstore_half_rte(d + sum, 0, (__global half *)&to->scale);
#if TYPE_KV == STORE_Q8_0
    for (int c = 0; c < 32; c++) to->n[c] = (char)clamp(convert_int_rte(x[c] * inverse), -127, 127);
#else
    const float zero = TYPE_KV == STORE_Q4_0 ? 0.0f : least, first = TYPE_KV == STORE_Q4_0 ? 8.5f : 0.5f;
    for (int c = 0; c < 16; c++) {
        const int low = clamp((int)((x[c] - zero) * inverse + first), 0, 15),
                  high = clamp((int)((x[c + 16] - zero) * inverse + first), 0, 15);
        to->n[c] = (uchar)(low | high << 4);
    }
#endif
}
#endif

// One of them, with a NaN where either is one.
float larger(float a, float b) {
    return isnan(a) || a > b ? a : b;
}

#if STORE_IS_SCALED(TYPE_KV)
#define STORE_NEW(to, at, value) (to)[at] = quantised(value, scale)
// To the nearest, ties to even. A row whose scale is 0 is one of zeros; one whose scale is no finite number is NaN whatever
// its numbers are.
#if TYPE_KV == STORE_I8
#define LARGEST_STORED 127.0f
char rounded(float x) {
    return (char)clamp(convert_int_rte(x), -127, 127);
}
#else
#if TYPE_KV == STORE_F8E4M3
#define LARGEST_STORED 448.0f
#define LARGEST_BITS 0x7e
#define MANTISSA 3
#define LEAST_EXPONENT -6
#else
#define LARGEST_STORED 57344.0f
#define LARGEST_BITS 0x7b
#define MANTISSA 2
#define LEAST_EXPONENT -14
#endif
// A carry out of the mantissa is one of the exponent.
uchar rounded(float x) {
    const uint bits = as_uint(x);
    const int exponent = max((int)(bits >> 23 & 255) - 127, LEAST_EXPONENT);
    const int units = convert_int_rte(fabs(x) * as_float((uint)(MANTISSA - exponent + 127) << 23));
    return (uchar)(bits >> 24 & 128 | min(((exponent - (LEAST_EXPONENT)) << MANTISSA) + units, LARGEST_BITS));
}
#endif
ELEMENT(TYPE_KV) quantised(float x, float scale) {
    if (!(scale > 0.0f) || isinf(scale)) return 0;
    return rounded(x / scale);
}
#else
#define STORE_NEW(to, at, value) STORE(TYPE_KV, to, at, value)
#endif

// Where a new row goes: the row of the cache of item b, or, of pages, of page b.
typedef struct append_place {
    bool exists; // else there is no such row
    int b;
    long row;
    long position; // among the item's keys
} append_place;

#if PAST
#define PAST_PARAMETER , const append_past_args *past
#define PAST_ARGUMENT , &past
#else
#define PAST_PARAMETER
#define PAST_ARGUMENT
#endif

append_place place_of(const append_args *a, __global const int *table, int b, int n PAST_PARAMETER) {
    append_place p;
#if RAGGED
    const ragged_key key = ragged_key_of(table, a->sequences, n);
    p.b = key.b, p.position = key.position, p.exists = key.exists;
#else
    const bool tabled = a->flags & ARGS_BATCH_ROWS;
    const long start = tabled ? table[APPEND_ITEM_WORDS * (long)b] : a->start;
    p.b = b, p.position = start + n;
    p.exists = n < (tabled ? table[APPEND_ITEM_WORDS * (long)b + 1] : a->n);
#endif
    p.row = a->circular ? p.position % a->capacity : p.position;
#if PAST // it is not written, whatever lengths on the device say
    p.row -= past->word < 0 ? past->rows : table[past->word + p.b];
    p.exists = p.exists && p.row >= 0;
#endif
    return p;
}

#if PAGED
// The page takes the item's place. What a block table names that is no page is not written.
void take_page(append_place *p, __global const int *block_table, const page_args *a) {
    if (!p->exists) return;
    const int block = (int)(p->row / a->page_size),
              page = block_table[a->offset + p->b * a->batch + block * a->column];
    p->row -= (long)block * a->page_size;
    p->b = page;
    p->exists = page >= 0 && page < a->pages;
}
#endif

// Global size: (rows * WORK_GROUP, batch * heads, sides).
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
append(new_pointer k_new, new_pointer v_new, cache_pointer k, cache_pointer v,
#if STORE_IS_SCALED(TYPE_KV)
       __global float *k_scale, __global float *v_scale,
#endif
#if ROPE
       __global const ulong *turns,
#endif
#if POSITIONS
       __global const int *positions,
#endif
       __global const int *table,
#if PAGED
       __global const int *block_table, const page_args pages,
#endif
       const append_args args
#if PAST
       ,
       const append_past_args past
#endif
#if POSITIONS
       ,
       const rope_source_args source
#endif
) {
    const int n = (int)(get_global_id(0) / WORK_GROUP), lane = (int)get_local_id(0);
    const int b = UNIFORM_ID(1) / args.heads, h = UNIFORM_ID(1) % args.heads;
    const bool is_key = UNIFORM_ID(2) + args.first_side == 0;
    append_place place = place_of(&args, table, b, n PAST_ARGUMENT);
#if PAGED
    take_page(&place, block_table, &pages);
#endif
    const bool has_row = place.exists;
    const args_view *from = is_key ? &args.k_new : &args.v_new, *to = is_key ? &args.k : &args.v;

    new_row row;
    row.x = (is_key ? k_new : v_new) + view_row(from, b, h, n);
    row.size = has_row ? (is_key ? args.head_dim : args.head_dim_v) : 0; // not a return before a barrier
    row.pairs = ROPE && is_key && has_row ? args.rotary_dim / 2 : 0;
    row.position = args.position + place.position;
    row.b = b, row.n = n;
#if !STORE_IS_BLOCKS(TYPE_KV)
    const int units = row.size - row.pairs;
#endif
#if STORE_IS_SCALED(TYPE_KV)
    __local float part[WORK_GROUP];
    float largest = 0.0f;
    for (int u = lane; u < units; u += WORK_GROUP) {
        const float2 x = fabs(new_unit(&row, u TURN_ARGUMENTS));
        largest = larger(x.s0, larger(x.s1, largest));
    }
    part[lane] = largest;
    for (int half_size = WORK_GROUP / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); // the upper half must be there
        if (lane < half_size) part[lane] = larger(part[lane + half_size], part[lane]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float scale = part[0] / LARGEST_STORED;
    if (lane == 0 && has_row)
        (is_key ? k_scale
                : v_scale)[view_row(is_key ? &args.k_scale : &args.v_scale, place.b, h, (int)place.row)] =
            scale;
#endif
    const cache_pointer line = (is_key ? k : v) + (has_row ? view_row(to, place.b, h, (int)place.row) : 0);
#if STORE_IS_BLOCKS(TYPE_KV)
    for (int n = lane; n < row.size / 32; n += WORK_GROUP) {
        float x[32];
        for (int c = 0; c < 32; c++) x[c] = new_column(&row, 32 * n + c TURN_ARGUMENTS);
        store_block(line + n, x);
    }
#else
    for (int u = lane; u < units; u += WORK_GROUP) {
        const float2 x = new_unit(&row, u TURN_ARGUMENTS);
        STORE_NEW(line, first_column(&row, u), x.s0);
        if (u < row.pairs) STORE_NEW(line, second_column(&row, u), x.s1);
    }
#endif
}
