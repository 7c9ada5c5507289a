// storage.h: the storage types in host memory: rounding, loading and storing. Used by the
// reference, the buffers and the suites.
#ifndef CLATTN_VERIFICATION_REFERENCE_STORAGE_H
#define CLATTN_VERIFICATION_REFERENCE_STORAGE_H

#include <clattn/clattn.h>

// The value of storage_load for an element that still has the NaN pattern of storage_poison. It is
// a power of two, because x87 registers have more digits of a constant than a double.
#define STORAGE_UNTOUCHED 0x1p1000

// The nearest value of the type, ties to even; overflow becomes infinity.
double storage_round(clattn_type type, double x);

// For types with scales: round x, a number divided by its scale. The range of storage_unscaled is
// symmetric around 0. The range of storage_from_zero, used with zero points, is the whole range of
// the type, from storage_least to storage_largest.
double storage_unscaled(clattn_type type, double x);
double storage_from_zero(clattn_type type, double x);
double storage_largest(clattn_type type);
double storage_least(clattn_type type);

// The scale of a group of numbers: a number is (stored - zero) * scale, both of `scale_type`. The
// largest number becomes the type's largest; with `zeros` the range becomes the type's range. All
// zeros have a scale of 0, and a NaN makes it NaN. storage_scaled computes the stored number as
// clattn_append_enqueue does, with a float32 division.
struct storage_scale {
    double scale, zero;
};
struct storage_scale storage_scale_of(clattn_type type, clattn_type scale_type, bool zeros, const double *x,
                                      int64_t size);
double storage_scaled(clattn_type type, bool zeros, double x, struct storage_scale scale);

double storage_load(clattn_type type, const void *base, int64_t index);
void storage_store(clattn_type type, void *base, int64_t index, double x);

// Round blocks of 32 numbers in place to values that storing them keeps exactly. The largest number
// or the range decides the scale, as in ggml.
void storage_round_blocks(clattn_type type, double *values, int64_t count);
// Store or load an element's number, or a block's numbers.
void storage_store_numbers(clattn_type type, void *base, int64_t index, const double *values);
void storage_load_numbers(clattn_type type, const void *base, int64_t index, double *values);

// Fill with a NaN of one bit pattern (0xFF for bool), so that an unwritten element is recognised by
// its bits.
void storage_poison(clattn_type type, void *base, int64_t count);

// storage_roundoff: the largest relative rounding error: 2^-24, 2^-11, 2^-8; 0 for other types.
// storage_coarser: the coarser of two floating-point types, f32 < f16 < bf16.
double storage_roundoff(clattn_type type);
clattn_type storage_coarser(clattn_type a, clattn_type b);

#endif
