// append.cl: store new rows of keys and values in a cache, converted to the cache's type. It
// applies RoPE to keys (knob ROPE) and multiplies rows by the Hadamard matrix (knob HADAMARD).
//
// A work-group of WORK_GROUP items has one row. This is because a row of int8 or float8 has one
// scale: its largest magnitude over the largest number of the type. In a row of blocks, or of
// groups with scales, each work-item converts whole blocks or groups. Local memory: the row with
// HADAMARD, and partial maxima with scales.
#include "call/rope.clh"
#include "call/items.clh"
#include "auxiliary/hadamard.clh"
#include "auxiliary/quantise.clh"

#if PAST && PAGED
#error "pages have no past"
#endif
typedef __global const ELEMENT(TYPE_Q) * new_pointer;

// A new row: `pairs` pairs of columns that RoPE rotates, then single columns.
typedef struct new_row {
    new_pointer x;
    int pairs, size;
    long position;
    int b, n;
} new_row;

#if ROPE
#define ROPE_PARAMETERS , __global const ulong *frequencies, float amplitude ROPE_POSITIONS_PARAMETER
#define ROPE_ARGUMENTS , frequencies, args.amplitude ROPE_POSITIONS_ARGUMENT
#define ROPE_PASSED_ON , frequencies, amplitude ROPE_POSITIONS_PASSED_ON
#else
#define ROPE_PASSED_ON
#define ROPE_PARAMETERS
#define ROPE_ARGUMENTS
#endif
#if POSITIONS
#define ROPE_POSITIONS_PARAMETER , __global const int *positions, const rope_source_args *source
#define ROPE_POSITIONS_ARGUMENT , positions, &source
#define ROPE_POSITIONS_PASSED_ON , positions, source
#else
#define ROPE_POSITIONS_PARAMETER
#define ROPE_POSITIONS_ARGUMENT
#define ROPE_POSITIONS_PASSED_ON
#endif

float2 new_unit(const new_row *row, int u ROPE_PARAMETERS) {
    const float x0 = LOAD(TYPE_Q, row->x, unit_column(row->pairs, u));
    if (u >= row->pairs) return (float2)(x0, 0.0f);
    const float x1 = LOAD(TYPE_Q, row->x, unit_partner(row->pairs, u));
#if ROPE
#if POSITIONS
    const long position = positions[view_row(&source->positions, row->b, rope_axis(source, u), row->n)];
#else
    const long position = row->position;
#endif
    const float angle = rope_angle_over_pi(position, frequencies[u]);
    const float c = cospi(angle) * amplitude, s = sinpi(angle) * amplitude;
    return (float2)(x0 * c - x1 * s, x1 * c + x0 * s);
#else
    return (float2)(x0, x1);
#endif
}

// Unit u and column c of the row as float32, after RoPE and Hadamard transform.
#if HADAMARD
#define STORED_UNIT(u) ((float2)(numbers[u], 0.0f))
#define STORED_COLUMN(c) numbers[c]
#else
#define STORED_UNIT(u) new_unit(&row, u ROPE_ARGUMENTS)
#define STORED_COLUMN(c) new_column(&row, c ROPE_ARGUMENTS)
#endif

#if (STORE_IS_BLOCKS(TYPE_KV) || SCALE_GROUP) && !HADAMARD
// One column after RoPE, which computes the column's whole pair.
float new_column(const new_row *row, int c ROPE_PARAMETERS) {
    if (c >= 2 * row->pairs) return LOAD(TYPE_Q, row->x, c);
    const int u = ROPE == 2 ? c / 2 : c % row->pairs;
    const float2 x = new_unit(row, u ROPE_PASSED_ON);
    return unit_column(row->pairs, u) == c ? x.s0 : x.s1;
}
#endif

// The place of a new row: batch item (or page) b and a row of its cache.
typedef struct append_place {
    bool exists; // false: there is no such row
    int b;
    long row;
    long position; // position among the item's keys
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
#if PAST // a row before the cache is not written, with any lengths on the device
    p.row -= past->word < 0 ? past->rows : table[past->word + p.b];
    p.exists = p.exists && p.row >= 0;
#endif
    return p;
}

#if PAGED
// Replace the item by the page. Rows whose page number is outside the pool are not written.
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
       scale_memory k_scale, scale_memory v_scale,
#endif
#if ZERO_POINTS
       scale_memory k_zero, scale_memory v_zero,
#endif
#if ROPE
       __global const ulong *frequencies,
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
    // 0 columns, not a return before a barrier.
    row.size = has_row ? (is_key ? args.head_dim : args.head_dim_v) : 0;
    row.pairs = ROPE && is_key && has_row ? args.rotary_dim / 2 : 0;
    row.position = args.position + place.position;
    row.b = b, row.n = n;
// From here on the row is in local memory and has single columns only.
#if HADAMARD
    __local float numbers[HADAMARD_MOST_COLUMNS];
    const int side = is_key ? 0 : 1;
    for (int u = lane; u < row.size - row.pairs; u += WORK_GROUP) {
        const float2 x = new_unit(&row, u ROPE_ARGUMENTS) * args.scale[side];
        numbers[unit_column(row.pairs, u)] = x.s0;
        if (u < row.pairs) numbers[unit_partner(row.pairs, u)] = x.s1;
    }
    rotate_line(numbers, row.size, args.block[side]);
    row.pairs = 0;
#endif
#if !STORE_IS_BLOCKS(TYPE_KV) && !SCALE_GROUP
    const int units = row.size - row.pairs;
#endif
#if STORE_IS_SCALED(TYPE_KV) && !SCALE_GROUP
    __local float part[WORK_GROUP];
    float largest = 0.0f;
    for (int u = lane; u < units; u += WORK_GROUP) {
        const float2 x = fabs(STORED_UNIT(u));
        largest = larger(x.s0, larger(x.s1, largest));
    }
    const float scale = largest_of_group(largest, part) / LARGEST_STORED;
    if (lane == 0 && has_row)
        (is_key ? k_scale
                : v_scale)[view_row(is_key ? &args.k_scale : &args.v_scale, place.b, h, (int)place.row)] =
            scale;
#endif
    const cache_pointer line = (is_key ? k : v) + (has_row ? view_row(to, place.b, h, (int)place.row) : 0);
#if STORE_IS_BLOCKS(TYPE_KV)
    for (int n = lane; n < row.size / 32; n += WORK_GROUP) {
        float x[32];
        for (int c = 0; c < 32; c++) x[c] = STORED_COLUMN(32 * n + c);
        store_block(line + n, x);
    }
#elif SCALE_GROUP
    const args_view *scales = is_key ? &args.k_scale : &args.v_scale;
    scale_place at = {is_key ? k_scale : v_scale};
    const long first_scale = has_row ? view_row(scales, place.b, h, (int)place.row) : 0;
#if ZERO_POINTS
    at.zero = (is_key ? k_zero : v_zero) + scales->column;
#endif
    const int size = SCALE_GROUP > 1 ? SCALE_GROUP : row.size;
    for (int first = lane * size; first < row.size; first += WORK_GROUP * size) {
        at.at = first_scale + first / size;
        STORE_GROUP(line, &at, first, first + size, STORED_COLUMN);
    }
#else
    for (int u = lane; u < units; u += WORK_GROUP) {
        const float2 x = STORED_UNIT(u);
        STORE_NEW(line, unit_column(row.pairs, u), x.s0);
        if (u < row.pairs) STORE_NEW(line, unit_partner(row.pairs, u), x.s1);
    }
#endif
}
