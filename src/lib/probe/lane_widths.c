// lane_widths.c: see lane_widths.h. Computes the expected result of probe_lanes.cl on the host,
// exactly: in integers and powers of two.
#include "probe/lane_widths.h"

#include <string.h>

#include "probe/fragments.h"

#define ROW_VECTORS 3
#define KEY_BLOCK 4
#define KEYS 8
#define HEAD 22   // not a multiple of any vector width
#define WORDS 160 // words of q and k; then those of v
#define NOT_SEEN (-100)

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Elements of q and k, then of v.
static int number_at(int word) {
    return word * 5 % 9 - 4;
}
static int value_at(int element) {
    // Always positive, so that no sum is zero: the sign of a zero depends on the compiler.
    return element * 7 % 13 + 1;
}

unsigned cla_lanes_wanted(unsigned probes) {
    return probes & PROBES_LANES ? probes | PROBES_LANES | 1u << PROBE_FMA : probes;
}

bool cla_lanes_worth(const clattn_capabilities *device, const probe_results *known) {
    return device->float_vector_width >= 4 || LANES_REACH * known->rate[PROBE_FMA] > known->rate[PROBE_TILES];
}

// A device that reports itself as both CPU and GPU, as Oclgrind's interpreter does, qualifies only
// if it reports vectors.
bool cla_lanes_possible(const clattn_capabilities *device) {
    return device->is_cpu && (device->float_vector_width >= 4 || !device->is_gpu);
}

knobs cla_lanes_knobs(int lanes) {
    return (knobs){.lanes = lanes,
                   .row_vectors = ROW_VECTORS,
                   .key_block = KEY_BLOCK,
                   .head_dim = HEAD,
                   .head_dim_v = lanes + 1};
}

void cla_lanes_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < WORDS; i++) in[i] = bits_of((float)number_at(i));
    for (int i = 0; i < WORDS; i++)
        in[WORDS + i] =
            bits_of((float)value_at(2 * i)) >> 16 | (bits_of((float)value_at(2 * i + 1)) & 0xffff0000u);
}

// Rows beyond the last one repeat the last row of q, but have their own key range.
static int score_of(int row, int last_row, int key) {
    const int first = row % 3, last = row % 7 == 6 ? 0 : 5 + row % 4;
    int sum = 0;
    for (int d = 0; d < HEAD; d++)
        sum += number_at((row < last_row ? row : last_row) + d) * number_at(70 + 3 * key + d);
    return key < first || key >= last ? NOT_SEEN : sum < -6 ? -6 : sum > 6 ? 6 : sum;
}

// Compute the weights of a row's keys, scaled by 4096, which is the largest weight. Returns their
// sum.
static int weigh(int row, int last_row, int weights[KEYS]) {
    int s[KEYS], most = NOT_SEEN, all = 0;
    for (int j = 0; j < KEYS; j++) {
        s[j] = score_of(row, last_row, j);
        if (s[j] > most) most = s[j];
    }
    for (int j = 0; j < KEYS; j++) {
        weights[j] = s[j] == NOT_SEEN ? 0 : 4096 >> (most - s[j]);
        all += weights[j];
    }
    return all;
}

void cla_lanes_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    const int lanes = k->lanes, rows = ROW_VECTORS * lanes, columns = lanes + 1;
    int weights[KEYS], across = 0;
    for (int r = 0; r < rows; r++) {
        const int all = weigh(r, rows - 4, weights);
        out[(rows - 3) * columns + r] = bits_of((float)all / 4096.0f);
        for (int d = 0; d < columns && r < rows - 3; d++) {
            int sum = 0;
            for (int j = 0; j < KEYS; j++) sum += weights[j] * value_at(18 * j + d);
            out[r * columns + d] = bits_of((float)sum / 4096.0f * (all ? 2.0f : 1.0f));
        }
    }
    for (int i = 0; i < lanes; i++) across += number_at(3 + i);
    for (int i = 0; i < lanes; i++) {
        int sum = 0;
        for (int c = 0; c < lanes; c++) sum += number_at(i + c);
        out[(rows - 3) * columns + rows + i] = bits_of((float)(sum * across));
    }
}

double cla_lanes_flops(const knobs *k) {
    return 2.0 * HEAD * KEY_BLOCK * ROW_VECTORS * k->lanes;
}

// The tile has 64 rows, 32 columns and 16 steps of the inner sum.
bool cla_tiles_possible(const clattn_capabilities *device) {
    return (cla_lanes_possible(device) || cla_fragments_possible(device)) &&
           device->max_work_group >= TILES_PROBE_ITEMS && device->max_work_item[0] >= TILES_PROBE_ITEMS &&
           device->local_memory_bytes >= 8192;
}

knobs cla_tiles_knobs(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.micro_rows = 8, .group_rows = 8, .group_columns = 8, .chunk = 16};
}

void cla_tiles_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    for (int item = 0; item < TILES_PROBE_ITEMS; item++) {
        const int row = item / k->group_columns * k->micro_rows, column = item % k->group_columns;
        int all = 0;
        for (int r = 0; r < k->micro_rows; r++)
            for (int c = 0; c < 4; c++)
                for (int d = 0; d < k->chunk; d++)
                    all += (r + 1) * (c + 1) * number_at(row + r + d) *
                           number_at(100 + column + c * k->group_columns + d);
        out[item] = bits_of((float)all);
    }
}

double cla_tiles_flops(const knobs *k) {
    return 2.0 * TILES_PROBE_ITEMS * 4 * k->micro_rows * k->chunk;
}
