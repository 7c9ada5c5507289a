/* A tensor in host memory: dense, C order, of one of the types that the tool's files carry. What npy and
 * safetensors read and write, and what the sub-commands copy to and from the device. It knows no file and no
 * OpenCL. */
#ifndef CLATTN_TOOL_FILES_ARRAY_H
#define CLATTN_TOOL_FILES_ARRAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_MAX_RANK 8

typedef enum array_type {
    ARRAY_F32 = 0,
    ARRAY_F16,
    ARRAY_BF16,
    ARRAY_I32,
    ARRAY_I64,
    ARRAY_BOOL, /* one byte, nonzero is true */
    ARRAY_U16,  /* how .npy carries bfloat16; the caller that knows better sets type = ARRAY_BF16 */
    ARRAY_I8,   /* from here on numbers that have scales beside them */
    ARRAY_F8E4M3,
    ARRAY_F8E5M2,
    ARRAY_TYPE_COUNT
} array_type;

typedef struct array {
    array_type type;
    int rank;                      /* 0 to 8; rank 0 is one element */
    int64_t shape[ARRAY_MAX_RANK]; /* sizes past rank are 0 */
    void *data;                    /* from malloc, never NULL in a made array, also with no elements */
    size_t bytes;                  /* elements * size of one */
} array;

/* Release the data and zero the struct; a zeroed array and NULL are allowed. */
void array_free(array *a);

/* Bytes of one element, and a name such as "f32"; 0 and "unknown" for a number that is no type. */
size_t array_type_size(array_type type);
const char *array_type_name(array_type type);

/* Number of elements; 1 for rank 0. */
int64_t array_count(const array *a);

/* Bytes that a shape takes. False where a rank or size is out of range or the product leaves int64_t or
 * size_t; a zero size does not excuse the others, so that [0, 2^62, 2^62] is refused too. */
bool array_measure(array_type type, int rank, const int64_t *shape, size_t *bytes);

/* Make an array with every byte zero. False: the shape is out of range, or there is no memory; *out is then
 * zeroed. */
bool array_create(array *out, array_type type, int rank, const int64_t *shape);

/* The shape as "[3, 12, 24]", cut to fit; returns text. */
const char *array_shape_text(const array *a, char text[128]);

/* A malloc'ed float for each element: exact but for i32 and i64, which are rounded to nearest; bool is 0 or 1. False: no memory. */
bool array_to_f32(const array *a, float **values);

/* A new array of type f32, f16 or bf16 with a's shape, from values[array_count(a)], rounded to nearest even.
 * False: another type, or no memory. */
bool array_from_f32(const array *a, const float *values, array_type type, array *out);

/* To 16 bits, rounded to nearest even; past the largest finite number is infinity; a NaN stays a NaN of its
 * sign and upper payload, made quiet. And back, exactly.   Source: IEEE 754-2019, sections 3.4 and 4.3.1. */
uint16_t array_f16_from_f32(float value);
uint16_t array_bf16_from_f32(float value);
float array_f32_from_f16(uint16_t bits);
float array_f32_from_bf16(uint16_t bits);
#endif
