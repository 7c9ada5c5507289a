// layer_stored.c: matrices of 8 and 4 bits: from files with scales, or quantised by --weight-type.
// Two formats are read: compressed-tensors (github.com/vllm-project/compressed-tensors), written by
// llm-compressor and transformers; and DeepSeek's float8 with one scale for each square
// (transformers, "fine-grained FP8").
#include "verification/reference/storage.h"
#include "cli/layer/layer_squares.h"

// A matrix of a file, the names in the file, and the squares that share a scale.
typedef struct stored_file {
    const layer_weights *w;
    const char *name;
    char **names;
    size_t count;
    char *other;     // the companion tensor's name that was looked up last
    squares squares; // from config.json
    int bits;        // width of the matrix's packed numbers; 0: not packed
} stored_file;

static bool has(stored_file *f, const char *ending) {
    memcpy(f->other + strlen(f->name), ending, strlen(ending) + 1);
    return layer_weights_have(f->w, f->names, f->count, f->other);
}

// Unpack numbers of `bits` bits from 32-bit words, lowest bits first, and subtract `offset`. The
// packed axis is 1, or 0 for zero points.
static int unpack_words(const char *name, int axis, int64_t size, int bits, int offset, array *a) {
    const int64_t each = 32 / bits, rows = axis ? a->shape[0] : size, columns = axis ? size : a->shape[1];
    array to = {0};
    if (a->type != ARRAY_I32 || a->rank != 2 || a->shape[axis] != square_parts(size, each))
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

// True if `words` words hold `size` numbers. In old files no number crosses a word. In new files,
// widths other than 4 and 8 are packed without gaps.
static bool holds(int64_t words, int64_t size, int bits) {
    return words == square_parts(size, 32 / bits) || words == size / 32 * bits + (size % 32 * bits + 31) / 32;
}

// The bits of a packed number: those in config.json that fit the number of words, else 4 or 8.
static int find_bits(stored_file *f, int64_t size, int64_t words) {
    int said = 0, other = 0, good = 0;
    for (int n = 0; n < f->squares.count; n++) {
        const int bits = f->squares.list[n].bits;
        if (bits <= 0) continue;
        if (!said) said = bits;
        if (holds(words, size, bits)) *(bits == 4 || bits == 8 ? &good : &other) = bits;
    }
    if (!good && !other && said != 4 && said != 8) other = said;
    if (other)
        return tool_wrong("--weights: %s: %s: num_bits is %d: packed numbers of 4 and of 8 bits are read",
                          f->name, f->squares.path, other);
    const bool four = holds(words, size, 4), eight = holds(words, size, 8);
    f->bits = good ? good : said || four == eight ? 0 : four ? 4 : 8;
    if (f->bits) return -1;
    return tool_wrong(
        "--weights: %s: has no %lld numbers of %s bits in words of 32 along axis 1: there are %lld words",
        f->name, (long long)size,
        said == 4 ? "4"
        : said    ? "8"
                  : "4 or 8",
        (long long)words);
}

// Read NAME_packed and NAME_shape. The numbers have 4 or 8 bits and an offset of half their range.
// Numbers of 4 bits with zero points become u4, because the zero points have the same offset.
static int read_packed(stored_file *f, array *a, matrix_scales *s) {
    array shape = {0};
    char text[128];
    int status = layer_weights_read(f->w, f->other, a);
    if (status < 0 && !has(f, "_shape"))
        status = tool_wrong("--weights: the file has %s_packed, and no %s", f->name, f->other);
    if (status < 0) status = layer_weights_read(f->w, f->other, &shape);
    if (status < 0 && (shape.type != ARRAY_I64 || array_count(&shape) != 2))
        status = tool_wrong("--weights: %s: two numbers of 64 bits are needed", f->other);
    const int64_t *size = shape.data;
    if (status < 0 && (a->rank != 2 || a->shape[0] != size[0] || size[0] < 1 || size[1] < 1))
        status = tool_wrong("--weights: %s: is [%lld, %lld], and %s_packed has shape %s", f->other,
                            (long long)size[0], (long long)size[1], f->name, array_shape_text(a, text));
    if (status < 0) status = find_bits(f, size[1], a->shape[1]);
    if (status < 0) {
        const bool zeros = has(f, "_zero_point");
        s->type = f->bits == 8 ? CLATTN_TYPE_I8 : zeros ? CLATTN_TYPE_U4 : CLATTN_TYPE_I4;
        status = unpack_words(f->name, 1, size[1], f->bits, f->bits == 8 ? 128 : zeros ? 0 : 8, a);
    }
    array_free(&shape);
    return status;
}

static int64_t common_divisor(int64_t x, int64_t y) {
    return y ? common_divisor(y, x % y) : x;
}

// Expand scales to [rows], or to [rows, groups] with equal groups. The last square may be narrower,
// so a group may be a part of a square.
static int spread(const stored_file *f, const array *a, array *scale) {
    const int64_t rows = a->shape[0], size = a->shape[1];
    square s;
    array to = {0};
    const int status = squares_find(&f->squares, a, f->bits, f->other, scale, &s);
    if (status >= 0) return status;
    const int64_t columns = square_parts(size, s.columns),
                  group = columns > 1 ? common_divisor(s.columns, size) : size, groups = size / group;
    const size_t bytes = array_type_size(scale->type);
    if (!array_create(&to, scale->type, groups > 1 ? 2 : 1, (int64_t[]){rows, groups}))
        return tool_failed("no memory");
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < groups; j++)
            memcpy((char *)to.data + (size_t)(i * groups + j) * bytes,
                   (const char *)scale->data + (size_t)(i / s.rows * columns + j * group / s.columns) * bytes,
                   bytes);
    array_free(scale);
    *scale = to;
    return -1;
}

// Read zero points as numbers of the scales' type and shape. Unpacked zero points are signed, and
// u4 needs 8 more.
static int read_zeros(stored_file *f, const array *a, matrix_scales *s, int bits) {
    array read = {0};
    float *values = NULL;
    if (!has(f, "_zero_point")) return -1;
    if (s->type != CLATTN_TYPE_I8 && s->type != CLATTN_TYPE_U4)
        return tool_wrong("--weights: %s: numbers of %s have no zero points", f->other,
                          clattn_type_name(s->type));
    int status = layer_weights_read(f->w, f->other, &read);
    const float more = read.type == ARRAY_I8 && s->type == CLATTN_TYPE_U4 ? 8.0f : 0.0f;
    if (status < 0 && read.type == ARRAY_I32)
        status = unpack_words(f->other, 0, a->shape[0], bits, bits == 8 ? 128 : 0, &read);
    if (status < 0 && read.type != ARRAY_I8)
        status = tool_wrong("--weights: %s: holds %s: i8, or words of 32 bits, are needed", f->other,
                            array_type_name(read.type));
    if (status < 0 && !array_to_f32(&read, &values)) status = tool_failed("no memory");
    for (int64_t n = 0; status < 0 && n < array_count(&read); n++) values[n] += more;
    if (status < 0 && !array_from_f32(&read, values, s->scale.type, &s->zero))
        status = tool_failed("no memory");
    if (status < 0) status = spread(f, a, &s->zero);
    if (status < 0 && array_count(&s->zero) != array_count(&s->scale))
        status = tool_wrong("--weights: %s: there are %lld for %lld scales", f->other,
                            (long long)array_count(&s->zero), (long long)array_count(&s->scale));
    free(values);
    array_free(&read);
    return status;
}

// Convert a matrix to float32 if the library cannot multiply it: its group is no multiple of 32, or
// a 4-bit row ends within a byte.
static int to_floats(array *a, matrix_scales *s) {
    float *values = NULL, *scale = NULL, *zero = NULL;
    array floats = {0};
    const int64_t size = a->shape[1], group = size * a->shape[0] / array_count(&s->scale);
    bool made = array_to_f32(a, &values) && array_to_f32(&s->scale, &scale) &&
                (!s->zero.rank || array_to_f32(&s->zero, &zero));
    for (int64_t n = 0; made && n < array_count(a); n++)
        values[n] = (values[n] - (zero ? zero[n / group] : 0.0f)) * scale[n / group];
    made = made && array_from_f32(a, values, ARRAY_F32, &floats);
    free(values), free(scale), free(zero);
    if (!made) return tool_failed("no memory");
    array_free(a), layer_stored_free(s);
    *a = floats, *s = (matrix_scales){.type = CLATTN_TYPE_F32};
    return -1;
}

static int read_scales(stored_file *f, array *a, matrix_scales *s, int bits) {
    char text[128];
    if (a->rank != 2) return tool_wrong("--weights: %s: has %d axes: [out, in] is needed", f->name, a->rank);
    if (a->shape[0] < 1 || a->shape[1] < 1)
        return tool_wrong("--weights: %s: has no numbers: its shape is %s", f->name,
                          array_shape_text(a, text));
    if (has(f, "_g_idx"))
        return tool_wrong("--weights: %s: groups of numbers in another order are unsupported", f->other);
    if (!has(f, "_scale") && !has(f, "_scale_inv"))
        return tool_wrong("--weights: %s: is of %s, and the file has no %s_scale", f->name,
                          clattn_type_name(s->type), f->name);
    int status = layer_weights_read(f->w, f->other, &s->scale);
    if (status < 0) status = spread(f, a, &s->scale);
    if (status < 0) status = read_zeros(f, a, s, bits);
    if (status >= 0) return status;
    const bool groups = s->scale.rank == 2 && a->shape[1] / s->scale.shape[1] % 32;
    return groups || a->shape[1] % clattn_type_numbers(s->type) ? to_floats(a, s) : -1;
}

static int read_file(stored_file *f, array *a, matrix_scales *s) {
    const bool packed = has(f, "_packed");
    int status = packed ? squares_read(f->w, &f->squares) : layer_weights_read(f->w, f->name, a);
    if (status < 0 && packed) status = read_packed(f, a, s);
    if (status >= 0) return status;
    if (!packed && a->type == ARRAY_I8) s->type = CLATTN_TYPE_I8;
    if (a->type == ARRAY_F8E4M3) s->type = CLATTN_TYPE_F8E4M3;
    if (a->type == ARRAY_F8E5M2) s->type = CLATTN_TYPE_F8E5M2;
    if (s->type == CLATTN_TYPE_F32) return -1;
    if (!packed) status = squares_read(f->w, &f->squares);
    return status < 0 ? read_scales(f, a, s, s->type == CLATTN_TYPE_U4 ? 4 : 8) : status;
}

int layer_stored_read(const layer_weights *w, const char *name, array *a, matrix_scales *s) {
    static const char longest[] = "_zero_point";
    stored_file f = {.w = w, .name = name, .other = malloc(strlen(name) + sizeof longest)};
    reason error;
    *s = (matrix_scales){.type = CLATTN_TYPE_F32};
    int status = f.other ? -1 : tool_failed("no memory");
    if (status < 0) strcpy(f.other, name);
    if (status < 0 && !w->shards && !safetensors_names(w->file, &f.names, &f.count, error))
        status = tool_wrong("--weights: %s", error);
    if (status < 0) status = read_file(&f, a, s);
    free(f.names), free(f.other);
    squares_free(&f.squares);
    return status;
}

int layer_stored_convert(const layer_weights *w, const char *option, array *a, const matrix_scales *s) {
    if (w->stores.type < 0) return -1;
    if (s->type != CLATTN_TYPE_F32)
        return tool_wrong("--weight-type: %s already is %s in the file", option, clattn_type_name(s->type));
    return tensors_store(option, a, w->store.type == CLATTN_TYPE_F32 ? w->stores.type : 0);
}

// Pack two 4-bit numbers into each byte.
static int pack(const array *a, clattn_type type, array *bytes) {
    const int64_t shape[2] = {a->shape[0], a->shape[1] / 2};
    const int8_t *from = a->data;
    if (!array_create(bytes, ARRAY_BOOL, 2, shape)) return tool_failed("no memory for a matrix");
    for (int64_t n = 0; n < array_count(bytes); n++)
        storage_store_numbers(type, bytes->data, n, (double[]){from[2 * n], from[2 * n + 1]});
    return -1;
}

// Quantised bytes are uploaded as an array of type bool.
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
