// layer_model.c: a layer's parameters from options, from a model's config.json or from a preset.
// Missing and contradictory parameters are errors.
#include <ctype.h>

#include "cli/layer/layer.h"

// Reject options that --model or --preset already determine.
static int check_told(const layer_run *r, const char *by) {
    const score_options *s = &r->score;
    const struct {
        bool given;
        const char *name;
    } told[] = {{r->params.heads, "heads"},
                {r->params.kv_heads, "kv-heads"},
                {r->rope.layout >= 0, "rope"},
                {r->rope.rope.base != 0.0, "rope-base"},
                {r->rope.rope.rotary_dim, "rope-dim"},
                {r->rope.rope.scaling, "rope-scaling"},
                {s->causal, "causal"},
                {s->align, "align"},
                {s->score.window, "window"},
                {s->score.scale != 0.0f, "scale"},
                {s->score.softcap != 0.0f, "softcap"},
                {r->norm >= 0, "norm"},
                {r->params.norm_epsilon != 0.0f, "norm-eps"},
                {r->params.norm_plus_one, "norm-plus-one"},
                {r->weights.given[LAYER_GATE], "gate"},
                {r->y, "y"}};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        if (told[i].given) return tool_wrong("--%s: is not for --%s sets it", told[i].name, by);
    return -1;
}

static int check_model_options(const layer_run *r) {
    const layer_weights *w = &r->weights;
    const int status = check_told(r, "model, whose config.json");
    if (status >= 0) return status;
    if (r->preset) return tool_wrong("--preset: is not for --model, whose config.json sets it");
    if (w->file || w->names)
        return tool_wrong("--%s: is not for --model, which names all tensors", w->file ? "weights" : "names");
    for (int i = 0; i < LAYER_TENSORS; i++)
        if (w->given[i])
            return tool_wrong("--%s: is not for --model, which names all tensors", layer_tensor_options[i]);
    return r->layer >= 0 ? -1 : tool_wrong("--model: needs --layer N");
}

// Check the options of norm and gate.
static int check_heads_options(const layer_run *r) {
    const layer_weights *w = &r->weights;
    const char *alone = w->given[LAYER_Q_NORM]           ? "q-norm"
                        : w->given[LAYER_K_NORM]         ? "k-norm"
                        : r->params.norm_epsilon != 0.0f ? "norm-eps"
                        : r->params.norm_plus_one        ? "norm-plus-one"
                                                         : NULL;
    if (r->norm <= 0 && alone)
        return tool_wrong("--%s: has no effect without --norm heads or --norm width", alone);
    if (w->given[LAYER_GATE_BIAS] && !w->given[LAYER_GATE])
        return tool_wrong("--gate-bias: has no effect without --gate");
    return -1;
}

// Without --model, reject options without effect. With llama names, require the options that differ
// between such models.
static int check_options(const layer_run *r) {
    const rope_options *rope = &r->rope;
    if (r->layer >= 0) return tool_wrong("--layer: is for --model DIR");
    if (!r->params.heads) return tool_wrong("--heads H is needed; see clattn layer --help");
    int status = rope_options_check(rope);
    if (status < 0) status = check_heads_options(r);
    if (status >= 0 || !layer_weights_named(&r->weights, "llama:")) return status;
    const char *missing = !r->score.causal                             ? "causal"
                          : rope->layout < 0                           ? "rope"
                          : rope->layout > 0 && rope->rope.base == 0.0 ? "rope-base"
                                                                       : NULL;
    return missing
               ? tool_wrong(
                     "--names llama: needs --%s, which names do not determine: usual is --causal top-left "
                     "--rope half --rope-base with rope_theta of config.json; --model DIR --layer N reads it",
                     missing)
               : -1;
}

// Copy the model's parameters to the places that the options fill.
static void take_model(layer_run *r) {
    const model *m = &r->model;
    clattn_score *s = &r->score.score;
    r->params.heads = m->heads, r->params.kv_heads = m->kv_heads;
    // Only the sections come from options; check_told has rejected all other RoPE options.
    clattn_rope rope = m->rope;
    memcpy(rope.sections, r->rope.rope.sections, sizeof rope.sections);
    rope.sections_interleaved = r->rope.rope.sections_interleaved;
    r->rope.rope = rope;
    r->params.norm = m->norm, r->params.norm_epsilon = m->norm_epsilon,
    r->params.norm_plus_one = m->norm_plus_one;
    r->dynamic = m->rope.scaling == CLATTN_ROPE_SCALING_DYNAMIC || m->pair_factors;
    r->score.causal = m->bidirectional ? NULL : "top-left";
    s->scale = m->scale, s->softcap = m->softcap;
    s->window = m->window > 0;
    if (s->window) s->window_left = m->window - 1, s->window_right = m->bidirectional ? s->window_left : -1;
    r->weights.norms = m->norm != CLATTN_NORM_NONE;
    r->weights.sinks = m->sinks;
}

static int load_folder(layer_run *r) {
    model *m = &r->model;
    int status = check_model_options(r);
    if (status < 0) status = model_load(r->model_folder, r->layer, r->block.wanted, m);
    if (status >= 0) return status;
    r->weights.file = m->file, r->weights.shards = m->shards, r->weights.folder = m->folder;
    r->weights.names = m->names;
    take_model(r);
    return -1;
}

static int load_preset(layer_run *r) {
    const struct preset *p = r->preset;
    const int status = check_told(r, "preset, which");
    if (status >= 0) return status;
    if (r->layer >= 0) return tool_wrong("--layer: is for --model DIR");
    r->model = (model){.heads = (int32_t)p->heads,
                       .kv_heads = (int32_t)p->kv_heads,
                       .head_dim = (int32_t)p->head_dim,
                       .head_dim_v = (int32_t)(p->head_dim_v ? p->head_dim_v : p->head_dim),
                       .rope = p->rope,
                       .norm = p->norm,
                       .norm_epsilon = p->norm_epsilon,
                       .scale = p->scale,
                       .softcap = p->softcap,
                       .sinks = p->sinks,
                       .window = p->window,
                       .bias = p->biases >> LAYER_Q & 1,
                       .out_bias = p->biases >> LAYER_O & 1};
    take_model(r);
    return -1;
}

// Check sinks, norms and biases against the model.
static int check_more(const layer_run *r, const char *by) {
    const model *m = &r->model;
    const bool *present = r->weights.present;
    const bool norms = m->norm != CLATTN_NORM_NONE,
               sinks = present[LAYER_SINKS] || r->score.file[SCORE_SINKS];
    if (present[LAYER_SINKS] && r->score.file[SCORE_SINKS])
        return tool_wrong("--sinks: the weights have sinks already");
    if (m->sinks != sinks)
        return tool_wrong("--%s: needs %s sinks, but there are %s", by, m->sinks ? "learned" : "no",
                          sinks ? "some" : "none: --sinks FILE adds them");
    for (int i = LAYER_Q_NORM; i <= LAYER_K_NORM; i++)
        if (present[i] != norms)
            return tool_wrong("--%s: needs %s %s, but there is %s", by, norms ? "a" : "no",
                              layer_tensor_options[i], norms ? "none" : "one");
    if (m->out_bias && !present[LAYER_BO]) return tool_wrong("--%s: needs a bo, but there is none", by);
    if (r->model_folder && !m->out_bias && present[LAYER_BO])
        return tool_wrong("--model: needs no bo, but there is one");
    return -1;
}

// If config.json leaves out head size or KV heads and the weights differ from the kind's default,
// use the weights' sizes.
static int fit_sizes(layer_run *r) {
    model *m = &r->model;
    const int64_t q = r->weights.arrays[LAYER_WQ].shape[0], k = r->weights.arrays[LAYER_WK].shape[0];
    if (m->assumes_head_dim && q == m->width && q % m->heads == 0)
        m->head_dim = m->head_dim_v = (int32_t)(q / m->heads);
    if (m->assumes_kv_heads && k >= m->head_dim && k % m->head_dim == 0 && k / m->head_dim <= m->heads)
        r->params.kv_heads = m->kv_heads = (int32_t)(k / m->head_dim);
    if (m->heads % m->kv_heads == 0) return -1;
    return tool_wrong(
        "--model: %d key/value heads are the default of config.json, and do not divide %d heads", m->kv_heads,
        m->heads);
}

// Check the shapes of the weights against config.json or the preset.
static int check_model(const layer_run *r) {
    const model *m = &r->model;
    const array *a = r->weights.arrays;
    const char *by = r->preset ? "preset" : "model", *source = r->preset ? r->preset->name : "config.json";
    const int64_t wanted[4][2] = {{m->heads * m->head_dim, m->width},
                                  {m->kv_heads * m->head_dim, m->width},
                                  {m->kv_heads * m->head_dim_v, m->width},
                                  {m->width, m->heads * m->head_dim_v}};
    const int64_t rows = wanted[LAYER_WQ][0] + wanted[LAYER_WK][0] + wanted[LAYER_WV][0];
    if (r->weights.packed && (a[LAYER_WQ].shape[0] != rows || (m->width && a[LAYER_WQ].shape[1] != m->width)))
        return tool_wrong("--%s: q, k and v are [%lld, %lld], but %s needs [%lld, %d]", by,
                          (long long)a[LAYER_WQ].shape[0], (long long)a[LAYER_WQ].shape[1], source,
                          (long long)rows, m->width);
    for (int i = r->weights.packed ? LAYER_WO : LAYER_WQ; i <= LAYER_WO; i++)
        for (int axis = 0; axis < 2; axis++)
            if (wanted[i][axis] && a[i].shape[axis] != wanted[i][axis])
                return tool_wrong("--%s: %s is [%lld, %lld], but %s needs [%lld, %lld]", by,
                                  layer_tensor_options[i], (long long)a[i].shape[0], (long long)a[i].shape[1],
                                  source, (long long)wanted[i][0], (long long)wanted[i][1]);
    for (int i = LAYER_BQ; i <= (r->weights.packed ? LAYER_BQ : LAYER_BV) && m->bias >= 0; i++)
        if (r->weights.present[i] != (m->bias == 1))
            return tool_wrong("--%s: %s needs %s %s, but the weights have %s", by, source,
                              m->bias ? "a" : "no", layer_tensor_options[i], m->bias ? "none" : "one");
    return check_more(r, by);
}

// True if an expression uses the head number h, which on a rank counts from the rank's first head.
static bool names_head(const char *text) {
    for (const char *at = text; text && *at; at++) {
        const bool before = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.');
        if (*at == 'h' && !before && !isalnum((unsigned char)at[1]) && at[1] != '_') return true;
    }
    return false;
}

// Assign this rank its heads, once the counts are known.
static int layer_shared_deal(layer_run *r) {
    clattn_layer_params *p = &r->params;
    const clattn_score *s = &r->score.score;
    if (!ranks_way_is(&r->ranks, "heads")) return -1;
    const char *what = p->norm == CLATTN_NORM_WIDTH                          ? "--norm width"
                       : s->dropout != 0                                     ? "--dropout"
                       : names_head(s->score_mod) || names_head(s->mask_mod) ? "an expression of h"
                                                                             : NULL;
    if (what) return tool_wrong("%s: is unsupported with --mpi-way heads, which partitions heads", what);
    layer_share *share = &r->weights.share;
    const int status = layer_share_heads(share, r->ranks.rank, r->ranks.count, p->heads,
                                         p->kv_heads ? p->kv_heads : p->heads);
    if (status >= 0) return status;
    p->heads = r->model.heads = (int32_t)share->count;
    p->kv_heads = r->model.kv_heads = (int32_t)share->kv_count;
    return -1;
}

// Reject options that --mpi does not support.
int layer_shared_check(layer_run *r) {
    r->score.maps_later = r->expect.later = r->ranks.wanted;
    if (r->ranks.wanted && r->weights.stores.type >= 0)
        return tool_wrong("--weight-type: is unsupported with --mpi");
    if (r->ranks.wanted && ranks_way_is(&r->ranks, "decode"))
        return tool_wrong("--mpi-way decode: works with attend only");
    if (r->ranks.wanted && (r->kv.past_k || r->kv.past_v || r->kv.prefix_k || r->kv.prefix_v))
        return tool_wrong("--%s: is unsupported with layer --mpi; attend --mpi supports it",
                          r->kv.past_k || r->kv.past_v ? "past-k" : "prefix-k");
    return -1;
}

int layer_model_load(layer_run *r) {
    const bool told = r->model_folder || r->preset;
    int status = r->model_folder ? load_folder(r) : r->preset ? load_preset(r) : check_options(r);
    if (status < 0 && !told) r->weights.norms = r->norm > 0;
    if (status < 0) status = layer_shared_deal(r);
    r->weights.parts[0] = r->params.heads,
    r->weights.parts[1] = r->params.kv_heads ? r->params.kv_heads : r->params.heads;
    layer_weights *w = &r->weights;
    if (status < 0) status = store_choose(&w->stores, w->stores.type, &w->store);
    if (status < 0) status = store_check(&w->stores, &w->store, 1);
    if (status < 0) status = layer_weights_load(w);
    for (int i = 0; i < LAYER_BQ && status < 0 && r->ranks.wanted; i++)
        if (w->scales[i].type != CLATTN_TYPE_F32)
            status = tool_wrong("--weights: %s has scales, which are unsupported with --mpi",
                                layer_tensor_options[i]);
    if (status < 0 && r->model_folder) status = fit_sizes(r);
    if (status < 0 && told) status = check_model(r);
    if (status < 0 && r->weights.present[LAYER_SINKS])
        status = layer_weights_sinks(&r->weights, r->params.heads, &r->sinks);
    return status;
}

static int32_t greatest(const int32_t *x, int64_t count, int32_t least) {
    for (int64_t n = 0; x && n < count; n++) least = x[n] > least ? x[n] : least;
    return least;
}

// The sequence's length: one more than the greatest position.
static int64_t length_of(const layer_run *r) {
    int64_t rows = r->rows.whole ? r->rows.whole : r->x_array.shape[1];
    const int64_t batch = ragged_options_batch(&r->ragged, r->x_array.shape[0]);
    const array *positions = r->rope.arrays;
    if (r->rope.files[0]) {
        int32_t most = 0;
        for (int i = 0; i < 2; i++)
            most = greatest(positions[i].data, (int64_t)(positions[i].bytes / sizeof(int32_t)), most);
        return (int64_t)most + 1;
    }
    if (r->ragged.cu) {
        rows = 0;
        for (int64_t b = 0; b < batch; b++)
            rows =
                r->ragged.cu[b + 1] - r->ragged.cu[b] > rows ? r->ragged.cu[b + 1] - r->ragged.cu[b] : rows;
    }
    if (r->kv.lengths) return rows + greatest(r->kv.lengths, batch, 0);
    return rows + (r->kv.past_k ? r->kv.past_k_array.shape[2] : 0);
}

void layer_model_length(layer_run *r) {
    const model *m = &r->model;
    const int64_t length = length_of(r);
    if (!r->dynamic) return;
    if (!m->pair_factors)
        r->rope.rope.length = (double)length;
    else
        r->rope.rope.pair_factors = m->pair_factors + ((double)length > m->short_length ? m->rope.pairs : 0);
}

int layer_upload(layer_run *r, tensors *t) {
    clattn_layer_params *p = &r->params;
    const array *y = r->y ? &r->y_array : &r->x_array;
    int status = layer_weights_upload(&r->weights, t, p);
    if (status < 0) status = tensors_upload(t, &r->x_array, &p->x);
    if (status < 0 && r->y) status = tensors_upload(t, &r->y_array, &p->y);
    if (status < 0) status = kv_options_upload(&r->kv, t, (store[2]){{0}, {0}}, &p->kv);
    if (status < 0) status = score_options_upload(&r->score, t);
    if (status < 0) status = rope_options_upload(&r->rope, t);
    p->rope = r->rope.rope;
    const int64_t out[3] = {p->x.shape[0], p->x.shape[1], p->wo.shape[0]};
    const int64_t past = p->kv.past_k.rank ? p->kv.past_k.shape[2] : 0;
    int64_t full[4] = {p->x.shape[0], p->heads, p->x.shape[1], past + y->shape[1]};
    clattn_attention_params sequences = {.kv = p->kv};
    ragged_options_apply(&r->ragged, &sequences, full);
    p->sequences = sequences.sequences, p->cu_seqlens_q = sequences.cu_seqlens_q;
    p->kv.cu_seqlens_kv = sequences.kv.cu_seqlens_kv;
    if (r->ragged.cu && !r->y) full[3] = past + full[2];
    if (status < 0) status = tensors_output(t, r->x_array.type, 3, out, &r->out_array, &p->out);
    if (status < 0 && r->attention_weights)
        status = tensors_output(t, ARRAY_F32, 4, full, &r->weights_array, &r->params.weights);
    p->score = r->score.score, p->kernel = r->score.kernel, p->splits = r->score.splits;
    return status;
}
