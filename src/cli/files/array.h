// array.h: a tensor in host memory: dense, C order, of a type that the program's files can contain.
// The file formats read and write arrays, and the sub-commands copy them to and from the device.
#ifndef CLATTN_CLI_FILES_ARRAY_H
#define CLATTN_CLI_FILES_ARRAY_H
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
    ARRAY_BOOL, // one byte, nonzero is true
    // The .npy type that also stores bfloat16. A caller that expects bfloat16 sets type =
    // ARRAY_BF16.
    ARRAY_U16,
    ARRAY_I8, // from here on, types of quantised numbers, which have scales in another array
    ARRAY_F8E4M3,
    ARRAY_F8E5M2,
    ARRAY_TYPE_COUNT
} array_type;

typedef struct array {
    array_type type;
    int rank;                      // 0 to 8; rank 0 is one element
    int64_t shape[ARRAY_MAX_RANK]; // sizes past rank are 0
    // Malloc'ed, and never NULL in a created array, even with no elements.
    void *data;
    size_t bytes; // number of elements times the size of one
} array;

// Release the data and zero the struct. A zeroed array and NULL are allowed.
void array_free(array *a);

// Bytes of one element, and a name such as "f32". An invalid type has size 0 and the name
// "unknown".
size_t array_type_size(array_type type);
const char *array_type_name(array_type type);

// Number of elements; 1 for rank 0.
int64_t array_count(const array *a);

// The number of bytes of a shape. False if the rank or a size is out of range, or if the product of
// the nonzero sizes overflows int64_t or size_t. So [0, 2^62, 2^62] is rejected as well.
bool array_measure(array_type type, int rank, const int64_t *shape, size_t *bytes);

// Create a zeroed array. False: the shape is out of range or memory is short. *out is then zeroed.
bool array_create(array *out, array_type type, int rank, const int64_t *shape);

// Writes the shape as "[3, 12, 24]", cut to fit, and returns `text`.
const char *array_shape_text(const array *a, char text[128]);

// Convert to a malloc'ed float array. i32 and i64 are rounded to nearest, bool becomes 0 or 1, and
// other types are exact. False: no memory.
bool array_to_f32(const array *a, float **values);

// Create an array of type f32, f16 or bf16 with a's shape from values[array_count(a)], rounded to
// nearest, ties to even. False: another type, or no memory.
bool array_from_f32(const array *a, const float *values, array_type type, array *out);

// Convert to 16 bits, rounding to nearest, ties to even. Larger values become infinity. A NaN stays
// a quiet NaN with its sign and the upper bits of its payload. The conversion back is exact.
// Source: IEEE 754-2019, sections 3.4 and 4.3.1.
uint16_t array_f16_from_f32(float value);
uint16_t array_bf16_from_f32(float value);
float array_f32_from_f16(uint16_t bits);
float array_f32_from_bf16(uint16_t bits);
#endif
