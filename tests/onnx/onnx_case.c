// onnx_case.c: see onnx_case.h.
#include "onnx/onnx_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

// The call of a case and its bound tensors.
enum { Q, K, V, PAST_K, PAST_V, MASK, BIAS, OUT, SCORES, TENSORS };
static const char *const words_of[TENSORS] = {"q",    "k",    "v",   "past_k", "past_v",
                                              "mask", "bias", "out", "scores"};
struct bound {
    struct onnx_array array[TENSORS];
    struct guarded tensor[TENSORS];
    int32_t kv_lengths[16];
    clattn_attention_params params;
    bool has_weights; // `scores` returns weights, in their own type
};

static const char *text_of(const json_t *words, const char *key) {
    const char *text = json_string_value(json_object_get(words, key));
    return text ? text : "";
}

static double number_of(const json_t *words, const char *key) {
    return json_number_value(json_object_get(words, key));
}

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        const long end = ftell(file);
        bytes = end > 0 ? malloc((size_t)end) : NULL;
        rewind(file);
        *size = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
    }
    if (file) fclose(file);
    return bytes;
}

bool onnx_open(const char *folder, struct onnx_file *file) {
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/cases.json", folder);
    file->manifest = json_load_file(path, 0, &error);
    snprintf(path, sizeof path, "%s/cases.bin", folder);
    file->bytes = read_file(path, &file->size);
    if (file->manifest && file->bytes) return true;
    fprintf(stderr, "%s: no cases.json and cases.bin of onnx_cases.py\n", folder);
    onnx_close(file);
    return false;
}

void onnx_close(struct onnx_file *file) {
    json_decref(file->manifest);
    free(file->bytes);
    *file = (struct onnx_file){0};
}

static clattn_type type_of(const char *name) {
    clattn_type type = (clattn_type)0;
    while (type < CLATTN_TYPE_COUNT && strcmp(clattn_type_name(type), name) != 0)
        type = (clattn_type)(type + 1);
    return type;
}

bool onnx_load(const struct onnx_file *file, const json_t *word, struct onnx_array *to) {
    const json_t *shape = json_object_get(word, "shape");
    const clattn_type type = type_of(text_of(word, "type"));
    const size_t at = (size_t)json_integer_value(json_object_get(word, "at"));
    to->shape = (struct guarded_shape){.type = type, .rank = (int)json_array_size(shape)};
    if (type == CLATTN_TYPE_COUNT || to->shape.rank < 1 || to->shape.rank > 4) return false;
    for (int n = 0; n < to->shape.rank; n++)
        to->shape.shape[n] = json_integer_value(json_array_get(shape, (size_t)n));
    if (json_is_true(json_object_get(word, "bshd"))) to->shape.layout = LAYOUT_BSHD;
    const int64_t count = guarded_shape_count(&to->shape);
    if (at + (size_t)count * clattn_type_size(type) > file->size) return false;
    to->x = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) to->x[n] = storage_load(type, file->bytes + at, n);
    return true;
}

// Concatenate [B, H, P, D] and [B, H, N, D] to [B, H, P + N, D], which the caller frees. Without a
// past returns the rows unchanged.
static double *put_behind(const struct onnx_array *past, const struct onnx_array *rows) {
    const int64_t *p = past->shape.shape, *n = rows->shape.shape, heads = n[0] * n[1], size = n[3];
    double *all = reference_alloc(heads * (p[2] + n[2]) * size), *to = all;
    for (int64_t h = 0; h < heads; h++) {
        memcpy(to, past->x + h * p[2] * size, (size_t)(p[2] * size) * sizeof *to);
        to += p[2] * size;
        memcpy(to, rows->x + h * n[2] * size, (size_t)(n[2] * size) * sizeof *to);
        to += n[2] * size;
    }
    return all;
}

// Set the options of the case.
static void fill_options(const json_t *words, struct bound *b) {
    static const char *const alignments[] = {"top_left", "bottom_right", "offset"}, *const taps[] = {
                                                                                        "raw", "softcap",
                                                                                        "masked", "softmax"};
    clattn_score *s = &b->params.score;
    const json_t *window = json_object_get(words, "window"), *lengths = json_object_get(words, "kv_lengths");
    s->scale = (float)number_of(words, "scale");
    s->softcap = (float)number_of(words, "softcap");
    s->causal = json_is_true(json_object_get(words, "causal"));
    for (int n = 0; n < 3; n++)
        if (strcmp(text_of(words, "align"), alignments[n]) == 0) s->alignment = (clattn_alignment)n;
    s->offset = (int32_t)number_of(words, "offset");
    s->window = window != NULL;
    s->window_left = (int32_t)json_integer_value(json_array_get(window, 0));
    s->window_right = (int32_t)json_integer_value(json_array_get(window, 1));
    for (size_t n = 0; n < json_array_size(lengths) && n < 16; n++)
        b->kv_lengths[n] = (int32_t)json_integer_value(json_array_get(lengths, n));
    s->kv_lengths = lengths ? b->kv_lengths : NULL;
    s->score_mod = json_string_value(json_object_get(words, "score_mod"));
    s->mask_mod = json_string_value(json_object_get(words, "mask_mod"));
    for (int n = 0; n < 4; n++)
        if (strcmp(text_of(words, "scores_at"), taps[n]) == 0) b->params.scores_at = (clattn_tap)n;
}

static bool bind(const struct onnx_file *file, const json_t *words, struct place *place, struct bound *b) {
    clattn_attention_params *p = &b->params;
    *b = (struct bound){0};
    for (int n = 0; n < TENSORS; n++) {
        const json_t *word = json_object_get(words, words_of[n]);
        if (word && !onnx_load(file, word, &b->array[n])) return false;
    }
    b->has_weights = b->array[SCORES].x && b->array[SCORES].shape.type != CLATTN_TYPE_F32;
    fill_options(words, b);
    clattn_tensor *const to[TENSORS] = {
        &p->q,          &p->kv.k,      &p->kv.v,
        &p->kv.past_k,  &p->kv.past_v, &p->score.mask,
        &p->score.bias, &p->out,       b->has_weights ? &p->weights : &p->scores};
    for (int n = 0; n < TENSORS; n++) {
        if (b->array[n].x == NULL) continue;
        b->tensor[n] = n < OUT ? guarded_input(place, &b->array[n].shape, b->array[n].x)
                               : guarded_output(place, &b->array[n].shape);
        *to[n] = b->tensor[n].view;
    }
    return place->error[0] == '\0';
}

static void unbind(struct bound *b) {
    for (int n = 0; n < TENSORS; n++) {
        guarded_release(&b->tensor[n]);
        free(b->array[n].x);
    }
}

bool onnx_close_to(const char *what, const double *got, const double *wanted, int64_t count,
                   const json_t *words, char why[256]) {
    const double rtol = number_of(words, "rtol"), atol = number_of(words, "atol");
    for (int64_t n = 0; n < count; n++) {
        const bool same = got[n] == wanted[n] || (isnan(got[n]) && isnan(wanted[n]));
        if (same || (isfinite(wanted[n]) && fabs(got[n] - wanted[n]) <= atol + rtol * fabs(wanted[n])))
            continue;
        snprintf(why, 256, "%s[%lld] is %.9g, should be %.9g within %g and %g of it", what, (long long)n,
                 got[n], wanted[n], atol, rtol);
        return false;
    }
    return true;
}

static bool output_agrees(struct bound *b, int tensor, cl_command_queue queue, const json_t *words,
                          char why[256]) {
    const struct onnx_array *wanted = &b->array[tensor];
    if (wanted->x == NULL) return true;
    const int64_t count = guarded_shape_count(&wanted->shape);
    double *got = reference_alloc(count);
    bool good = guarded_read(&b->tensor[tensor], queue, got);
    if (!good) snprintf(why, 256, "%s: bytes around it changed", words_of[tensor]);
    good = good && onnx_close_to(words_of[tensor], got, wanted->x, count, words, why);
    free(got);
    return good;
}

// The node's returned cache must equal the past and the new rows, bit for bit.
static bool present_agrees(const struct onnx_file *file, const json_t *words, const struct bound *b,
                           char why[256]) {
    static const char *const names[] = {"present_k", "present_v"};
    for (int n = 0; n < 2; n++) {
        struct onnx_array wanted = {0};
        const json_t *word = json_object_get(words, names[n]);
        if (word == NULL) continue;
        const struct onnx_array *past = &b->array[PAST_K + n], *rows = &b->array[K + n];
        const int64_t count =
            (past->x ? guarded_shape_count(&past->shape) : 0) + guarded_shape_count(&rows->shape);
        double *joined = past->x ? put_behind(past, rows) : NULL;
        const double *got = joined ? joined : rows->x;
        bool good = onnx_load(file, word, &wanted) && guarded_shape_count(&wanted.shape) == count;
        for (int64_t i = 0; good && i < count; i++) good = wanted.x[i] == got[i];
        free(joined);
        free(wanted.x);
        if (!good) snprintf(why, 256, "%s is not the past and the new rows", names[n]);
        if (!good) return false;
    }
    return true;
}

static void taken_by(struct place *place, const clattn_attention_params *params, char family[32]) {
    clattn_family all[64];
    size_t count = 0;
    if (clattn_attention_families(place->context, params, all, 64, &count) != CLATTN_OK) return;
    for (size_t n = 0; n < count && n < 64; n++)
        if (all[n].taken) snprintf(family, 32, "%.31s", all[n].name);
}

enum onnx_result onnx_attend(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]) {
    struct bound b;
    enum onnx_result result = ONNX_FAILED;
    family[0] = '\0';
    snprintf(why, 256, "its arrays are not as onnx_cases.py writes them");
    if (bind(file, words, place, &b)) {
        b.params.kernel = kernel;
        taken_by(place, &b.params, family);
        const clattn_status status =
            clattn_attention_enqueue(place->context, place->queue, &b.params, 0, NULL, NULL);
        if (status != CLATTN_OK) place_message(place, status, why);
        if (status == CLATTN_UNSUPPORTED) result = ONNX_UNSUPPORTED;
        if (status == CLATTN_OK && output_agrees(&b, OUT, place->queue, words, why) &&
            output_agrees(&b, SCORES, place->queue, words, why) && present_agrees(file, words, &b, why))
            result = ONNX_PASSED;
    }
    clFinish(place->queue);
    unbind(&b);
    return result;
}

static void add(char text[256], const char *key, const char *value) {
    const size_t used = strlen(text);
    snprintf(text + used, 256 - used, " %s%.40s", key, value);
}

void onnx_signature(const json_t *words, char text[256]) {
    char sizes[64];
    const json_t *const q = json_object_get(words, "q"), *const v = json_object_get(words, "v"),
                        *const bias = json_object_get(words, "bias");
    snprintf(sizes, sizeof sizes, "%d %d",
             (int)json_integer_value(json_array_get(json_object_get(q, "shape"), 3)),
             (int)json_integer_value(json_array_get(json_object_get(v, "shape"), 3)));
    text[0] = '\0';
    add(text, text_of(q, "type"), "");
    add(text, sizes, "");
    if (number_of(words, "softcap") > 0) add(text, "softcap", "");
    if (bias) add(text, "bias ", text_of(bias, "type"));
    if (json_object_get(words, "mask")) add(text, "mask", "");
    if (json_object_get(words, "past_k")) add(text, "past", "");
    add(text, text_of(words, "score_mod"), text_of(words, "mask_mod"));
}
