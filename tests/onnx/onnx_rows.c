// onnx_rows.c: ONNX's RotaryEmbedding and TensorScatter. See onnx_case.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "onnx/onnx_case.h"

enum { INPUTS = 4 };
struct rows {
    struct onnx_array input[INPUTS], wanted;
    struct guarded tensor[INPUTS], out;
};

static int64_t attribute(const json_t *words, const char *key) {
    return json_integer_value(json_object_get(json_object_get(words, "attributes"), key));
}

static bool load_rows(const struct onnx_file *file, const json_t *words, struct rows *r) {
    const json_t *inputs = json_object_get(words, "inputs");
    memset(r, 0, sizeof *r);
    for (size_t n = 0; n < INPUTS && n < json_array_size(inputs); n++)
        if (json_is_object(json_array_get(inputs, n)) &&
            !onnx_load(file, json_array_get(inputs, n), &r->input[n]))
            return false;
    return onnx_load(file, json_object_get(words, "out"), &r->wanted) && r->input[0].x != NULL;
}

static void free_rows(struct rows *r) {
    for (int n = 0; n < INPUTS; n++) {
        guarded_release(&r->tensor[n]);
        free(r->input[n].x);
    }
    guarded_release(&r->out);
    free(r->wanted.x);
}

static enum onnx_result result_of(struct rows *r, struct place *place, clattn_status status,
                                  const json_t *words, char why[256]) {
    const int64_t count = guarded_shape_count(&r->wanted.shape);
    if (status != CLATTN_OK) {
        place_message(place, status, why);
        return ONNX_FAILED;
    }
    double *got = reference_alloc(count);
    bool good = guarded_read(&r->out, place->queue, got);
    if (!good) snprintf(why, 256, "out: bytes around it changed");
    good = good && onnx_close_to("out", got, r->wanted.x, count, words, why);
    free(got);
    return good ? ONNX_PASSED : ONNX_FAILED;
}

// Inputs: x, cos_cache, sin_cache, position_ids.
enum onnx_result onnx_rotate(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]) {
    struct rows r;
    clattn_rope_params p = {0};
    enum onnx_result result = ONNX_FAILED;
    snprintf(family, 32, "rope");
    snprintf(why, 256, "its arrays are not as onnx_cases.py writes them");
    if (kernel != CLATTN_KERNEL_UNFUSED) return ONNX_UNSUPPORTED;
    if (load_rows(file, words, &r)) {
        clattn_tensor *const to[INPUTS] = {&p.x, &p.cos, &p.sin, &p.rope.positions};
        for (int n = 0; n < INPUTS; n++) {
            if (r.input[n].x == NULL) continue;
            r.tensor[n] = guarded_input(place, &r.input[n].shape, r.input[n].x);
            *to[n] = r.tensor[n].view;
        }
        r.out = guarded_output(place, &r.wanted.shape);
        p.y = r.out.view;
        p.rope.layout = attribute(words, "interleaved") ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF;
        p.rope.rotary_dim = (int)attribute(words, "rotary_embedding_dim");
        const clattn_status status = clattn_rope_enqueue(place->context, place->queue, &p, 0, NULL, NULL);
        result = result_of(&r, place, status, words, why);
    }
    clFinish(place->queue);
    free_rows(&r);
    return result;
}

// Inputs: past_cache, update, write_indices.
enum onnx_result onnx_scatter(const struct onnx_file *file, const json_t *words, struct place *place,
                              clattn_kernel kernel, char family[32], char why[256]) {
    struct rows r;
    clattn_append_params p = {0};
    int32_t starts[16] = {0};
    enum onnx_result result = ONNX_FAILED;
    const char *mode = json_string_value(json_object_get(json_object_get(words, "attributes"), "mode"));
    snprintf(family, 32, "append");
    snprintf(why, 256, "its arrays are not as onnx_cases.py writes them");
    if (kernel != CLATTN_KERNEL_UNFUSED) return ONNX_UNSUPPORTED;
    if (load_rows(file, words, &r) && r.input[1].x != NULL && r.input[0].shape.shape[0] <= 16) {
        for (int64_t b = 0; r.input[2].x != NULL && b < r.input[2].shape.shape[0] && b < 16; b++)
            starts[b] = (int32_t)r.input[2].x[b];
        r.tensor[1] = guarded_input(place, &r.input[1].shape, r.input[1].x);
        r.out = guarded_in_out(place, &r.input[0].shape, r.input[0].x);
        p.k_new = r.tensor[1].view, p.k = r.out.view, p.starts = starts;
        p.circular = mode != NULL && strcmp(mode, "circular") == 0;
        const clattn_status status = clattn_append_enqueue(place->context, place->queue, &p, 0, NULL, NULL);
        result = result_of(&r, place, status, words, why);
    }
    clFinish(place->queue);
    free_rows(&r);
    return result;
}
