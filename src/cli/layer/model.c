// model.c: read a layer's and its block's parameters from config.json by the table of kinds
// (kinds.c), and find the weights. Values have the meaning of transformers' configurations: an
// absent key has the kind's default, and null is None.
#include "cli/layer/layer.h"

#include <math.h>

#include "cli/layer/kinds.h"

#define SIZE_MOST 65536

static int wrong(const model_reader *r, const char *key, const char *what) {
    return model_wrong(r, r->config, key, what);
}

// A key's value: NULL if absent, json_null() if null.
static const json_t *value_of(const model_reader *r, const char *key) {
    return json_object_get(r->config, key);
}

// Read a size. `otherwise` is the value of an absent key; 0: the key is required.
static int read_size(const model_reader *r, const char *key, int32_t otherwise, int32_t *size) {
    const json_t *value = value_of(r, key);
    const json_int_t x = value ? json_integer_value(value) : otherwise;
    if ((value && !json_is_integer(value)) || x < 1 || x > SIZE_MOST)
        return wrong(r, key, "a whole number from 1 to 65536 is needed");
    *size = (int32_t)x;
    return -1;
}

// As read_size; null also selects the default.
static int read_size_or_null(const model_reader *r, const char *key, int32_t otherwise, int32_t *size) {
    if (!json_is_null(value_of(r, key))) return read_size(r, key, otherwise, size);
    *size = otherwise;
    return -1;
}

// Read a number above 0; `otherwise` if the key is absent.
static int read_number(const model_reader *r, const char *key, double otherwise, double *x) {
    const json_t *value = value_of(r, key);
    *x = value ? json_number_value(value) : otherwise;
    if ((!value || json_is_number(value)) && *x > 0.0 && *x < 1e30) return -1;
    return wrong(r, key, "a number above 0 is needed");
}

static int read_flag(const model_reader *r, const char *key, bool otherwise, bool *flag) {
    const json_t *value = value_of(r, key);
    *flag = value ? json_is_true(value) : otherwise;
    return !value || json_is_boolean(value) ? -1 : wrong(r, key, "true or false is needed");
}

json_t *model_json(const char *option, const char *path) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    reason why;
    json_error_t error;
    if (!file_read_whole(path, &bytes, &count, why)) return tool_wrong("%s: %s", option, why), NULL;
    json_t *root = json_loadb((const char *)bytes, count, JSON_REJECT_DUPLICATES, &error);
    free(bytes);
    if (!root) tool_wrong("%s: %s: line %d: %s", option, path, error.line, error.text);
    if (root && !json_is_object(root)) tool_wrong("%s: %s: is no JSON object", option, path);
    if (json_is_object(root)) return root;
    json_decref(root);
    return NULL;
}

// Parse the file `folder`/`name` as an object. NULL: prints a line.
static json_t *read_json(const char *folder, const char *name, char path[1024]) {
    const int length = snprintf(path, 1024, "%s/%s", folder, name);
    if (length < 0 || length >= 1024) return tool_wrong("--model: the path is too long"), NULL;
    return model_json("--model", path);
}

// True if a value means that a feature is off.
static bool is_none(const json_t *value) {
    const char *text = json_string_value(value);
    return !value || json_is_null(value) || json_is_false(value) || (text && !strcmp(text, "absolute")) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static int find_kind(model_reader *r) {
    const json_t *causal = value_of(r, "is_causal");
    r->kind = model_kind_find(json_string_value(value_of(r, "model_type")));
    if (!r->kind) return wrong(r, "model_type", MODEL_KINDS " are read; give --weights, --names and options");
    for (int i = 0; r->kind->refused[i]; i++)
        if (!is_none(value_of(r, r->kind->refused[i])))
            return wrong(r, r->kind->refused[i], "layers without it are read");
    if (!is_none(value_of(r, "per_layer_config")))
        return wrong(r, "per_layer_config", "layers without it are read");
    if (causal && !json_is_true(causal) && !(r->kind->has & ENCODER))
        return wrong(r, "is_causal", "causal layers of this type are read");
    return -1;
}

// Read the heads and their size. The weights may override a default that config.json leaves out
// (layer_model.c).
static int read_heads(const model_reader *r, model *m) {
    const model_kind *kind = r->kind;
    const bool brief = (kind->has & SHORT_KEYS) != 0, bare = (kind->has & BARE) != 0;
    int status = read_size(r, brief ? "n_head" : "num_attention_heads", 0, &m->heads);
    if (status < 0) status = read_size(r, brief ? "n_embd" : "hidden_size", 0, &m->width);
    if (status >= 0) return status;
    const int32_t kv_heads = kind->kv_heads ? kind->kv_heads : m->heads, equal = m->width / m->heads;
    const json_t *head_dim = value_of(r, "head_dim");
    m->kv_heads = m->heads, m->head_dim = kind->head_dim ? kind->head_dim : equal;
    if (!bare && !(kind->has & TAKES_NULL_HEADS && json_is_null(value_of(r, "num_key_value_heads"))))
        status = read_size(r, "num_key_value_heads", kv_heads, &m->kv_heads);
    if (status >= 0) return status;
    m->assumes_kv_heads = !bare && !value_of(r, "num_key_value_heads") && kv_heads != m->heads;
    m->assumes_head_dim = !head_dim && m->head_dim != equal;
    if (!m->assumes_kv_heads && m->heads % m->kv_heads)
        return wrong(r, "num_key_value_heads", "it must divide num_attention_heads");
    if (bare || (!kind->head_dim && (!head_dim || json_is_null(head_dim)))) {
        if (m->width % m->heads)
            return wrong(r, brief ? "n_embd" : "hidden_size",
                         bare ? "num_attention_heads does not divide it"
                              : "num_attention_heads does not divide it, and there is no head_dim");
        return -1;
    }
    status = read_size(r, "head_dim", m->head_dim, &m->head_dim);
    if (status < 0 && m->head_dim % 2) status = wrong(r, "head_dim", "an even number is needed for RoPE");
    return status;
}

// Read whether q, k and v have biases, and whether the output has one.
static int read_biases(const model_reader *r, model *m) {
    bool biased = r->kind->biased, out = r->kind->out_biased;
    if (r->kind->has & HAS_ATTENTION_BIAS) {
        const int status = read_flag(r, "attention_bias", r->kind->biased, &biased);
        if (status >= 0) return status;
        out = biased;
    }
    m->bias = biased, m->out_bias = out;
    return -1;
}

// Read the epsilon of all norms in the layer and its block.
static int read_epsilon(const model_reader *r, bool block, model *m) {
    const char *key = r->kind->epsilon_key ? r->kind->epsilon_key : "rms_norm_eps";
    double epsilon = 0.0;
    if (r->kind->norm == CLATTN_NORM_NONE && !block) return -1;
    const int status = read_number(r, key, r->kind->epsilon, &epsilon);
    if (status >= 0) return status;
    if ((float)epsilon == 0.0f) return wrong(r, key, "it is 0 as a float32");
    m->block_epsilon = (float)epsilon;
    m->norm_epsilon = r->kind->norm == CLATTN_NORM_NONE ? 0.0f : (float)epsilon;
    return -1;
}

// Read the factor on scores and the softcap.
static int read_scale(const model_reader *r, int64_t layer, model *m) {
    const model_kind *kind = r->kind;
    double scalar = 0.0, cap = 0.0;
    bool scaled = true, by_layer = false;
    int status = -1;
    if (kind->scalar > 0.0) status = read_number(r, "query_pre_attn_scalar", kind->scalar, &scalar);
    if (status < 0 && kind->cap > 0.0 && !json_is_null(value_of(r, "attn_logit_softcapping")))
        status = read_number(r, "attn_logit_softcapping", kind->cap, &cap);
    if (status < 0 && (kind->has & SCALES_WEIGHTS)) {
        status = read_flag(r, "scale_attn_weights", true, &scaled);
        if (status < 0) status = read_flag(r, "scale_attn_by_inverse_layer_idx", false, &by_layer);
    }
    m->softcap = (float)cap;
    m->scale = scalar > 0.0 ? (float)(1.0 / sqrt(scalar)) : 0.0f;
    if (!scaled || by_layer)
        m->scale = (float)((scaled ? 1.0 / sqrt(m->head_dim) : 1.0) / (by_layer ? (double)layer + 1.0 : 1.0));
    return status;
}

// Read whether this layer has the window: by its entry in layer_types, else by the kind's rule.
static int read_layer_type(const model_reader *r, int64_t layer, bool used, bool *sliding) {
    const json_t *types = value_of(r, "layer_types"), *from = value_of(r, "max_window_layers");
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    int32_t period = r->kind->period;
    if (types && !json_is_null(types)) {
        *sliding = type && !strcmp(type, "sliding_attention");
        if (*sliding || (type && (!strcmp(type, "full_attention") || !strcmp(type, "attention")))) return -1;
        return wrong(r, "layer_types", "full_attention or sliding_attention is needed for each layer");
    }
    if (r->kind->windows == WINDOWS_USED_FROM) {
        if (from && !json_is_integer(from)) return wrong(r, "max_window_layers", "a whole number is needed");
        *sliding = used && layer >= (from ? json_integer_value(from) : 28);
        return -1;
    }
    const int status =
        r->kind->has & HAS_PATTERN ? read_size(r, "sliding_window_pattern", period, &period) : -1;
    *sliding = (layer + 1) % period != 0;
    return status;
}

// Read the window in keys; null becomes 0.
static int read_window_size(const model_reader *r, int32_t *window) {
    const json_t *size = value_of(r, "sliding_window");
    *window = size ? 0 : r->kind->window;
    if (!size || json_is_null(size)) return -1;
    if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > INT32_MAX)
        return wrong(r, "sliding_window", "a number of keys from 1 is needed");
    *window = (int32_t)json_integer_value(size);
    return -1;
}

static int read_window(const model_reader *r, int64_t layer, bool *sliding, model *m) {
    const model_windows rule = r->kind->windows;
    const bool by_use = rule == WINDOWS_USED || rule == WINDOWS_USED_FROM,
               by_type = rule == WINDOWS_USED_FROM || rule == WINDOWS_PERIODIC;
    bool used = rule != WINDOWS_NONE;
    int32_t window = 0;
    int status = by_use ? read_flag(r, "use_sliding_window", false, &used) : -1;
    if (status < 0 && used) status = read_window_size(r, &window);
    *sliding = window > 0;
    if (status < 0 && by_type)
        status = read_layer_type(r, layer, rule == WINDOWS_PERIODIC || window > 0, sliding);
    if (status >= 0) return status;
    if (*sliding && window == 0)
        return wrong(r, by_use && !used ? "use_sliding_window" : "sliding_window",
                     "layers of type sliding_attention need a window");
    if (r->kind->has & HAS_BIDIRECTIONAL) {
        const json_t *both = value_of(r, "use_bidirectional_attention");
        if (!json_is_null(both))
            status = read_flag(r, "use_bidirectional_attention", false, &m->bidirectional);
        if (m->bidirectional) window = window / 2 + 1;
    }
    m->window = *sliding ? window : 0;
    return status;
}

static int read_config(model_reader *r, int64_t layer, bool block, model *m) {
    int32_t layers = 0;
    bool sliding = false;
    int status = find_kind(r);
    const char *count = r->kind && (r->kind->has & SHORT_KEYS) ? "n_layer" : "num_hidden_layers";
    if (status < 0) status = read_size(r, count, 0, &layers);
    if (status < 0 && layer >= layers) status = wrong(r, count, "--layer must be below it");
    if (status < 0) status = read_heads(r, m);
    if (status < 0) status = read_biases(r, m);
    if (status < 0) status = read_epsilon(r, block, m);
    if (status < 0) status = read_scale(r, layer, m);
    if (status >= 0) return status;
    m->head_dim_v = m->head_dim;
    m->norm = r->kind->norm, m->norm_plus_one = (r->kind->has & PLUS_ONE) != 0;
    m->sinks = (r->kind->has & SINKS) != 0;
    m->bidirectional = (r->kind->has & ENCODER) != 0;
    status = read_window(r, layer, &sliding, m);
    return status < 0 && !(r->kind->has & BARE) ? model_rope_read(r, sliding, m) : status;
}

static int read_activation(const model_reader *r, model *m) {
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
    const json_t *value = value_of(r, b->activation_key);
    const char *name = value ? json_string_value(value) : b->activation;
    if ((b->is & BLOCK_GELU_IS_TANH) && name && !strcmp(name, "gelu")) name = b->activation;
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) {
            m->activation = known[i].activation, m->activation_name = known[i].name;
            return -1;
        }
    return wrong(
        r, b->activation_key,
        "silu, swish, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu and relu2 are run");
}

static int read_block(const model_reader *r, model *m) {
    const bool brief = (r->kind->has & SHORT_KEYS) != 0;
    int status = -1;
    m->block = r->kind->block;
    if (!m->block)
        return wrong(r, "model_type",
                     "its MLP has experts; --block runs llama, mistral, qwen2, qwen3, olmo2, gemma, gemma2, "
                     "gemma3_text, phi, "
                     "phi3, bert, roberta, xlm-roberta and gpt2");
    m->mlp_bias = (m->block->is & BLOCK_BIASES) != 0;
    if (r->kind->has & HAS_MLP_BIAS) status = read_flag(r, "mlp_bias", false, &m->mlp_bias);
    if (status < 0)
        status = brief ? read_size_or_null(r, "n_inner", 4 * m->width, &m->hidden)
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

// Find the weights: one file, or the shards that an index lists.
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

// True if a tensor's name begins with `begin` and a dot.
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

static const char *const usual_path[] = {"model.layers.%lld.self_attn", "layers.%lld.self_attn", NULL};

// Find the path of the layer's attention. Models are saved with or without an outer prefix. If no
// path exists, keep the usual one, so that the error names its first tensor.
static int find_path(const model_kind *kind, int64_t layer, model *m) {
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
    model_reader r = {path, config, NULL};
    int status = read_config(&r, layer, block, m);
    if (status < 0 && block) status = read_block(&r, m);
    json_decref(config);
    if (status < 0) status = find_weights(m);
    return status < 0 ? find_path(r.kind, layer, m) : status;
}

void model_free(model *m) {
    free(m->file);
    free(m->pair_factors);
    json_decref(m->shards);
}
