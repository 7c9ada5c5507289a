// onnx_recurrent.c: ONNX's LinearAttention. See onnx_case.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "onnx/onnx_case.h"

enum { Q, K, V, PAST, DECAY, BETA, INPUTS };
static const char *const inputs[INPUTS] = {"q", "k", "v", "past_state", "decay", "beta"};

static bool rule_of(const json_t *words, clattn_linear_rule *rule) {
    static const char *const rules[CLATTN_LINEAR_RULE_COUNT] = {"gated_delta", "linear", "gated", "delta"};
    const char *word = json_string_value(json_object_get(words, "rule"));
    for (int n = 0; word && n < CLATTN_LINEAR_RULE_COUNT; n++) {
        *rule = (clattn_linear_rule)n;
        if (strcmp(rules[n], word) == 0) return true;
    }
    return false;
}

static bool is_close(const char *what, const struct guarded *tensor, const struct onnx_array *wanted,
                     const struct place *place, const json_t *words, char why[256]) {
    const int64_t count = guarded_shape_count(&wanted->shape);
    double *got = reference_alloc(count);
    bool good = guarded_read(tensor, place->queue, got);
    if (!good) snprintf(why, 256, "%s: bytes around it changed", what);
    good = good && onnx_close_to(what, got, wanted->x, count, words, why);
    free(got);
    return good;
}

// The present state has the type of the past one, or of q.
enum onnx_result onnx_recur(const struct onnx_file *file, const json_t *words, struct place *place,
                            clattn_kernel kernel, char family[32], char why[256]) {
    struct onnx_array given[INPUTS] = {{.x = NULL}}, wanted = {.x = NULL}, present = {.x = NULL};
    struct guarded tensors[INPUTS] = {{.bytes = 0}}, out = {.bytes = 0}, state = {.bytes = 0};
    clattn_linear_attention_params p = {.scale = (float)json_number_value(json_object_get(words, "scale"))};
    clattn_tensor *const views[INPUTS] = {&p.q, &p.k, &p.v, &p.state, &p.decay, &p.beta};
    bool good = rule_of(words, &p.rule);
    snprintf(family, 32, "linear_attention");
    snprintf(why, 256, "its arrays are not as onnx_cases.py writes them");
    if (kernel != CLATTN_KERNEL_UNFUSED) return ONNX_UNSUPPORTED;
    for (int n = 0; n < INPUTS && good; n++) {
        const json_t *word = json_object_get(words, inputs[n]);
        if (word == NULL) continue;
        good = onnx_load(file, word, &given[n]);
        if (good) tensors[n] = guarded_input(place, &given[n].shape, given[n].x), *views[n] = tensors[n].view;
    }
    good = good && onnx_load(file, json_object_get(words, "out"), &wanted) &&
           onnx_load(file, json_object_get(words, "present_state"), &present);
    if (good) {
        out = guarded_output(place, &wanted.shape), state = guarded_output(place, &present.shape);
        p.out = out.view, p.new_state = state.view;
        const clattn_status status =
            clattn_linear_attention_enqueue(place->context, place->queue, &p, 0, NULL, NULL);
        good = status == CLATTN_OK;
        if (!good) place_message(place, status, why);
    }
    good = good && is_close("out", &out, &wanted, place, words, why) &&
           is_close("present_state", &state, &present, place, words, why);
    clFinish(place->queue);
    for (int n = 0; n < INPUTS; n++) guarded_release(&tensors[n]), free(given[n].x);
    guarded_release(&out), guarded_release(&state);
    free(wanted.x), free(present.x);
    return good ? ONNX_PASSED : ONNX_FAILED;
}
