// layer.c: the command `clattn layer`: multi-head attention with a model's weights.
#include "verification/device/measure.h"
#include "verification/device/opencl.h"
#include "verification/words/words.h"
#include "cli/layer/layer_backward.h"
#include "cli/layer/layer_block.h"
#include "cli/common/compiling.h"
#include "cli/common/report.h"
#include "cli/common/progress.h"

static bool take_norm(void *target, const char *value, char why[256]) {
    layer_run *r = target;
    const bool known = option_choice(value, names_norms, &r->norm, why);
    if (known) r->params.norm = (clattn_norm)r->norm;
    return known;
}

static bool take_epsilon(void *target, const char *value, char why[256]) {
    float *epsilon = &((layer_run *)target)->params.norm_epsilon;
    if (option_float(value, epsilon, why) && *epsilon > 0.0f) return true;
    snprintf(why, 256, "a number above 0 is needed, such as 1e-6");
    return false;
}

static bool take_preset(void *target, const char *value, char why[256]) {
    int index = 0;
    if (!option_choice(value, preset_names, &index, why)) return false;
    ((layer_run *)target)->preset = &presets[index];
    return true;
}

#define AS_TENSOR(which) AS_TEXT(layer_run, weights.given[which])
static const option_row layer_rows[] = {
    {"weights", "FILE", "FILE.safetensors with the layer's tensors", AS_TEXT(layer_run, weights.file)},
    {"names", "SCHEME:PREFIX",
     "how the tensors are named: bert:PREFIX, torch:PREFIX (in_proj_weight, out_proj), or llama:PREFIX, "
     "which also needs --causal, --rope and --rope-base (--model reads them from config.json)",
     AS_TEXT(layer_run, weights.names)},
    {"model", "DIR",
     "folder with config.json and model.safetensors (or its shards): replaces --weights, --names and the "
     "options of heads, RoPE and masks",
     AS_TEXT(layer_run, model_folder)},
    {"layer", "N", "which layer of --model, from 0", AS_INTEGER(layer_run, layer, 0, 65535)},
    {"block", NULL, "with --model: the whole transformer block around the layer: norms, residuals and MLP",
     AS_SWITCH(layer_run, block.wanted)},
    {"preset", "NAME",
     "heads, RoPE, norms and masks of a published model (--list-presets); the weights are your own, of any "
     "width",
     AS_CALL(take_preset)},
    {"list-presets", NULL, "print the presets with their sources", AS_SWITCH(layer_run, lists)},
    {"wq", "TENSOR",
     "[H*D, M] query projection: a tensor's name in --weights, or a file, as for all options down to "
     "--gate-bias",
     AS_TENSOR(LAYER_WQ)},
    {"wk", "TENSOR", "[Hkv*D, My] key projection", AS_TENSOR(LAYER_WK)},
    {"wv", "TENSOR", "[Hkv*Dv, My] value projection", AS_TENSOR(LAYER_WV)},
    {"wo", "TENSOR", "[Mo, H*Dv] output projection", AS_TENSOR(LAYER_WO)},
    {"bq", "TENSOR", "[H*D] bias of --wq", AS_TENSOR(LAYER_BQ)},
    {"bk", "TENSOR", "[Hkv*D] bias of --wk", AS_TENSOR(LAYER_BK)},
    {"bv", "TENSOR", "[Hkv*Dv] bias of --wv", AS_TENSOR(LAYER_BV)},
    {"bo", "TENSOR", "[Mo] bias of --wo", AS_TENSOR(LAYER_BO)},
    {"q-norm", "TENSOR", "[D] weights of q's norm, or [H*D] with --norm width", AS_TENSOR(LAYER_Q_NORM)},
    {"k-norm", "TENSOR", "[D] weights of k's norm, or [Hkv*D] with --norm width", AS_TENSOR(LAYER_K_NORM)},
    {"gate", "TENSOR",
     "gate, [H, M] for each head or [H*Dv, M] for each number: multiplies the heads' result by its sigmoid",
     AS_TENSOR(LAYER_GATE)},
    {"gate-bias", "TENSOR", "[H] or [H*Dv] bias of --gate", AS_TENSOR(LAYER_GATE_BIAS)},
    {"norm", "MODE", "RMSNorm of q and k before RoPE: none, heads or width; also --qk-norm",
     AS_CALL(take_norm)},
    {"qk-norm", "MODE", NULL, AS_CALL(take_norm)},
    {"norm-eps", "X", "epsilon of these norms; default 1e-6", AS_CALL(take_epsilon)},
    {"norm-plus-one", NULL, "these norms multiply by 1 + the file's weights, as in Gemma",
     AS_SWITCH(layer_run, params.norm_plus_one)},
    {"heads", "H", "query heads", AS_INTEGER(layer_run, params.heads, 1, 65536)},
    {"kv-heads", "N", "key/value heads; default: as --heads",
     AS_INTEGER(layer_run, params.kv_heads, 1, 65536)},
    {"x", "FILE", "input [B,N,M], .npy or FILE.safetensors#TENSOR", AS_TEXT(layer_run, x)},
    {"y", "FILE", "input of keys and values [B,Nkv,My], for cross-attention", AS_TEXT(layer_run, y)},
    {"out", "FILE", "output [B,N,Mo], .npy", AS_OUTPUT(layer_run, out)},
    {"attention-weights", "FILE", "attention weights [B,H,Nq,Nkv], .npy",
     AS_OUTPUT(layer_run, attention_weights)},
    {"weight-type", "TYPE",
     "how matrices of floats are stored on the device: " STORE_TYPES_HELP
     "; a file with quantised matrices needs no option",
     AS_CHOICE(layer_run, weights.stores.type, store_names)},
    {"weight-group", "N", "how many numbers of a row share a scale: a multiple of 32; default: the whole row",
     AS_INTEGER(layer_run, weights.stores.group, 32, INT32_MAX)},
    {"weight-scales", "TYPE", "type of the scales: f32, which is the default, f16 or bf16",
     AS_CHOICE(layer_run, weights.stores.scales, names_types)},
    {"weight-zeros", NULL,
     "store zero points beside the scales, so that each group uses the type's whole range",
     AS_SWITCH(layer_run, weights.stores.zeros)},
    {"projection", "NAME",
     "which matrix multiplication the projections use: auto, clblast or native (clattn's own)",
     AS_CHOICE(layer_run, params.projection, names_projections)},
    {"precision", "NAME", "exact, or split: a matrix engine may multiply float32 as three terms of bfloat16",
     AS_CHOICE(layer_run, params.precision, names_precisions)},
    {"dtype", "TYPE", "storage type of x, y and the output: f32, f16 or bf16; default: the file's own",
     AS_CHOICE(layer_run, dtype, names_types)},
};

// Load x or y. If ranks share rows, load only this rank's rows of x.
static int load_input(layer_run *r, const char *option, const char *spec, array *a) {
    load_place place;
    const bool shared = r->ranks.wanted && !r->weights.share.wanted && a == &r->x_array;
    int status = shared ? ranks_find(option, spec, 3, &place) : tensors_load(option, spec, 3, a);
    if (status < 0 && shared) {
        ranks_share(&r->ranks, place.whole.shape[1], &r->rows);
        status = ranks_read(&r->ranks, option, &place, 1, &r->rows, a);
        load_leave(&place);
    }
    return status >= 0 ? status : tensors_store(option, a, r->dtype);
}

static int load_inputs(layer_run *r) {
    if (!r->x || !r->out)
        return tool_wrong("--%s FILE is needed; see clattn layer --help", r->x ? "out" : "x");
    int status = layer_block_check(r);
    if (status < 0) status = layer_shared_check(r);
    if (status < 0) status = layer_gradients_load(r);
    if (status < 0) status = layer_model_load(r);
    if (status < 0) status = layer_block_load(r);
    r->score.rope = r->rope.rope.layout != CLATTN_ROPE_NONE;
    if (status < 0) status = rope_options_load(&r->rope);
    if (r->sinks) r->score.score.sinks = r->sinks;
    if (status < 0) status = load_input(r, "x", r->x, &r->x_array);
    if (status < 0 && r->y) status = load_input(r, "y", r->y, &r->y_array);
    if (status < 0) status = expect_load(&r->expect, r->x_array.shape[0]);
    if (status < 0 && r->ragged.kv_file && !r->y)
        status = tool_wrong("--cu-seqlens-kv: has no effect without --y FILE");
    if (status < 0) status = ragged_options_load(&r->ragged, r->y ? r->y_array.shape[0] : -1);
    const int64_t batch = ragged_options_batch(&r->ragged, r->x_array.shape[0]);
    const int64_t heads = r->weights.share.wanted ? r->weights.share.all : r->params.heads;
    if (status < 0) status = kv_options_load(&r->kv, batch, (int[2]){r->dtype, r->dtype}, r->dtype == 2);
    if (status < 0) layer_model_length(r);
    r->common.mods_unchecked = r->score.mods_unchecked;
    return status >= 0 ? status : score_options_load(&r->score, batch, heads);
}

// Operations of the projections and of attention.
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
    const double of_rows = layer_weights_numbers(&p->wq) + layer_weights_numbers(&p->w_gate) +
                           layer_weights_numbers(&p->wo),
                 of_keys = layer_weights_numbers(&p->wk) + layer_weights_numbers(&p->wv);
    return 2.0 * (rows * of_rows + kv_rows * of_keys) + report_flops(&a);
}

// Compile the kernels. Run the calls once, untimed, if the driver compiles at a kernel's first
// launch.
static clattn_status make_ready(layer_run *r, session *s, double flops, clattn_plan *plan,
                                uint64_t *ready_ns) {
    compiling *const notice = compiling_begin(s);
    clattn_status done = clattn_layer_plan(s->context, &r->params, plan);
    if (done == CLATTN_OK) done = layer_block_prepare(r, s);
    clFinish(s->queue); // A failure of this untimed run shows again in the timed run.
    *ready_ns = measure_clock_ns();
    if (done == CLATTN_OK && compiling_runs_first(s, flops)) {
        done = layer_block_enqueue(r, s);
        clFinish(s->queue);
    }
    compiling_end(notice);
    return done;
}

static int run_layer(layer_run *r, session *s, tensors *t) {
    clattn_plan plan;
    watch seen;
    uint64_t ready = 0;
    int status = layer_upload(r, t);
    const clattn_tensor out = r->params.out;
    if (status < 0) status = layer_block_begin(r, t);
    if (status < 0) status = layer_gradients_begin(r, t);
    if (status < 0) status = expect_fits(&r->expect, &r->out_array, 1);
    if (status >= 0) return status;
    const double flops = layer_flops(&r->params) + layer_block_flops(r);
    const uint64_t start = measure_clock_ns();
    clattn_status done = make_ready(r, s, flops, &plan, &ready);
    const uint64_t begun = measure_clock_ns();
    r->params.progress = watch_begin(&seen, s->options.quiet, flops);
    // Only the layer itself reports progress: stop its bar at the layer's share.
    seen.line.all = flops / layer_flops(&r->params);
    if (done == CLATTN_OK) done = layer_block_enqueue(r, s);
    watch_end(&seen);
    if (done != CLATTN_OK) return session_status(s, done);
    status = session_finish(s);
    const uint64_t end = measure_clock_ns();
    if (status < 0) status = layer_gradients_run(r, s);
    if (status < 0) status = tensors_save(t, &out, &r->out_array, r->out);
    if (status < 0) status = tensors_save(t, &r->params.weights, &r->weights_array, r->attention_weights);
    if (status < 0) status = layer_gradients_save(r, t);
    if (status >= 0) return status;
    status = expect_check(&r->expect, &r->out_array, 1);
    json_t *block = layer_block_json(r);
    const int told = report_run(s, &plan, flops, end - begun, ready - start, r->out, &r->expect, block);
    json_decref(block);
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
    layer_gradients_free(&r->gradients);
    layer_block_free(&r->block);
}

int tool_layer(int argc, char **argv) {
    layer_run r = {.weights.stores = {.option = "weight", .type = -1, .scales = -1},
                   .layer = -1,
                   .dtype = -1,
                   .rope = {.layout = -1},
                   .norm = -1};
    session s = {0};
    const option_group groups[] = {{"layer", OPTION_ROWS(layer_rows), &r},
                                   rope_group(&r.rope),
                                   score_group(&r.score),
                                   kv_past_group(&r.kv),
                                   ragged_group(&r.ragged),
                                   layer_gradients_group(&r.gradients),
                                   ranks_group(&r.ranks),
                                   expect_group(&r.expect),
                                   common_group(&r.common)};
    command_line line = {
        .command = "layer",
        .summary = "multi-head attention with a model's weights",
        .example = "clattn layer --weights model.safetensors --names bert:encoder.layer.0.attention \\\n"
                   "    --heads 12 --x x.npy --out y.npy\n"
                   "clattn layer --model SmolLM2-135M --layer 0 --x x.npy --out y.npy\n"
                   "clattn layer --model SmolLM2-135M --layer 0 --block --x x.npy --out y.npy",
        .groups = groups,
        .group_count = sizeof groups / sizeof groups[0]};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (r.lists) return list_presets(r.common.json);
    status = ranks_open(&r.ranks, &line, argc, argv);
    if (status >= 0) return status;
    status = options_check_outputs(&line);
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
