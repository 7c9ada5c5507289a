// layer_stored.c: matrices of 8 and 4 bits: those of files that have scales beside them, and those that --weight-type makes. Names and
// layouts of files are those of compressed-tensors (github.com/vllm-project/compressed-tensors), which llm-compressor and transformers
// write, and of DeepSeek's float8 with a scale a square of numbers (transformers, "fine-grained FP8").
#include "evidence/reference/storage.h"
#include "tool/layer/layer_weights.h"

// A matrix of a file, and which names there are.
typedef struct stored_file {
    const layer_weights *w;
    const char *name;
    char **names;
    size_t count;
    char other[512]; // the last name that was asked for
} stored_file;

static bool has(stored_file *f, const char *ending) {
    const int length = snprintf(f->other, sizeof f->other, "%s%s", f->name, ending);
    return length > 0 && length < (int)sizeof f->other &&
           layer_weights_have(f->w, f->names, f->count, f->other);
}

static bool is_float(const array *a) {
    return a->type == ARRAY_F32 || a->type == ARRAY_F16 || a->type == ARRAY_BF16;
}

// Numbers of so many bits from 32-bit words, the lowest bits first, along axis 1 or, of zero points, axis 0; less `offset`.
static int unpack_words(const char *name, int axis, int64_t size, int bits, int offset, array *a) {
    const int64_t each = 32 / bits, rows = axis ? a->shape[0] : size, columns = axis ? size : a->shape[1];
    array to = {0};
    const int64_t words_there = a->rank == 2 ? a->shape[axis] : 0;
    if (a->type != ARRAY_I32 || a->rank != 2 || size > words_there * each || size <= (words_there - 1) * each)
        return tool_wrong("--weights: %s: has no %lld numbers of %d bits in words of 32 along axis %d", name,
                          (long long)size, bits, axis);
    if (!array_create(&to, ARRAY_I8, 2, (int64_t[]){rows, columns})) return tool_failed("no memory");
    const uint32_t *words = a->data;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const int64_t at = axis ? i * a->shape[1] + j / each : i / each * columns + j;
            const int place = (int)((axis ? j : i) % each) * bits;
            ((int8_t *)to.data)[i * columns + j] =
                (int8_t)((int)(words[at] >> place & ((1u << bits) - 1)) - offset);
        }
    array_free(a);
    *a = to;
    return -1;
}

// NAME_packed and NAME_shape: numbers of 4 or 8 bits, more by half of their range. Zero points, of numbers as they are packed, make u4 of
// those of 4 bits.
static int read_packed(stored_file *f, array *a, matrix_scales *s) {
    array shape = {0};
    int status = layer_weights_read(f->w, f->other, a);
    if (status < 0 && !has(f, "_shape"))
        status = tool_wrong("--weights: the file has %s_packed, and no %s", f->name, f->other);
    if (status < 0) status = layer_weights_read(f->w, f->other, &shape);
    if (status < 0 && (shape.type != ARRAY_I64 || array_count(&shape) != 2))
        status = tool_wrong("--weights: %s: two numbers of 64 bits are needed", f->other);
    if (status < 0) {
        const int64_t size = ((const int64_t *)shape.data)[1], words = a->rank == 2 ? a->shape[1] : 0;
        const int bits = words * 4 == size ? 8 : 4;
        const bool zeros = has(f, "_zero_point");
        s->type = bits == 8 ? CLATTN_TYPE_I8 : zeros ? CLATTN_TYPE_U4 : CLATTN_TYPE_I4;
        status = unpack_words(f->name, 1, size, bits, bits == 8 ? 128 : zeros ? 0 : 8, a);
    }
    array_free(&shape);
    return status;
}

// One scale, or zero point, of all, one a row, one of each group of a row, or one of each square of numbers: [rows] or [rows, groups].
static int spread(const stored_file *f, const array *a, array *scale) {
    const int64_t rows = a->shape[0], size = a->shape[1], count = array_count(scale),
                  groups = scale->rank == 2 ? scale->shape[1] : 1;
    const int64_t group = groups > 0 ? size / groups : 0;
    const bool one = count == 1, each = scale->rank > 0 && scale->shape[0] == rows,
               whole = groups > 0 && size % groups == 0;
    char text[128];
    array to = {0};
    if (!is_float(scale) || scale->rank > 2 || !whole ||
        !(one || each || (group > 0 && scale->shape[0] == (rows + group - 1) / group)))
        return tool_wrong(
            "--weights: %s: is of type %s and shape %s: needed is one in all, one a row, one of each "
            "group of a row or of each square, scales as floats",
            f->other, array_type_name(scale->type), array_shape_text(scale, text));
    if (!array_create(&to, scale->type, groups > 1 ? 2 : 1, (int64_t[]){rows, groups}))
        return tool_failed("no memory");
    const size_t bytes = (size_t)groups * array_type_size(to.type);
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to.data + (size_t)i * bytes,
               (const char *)scale->data + (size_t)(one    ? 0
                                                    : each ? i
                                                           : i / group) *
                                               bytes,
               bytes);
    array_free(scale);
    *scale = to;
    return -1;
}

// Zero points as numbers of the scales' type and shape.
static int read_zeros(stored_file *f, const array *a, matrix_scales *s, int bits) {
    array read = {0};
    float *values = NULL;
    if (!has(f, "_zero_point")) return -1;
    if (s->type != CLATTN_TYPE_I8 && s->type != CLATTN_TYPE_U4)
        return tool_wrong("--weights: %s: numbers of %s have no zero points", f->other,
                          clattn_type_name(s->type));
    int status = layer_weights_read(f->w, f->other, &read);
    if (status < 0 && read.type == ARRAY_I32)
        status = unpack_words(f->other, 0, a->shape[0], bits, bits == 8 ? 128 : 0, &read);
    if (status < 0 && read.type != ARRAY_I8)
        status = tool_wrong("--weights: %s: holds %s: i8, or words of 32 bits, are needed", f->other,
                            array_type_name(read.type));
    if (status < 0 &&
        !(array_to_f32(&read, &values) && array_from_f32(&read, values, s->scale.type, &s->zero)))
        status = tool_failed("no memory");
    if (status < 0) status = spread(f, a, &s->zero);
    if (status < 0 && array_count(&s->zero) != array_count(&s->scale))
        status = tool_wrong("--weights: %s: there are %lld for %lld scales", f->other,
                            (long long)array_count(&s->zero), (long long)array_count(&s->scale));
    free(values);
    array_free(&read);
    return status;
}

static int read_scales(stored_file *f, const array *a, matrix_scales *s, int bits) {
    if (a->rank != 2) return tool_wrong("--weights: %s: has %d axes: [out, in] is needed", f->name, a->rank);
    if (has(f, "_g_idx"))
        return tool_wrong("--weights: %s: groups of numbers in another order than theirs are not built",
                          f->other);
    if (!has(f, "_scale") && !has(f, "_scale_inv"))
        return tool_wrong("--weights: %s: is of %s, and the file has no %s_scale", f->name,
                          clattn_type_name(s->type), f->name);
    int status = layer_weights_read(f->w, f->other, &s->scale);
    if (status < 0) status = spread(f, a, &s->scale);
    return status < 0 ? read_zeros(f, a, s, bits) : status;
}

static int read_file(stored_file *f, array *a, matrix_scales *s) {
    const bool packed = has(f, "_packed");
    const int status = packed ? read_packed(f, a, s) : layer_weights_read(f->w, f->name, a);
    if (status >= 0) return status;
    if (!packed && a->type == ARRAY_I8) s->type = CLATTN_TYPE_I8;
    if (a->type == ARRAY_F8E4M3) s->type = CLATTN_TYPE_F8E4M3;
    if (a->type == ARRAY_F8E5M2) s->type = CLATTN_TYPE_F8E5M2;
    return s->type == CLATTN_TYPE_F32 ? -1 : read_scales(f, a, s, s->type == CLATTN_TYPE_U4 ? 4 : 8);
}

int layer_stored_read(const layer_weights *w, const char *name, array *a, matrix_scales *s) {
    stored_file f = {.w = w, .name = name};
    reason error;
    *s = (matrix_scales){.type = CLATTN_TYPE_F32};
    if (!w->shards && !safetensors_names(w->file, &f.names, &f.count, error))
        return tool_wrong("--weights: %s", error);
    const int status = read_file(&f, a, s);
    free(f.names);
    return status;
}

int layer_stored_convert(const layer_weights *w, const char *option, array *a, const matrix_scales *s) {
    if (w->stores.type < 0) return -1;
    if (s->type != CLATTN_TYPE_F32)
        return tool_wrong("--weight-type: %s is of %s in the file already", option,
                          clattn_type_name(s->type));
    return tensors_store(option, a, w->store.type == CLATTN_TYPE_F32 ? w->stores.type : 0);
}

// Two numbers of four bits a byte.
static int pack(const array *a, clattn_type type, array *bytes) {
    const int64_t shape[2] = {a->shape[0], a->shape[1] / 2};
    const int8_t *from = a->data;
    if (a->shape[1] % 2)
        return tool_wrong("--weights: rows of %lld numbers of 4 bits: an even number is needed",
                          (long long)a->shape[1]);
    if (!array_create(bytes, ARRAY_BOOL, 2, shape)) return tool_failed("no memory for a matrix");
    for (int64_t n = 0; n < array_count(bytes); n++)
        storage_store_numbers(type, bytes->data, n, (double[]){from[2 * n], from[2 * n + 1]});
    return -1;
}

// Bytes travel as those of booleans.
int layer_stored_upload(const layer_weights *w, tensors *t, const array *a, const matrix_scales *s,
                        clattn_tensor *const views[3]) {
    array packed = {0}, bytes = *a;
    int status = -1;
    if (s->type == CLATTN_TYPE_F32) return store_upload(t, a, &w->store, views);
    bytes.type = ARRAY_BOOL;
    if (clattn_type_numbers(s->type) > 1) status = pack(a, s->type, &packed), bytes = packed;
    if (status < 0) status = tensors_upload(t, &bytes, views[0]);
    if (status < 0) views[0]->type = s->type;
    if (status < 0) status = tensors_upload(t, &s->scale, views[1]);
    if (status < 0 && s->zero.rank) status = tensors_upload(t, &s->zero, views[2]);
    array_free(&packed);
    return status;
}

void layer_stored_free(matrix_scales *s) {
    array_free(&s->scale);
    array_free(&s->zero);
}
