// reference_rope.c: RoPE of one row in double precision, the frequencies of each scaling, and the
// Hadamard transform of a row.
#include "verification/reference/reference.h"

#include <math.h>

static double given(double x, double otherwise) {
    return x != 0 ? x : otherwise;
}

// Scaled by wavelength, as in Llama 3.1's code.
static double llama3_frequency(const clattn_rope *rope, double frequency) {
    const double wavelength = 2 * acos(-1.0) / frequency, low = given(rope->low_factor, 1),
                 high = given(rope->high_factor, 4);
    if (wavelength < rope->original_length / high) return frequency;
    if (wavelength > rope->original_length / low) return frequency / rope->factor;
    const double smooth = (rope->original_length / wavelength - low) / (high - low);
    return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

// Interpolated between two dimensions, as in the paper's code.
static double yarn_frequency(const clattn_rope *rope, double base, double width, double d) {
    const double pi2 = 2 * acos(-1.0), frequency = pow(base, -2 * d / width);
    double low = width * log(rope->original_length / (given(rope->beta_fast, 32) * pi2)) / (2 * log(base)),
           high = width * log(rope->original_length / (given(rope->beta_slow, 1) * pi2)) / (2 * log(base));
    if (!rope->untruncated) low = floor(low), high = ceil(high);
    low = low < 0 ? 0 : low;
    high = high > width - 1 ? width - 1 : high;
    const double ramp = (d - low) / (high == low ? 0.001 : high - low);
    const double interpolated = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return frequency / rope->factor * interpolated + frequency * (1 - interpolated);
}

static double frequency_of(const clattn_rope *rope, double width, double d) {
    const double base = given(rope->base, 10000), power = width / (width - 2);
    switch (rope->scaling) {
    case CLATTN_ROPE_SCALING_LINEAR:
        return pow(base, -2 * d / width) / rope->factor;
    case CLATTN_ROPE_SCALING_NTK:
        return pow(base * pow(rope->factor, power), -2 * d / width);
    case CLATTN_ROPE_SCALING_DYNAMIC: {
        const double length = fmax(rope->length, rope->original_length),
                     grown = rope->factor * length / rope->original_length - (rope->factor - 1);
        return pow(base * pow(grown, power), -2 * d / width);
    }
    case CLATTN_ROPE_SCALING_YARN:
        return yarn_frequency(rope, base, width, d);
    case CLATTN_ROPE_SCALING_PAIRS:
        return pow(base, -2 * d / width) / (double)rope->pair_factors[(int)d];
    case CLATTN_ROPE_SCALING_LLAMA3:
        return llama3_frequency(rope, pow(base, -2 * d / width));
    default:
        return pow(base, -2 * d / width);
    }
}

bool reference_has_sections(const clattn_rope *rope) {
    return rope->sections[0] != 0 || rope->sections[1] != 0 || rope->sections[2] != 0;
}

// The axis of positions that pair d uses, as in Transformers' two ways: consecutive slices, or
// every third pair from axes 1 and 2.
static int axis_of(const clattn_rope *rope, int64_t d) {
    int64_t end = 0;
    if (!reference_has_sections(rope)) return 0;
    for (int axis = 0; !rope->sections_interleaved && axis < 3; axis++) {
        end += rope->sections[axis];
        if (d < end) return axis;
    }
    for (int axis = 1; axis < 3; axis++)
        for (int64_t taken = axis; taken < (int64_t)rope->sections[axis] * 3; taken += 3)
            if (taken == d) return axis;
    return 0;
}

void reference_rope(const clattn_rope *rope, double *row, int64_t head_dim, const double position[3]) {
    int64_t width = rope->rotary_dim != 0 ? rope->rotary_dim : head_dim, half = width / 2;
    const double amplitude = rope->scaling == CLATTN_ROPE_SCALING_YARN
                                 ? given(rope->attention_factor, 0.1 * log(rope->factor) + 1)
                             : rope->scaling == CLATTN_ROPE_SCALING_PAIRS ? given(rope->attention_factor, 1)
                                                                          : 1;
    for (int64_t d = 0; d < half; d++) {
        double angle = position[axis_of(rope, d)] * frequency_of(rope, (double)width, (double)d);
        double *x = row + (rope->layout == CLATTN_ROPE_HALF ? d : 2 * d);
        double *y = row + (rope->layout == CLATTN_ROPE_HALF ? d + half : 2 * d + 1);
        double x0 = *x, y0 = *y;
        *x = amplitude * (x0 * cos(angle) - y0 * sin(angle));
        *y = amplitude * (x0 * sin(angle) + y0 * cos(angle));
    }
}

void reference_hadamard(double *row, int64_t size, int64_t block) {
    const double scale = block > 0 ? 1 / sqrt((double)block) : 1;
    for (int64_t apart = 1; apart < block; apart *= 2)
        for (int64_t c = 0; c < size; c++) {
            const double a = row[c], b = row[c ^ apart];
            if ((c & apart) == 0) row[c] = a + b, row[c ^ apart] = a - b;
        }
    for (int64_t c = 0; c < size; c++) row[c] *= scale;
}
