// layer_weights.c: find tensors by a model's naming scheme or one by one, and load this rank's
// heads of them.
#include "cli/layer/layer_weights.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The n-th of `parts` blocks of `all` elements. The first blocks are one longer if the division
// leaves a rest.
static void block(int64_t n, int64_t parts, int64_t all, int64_t *first, int64_t *count) {
    *first = n * (all / parts) + least(n, all % parts);
    *count = all / parts + (n < all % parts);
}

int layer_share_heads(layer_share *s, int rank, int ranks, int64_t heads, int64_t kv_heads) {
    *s = (layer_share){.wanted = true, .all = heads, .kv_all = kv_heads};
    if (heads % kv_heads)
        return tool_wrong("--kv-heads: H = %lld must be a multiple of Hkv = %lld", (long long)heads,
                          (long long)kv_heads);
    const int64_t each = heads / kv_heads;
    if (ranks <= kv_heads) {
        block(rank, ranks, kv_heads, &s->kv_first, &s->kv_count);
        s->first = s->kv_first * each, s->count = s->kv_count * each;
        return -1;
    }
    if (ranks > heads || (ranks + kv_heads - 1) / kv_heads > each)
        return tool_wrong(
            "--mpi-way heads: %d ranks are too many to partition %lld heads on %lld key/value heads", ranks,
            (long long)heads, (long long)kv_heads);
    for (int64_t kv = 0; kv < kv_heads; kv++) {
        int64_t first, count;
        block(kv, kv_heads, ranks, &first, &count);
        if (rank < first || rank >= first + count) continue;
        block(rank - first, count, each, &s->first, &s->count);
        s->first += kv * each, s->kv_first = kv, s->kv_count = 1;
    }
    return -1;
}

// The ranges of a tensor's axis that this rank loads, counted in heads. *units is the number of
// heads on the axis.
static int parts_of(const layer_share *s, int tensor, bool packed, int64_t starts[3], int64_t counts[3],
                    int64_t *units) {
    const bool kv = tensor == LAYER_WK || tensor == LAYER_WV || tensor == LAYER_BK || tensor == LAYER_BV;
    *units = kv ? s->kv_all : s->all;
    starts[0] = kv ? s->kv_first : s->first, counts[0] = kv ? s->kv_count : s->count;
    if (!packed || (tensor != LAYER_WQ && tensor != LAYER_BQ)) return 1;
    *units = s->all + 2 * s->kv_all;
    starts[1] = s->all + s->kv_first, starts[2] = starts[1] + s->kv_all;
    counts[1] = counts[2] = s->kv_count;
    return 3;
}

int layer_share_load(const layer_share *s, const char *option, int tensor, bool packed, bool transposed,
                     const load_place *place, array *a) {
    reason error;
    int64_t starts[3] = {0}, counts[3] = {0}, units = 1;
    const bool of_all = tensor == LAYER_BO || tensor == LAYER_Q_NORM || tensor == LAYER_K_NORM;
    // A wrong rank is an error later.
    const bool fits = place->whole.rank == (tensor < LAYER_BQ ? 2 : 1);
    const int axis = fits && tensor < LAYER_BQ && (tensor == LAYER_WO) != transposed ? 1 : 0;
    const int parts = of_all || !fits ? 1 : parts_of(s, tensor, packed, starts, counts, &units);
    const int64_t rows = place->whole.rank ? place->whole.shape[axis] : 1;
    if (of_all || !fits) counts[0] = 1;
    if (!place->whole.rank) return tool_wrong("--%s: has no axis", option);
    if (rows % units)
        return tool_wrong("--%s: has %lld rows, which are no multiple of %lld heads", option, (long long)rows,
                          (long long)units);
    for (int n = 0; n < parts; n++) starts[n] *= rows / units, counts[n] *= rows / units;
    if (load_rows(place, axis, parts, starts, counts, a, error)) return -1;
    return tool_wrong("--%s: %s", option, error);
}

const char *const layer_tensor_options[LAYER_TENSORS] = {
    "wq", "wk", "wv", "wo", "gate", "bq", "bk", "bv", "bo", "gate-bias", "q-norm", "k-norm", "sinks"};

// Suffixes after PREFIX. Weights are required, and a bias is optional. A tensor of `strangers`
// means that the layer does more than this program computes, which is an error.
static const struct {
    const char *scheme;
    const char *suffix[LAYER_TENSORS], *strangers[4];
    bool packed, transposed; // q, k and v in one tensor; weights are [in, out]
} schemes[] = {
    {"bert:",
     {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight", NULL,
      "self.query.bias", "self.key.bias", "self.value.bias", "output.dense.bias"},
     {"self.distance_embedding.weight"},
     .packed = false},
    {"llama:",
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", NULL, "q_proj.bias", "k_proj.bias",
      "v_proj.bias", "o_proj.bias", NULL, "q_norm.weight", "k_norm.weight", "sinks"},
     {NULL},
     .packed = false},
    {"torch:",
     {"in_proj_weight", NULL, NULL, "out_proj.weight", NULL, "in_proj_bias", NULL, NULL, "out_proj.bias"},
     {"bias_k", "bias_v"},
     .packed = true},
    {"gpt2:",
     {"c_attn.weight", NULL, NULL, "c_proj.weight", NULL, "c_attn.bias", NULL, NULL, "c_proj.bias"},
     {"q_attn.weight"},
     .packed = true,
     .transposed = true},
    {"phi:",
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "dense.weight", NULL, "q_proj.bias", "k_proj.bias",
      "v_proj.bias", "dense.bias"},
     {"q_layernorm.weight"},
     .packed = false},
    {"phi3:", {"qkv_proj.weight", NULL, NULL, "o_proj.weight"}, {NULL}, .packed = true},
};

#define LONGEST_SUFFIX 64 // the longest suffix above, with a leading dot and the final NUL
// Join PREFIX + "." + suffix, with exactly one dot.
static void join_name(const char *prefix, const char *suffix, char *text, size_t size) {
    const size_t n = strlen(prefix);
    snprintf(text, size, "%s%s%s", prefix, n && prefix[n - 1] != '.' ? "." : "", suffix);
}

// Load the whole tensor, or this rank's heads of it.
static int load_found(layer_weights *w, int i, load_place *place) {
    const char *option = layer_tensor_options[i];
    array *a = &w->arrays[i];
    const int status = w->share.wanted
                           ? layer_share_load(&w->share, option, i, w->packed, w->transposed, place, a)
                           : layer_find_load(option, place, a);
    load_leave(place);
    w->present[i] = status < 0;
    w->read_bytes += (double)w->arrays[i].bytes;
    return status;
}

static int load_named(layer_weights *w, int i, const char *name) {
    load_place place;
    if (i < LAYER_BQ && !w->share.wanted) {
        const int status = layer_stored_read(w, name, &w->arrays[i], &w->scales[i]);
        w->present[i] = status < 0;
        w->read_bytes += (double)w->arrays[i].bytes;
        return status;
    }
    const int status = layer_find(w, name, &place);
    return status < 0 ? load_found(w, i, &place) : status;
}

// Reject single Q, K and V tensors beside a scheme that has them in one tensor.
static int check_packed(const layer_weights *w) {
    for (int i = 0; i < LAYER_TENSORS; i++)
        if (w->given[i] && (i <= LAYER_WV || (i >= LAYER_BQ && i <= LAYER_BV)))
            return tool_wrong("--%s: has no effect beside --names %.5s..., where one tensor holds Q, K and "
                              "V: leave it out, or name all tensors without --names",
                              layer_tensor_options[i], w->names);
    return -1;
}

// Reject norms and sinks of a file unless the caller says how to use them: without them the result
// would be wrong.
static int check_known(const layer_weights *w, int i, const char *name) {
    if (i < LAYER_Q_NORM || (i == LAYER_SINKS ? w->sinks : w->norms)) return -1;
    return tool_wrong("--names %s: the file has %s: %s", w->names, name,
                      i == LAYER_SINKS ? "--model or --preset say what it is for, or name each tensor"
                                       : "--norm heads or --norm width says what it is for, or --model");
}

// Transpose to float32, which costs little beside the layer itself.
int layer_weights_transpose(array *a) {
    float *values = NULL;
    array transposed = {0};
    if (a->rank != 2) return -1; // a wrong rank is an error later
    const int64_t shape[2] = {a->shape[1], a->shape[0]};
    const bool ok = array_to_f32(a, &values) && array_create(&transposed, ARRAY_F32, 2, shape);
    for (int64_t i = 0; ok && i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            ((float *)transposed.data)[i * shape[1] + j] = values[j * shape[0] + i];
    free(values);
    if (!ok) return tool_failed("no memory to transpose a matrix");
    array_free(a);
    *a = transposed;
    return -1;
}

static int load_scheme(layer_weights *w, size_t scheme) {
    const char *prefix = w->names + strlen(schemes[scheme].scheme);
    const size_t size = strlen(prefix) + LONGEST_SUFFIX;
    char **names = NULL, error[512], *name;
    size_t count = 0;
    if (!w->file && !w->shards) return tool_wrong("--names: needs --weights FILE.safetensors");
    w->packed = schemes[scheme].packed, w->transposed = schemes[scheme].transposed;
    int status = w->packed ? check_packed(w) : -1;
    if (status >= 0) return status;
    if (!w->shards && !safetensors_names(w->file, &names, &count, error))
        return tool_wrong("--weights: %s", error);
    if (!(name = malloc(size))) status = tool_failed("no memory");
    for (int i = 0; i < 4 && schemes[scheme].strangers[i] && status < 0; i++)
        if (join_name(prefix, schemes[scheme].strangers[i], name, size),
            layer_weights_have(w, names, count, name))
            status = tool_wrong("--names %s: the file has %s, which is unsupported", w->names, name);
    for (int i = 0; i < LAYER_TENSORS && status < 0; i++) {
        if (!schemes[scheme].suffix[i] || w->present[i]) continue;
        join_name(prefix, schemes[scheme].suffix[i], name, size);
        if (i >= LAYER_BQ && !layer_weights_have(w, names, count, name)) continue;
        status = check_known(w, i, name);
        if (status < 0) status = load_named(w, i, name);
        if (status < 0 && schemes[scheme].transposed && i < LAYER_BQ)
            status = w->scales[i].type == CLATTN_TYPE_F32
                         ? layer_weights_transpose(&w->arrays[i])
                         : tool_wrong("--names %s: %s has scales, which are unsupported for this scheme's "
                                      "[in, out] matrices",
                                      w->names, name);
    }
    free(names), free(name);
    return status;
}

static int load_given(layer_weights *w) {
    bool used = w->names || !w->file;
    reason error;
    int status = -1;
    for (int i = 0; i < LAYER_TENSORS && status < 0; i++) {
        const char *name = w->given[i];
        if (!name) continue;
        const size_t n = strlen(name);
        const bool own_file = strchr(name, '#') || (n > 4 && !strcmp(name + n - 4, ".npy"));
        if (own_file) {
            load_place place;
            if (load_find(name, &place, error))
                status = load_found(w, i, &place);
            else
                status = tool_wrong("--%s: %s", layer_tensor_options[i], error);
        } else if (w->file) {
            status = load_named(w, i, name);
            used = true;
        } else
            status = tool_wrong("--%s %s: a tensor's name needs --weights FILE.safetensors",
                                layer_tensor_options[i], name);
    }
    if (status < 0 && !used)
        status = tool_wrong("--weights: has no effect: no --names, and no option names a tensor in it");
    return status;
}

bool layer_weights_named(const layer_weights *w, const char *scheme) {
    return w->names && !strncmp(w->names, scheme, strlen(scheme));
}

static int load_by_scheme(layer_weights *w) {
    for (size_t scheme = 0; scheme < sizeof schemes / sizeof schemes[0]; scheme++)
        if (layer_weights_named(w, schemes[scheme].scheme)) return load_scheme(w, scheme);
    return tool_wrong("--names %s: bert:, llama:, torch:, gpt2:, phi: or phi3:PREFIX is needed", w->names);
}

// Check that all required tensors are present and have the right rank.
static int check_tensors(const layer_weights *w) {
    int status = -1;
    for (int i = LAYER_WQ; status < 0 && i <= LAYER_WO; i++)
        if (!w->present[i] && !(w->packed && (i == LAYER_WK || i == LAYER_WV)))
            status = tool_wrong("--%s: is missing: use --names bert:, llama:, torch:, gpt2:, phi: or "
                                "phi3:PREFIX, or each tensor's name",
                                layer_tensor_options[i]);
    for (int i = 0; status < 0 && i < LAYER_TENSORS; i++)
        if (w->present[i] && w->arrays[i].rank != (i < LAYER_BQ ? 2 : 1)) {
            char shape[128];
            status = tool_wrong("--%s: has shape %s: %s is needed", layer_tensor_options[i],
                                array_shape_text(&w->arrays[i], shape), i < LAYER_BQ ? "[out, in]" : "[out]");
        }
    const int64_t parts = w->parts[0] + 2 * w->parts[1], all = parts ? parts : 3;
    if (status < 0 && w->packed &&
        (w->arrays[LAYER_WQ].shape[0] % all ||
         (w->present[LAYER_BQ] && w->arrays[LAYER_BQ].shape[0] != w->arrays[LAYER_WQ].shape[0])))
        status = tool_wrong("--names %s: the tensor of Q, K and V has %lld rows: equally many for each of "
                            "%lld heads, and a bias with one number a row, are needed",
                            w->names, (long long)w->arrays[LAYER_WQ].shape[0], (long long)all);
    return status;
}

int layer_weights_load(layer_weights *w) {
    int status = load_given(w);
    if (status < 0 && w->names) status = load_by_scheme(w);
    if (status < 0) status = check_tensors(w);
    for (int i = 0; i < LAYER_BQ && status < 0; i++)
        if (w->present[i])
            status = layer_stored_convert(w, layer_tensor_options[i], &w->arrays[i], &w->scales[i]);
    return status;
}

// Split the packed tensor into three views of one buffer.
static void unpack(const layer_weights *w, clattn_tensor *q, clattn_tensor *k, clattn_tensor *v) {
    const int64_t heads = w->parts[0] ? w->parts[0] : 1, kv_heads = w->parts[0] ? w->parts[1] : 1;
    if (!q->rank) return;
    const int64_t rows = q->shape[0] / (heads + 2 * kv_heads);
    q->shape[0] = heads * rows;
    *k = *v = *q;
    k->shape[0] = v->shape[0] = kv_heads * rows;
    k->offset = heads * rows * q->stride[0];
    v->offset = (heads + kv_heads) * rows * q->stride[0];
}

int layer_weights_upload(layer_weights *w, tensors *t, clattn_layer_params *p) {
    clattn_tensor *const views[LAYER_TENSORS] = {&p->wq, &p->wk, &p->wv, &p->wo,     &p->w_gate, &p->bq,
                                                 &p->bk, &p->bv, &p->bo, &p->b_gate, &p->q_norm, &p->k_norm},
                         *const scales[LAYER_BQ] = {&p->wq_scale, &p->wk_scale, &p->wv_scale, &p->wo_scale,
                                                    &p->w_gate_scale},
                         *const zeros[LAYER_BQ] = {&p->wq_zero, &p->wk_zero, &p->wv_zero, &p->wo_zero,
                                                   &p->w_gate_zero};
    int status = -1;
    for (int i = 0; i < LAYER_SINKS && status < 0; i++)
        if (w->present[i])
            status = i < LAYER_BQ ? layer_stored_upload(w, t, &w->arrays[i], &w->scales[i],
                                                        (clattn_tensor *[]){views[i], scales[i], zeros[i]})
                                  : tensors_upload(t, &w->arrays[i], views[i]);
    if (status < 0 && w->packed) {
        unpack(w, &p->wq, &p->wk, &p->wv);
        unpack(w, &p->wq_scale, &p->wk_scale, &p->wv_scale);
        unpack(w, &p->wq_zero, &p->wk_zero, &p->wv_zero);
        unpack(w, &p->bq, &p->bk, &p->bv);
    }
    return status;
}

double layer_weights_numbers(const clattn_tensor *w) {
    return w->rank ? (double)w->shape[0] * (double)w->shape[1] * clattn_type_numbers(w->type) : 0.0;
}

int layer_weights_sinks(const layer_weights *w, int64_t heads, float **sinks) {
    const array *a = &w->arrays[LAYER_SINKS];
    if (!w->present[LAYER_SINKS]) return -1;
    if (a->shape[0] != heads)
        return tool_wrong("--weights: sinks has %lld numbers, there are %lld heads", (long long)a->shape[0],
                          (long long)heads);
    return array_to_f32(a, sinks) ? -1 : tool_failed("no memory");
}

void layer_weights_free(layer_weights *w) {
    for (int i = 0; i < LAYER_TENSORS; i++) array_free(&w->arrays[i]);
    for (int i = 0; i < LAYER_BQ; i++) layer_stored_free(&w->scales[i]);
}
