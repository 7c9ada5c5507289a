// layer.c: clattn layer: multi-head attention with a model's weights.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/device/measure.h"
#include "evidence/words/words.h"
#include "tool/layer/layer_run.h"
#include "tool/files/outputs.h"
#include "tool/cli/report.h"
#include "tool/call_options/rope_options.h"
#include "tool/cli/watch.h"

enum {
    OPTION_TENSORS = 300, // LAYER_TENSORS ids from here
    OPTION_FILE = 320,
    OPTION_NAMES,
    OPTION_HEADS,
    OPTION_KV_HEADS,
    OPTION_X,
    OPTION_Y,
    OPTION_OUT,
    OPTION_WEIGHTS_OUT,
    OPTION_PROJECTION,
    OPTION_PRECISION,
    OPTION_DTYPE,
    OPTION_MODEL,
    OPTION_LAYER,
    OPTION_NORM,
    OPTION_NORM_EPSILON,
    OPTION_NORM_PLUS_ONE,
    OPTION_PRESET,
    OPTION_LIST_PRESETS
};

static bool take_count(const char *value, int32_t *result, char why[256]) {
    int64_t n = 0;
    if (!option_integer(value, 1, 65536, &n, why)) return false;
    *result = (int32_t)n;
    return true;
}

static bool take_projection(clattn_layer_params *p, int id, const char *value, char why[256]) {
    const bool who = id == OPTION_PROJECTION;
    int index = 0;
    if (!option_choice(value, who ? names_projections : names_precisions, &index, why)) return false;
    if (who)
        p->projection = (clattn_projection)index;
    else
        p->precision = (clattn_precision)index;
    return true;
}

static bool take_norm(layer_run *r, int id, const char *value, char why[256]) {
    clattn_layer_params *p = &r->params;
    if (id == OPTION_NORM_PLUS_ONE) return p->norm_plus_one = true;
    if (id == OPTION_NORM_EPSILON) {
        if (option_float(value, &p->norm_epsilon, why) && p->norm_epsilon > 0.0f) return true;
        snprintf(why, 256, "a number above 0 is needed, such as 1e-6");
        return false;
    }
    if (!option_choice(value, names_norms, &r->norm, why)) return false;
    p->norm = (clattn_norm)r->norm;
    return true;
}

// Where an option's text goes that is a name or a path; NULL: it is none.
static const char **text_of(layer_run *r, int id) {
    if (id < OPTION_TENSORS + LAYER_TENSORS) return &r->weights.given[id - OPTION_TENSORS];
    switch (id) {
    case OPTION_FILE:
        return &r->weights.file;
    case OPTION_NAMES:
        return &r->weights.names;
    case OPTION_X:
        return &r->x;
    case OPTION_Y:
        return &r->y;
    case OPTION_OUT:
        return &r->out;
    case OPTION_WEIGHTS_OUT:
        return &r->attention_weights;
    case OPTION_MODEL:
        return &r->model_folder;
    default:
        return NULL;
    }
}

static bool take_layer(void *target, int id, const char *value, char why[256]) {
    layer_run *r = target;
    const char **text = text_of(r, id);
    int index = 0;
    if (text) return *text = value, true;
    switch (id) {
    case OPTION_HEADS:
        return take_count(value, &r->params.heads, why);
    case OPTION_KV_HEADS:
        return take_count(value, &r->params.kv_heads, why);
    case OPTION_LAYER:
        return option_integer(value, 0, 65535, &r->layer, why);
    case OPTION_DTYPE:
        return option_choice(value, names_types, &r->dtype, why);
    case OPTION_NORM:
    case OPTION_NORM_EPSILON:
    case OPTION_NORM_PLUS_ONE:
        return take_norm(r, id, value, why);
    case OPTION_PRESET:
        if (!option_choice(value, preset_names, &index, why)) return false;
        r->preset = &presets[index];
        return true;
    case OPTION_LIST_PRESETS:
        return r->lists = true;
    default:
        return take_projection(&r->params, id, value, why);
    }
}

static const option_row layer_rows[] = {
    {"weights", "FILE", OPTION_FILE, "FILE.safetensors with the layer's tensors"},
    {"names", "SCHEME:PREFIX", OPTION_NAMES,
     "bert:PREFIX, torch:PREFIX (in_proj_weight, out_proj), or llama:PREFIX, which needs --causal, --rope "
     "and "
     "--rope-base said: names do not tell them (--model reads them)"},
    {"model", "DIR", OPTION_MODEL,
     "in place of --weights, --names, heads, RoPE and masks: config.json and model.safetensors (or its "
     "shards)"},
    {"layer", "N", OPTION_LAYER, "layer of the model, from 0"},
    {"preset", "NAME", OPTION_PRESET,
     "in place of heads, RoPE, norm and masks: a published model's, of --list-presets; the weights are the "
     "caller's, of any width"},
    {"list-presets", NULL, OPTION_LIST_PRESETS, "print them with their sources"},
    {"wq", "TENSOR", OPTION_TENSORS + LAYER_WQ, "[H*D, M], by name or a file; likewise the next eleven"},
    {"wk", "TENSOR", OPTION_TENSORS + LAYER_WK, "[Hkv*D, My]"},
    {"wv", "TENSOR", OPTION_TENSORS + LAYER_WV, "[Hkv*Dv, My]"},
    {"wo", "TENSOR", OPTION_TENSORS + LAYER_WO, "[Mo, H*Dv]"},
    {"bq", "TENSOR", OPTION_TENSORS + LAYER_BQ, "[H*D]"},
    {"bk", "TENSOR", OPTION_TENSORS + LAYER_BK, "[Hkv*D]"},
    {"bv", "TENSOR", OPTION_TENSORS + LAYER_BV, "[Hkv*Dv]"},
    {"bo", "TENSOR", OPTION_TENSORS + LAYER_BO, "[Mo]"},
    {"q-norm", "TENSOR", OPTION_TENSORS + LAYER_Q_NORM, "[D], or [H*D] with --norm width"},
    {"k-norm", "TENSOR", OPTION_TENSORS + LAYER_K_NORM, "[D], or [Hkv*D]"},
    {"gate", "TENSOR", OPTION_TENSORS + LAYER_GATE,
     "[H, M], a gate a head, or [H*Dv, M]: the heads' result times its sigmoid"},
    {"gate-bias", "TENSOR", OPTION_TENSORS + LAYER_GATE_BIAS, "[H] or [H*Dv]"},
    {"norm", "MODE", OPTION_NORM, "RMSNorm of q and k before RoPE: none, heads or width"},
    {"qk-norm", "MODE", OPTION_NORM, "the same as --norm"},
    {"norm-eps", "X", OPTION_NORM_EPSILON, "default 1e-6"},
    {"norm-plus-one", NULL, OPTION_NORM_PLUS_ONE, "the norms' weights are 1 + those of the file"},
    {"heads", "H", OPTION_HEADS, "query heads"},
    {"kv-heads", "N", OPTION_KV_HEADS, "key/value heads; default as --heads"},
    {"x", "FILE", OPTION_X, "input [B,N,M], .npy or FILE.safetensors#TENSOR"},
    {"y", "FILE", OPTION_Y, "key/value side [B,Nkv,My]: cross-attention"},
    {"out", "FILE", OPTION_OUT, "output [B,N,Mo], .npy"},
    {"attention-weights", "FILE", OPTION_WEIGHTS_OUT, "attention weights [B,H,Nq,Nkv], .npy"},
    {"projection", "NAME", OPTION_PROJECTION, "auto, clblast or native"},
    {"precision", "NAME", OPTION_PRECISION,
     "exact or split: whether a matrix engine may multiply float32 in three terms"},
    {"dtype", "TYPE", OPTION_DTYPE,
     "storage type of x, y and the output: f32, f16, bf16; default the file's own"},
};

static int load_input(layer_run *r, const char *option, const char *spec, array *a) {
    const bool shared = r->ranks.wanted && !r->weights.share.wanted && a == &r->x_array;
    const int status =
        shared ? ranks_load(&r->ranks, option, spec, 3, 1, &r->rows, a) : tensors_load(option, spec, 3, a);
    return status >= 0 ? status : tensors_store(option, a, r->dtype);
}

static int load_inputs(layer_run *r) {
    if (!r->x || !r->out)
        return tool_wrong("--%s FILE is needed; see clattn layer --help", r->x ? "out" : "x");
    int status = layer_shared_check(r);
    if (status < 0) status = layer_model_load(r);
    r->score.rope = r->rope.rope.layout != CLATTN_ROPE_NONE;
    if (status < 0) status = rope_options_load(&r->rope);
    if (r->sinks) r->score.score.sinks = r->sinks;
    if (status < 0) status = load_input(r, "x", r->x, &r->x_array);
    if (status < 0 && r->y) status = load_input(r, "y", r->y, &r->y_array);
    if (status < 0) status = expect_load(&r->expect, r->x_array.shape[0]);
    if (status < 0 && r->ragged.kv_file && !r->y)
        status = tool_wrong("--cu-seqlens-kv: is of y, and --y FILE is not given");
    if (status < 0) status = ragged_options_load(&r->ragged, r->y ? r->y_array.shape[0] : -1);
    const int64_t batch = ragged_options_batch(&r->ragged, r->x_array.shape[0]);
    const int64_t heads = r->weights.share.wanted ? r->weights.share.all : r->params.heads;
    if (status < 0) status = kv_options_load(&r->kv, batch, r->dtype, r->dtype == 2);
    if (status < 0 && r->dynamic)
        r->rope.rope.length = (double)((r->rows.whole ? r->rows.whole : r->x_array.shape[1]) +
                                       (r->kv.past_k ? r->kv.past_k_array.shape[2] : 0));
    r->common.mods_unchecked = r->score.mods_unchecked;
    return status >= 0 ? status : score_options_load(&r->score, batch, heads);
}

int layer_upload(layer_run *r, tensors *t) {
    clattn_layer_params *p = &r->params;
    const array *y = r->y ? &r->y_array : &r->x_array;
    int status = layer_weights_upload(&r->weights, t, p);
    if (status < 0) status = tensors_upload(t, &r->x_array, &p->x);
    if (status < 0 && r->y) status = tensors_upload(t, &r->y_array, &p->y);
    if (status < 0) status = kv_options_upload(&r->kv, t, false, &p->kv);
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

// Projections and attention together.
static double layer_flops(const clattn_layer_params *p) {
    const clattn_tensor *y = p->y.rank ? &p->y : &p->x;
    const int64_t kv_heads = p->kv_heads ? p->kv_heads : p->heads;
    clattn_attention_params a = {.score = p->score, .sequences = p->sequences};
    a.cu_seqlens_q = p->cu_seqlens_q;
    a.kv.cu_seqlens_kv = p->y.rank ? p->kv.cu_seqlens_kv : p->cu_seqlens_q;
    a.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, p->x.shape[0], p->heads, p->x.shape[1],
                             p->wq.shape[0] / p->heads);
    a.kv.k = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, y->shape[0], kv_heads, y->shape[1], a.q.shape[3]);
    a.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, y->shape[0], kv_heads, y->shape[1],
                                p->wv.shape[0] / kv_heads);
    a.kv.past_k = p->kv.past_k, a.kv.past_lengths = p->kv.past_lengths;
    const double rows = (double)(p->x.shape[0] * p->x.shape[1]),
                 kv_rows = (double)(y->shape[0] * y->shape[1]);
    const double q = (double)(p->wq.shape[0] * p->wq.shape[1]), o = (double)(p->wo.shape[0] * p->wo.shape[1]);
    const double kv = (double)(p->wk.shape[0] * p->wk.shape[1] + p->wv.shape[0] * p->wv.shape[1]);
    const double gate = p->w_gate.rank ? (double)(p->w_gate.shape[0] * p->w_gate.shape[1]) : 0.0;
    return 2.0 * (rows * (q + gate + o) + kv_rows * kv) + report_flops(&a);
}

static int run_layer(layer_run *r, session *s, tensors *t) {
    clattn_plan plan;
    watch seen;
    int status = layer_upload(r, t);
    if (status < 0) status = expect_fits(&r->expect, &r->out_array, 1);
    if (status >= 0) return status;
    const uint64_t start = measure_clock_ns();
    clattn_status done = clattn_layer_plan(s->context, &r->params, &plan);
    if (done == CLATTN_OK) done = clattn_layer_prepare(s->context, &r->params);
    const uint64_t ready = measure_clock_ns();
    r->params.progress = watch_begin(&seen, s, layer_flops(&r->params));
    if (done == CLATTN_OK) done = clattn_layer_enqueue(s->context, s->queue, &r->params, 0, NULL, NULL);
    watch_end(&seen);
    if (done != CLATTN_OK) return session_status(s, done);
    status = session_finish(s);
    const uint64_t end = measure_clock_ns();
    if (status < 0) status = tensors_save(t, &r->params.out, &r->out_array, r->out);
    if (status < 0) status = tensors_save(t, &r->params.weights, &r->weights_array, r->attention_weights);
    if (status >= 0) return status;
    status = expect_check(&r->expect, &r->out_array, 1);
    const int told =
        report_run(s, &plan, layer_flops(&r->params), end - ready, ready - start, r->out, &r->expect);
    return status >= 0 ? status : told;
}

static int list_presets(bool json) {
    json_t *list = json ? json_array() : NULL;
    for (int i = 0; json && preset_names[i]; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "name", presets[i].name, "source", presets[i].source));
    if (json) return report_json(json_pack("{s:o}", "presets", list));
    for (int i = 0; preset_names[i]; i++) printf("%-14s %s\n", presets[i].name, presets[i].source);
    return EXIT_DONE;
}

static void free_layer(layer_run *r) {
    layer_weights_free(&r->weights);
    free(r->sinks);
    model_free(&r->model);
    array_free(&r->x_array);
    array_free(&r->y_array);
    array_free(&r->out_array);
    array_free(&r->weights_array);
    score_options_free(&r->score);
    kv_options_free(&r->kv);
    rope_options_free(&r->rope);
    ragged_options_free(&r->ragged);
    expect_free(&r->expect);
}

int tool_layer(int argc, char **argv) {
    layer_run r = {.layer = -1, .dtype = -1, .rope = {.layout = -1}, .norm = -1};
    session s = {0};
    const option_group groups[] = {
        {"layer", layer_rows, sizeof layer_rows / sizeof layer_rows[0], take_layer, &r},
        rope_group(&r.rope),
        score_group(&r.score),
        kv_past_group(&r.kv),
        ragged_group(&r.ragged),
        ranks_group(&r.ranks),
        expect_group(&r.expect),
        common_group(&r.common)};
    command_line line = {
        .command = "layer",
        .summary = "multi-head attention with a model's weights",
        .example = "clattn layer --weights model.safetensors --names bert:encoder.layer.0.attention \\\n"
                   "        --heads 12 --x x.npy --out y.npy\n"
                   "    clattn layer --model SmolLM2-135M --layer 0 --x x.npy --out y.npy",
        .groups = groups,
        .group_count = sizeof groups / sizeof groups[0]};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (r.lists) return list_presets(r.common.json);
    status = ranks_open(&r.ranks, &line, argc, argv);
    if (status >= 0) return status;
    const output_file outputs[] = {{"out", r.out}, {"attention-weights", r.attention_weights}};
    status = outputs_check(&line, outputs, 2);
    if (status < 0) status = load_inputs(&r);
    if (status < 0) status = session_open(&s, &r.common);
    const bool opened = status < 0;
    status = ranks_agree(&r.ranks, status);
    if (opened) {
        tensors t = {.session = &s};
        if (status < 0) status = r.ranks.wanted ? layer_shared_run(&r, &s, &t) : run_layer(&r, &s, &t);
        tensors_release(&t);
        session_close(&s);
    }
    free_layer(&r);
    ranks_close(&r.ranks, status);
    return status;
}
