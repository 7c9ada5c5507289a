// store_options.c: how numbers are stored on the device: unquantised, or quantised to 8 or 4 bits.
#include "cli/call_options/store_options.h"

#include <math.h>

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"
#include "verification/words/words.h"

const char *const store_names[] = {"f32",  "f16",  "bf16", "q8", "f8e4m3", "f8e5m2", "q4",
                                   "q8_0", "q4_0", "q4_1", "i4", "u4",     NULL};
static const clattn_type store_types[] = {CLATTN_TYPE_F32,  CLATTN_TYPE_F32,    CLATTN_TYPE_F32,
                                          CLATTN_TYPE_I8,   CLATTN_TYPE_F8E4M3, CLATTN_TYPE_F8E5M2,
                                          CLATTN_TYPE_Q4_0, CLATTN_TYPE_Q8_0,   CLATTN_TYPE_Q4_0,
                                          CLATTN_TYPE_Q4_1, CLATTN_TYPE_I4,     CLATTN_TYPE_U4};

int store_choose(const store_options *o, int word, store *s) {
    *s = (store){.option = o->option};
    if (word >= 0) s->type = store_types[word];
    if (!CLATTN_TYPE_IS_SCALED(s->type)) return -1;
    s->group = o->group, s->zeros = o->zeros;
    s->scale_type = o->scales < 0 ? CLATTN_TYPE_F32 : (clattn_type)o->scales;
    if (s->type != CLATTN_TYPE_U4 || o->zeros) return -1;
    return tool_wrong("--%s-type u4: needs --%s-zeros: u4 has no numbers below 0", o->option, o->option);
}

int store_check(const store_options *o, const store *stores, int count) {
    for (int n = 0; n < count; n++)
        if (CLATTN_TYPE_IS_SCALED(stores[n].type)) return -1;
    if (!(o->group || o->zeros || o->scales >= 0)) return -1;
    return tool_wrong(
        "--%s-%s: has no effect without a --%s-type that has scales: q8, f8e4m3, f8e5m2, i4 or u4", o->option,
        o->group   ? "group"
        : o->zeros ? "zeros"
                   : "scales",
        o->option);
}

// The arrays that one quantised tensor becomes.
typedef struct store_arrays {
    array bytes, scales, zeros;
} store_arrays;

// Quantise one group of numbers and store it from element `at` on, with its scale and zero point at
// index n.
static void store_group(const store *s, const double *x, int64_t size, store_arrays *to, int64_t at,
                        int64_t n) {
    const struct storage_scale scale = storage_scale_of(s->type, s->scale_type, s->zeros, x, size);
    const int numbers = clattn_type_numbers(s->type);
    storage_store(s->scale_type, to->scales.data, n, scale.scale);
    if (s->zeros) storage_store(s->scale_type, to->zeros.data, n, scale.zero);
    for (int64_t d = 0; d < size; d += numbers) {
        double stored[2];
        for (int i = 0; i < numbers; i++) stored[i] = storage_scaled(s->type, s->zeros, x[d + i], scale);
        storage_store_numbers(s->type, to->bytes.data, (at + d) / numbers, stored);
    }
}

// Quantise one row and store it from element `at` on.
static void store_row(const store *s, const double *x, int64_t size, store_arrays *to, int64_t at) {
    const int64_t numbers = clattn_type_numbers(s->type), group = s->group ? s->group : size;
    if (CLATTN_TYPE_IS_SCALED(s->type))
        for (int64_t d = 0; d < size; d += group) store_group(s, x + d, group, to, at + d, (at + d) / group);
    else
        for (int64_t d = 0; d < size; d += numbers)
            storage_store_numbers(s->type, to->bytes.data, (at + d) / numbers, x + d);
}

// Quantise an array row by row. Infinities and NaN are an error, because no scale can represent
// them.
static int quantise(const array *x, const store *s, store_arrays *to) {
    const int64_t size = x->shape[x->rank - 1], count = array_count(x);
    double *row = reference_alloc(size);
    int status = -1;
    for (int64_t n = 0; n < count && status < 0; n += size) {
        for (int64_t d = 0; d < size && status < 0; d++) {
            row[d] = (double)((const float *)x->data)[n + d];
            if (!isfinite(row[d]))
                status = tool_wrong(
                    "--%s-type %s: row %lld holds an infinity or NaN: finite numbers are needed", s->option,
                    s->type == CLATTN_TYPE_I8 ? "q8" : clattn_type_name(s->type), (long long)(n / size));
        }
        if (status < 0) store_row(s, row, size, to, n);
    }
    free(row);
    return status;
}

static int rotate(const array *x, int64_t block) {
    const int64_t size = x->shape[x->rank - 1], count = array_count(x);
    float *numbers = x->data;
    if ((block & (block - 1)) || size % block)
        return tool_wrong(
            "--kv-rotation %lld: rows of %lld numbers: a power of two that divides them is needed",
            (long long)block, (long long)size);
    double *row = reference_alloc(size);
    for (int64_t n = 0; n < count; n += size) {
        for (int64_t d = 0; d < size; d++) row[d] = (double)numbers[n + d];
        reference_hadamard(row, size, block);
        for (int64_t d = 0; d < size; d++) numbers[n + d] = (float)row[d];
    }
    free(row);
    return -1;
}

static int check_width(const array *x, const store *s) {
    const long long numbers = clattn_type_numbers(s->type), width = (long long)x->shape[x->rank - 1],
                    group = (long long)s->group;
    if (width % numbers)
        return tool_wrong("--%s-type %s: rows of %lld numbers: a multiple of %lld is needed", s->option,
                          clattn_type_name(s->type), width, numbers);
    if (group == 0 || (group % 32 == 0 && width % group == 0)) return -1;
    return tool_wrong("--%s-group %lld: rows of %lld numbers: a multiple of 32 that divides them is needed",
                      s->option, group, width);
}

// Quantised bytes are uploaded as an array of type bool.
int store_upload(tensors *t, const array *x, const store *s, clattn_tensor *const views[3]) {
    static const array_type types[] = {ARRAY_F32, ARRAY_F16, ARRAY_BF16};
    store_arrays to = {{0}, {0}, {0}};
    if (s->type == CLATTN_TYPE_F32) return tensors_upload(t, x, views[0]);
    int status = check_width(x, s);
    if (status >= 0) return status;
    const bool scaled = CLATTN_TYPE_IS_SCALED(s->type);
    const int last = x->rank - 1, rank = s->group ? x->rank : last;
    int64_t shape[CLATTN_MAX_RANK], groups[CLATTN_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape), memcpy(groups, x->shape, sizeof groups);
    shape[last] /= clattn_type_numbers(s->type);
    clattn_tensor stored = clattn_tensor_dense(NULL, s->type, x->rank, shape);
    shape[last] *= (int64_t)clattn_type_size(s->type),
        groups[last] = s->group ? x->shape[last] / s->group : 1;
    bool made = array_create(&to.bytes, ARRAY_BOOL, x->rank, shape);
    if (made && scaled) made = array_create(&to.scales, types[s->scale_type], rank, groups);
    if (made && scaled && s->zeros) made = array_create(&to.zeros, types[s->scale_type], rank, groups);
    status = made ? -1 : tool_failed("no memory for rows with scales");
    if (status < 0 && s->rotation) status = rotate(x, s->rotation);
    if (status < 0) status = quantise(x, s, &to);
    if (status < 0) status = tensors_upload(t, &to.bytes, views[0]);
    if (status < 0 && scaled) status = tensors_upload(t, &to.scales, views[1]);
    if (status < 0 && scaled && s->zeros) status = tensors_upload(t, &to.zeros, views[2]);
    stored.buffer = views[0]->buffer;
    if (status < 0) *views[0] = stored;
    array_free(&to.bytes);
    array_free(&to.scales);
    array_free(&to.zeros);
    return status;
}
