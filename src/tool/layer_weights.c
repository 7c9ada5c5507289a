// layer_weights.c: bert:, llama: and torch: name schemes, and tensors named one by one.
#include "tool/layer_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/safetensors.h"

const char *const layer_tensor_options[LAYER_TENSORS] = {"wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"};

// Suffixes after PREFIX. Weights must be there; a bias is taken where the file has it.
static const struct {
    const char *scheme;
    const char *suffix[LAYER_TENSORS];
} schemes[] = {
    {"bert:",
     {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight", "self.query.bias",
      "self.key.bias", "self.value.bias", "output.dense.bias"}},
    {"llama:",
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_proj.bias", "k_proj.bias",
      "v_proj.bias", "o_proj.bias"}},
    {"torch:",
     {"in_proj_weight", NULL, NULL, "out_proj.weight", "in_proj_bias", NULL, NULL, "out_proj.bias"}},
};

static bool file_has(char **names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

// PREFIX + "." + suffix; the dot is there once, also for an empty prefix or one that ends with it.
static void join_name(const char *prefix, const char *suffix, char *text, size_t size) {
    const size_t n = strlen(prefix);
    snprintf(text, size, "%s%s%s", prefix, n && prefix[n - 1] != '.' ? "." : "", suffix);
}

static int load_named(const char *command, layer_weights *w, int i, const char *name) {
    char error[512];
    if (!safetensors_read(w->file, name, &w->arrays[i], error, sizeof error))
        return tool_wrong(command, "--weights: %s", error);
    w->present[i] = true;
    return -1;
}

static int load_scheme(const char *command, layer_weights *w, size_t scheme) {
    const char *prefix = w->names + strlen(schemes[scheme].scheme);
    char **names = NULL, error[512];
    size_t count = 0;
    int status = -1;
    if (!w->file) return tool_wrong(command, "--names: needs --weights FILE.safetensors");
    if (!safetensors_names(w->file, &names, &count, error, sizeof error))
        return tool_wrong(command, "--weights: %s", error);
    for (int i = 0; i < LAYER_TENSORS && status < 0; i++) {
        char name[512];
        if (!schemes[scheme].suffix[i] || w->present[i]) continue;
        join_name(prefix, schemes[scheme].suffix[i], name, sizeof name);
        if (i < LAYER_BQ || file_has(names, count, name)) status = load_named(command, w, i, name);
    }
    w->packed = !strcmp(schemes[scheme].scheme, "torch:");
    free(names);
    return status;
}

static int load_given(const char *command, layer_weights *w) {
    int status = -1;
    for (int i = 0; i < LAYER_TENSORS && status < 0; i++) {
        const char *name = w->given[i];
        if (!name) continue;
        const size_t n = strlen(name);
        const bool own_file = strchr(name, '#') || (n > 4 && !strcmp(name + n - 4, ".npy"));
        if (own_file) {
            status = tensors_load(command, layer_tensor_options[i], name, -1, &w->arrays[i]);
            w->present[i] = status < 0;
        } else if (w->file)
            status = load_named(command, w, i, name);
        else
            status = tool_wrong(command, "--%s %s: a tensor's name needs --weights FILE.safetensors",
                                layer_tensor_options[i], name);
    }
    return status;
}

int layer_weights_load(const char *command, layer_weights *w) {
    int status = load_given(command, w);
    size_t scheme = 0;
    if (status >= 0) return status;
    if (w->names) {
        while (scheme < 3 && strncmp(w->names, schemes[scheme].scheme, strlen(schemes[scheme].scheme)))
            scheme++;
        if (scheme == 3)
            return tool_wrong(command, "--names %s: bert:PREFIX, llama:PREFIX or torch:PREFIX is needed",
                              w->names);
        status = load_scheme(command, w, scheme);
    }
    for (int i = LAYER_WQ; status < 0 && i <= LAYER_WO; i++)
        if (!w->present[i] && !(w->packed && (i == LAYER_WK || i == LAYER_WV)))
            status = tool_wrong(
                command,
                "--%s: is missing: give --names bert:, llama: or torch:PREFIX, or each tensor's name",
                layer_tensor_options[i]);
    for (int i = 0; status < 0 && i < LAYER_TENSORS; i++)
        if (w->present[i] && w->arrays[i].rank != (i < LAYER_BQ ? 2 : 1)) {
            char shape[128];
            status = tool_wrong(command, "--%s: has shape %s: %s is needed", layer_tensor_options[i],
                                array_shape_text(&w->arrays[i], shape, sizeof shape),
                                i < LAYER_BQ ? "[out, in]" : "[out]");
        }
    if (status < 0 && w->packed &&
        (w->arrays[LAYER_WQ].shape[0] % 3 ||
         (w->present[LAYER_BQ] && w->arrays[LAYER_BQ].shape[0] != w->arrays[LAYER_WQ].shape[0])))
        status = tool_wrong(command, "--names torch: in_proj_weight must be [3E, E] and in_proj_bias [3E]");
    return status;
}

// in_proj: three views of one buffer.
static void unpack(clattn_tensor *q, clattn_tensor *k, clattn_tensor *v) {
    const int64_t rows = q->shape[0] / 3;
    q->shape[0] = rows;
    *k = *v = *q;
    k->offset = rows * q->stride[0];
    v->offset = 2 * rows * q->stride[0];
}

int layer_weights_upload(layer_weights *w, tensors *t, clattn_layer_params *p) {
    clattn_tensor *const views[LAYER_TENSORS] = {&p->wq, &p->wk, &p->wv, &p->wo,
                                                 &p->bq, &p->bk, &p->bv, &p->bo};
    int status = -1;
    for (int i = 0; i < LAYER_TENSORS && status < 0; i++)
        if (w->present[i]) status = tensors_upload(t, &w->arrays[i], views[i]);
    if (status < 0 && w->packed) {
        unpack(&p->wq, &p->wk, &p->wv);
        if (w->present[LAYER_BQ]) unpack(&p->bq, &p->bk, &p->bv);
    }
    return status;
}

void layer_weights_free(layer_weights *w) {
    for (int i = 0; i < LAYER_TENSORS; i++) array_free(&w->arrays[i]);
}
