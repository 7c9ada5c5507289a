// model.c: what config.json tells of a layer and its block, and where its weights are. Meanings are those of transformers' configurations
// of these model types.
#include "tool/layer/layer.h"

#include <math.h>

#define SIZE_MOST 65536

static const char *const bert_path[] = {"bert.encoder.layer.%lld.attention", "encoder.layer.%lld.attention",
                                        NULL};
static const char *const roberta_path[] = {"roberta.encoder.layer.%lld.attention",
                                           "encoder.layer.%lld.attention", NULL};

static const char *const gpt2_path[] = {"transformer.h.%lld.attn", "h.%lld.attn", NULL};

enum {
    BIASES = 1,
    SINKS = 2,
    CAPPED = 4,          // softcap and a scale of its own
    ALTERNATE = 8,       // of layers, the even ones have the window
    PLUS_ONE = 16,       // the norm's weights are 1 + w
    LOCAL_ROPE = 32,     // layers with the window have a base of their own, and no scaling
    BARE = 64,           // no RoPE
    BIDIRECTIONAL = 128, // every row sees every key
    SHORT_KEYS = 256     // n_head, n_embd, n_layer
};

#define GATED "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"
static const char *const llama_names[] = {"input_layernorm", NULL, "post_attention_layernorm", NULL, GATED};
static const char *const phi3_names[] = {
    "input_layernorm", NULL, "post_attention_layernorm", NULL, "mlp.gate_up_proj", NULL, "mlp.down_proj"};
static const char *const gemma2_names[] = {"input_layernorm", "post_attention_layernorm",
                                           "pre_feedforward_layernorm", "post_feedforward_layernorm", GATED};
static const char *const olmo2_names[] = {NULL, "post_attention_layernorm", NULL,
                                          "post_feedforward_layernorm", GATED};
static const char *const phi_names[] = {"input_layernorm", NULL, NULL, NULL, "mlp.fc1", NULL, "mlp.fc2"};
static const char *const bert_names[] = {
    NULL, "attention.output.LayerNorm", NULL, "output.LayerNorm", "intermediate.dense", NULL, "output.dense"};
static const char *const gpt2_names[] = {"ln_1", NULL, "ln_2", NULL, "mlp.c_fc", NULL, "mlp.c_proj"};

#define GEMMA_GELU "gelu_pytorch_tanh"
#define RMS CLATTN_NORM_KIND_RMS
#define LAYER CLATTN_NORM_KIND_LAYER
static const block_kind llama_block = {BLOCK_PRE, RMS, 1e-6, "silu", 0, llama_names};
static const block_kind phi3_block = {BLOCK_PRE, RMS, 1e-5, "silu", BLOCK_PACKED, phi3_names};
static const block_kind gemma_block = {BLOCK_PRE, RMS, 1e-6, GEMMA_GELU, BLOCK_PLUS_ONE, llama_names};
static const block_kind gemma2_block = {BLOCK_SANDWICH, RMS, 1e-6, GEMMA_GELU, BLOCK_PLUS_ONE, gemma2_names};
static const block_kind olmo2_block = {BLOCK_RESULT, RMS, 1e-5, "silu", 0, olmo2_names};
static const block_kind phi_block = {BLOCK_PARALLEL, LAYER, 1e-5, "gelu_new", BLOCK_BIASES, phi_names};
static const block_kind bert_block = {BLOCK_POST, LAYER, 1e-12, "gelu", BLOCK_BIASES, bert_names};
static const block_kind gpt2_block = {BLOCK_PRE, LAYER, 1e-5, "gelu_new", BLOCK_BIASES | BLOCK_TURNED,
                                      gpt2_names};

// Layers are causal attention with RoPE in halves and the names of Llama, but for what stands here.
static const struct kind {
    const char *type;
    clattn_norm norm;
    int is;
    const char *scheme;      // of tensors' names (layer_weights.h); NULL: llama
    const char *const *path; // of a layer's attention, NULL at the end; NULL: model.layers.N.self_attn
    const block_kind *block; // NULL: of experts
} kinds[] = {
    {"llama", CLATTN_NORM_NONE, 0, NULL, NULL, &llama_block},
    {"mistral", CLATTN_NORM_NONE, 0, NULL, NULL, &llama_block},
    {"mixtral", CLATTN_NORM_NONE, 0, NULL, NULL, NULL},
    {"qwen2", CLATTN_NORM_NONE, BIASES, NULL, NULL, &llama_block},
    {"qwen3", CLATTN_NORM_HEADS, 0, NULL, NULL, &llama_block},
    {"qwen3_moe", CLATTN_NORM_HEADS, 0, NULL, NULL, NULL},
    {"olmo2", CLATTN_NORM_WIDTH, 0, NULL, NULL, &olmo2_block},
    {"gemma", CLATTN_NORM_NONE, 0, NULL, NULL, &gemma_block},
    {"gemma2", CLATTN_NORM_NONE, CAPPED | ALTERNATE, NULL, NULL, &gemma2_block},
    {"gemma3_text", CLATTN_NORM_HEADS, PLUS_ONE | CAPPED | LOCAL_ROPE, NULL, NULL, &gemma2_block},
    {"gpt_oss", CLATTN_NORM_NONE, SINKS | ALTERNATE, NULL, NULL, NULL},
    {"phi", CLATTN_NORM_NONE, BIASES, "phi", NULL, &phi_block},
    {"phi3", CLATTN_NORM_NONE, 0, "phi3", NULL, &phi3_block},
    {"bert", CLATTN_NORM_NONE, BIASES | BARE | BIDIRECTIONAL, "bert", bert_path, &bert_block},
    {"roberta", CLATTN_NORM_NONE, BIASES | BARE | BIDIRECTIONAL, "bert", roberta_path, &bert_block},
    {"xlm-roberta", CLATTN_NORM_NONE, BIASES | BARE | BIDIRECTIONAL, "bert", roberta_path, &bert_block},
    {"gpt2", CLATTN_NORM_NONE, BIASES | BARE | SHORT_KEYS, "gpt2", gpt2_path, &gpt2_block},
};
static const char *const usual_path[] = {"model.layers.%lld.self_attn", "layers.%lld.self_attn", NULL};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

// Keys that would change the attention of a layer in a way that is not done here.
static const char *const capped_keys[] = {"attn_logit_softcapping", "query_pre_attn_scalar"};
static const char *const strangers[] = {"rope_interleaved",
                                        "attention_multiplier",
                                        "clip_qkv",
                                        "qk_layernorm",
                                        "use_qk_norm",
                                        "alibi",
                                        "is_decoder",
                                        "add_cross_attention",
                                        "scale_attn_by_inverse_layer_idx",
                                        "use_bidirectional_attention",
                                        NULL};

typedef struct reader {
    const char *path;
    const json_t *config;
    const struct kind *kind;
} reader;

static int wrong(const reader *r, const char *key, const char *what) {
    char *text = json_dumps(json_object_get(r->config, key), JSON_ENCODE_ANY | JSON_COMPACT);
    const int status = tool_wrong("--model: %s: %s is %.60s: %s", r->path, key, text ? text : "absent", what);
    free(text);
    return status;
}

// Absent and null are one.
static const json_t *value_of(const reader *r, const char *key) {
    const json_t *value = json_object_get(r->config, key);
    return json_is_null(value) ? NULL : value;
}

// A size; `otherwise` where it is absent, of which 0 is none.
static int read_size(const reader *r, const char *key, int32_t otherwise, int32_t *size) {
    const json_t *value = value_of(r, key);
    const json_int_t x = value ? json_integer_value(value) : otherwise;
    if ((value && !json_is_integer(value)) || x < 1 || x > SIZE_MOST)
        return wrong(r, key, "a whole number from 1 to 65536 is needed");
    *size = (int32_t)x;
    return -1;
}

// The object in the file `folder`/`name`; NULL with a line printed.
static json_t *read_json(const char *folder, const char *name, char path[1024]) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    reason why;
    json_error_t error;
    const int length = snprintf(path, 1024, "%s/%s", folder, name);
    if (length < 0 || length >= 1024) return tool_wrong("--model: the path is too long"), NULL;
    if (!file_read_whole(path, &bytes, &count, why)) return tool_wrong("--model: %s", why), NULL;
    json_t *root = json_loadb((const char *)bytes, count, JSON_REJECT_DUPLICATES, &error);
    free(bytes);
    if (!root) tool_wrong("--model: %s: line %d: %s", path, error.line, error.text);
    if (root && !json_is_object(root)) tool_wrong("--model: %s: is no JSON object", path);
    if (json_is_object(root)) return root;
    json_decref(root);
    return NULL;
}

static int find_kind(reader *r) {
    const char *type = json_string_value(value_of(r, "model_type"));
    int i = 0;
    while (i < KINDS && (!type || strcmp(type, kinds[i].type))) i++;
    if (i == KINDS)
        return wrong(
            r, "model_type",
            "llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, olmo2, gemma, gemma2, gemma3_text, gpt_oss, "
            "phi, phi3, bert, roberta, xlm-roberta and gpt2 are read; give --weights, --names and options");
    r->kind = &kinds[i];
    for (i = 0; i < 2; i++)
        if (!(r->kind->is & CAPPED) && value_of(r, capped_keys[i]) &&
            !json_is_false(value_of(r, capped_keys[i])))
            return wrong(r, capped_keys[i], "layers of this type without it are read");
    for (i = 0; strangers[i]; i++)
        if (value_of(r, strangers[i]) && !json_is_false(value_of(r, strangers[i])))
            return wrong(r, strangers[i], "layers without it are read");
    return -1;
}

static int read_heads(const reader *r, model *m) {
    const bool brief = (r->kind->is & SHORT_KEYS) != 0;
    int status = read_size(r, brief ? "n_head" : "num_attention_heads", 0, &m->heads);
    if (status < 0) status = read_size(r, "num_key_value_heads", m->heads, &m->kv_heads);
    if (status < 0) status = read_size(r, brief ? "n_embd" : "hidden_size", 0, &m->width);
    if (status >= 0) return status;
    if (m->heads % m->kv_heads) return wrong(r, "num_key_value_heads", "it must divide num_attention_heads");
    if (!value_of(r, "head_dim") && m->width % m->heads)
        return wrong(r, "hidden_size", "num_attention_heads does not divide it, and there is no head_dim");
    return read_size(r, "head_dim", m->width / m->heads, &m->head_dim);
}

// A number of the rope's own object, or of the configuration; `otherwise` where neither has it.
static double rope_number(const reader *r, const json_t *rope, const char *key, double otherwise) {
    const json_t *value = json_object_get(rope, key);
    if (!value || json_is_null(value)) value = value_of(r, key);
    if (!value) return otherwise;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// RoPE of layers with a window, where they have their own: plain, whatever the others' is.
static int read_local_rope(const reader *r, model *m) {
    const double base = rope_number(r, NULL, "rope_local_base_freq", 10000.0);
    m->rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .base = base};
    return base >= 1.0 ? -1 : wrong(r, "rope_local_base_freq", "a number from 1 is needed");
}

static int read_rope(const reader *r, model *m) {
    const char *key = value_of(r, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    const json_t *rope = value_of(r, key), *type = json_object_get(rope, "rope_type");
    if (r->kind->is & BARE) return -1;
    if (rope && !json_is_object(rope)) return wrong(r, key, "an object is needed");
    if (!type) type = json_object_get(rope, "type");
    const char *name = !rope ? "default" : type ? json_string_value(type) : key[5] == 'p' ? "default" : NULL;
    if (!name) return wrong(r, key, "its type is needed");
    m->rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .base = rope_number(r, rope, "rope_theta", 10000.0)};
    if (!(m->rope.base >= 1.0)) return wrong(r, "rope_theta", "a number from 1 is needed");
    const char *no =
        rope_scaling_read(rope, name, json_number_value(value_of(r, "max_position_embeddings")), &m->rope);
    if (no) return wrong(r, key, no);
    const double part = rope_number(r, rope, "partial_rotary_factor", 1.0);
    if (!(part > 0.0 && part <= 1.0))
        return wrong(r, "partial_rotary_factor", "a number above 0 and up to 1 is needed");
    m->rope.rotary_dim = part < 1.0 ? (int)(part * m->head_dim) : 0;
    return -1;
}

// A number above 0; `otherwise` where it is absent, of which 0 is none.
static int read_number(const reader *r, const char *key, double otherwise, double *x) {
    const json_t *value = value_of(r, key);
    *x = value ? json_number_value(value) : otherwise;
    if ((!value || json_is_number(value)) && (*x > 0.0 || (!value && otherwise == 0.0)) && *x < 1e30)
        return -1;
    return wrong(r, key, "a number above 0 is needed");
}

static int read_options(const reader *r, model *m) {
    double epsilon = 0.0, cap = 0.0, scalar = 0.0;
    int status = -1;
    m->norm = r->kind->norm, m->norm_plus_one = (r->kind->is & PLUS_ONE) != 0,
    m->sinks = (r->kind->is & SINKS) != 0;
    m->bidirectional = (r->kind->is & BIDIRECTIONAL) != 0;
    if (m->norm != CLATTN_NORM_NONE) status = read_number(r, "rms_norm_eps", 1e-6, &epsilon);
    if (status < 0 && (r->kind->is & CAPPED)) status = read_number(r, capped_keys[0], 0.0, &cap);
    if (status < 0 && (r->kind->is & CAPPED)) status = read_number(r, capped_keys[1], m->head_dim, &scalar);
    m->norm_epsilon = (float)epsilon, m->softcap = (float)cap;
    m->scale = scalar > 0.0 ? (float)(1.0 / sqrt(scalar)) : 0.0f;
    return status;
}

// Whether the window of config.json is this layer's.
static int is_windowed(const reader *r, int64_t layer, bool *windowed) {
    const json_t *use = value_of(r, "use_sliding_window"), *from = value_of(r, "max_window_layers");
    const json_t *layer_kinds = value_of(r, "layer_types");
    const char *kind = json_string_value(json_array_get(layer_kinds, (size_t)layer));
    *windowed = !json_is_false(use) && !(json_is_integer(from) && layer < json_integer_value(from));
    if (use && !json_is_boolean(use)) return wrong(r, "use_sliding_window", "true or false is needed");
    if (from && !json_is_integer(from)) return wrong(r, "max_window_layers", "a whole number is needed");
    if (!layer_kinds && (r->kind->is & ALTERNATE)) *windowed = layer % 2 == 0;
    const json_t *pattern = value_of(r, "sliding_window_pattern");
    if (pattern && (!json_is_integer(pattern) || json_integer_value(pattern) < 1))
        return wrong(r, "sliding_window_pattern", "a number of layers from 1 is needed");
    if (!layer_kinds && pattern) *windowed = (layer + 1) % json_integer_value(pattern) != 0;
    if (!layer_kinds) return -1;
    *windowed = kind && !strcmp(kind, "sliding_attention");
    if (*windowed || (kind && !strcmp(kind, "full_attention"))) return -1;
    return wrong(r, "layer_types", "of each layer full_attention or sliding_attention is needed");
}

static int read_window(const reader *r, int64_t layer, model *m) {
    bool windowed = false;
    int status = is_windowed(r, layer, &windowed);
    if (status >= 0 || !windowed) return status;
    const json_t *size = value_of(r, "sliding_window");
    if (!size && !value_of(r, "layer_types") && !json_is_true(value_of(r, "use_sliding_window"))) return -1;
    if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > INT32_MAX)
        return wrong(r, "sliding_window", "a number of keys from 1 is needed");
    m->window = (int32_t)json_integer_value(size);
    return -1;
}

static int read_config(reader *r, int64_t layer, model *m) {
    const json_t *bias = value_of(r, "attention_bias");
    int32_t layers = 0;
    int status = find_kind(r);
    const char *count = r->kind && (r->kind->is & SHORT_KEYS) ? "n_layer" : "num_hidden_layers";
    const char *places = json_string_value(value_of(r, "position_embedding_type"));
    if (status < 0) status = read_size(r, count, 0, &layers);
    if (status < 0 && layer >= layers) status = wrong(r, count, "--layer must be below it");
    if (status < 0 && places && strcmp(places, "absolute"))
        status = wrong(r, "position_embedding_type", "absolute is read");
    if (status < 0 && bias && !json_is_boolean(bias))
        status = wrong(r, "attention_bias", "true or false is needed");
    if (status < 0) status = read_heads(r, m);
    if (status < 0) status = read_rope(r, m);
    if (status < 0) status = read_options(r, m);
    if (status < 0 && !(r->kind->is & BARE)) status = read_window(r, layer, m);
    if (status < 0 && (r->kind->is & LOCAL_ROPE) && m->window) status = read_local_rope(r, m);
    if (status >= 0) return status;
    m->head_dim_v = m->head_dim;
    m->bias = (r->kind->is & BIASES) != 0 || json_is_true(bias) ? 1 : bias ? 0 : -1;
    return -1;
}

static int read_activation(const reader *r, model *m) {
    static const struct {
        const char *name;
        clattn_activation activation;
    } known[] = {{"silu", CLATTN_ACTIVATION_SILU},
                 {"swish", CLATTN_ACTIVATION_SILU},
                 {"gelu", CLATTN_ACTIVATION_GELU},
                 {"gelu_new", CLATTN_ACTIVATION_GELU_TANH},
                 {"gelu_fast", CLATTN_ACTIVATION_GELU_TANH},
                 {"gelu_pytorch_tanh", CLATTN_ACTIVATION_GELU_TANH},
                 {"quick_gelu", CLATTN_ACTIVATION_GELU_QUICK},
                 {"relu", CLATTN_ACTIVATION_RELU},
                 {"relu2", CLATTN_ACTIVATION_RELU_SQUARED}};
    const block_kind *b = m->block;
    const bool brief = (r->kind->is & SHORT_KEYS) != 0;
    // Gemma's first files say gelu and mean this one, which the newer key tells.
    const bool newer = (b->is & BLOCK_PLUS_ONE) && value_of(r, "hidden_activation");
    const char *key = newer ? "hidden_activation" : brief ? "activation_function" : "hidden_act";
    const json_t *value = value_of(r, key);
    const char *name = value ? json_string_value(value) : b->activation;
    if ((b->is & BLOCK_PLUS_ONE) && !newer && name && !strcmp(name, "gelu")) name = b->activation;
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) {
            m->activation = known[i].activation, m->activation_name = known[i].name;
            return -1;
        }
    return wrong(
        r, key,
        "silu, swish, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu and relu2 are run");
}

static int read_block(const reader *r, model *m) {
    const bool brief = (r->kind->is & SHORT_KEYS) != 0;
    const json_t *bias = value_of(r, "mlp_bias");
    double epsilon = 0.0;
    m->block = r->kind->block;
    if (!m->block)
        return wrong(r, "model_type",
                     "its MLP has experts; --block runs llama, mistral, qwen2, qwen3, olmo2, gemma, gemma2, "
                     "gemma3_text, phi, "
                     "phi3, bert, roberta, xlm-roberta and gpt2");
    const char *key = m->block->norm == RMS ? "rms_norm_eps"
                      : brief               ? "layer_norm_epsilon"
                                            : "layer_norm_eps";
    if (bias && !json_is_boolean(bias)) return wrong(r, "mlp_bias", "true or false is needed");
    m->mlp_bias = (m->block->is & BLOCK_BIASES) || json_is_true(bias);
    int status = read_number(r, key, m->block->epsilon, &epsilon);
    m->block_epsilon = (float)epsilon;
    if (status < 0 && m->block_epsilon == 0.0f) status = wrong(r, key, "it is 0 as a float32");
    if (status < 0)
        status = brief ? read_size(r, "n_inner", 4 * m->width, &m->hidden)
                       : read_size(r, "intermediate_size", 0, &m->hidden);
    return status < 0 ? read_activation(r, m) : status;
}

static bool file_is_there(const char *folder, const char *name, char path[1024]) {
    file_source source = {.descriptor = -1};
    const int length = snprintf(path, 1024, "%s/%s", folder, name);
    const bool there = length > 0 && length < 1024 && file_open(path, &source, NULL);
    file_close(&source);
    return there;
}

// One file, else the shards that an index names.
static int find_weights(model *m) {
    static const char whole[] = "model.safetensors", parts[] = "model.safetensors.index.json";
    char path[1024];
    if (file_is_there(m->folder, whole, path)) {
        m->file = strdup(path);
        return m->file ? -1 : tool_failed("no memory");
    }
    if (!file_is_there(m->folder, parts, path))
        return tool_wrong("--model: %s: has neither %s nor %s", m->folder, whole, parts);
    json_t *index = read_json(m->folder, parts, path);
    if (!index) return EXIT_WRONG;
    m->shards = json_incref(json_object_get(index, "weight_map"));
    json_decref(index);
    if (json_is_object(m->shards)) return -1;
    return tool_wrong("--model: %s: has no weight_map", path);
}

// Whether a tensor of the weights begins so.
static bool is_there(const model *m, char **names, size_t count, const char *begin) {
    const char *name;
    json_t *file;
    const size_t n = strlen(begin);
    for (size_t i = 0; i < count; i++)
        if (!strncmp(names[i], begin, n) && names[i][n] == '.') return true;
    json_object_foreach((json_t *)(uintptr_t)m->shards, name, file) {
        if (!strncmp(name, begin, n) && name[n] == '.') return true;
    }
    return false;
}

// Where the layer's attention is: models are saved with and without the name of what is round them. Where nothing is, the
// usual name stays, and its first tensor will be missed by that name.
static int find_path(const struct kind *kind, int64_t layer, model *m) {
    const char *const *path = kind->path ? kind->path : usual_path;
    const char *scheme = kind->scheme ? kind->scheme : "llama";
    char **names = NULL, error[512], begin[80];
    size_t count = 0;
    if (m->file && !safetensors_names(m->file, &names, &count, error))
        return tool_wrong("--model: %s", error);
    for (int i = 0; path[i]; i++) {
        snprintf(begin, sizeof begin, path[i], (long long)layer);
        if (i > 0 && !is_there(m, names, count, begin)) continue;
        snprintf(m->names, sizeof m->names, "%s:%s", scheme, begin);
        if (is_there(m, names, count, begin)) break;
    }
    free(names);
    return -1;
}

int model_load(const char *folder, int64_t layer, bool block, model *m) {
    char path[1024];
    *m = (model){.folder = folder};
    json_t *config = read_json(folder, "config.json", path);
    if (!config) return EXIT_WRONG;
    reader r = {path, config, NULL};
    int status = read_config(&r, layer, m);
    if (status < 0 && block) status = read_block(&r, m);
    json_decref(config);
    if (status < 0) status = find_weights(m);
    return status < 0 ? find_path(r.kind, layer, m) : status;
}

void model_free(model *m) {
    free(m->file);
    json_decref(m->shards);
}
