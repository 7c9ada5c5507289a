// storage.h: the storage types as the device sees them, on the host: rounding, loading and storing one
// element. Used by the reference (plain computation), the buffers and the
// suites.
#ifndef CLATTN_EVIDENCE_REFERENCE_STORAGE_H
#define CLATTN_EVIDENCE_REFERENCE_STORAGE_H

#include <clattn/clattn.h>

// The value of storage_load for an element that still holds the NaN pattern of storage_poison.
#define STORAGE_UNTOUCHED 0x1p1000 // of one digit: an x87 register keeps more of a constant than a double has

// The nearest value of the type, ties to even; overflow gives infinity.
double storage_round(clattn_type type, double x);

// The number that a type with scales keeps of one that its scale has divided, as many below 0 as above, or with `zeros` of all that it
// has; and its largest and its least.
double storage_unscaled(clattn_type type, double x);
double storage_from_zero(clattn_type type, double x);
double storage_largest(clattn_type type);
double storage_least(clattn_type type);

// What tells a group of numbers of such a type, whose largest is then that of the type or, with `zeros`, whose range is the type's: a
// number is (stored - zero) * scale, both of `scale_type`. Zeros alone have a scale of 0, and a NaN makes it NaN. storage_scaled: what is
// stored of a number, as clattn_append_enqueue makes it, a division in float32.
struct storage_scale {
    double scale, zero;
};
struct storage_scale storage_scale_of(clattn_type type, clattn_type scale_type, bool zeros, const double *x,
                                      int64_t size);
double storage_scaled(clattn_type type, bool zeros, double x, struct storage_scale scale);

double storage_load(clattn_type type, const void *base, int64_t index);
void storage_store(clattn_type type, void *base, int64_t index, double x);

// Blocks of 32 numbers, in place: what a block keeps of them, so that storing them then keeps all. The largest number, or the
// range, decides the scale, as in ggml.
void storage_round_blocks(clattn_type type, double *values, int64_t count);
// An element's number, or a block's numbers.
void storage_store_numbers(clattn_type type, void *base, int64_t index, const double *values);
void storage_load_numbers(clattn_type type, const void *base, int64_t index, double *values);

// Fill with a NaN of one bit pattern (0xFF for bool), so that an element nobody wrote is known by its bits.
void storage_poison(clattn_type type, void *base, int64_t count);

// The coarser of two floating-point types: f32 < f16 < bf16.
// The most that rounding moves a number, relative to it: 2^-24, 2^-11, 2^-8; of another type 0.
double storage_roundoff(clattn_type type);
clattn_type storage_coarser(clattn_type a, clattn_type b);

#endif
