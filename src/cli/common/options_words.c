// options_words.c: names that torch, FlashAttention, ONNX, numpy and other programs use for
// clattn's options and values. An unknown option or value is an error, and the error line names
// clattn's own word.
#include <ctype.h>

#include "cli/common/options.h"
#include "cli/common/tool.h"

// `words` are names separated by spaces, without leading dashes, with _ replaced by a dash. They
// mean the first of `options` that the command has. `note` is printed if the command has none of
// these options. A note that begins with a space follows the option's name.
typedef struct usual_option {
    const char *words, *options, *note;
} usual_option;

#define SHAPE_NOTE(of) "the shape of " of " says it"
static const usual_option usual_options[] = {
    {"softmax-scale sm-scale attn-scale attention-scale qk-scale scaling scale-factor scale-value", "scale",
     NULL},
    {"is-causal causal-mask use-causal-mask unidirectional autoregressive mask-type", "causal", NULL},
    {"causal-offset diagonal-offset start-pos cache-position", "offset", NULL},
    {"attn-mask attention-mask bool-mask mask-file mask-index key-padding-mask padding-mask src-mask", "mask",
     " A mask of floats is --bias FILE."},
    {"attn-bias attention-bias bias-mask additive-mask float-mask bias-file position-bias rel-pos-bias "
     "relative-position-bias",
     "bias", NULL},
    {"window-size sliding-window sliding-window-size sliding-window-length local-window-size local-window "
     "attention-window window-left "
     "window-right left-window-size right-window-size",
     "window", NULL},
    {"logits-soft-cap logit-softcapping attn-logit-softcapping attn-logits-soft-cap logit-cap logits-cap "
     "soft-cap tanh-scale",
     "softcap", NULL},
    {"dropout-p p-dropout dropout-prob dropout-rate drop-rate attn-dropout attention-dropout attn-pdrop "
     "attention-probs-dropout-prob",
     "dropout", NULL},
    {"dropout-seed rng-seed random-seed philox-seed rng-state manual-seed", "seed", NULL},
    {"alibi-slopes alibi-bias slopes", "alibi", NULL},
    {"s-aux learnable-sink sink-token sink-logits attention-sinks attn-sinks head-sink", "sinks", NULL},
    {"cu-seqlens-q cu-seq-len-q cu-seq-lens cu-q-lens cu-seqlens-x q-offsets qo-indptr indptr ragged-offset "
     "seq-offsets",
     "cu-seqlens", NULL},
    {"cu-seqlens-k cu-seq-len-kv cu-kv-lens kv-indptr kv-offsets", "cu-seqlens-kv", NULL},
    {"max-seqlen max-seqlen-q max-seqlen-k max-seqlen-kv max-q max-kv", "",
     "--cu-seqlens FILE determines it"},
    {"seqused-q q-seq-lens q-seqlens seq-lens-q seq-len-q actual-seq-lengths q-lens", "q-lengths", NULL},
    {"seqused-k seqlens-k seqlen-k-file cache-seqlens context-lens context-lengths kv-seq-lens kv-seqlens "
     "seq-lens-kv seq-len-kv kv-len "
     "kv-lens seq-lens nonpad-kv-seqlen total-sequence-length actual-seq-lengths-kv",
     "kv-lengths n-kv", NULL},
    {"page-table block-tables block-indices block-list page-indices", "block-table", NULL},
    {"block-size page-block-size kv-block-size paged-block-size", "page-size", NULL},
    {"num-splits n-splits split-kv split-k kv-splits", "splits", NULL},
    {"past-key past-keys past-key-values key-cache past-key-value", "past-k", NULL},
    {"past-value past-values value-cache", "past-v", NULL},
    {"k-cache query-key", "k", NULL},
    {"v-cache", "v", NULL},
    {"new-k new-key present-key key-new", "k-new", NULL},
    {"new-v new-value present-value value-new", "v-new", NULL},
    {"return-lse return-softmax-lse softmax-lse logsumexp log-sum-exp lse-out out-lse", "lse", NULL},
    {"need-weights return-attn-probs return-attn-weights return-weights output-attentions attn-weights "
     "attention-probs attn-probs probs "
     "average-attn-weights attention-weights",
     "attention-weights weights", NULL},
    {"qk-matmul-output return-scores logits attn-scores attention-scores", "scores", NULL},
    {"qk-matmul-output-mode scores-mode", "scores-at", NULL},
    {"theta rope-theta rotary-base rotary-emb-base rotary-theta freq-base rope-freq-base base", "rope-base",
     NULL},
    {"rotary rotary-emb rotary-interleaved rope-interleaved interleaved rope-type rope-style rope-layout "
     "rope-mode is-neox is-neox-style "
     "apply-rope",
     "rope", NULL},
    {"rotary-dim rotary-width rotary-ndims rope-head-dim rotary-emb-dim rotary-embedding-dim rope-dims "
     "partial-rotary-factor",
     "rope-dim", NULL},
    {"rope-factor rope-scale rope-freq-scale rope-scaling-type rope-scaling-factor rope-parameters "
     "scaling-factor yarn",
     "rope-scaling", NULL},
    {"position-ids pos-ids pos position-id rotary-seqlens", "positions", NULL},
    {"num-heads n-heads n-head nheads num-attention-heads num-q-heads num-query-heads num-qo-heads "
     "q-num-heads num-heads-q head-count "
     "h heads",
     "heads", SHAPE_NOTE("--q, [B,H,Nq,D],")},
    {"num-kv-heads n-kv-heads n-head-kv num-key-value-heads num-heads-kv num-heads-k kv-num-heads "
     "kv-head-count num-k-heads hkv "
     "enable-gqa kv-heads",
     "kv-heads", SHAPE_NOTE("--k, [B,Hkv,Nkv,D],")},
    {"head-dim head-size d-head headdim head-dim-qk size-per-head d dim", "-d",
     "the shapes of the inputs determine it"},
    {"head-dim-v v-head-dim head-dim-vo d-v value-dim", "dv", SHAPE_NOTE("--v, [B,Hkv,Nkv,Dv],")},
    {"batch-size batchsize bs batches", "-b", "the shapes of the inputs determine it"},
    {"seq-len seqlen seqlen-q seq-length sequence-length q-len n-q queries-count rows", "-n n",
     "the shapes of the inputs determine it"},
    {"seqlen-k seqlen-kv kv-seq-len kv-seqlen k-len keys-count columns context-length ctx-size n-ctx", "n-kv",
     "the shapes of the inputs determine it"},
    {"hidden-size embed-dim embedding-dim n-embd model-dim-size width model-width", "d-model",
     SHAPE_NOTE("--x, [B,N,M],")},
    {"query queries query-states query-layer q-file", "q x", NULL},
    {"key keys key-states key-layer k-file", "k y", NULL},
    {"value values value-states value-layer v-file", "v y", NULL},
    {"input inputs hidden-states input-file src", "x q", NULL},
    {"encoder-hidden-states cross-attention-states memory kv-input encoder-output", "y k", NULL},
    {"output o output-file out-file outfile", "out save", NULL},
    {"data-type type storage-type torch-dtype compute-type precision", "dtype", NULL},
    {"kv-cache-dtype kv-dtype kv-cache-type cache-type cache-type-k kv-quant ctk k-type quantize-kv",
     "kv-type", NULL},
    {"cache-type-v ctv v-dtype v-cache-type", "v-type", NULL},
    {"k-scale v-scale k-descale v-descale", "kv-scales", NULL},
    {"weight-dtype weights-type quantize quantization weight-quant", "weight-type", NULL},
    {"group-size quant-group-size", "kv-group weight-group", NULL},
    {"input-layout tensor-layout qkv-format qkv-layout bshd bhsd", "layout", NULL},
    {"score-modifier score-fn modifier", "score-mod", NULL},
    {"block-mask mask-function mask-fn mask-expr mask-expression", "mask-mod", NULL},
    {"score-mod-bwd score-mod-backward", "score-mod-gradient", NULL},
    {"aux-tensors aux buffers", "buffer", NULL},
    {"deterministic", "", "gradients are always deterministic: they are summed in one order"},
    {"backend implementation kernel-name attn-implementation attention-backend algorithm flash-attn",
     "kernel", NULL},
    {"gpu cuda cpu device-id dev device-index platform gpu-id", "device", NULL},
    {"atol rtol tol eps-tol allclose", "tolerance fail-above", NULL},
    {"threshold fail-on max-regression", "fail-above tolerance", NULL},
    {"reference expected ref golden compare-to", "expect", NULL},
    {"grad-output dout do d-out out-grad", "grad-out", NULL},
    {"dq q-grad", "grad-q", NULL},
    {"dk k-grad", "grad-k", NULL},
    {"dv v-grad", "grad-v", NULL},
    {"dbias bias-grad", "grad-bias", NULL},
    {"q-proj q-proj-weight query-weight w-q q-weight", "wq", NULL},
    {"k-proj k-proj-weight key-weight w-k k-weight", "wk", NULL},
    {"v-proj v-proj-weight value-weight w-v v-weight", "wv", NULL},
    {"o-proj out-proj out-proj-weight o-weight w-o output-weight proj", "wo", NULL},
    {"q-bias q-proj-bias", "bq", NULL},
    {"k-bias k-proj-bias", "bk", NULL},
    {"v-bias v-proj-bias", "bv", NULL},
    {"o-bias out-bias out-proj-bias", "bo", NULL},
    {"query-norm q-layernorm q-norm-weight", "q-norm", NULL},
    {"key-norm k-layernorm k-norm-weight", "k-norm", NULL},
    {"rms-norm-eps layer-norm-eps layernorm-eps rms-eps eps epsilon qk-norm-eps", "norm-eps", NULL},
    {"model-path model-dir model-id model-name pretrained checkpoint-dir", "model", NULL},
    {"layer-idx layer-index layer-id layer-number", "layer", NULL},
    {"safetensors checkpoint weight-file weights-file state-dict", "weights", NULL},
    {"prefix name-prefix tensor-prefix scheme", "names", NULL},
    {"iters iterations num-iters n-iters n-iter reps repeats num-runs runs repetitions samples", "repeat",
     NULL},
    {"warm-up warmups warmup-iters num-warmup n-warmup", "warmup", NULL},
    {"time duration timeout min-run-time max-time seconds", "max-ms", NULL},
    {"verify no-check skip-check", "check", NULL},
    {"csv md markdown jsonl sql format output-format out-format", "-o", NULL},
    {"json-output", "json", NULL},
    {"cmap colormap colour colors colours palette no-color", "color", NULL},
    {"max-value max-weight clim", "vmax", NULL},
    {"log log-scale logarithmic norm-scale", "scale", NULL},
    {"labels token-labels xlabels tokens-file x-tokens q-tokens", "tokens", NULL},
    {"ylabels k-tokens key-tokens", "y-tokens", NULL},
    {"head head-index head-list", "heads", NULL},
    {"batch-index batch-item item", "batch", NULL},
    {"name heading", "title", NULL},
    {"baseline peers", "baselines", NULL},
    {"cache cache-folder cache-path cachedir no-cache kernel-cache", "cache-dir", NULL},
    {"tuned-rows tuning tuning-file", "tuned", NULL},
    {"threads num-threads nthreads n-threads jobs", "",
     "the OpenCL driver sets the number of threads: PoCL reads POCL_MAX_PTHREAD_COUNT"},
    {"debug log-level v loglevel log-build", "verbose", NULL},
    {"silent s no-output", "quiet", NULL},
    {"version", "", "clattn --version prints it"},
};

// Other words for a value. `note` replaces "did you mean". An entry applies if the option accepts
// `value`.
typedef struct usual_value {
    const char *words, *value, *note;
} usual_value;

static const usual_value usual_values[] = {
    {"true 1 yes on causal lower-triangular", "top-left",
     "top-left is torch's is_causal=True, bottom-right FlashAttention's causal=True"},
    {"false 0 no off full noncausal null", "none", NULL},
    {"upper-left topleft upperleft", "top-left", NULL},
    {"lower-right bottomright lowerright", "bottom-right", NULL},
    {"true 1 yes", "on", NULL},
    {"false 0 no none", "off", NULL},
    {"true 1 on", "yes", NULL},
    {"false 0 off none", "no", NULL},
    {"float64 double f64 fp64 f8", "f32", NULL},
    {"fp8 float8 e4m3", "f8e4m3", NULL},
    {"e5m2", "f8e5m2", NULL},
    {"8 8bit int8-per-token", "q8", NULL},
    {"4 4bit nf4", "q4", NULL},
    {"bhnd bnsd bhld bhtd", "bhsd", NULL},
    {"bsnh bsnd bnhd blhd bthd bsh thd", "bshd", NULL},
    {"flash-attention flash-attn flash-attention-2 fa fa2 fa3 fused sdpa tiled efficient mem-efficient",
     "flash", NULL},
    {"naive math reference eager standard composed", "unfused", NULL},
    {"flash-decoding flash-decode splitkv split-kv paged gqa", "decode", NULL},
    {"neox gpt-neox rotate-half llama hf split", "half", NULL},
    {"gptj gpt-j rotate-every-two complex original true", "interleaved", NULL},
    {"rmsnorm rms true head per-head", "heads", NULL},
    {"logits qk pre-softmax", "raw", NULL},
    {"probs weights probabilities attention", "softmax", NULL},
    {"own builtin", "native", NULL},
    {"fp32 full", "exact", NULL},
    {"markdown table text", "md", NULL},
};

static char small(char c) {
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static bool same_word(const char *text, size_t length, const char *word, size_t size) {
    size_t i = 0;
    if (length != size) return false;
    while (i < length && small(text[i]) == word[i]) i++;
    return i == length;
}

static bool has_word(const char *words, const char *text, size_t length) {
    for (const char *at = words; *at; at += strspn(at, " ")) {
        const size_t size = strcspn(at, " ");
        if (same_word(text, length, at, size)) return true;
        at += size;
    }
    return false;
}

static const option_row *row_named(const command_line *line, const char *name, size_t length) {
    EACH_OPTION(line, group, row, n)
    if (strlen(row->name) == length && !strncmp(row->name, name, length)) return row;
    return NULL;
}

// The first of the names, separated by spaces, that the command has as an option.
static const option_row *first_of(const command_line *line, const char *names) {
    const option_row *row = NULL;
    for (const char *at = names; *at && !row; at += strspn(at, " ")) {
        const size_t size = strcspn(at, " ");
        row = row_named(line, at, size);
        at += size;
    }
    return row;
}

static const char *name_row(const option_row *row, const char *note, char text[256]) {
    snprintf(text, 256, "did you mean %s%s?%s", option_dashes(row), row->name,
             note && note[0] == ' ' ? note : "");
    return text;
}

// The option with the nearest spelling.
static const option_row *nearest_row(const command_line *line, const char *name, size_t length) {
    const char *names[OPTIONS_MOST], *near;
    char wanted[128];
    size_t count = 0, i = 0;
    EACH_OPTION(line, group, row, n)
    if (row->name[0] != '-' && count < OPTIONS_MOST) names[count++] = row->name;
    for (; i < length && i + 1 < sizeof wanted; i++) wanted[i] = small(name[i]);
    wanted[i] = '\0';
    near = nearest_name(wanted, names, count);
    return near ? row_named(line, near, strlen(near)) : NULL;
}

const char *options_meant(const command_line *line, const char *given, char text[256]) {
    const char *name = given + strspn(given, "-");
    const size_t length = strcspn(name, "=");
    const bool letter = length == 1 && given[0] == '-' && given[1] != '-';
    const option_row *row = letter ? row_named(line, name, length) : NULL;
    const char *note = NULL;
    for (size_t n = 0; !row && !note && n < sizeof usual_options / sizeof usual_options[0]; n++) {
        const usual_option *u = &usual_options[n];
        if (!has_word(u->words, name, length)) continue;
        row = first_of(line, u->options);
        note = u->note;
    }
    if (!row && !note && given[0] == '-' && length > 1) row = nearest_row(line, name, length);
    return row ? name_row(row, note, text) : note;
}

static bool is_listed(const char *value, const char *const *names) {
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], value)) return true;
    return false;
}

const char *options_value_meant(const char *given, size_t length, const char *const *names, char text[128]) {
    char wanted[64];
    const char *near = NULL;
    size_t count = 0, i = 0;
    for (size_t n = 0; n < sizeof usual_values / sizeof usual_values[0]; n++) {
        const usual_value *u = &usual_values[n];
        if (!is_listed(u->value, names) || !has_word(u->words, given, length)) continue;
        if (u->note) return u->note;
        near = u->value;
        break;
    }
    while (names[count]) count++;
    for (; i < length && i + 1 < sizeof wanted; i++) wanted[i] = small(given[i]);
    wanted[i] = '\0';
    if (!near) near = nearest_name(wanted, names, count);
    if (near) snprintf(text, 128, "did you mean %s?", near);
    return near ? text : NULL;
}
