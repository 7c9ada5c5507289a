// kinds.c: the table of model kinds: the keys that each has, with the defaults that transformers
// uses.
#include "cli/layer/kinds.h"

static const char *const bert_path[] = {"bert.encoder.layer.%lld.attention", "encoder.layer.%lld.attention",
                                        NULL};
static const char *const roberta_path[] = {"roberta.encoder.layer.%lld.attention",
                                           "encoder.layer.%lld.attention", NULL};
static const char *const gpt2_path[] = {"transformer.h.%lld.attn", "h.%lld.attn", NULL};

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

#define TANH "gelu_pytorch_tanh"
#define RMS CLATTN_NORM_KIND_RMS
#define LAYER CLATTN_NORM_KIND_LAYER
static const block_kind llama_block = {BLOCK_PRE, RMS, "hidden_act", "silu", 0, llama_names};
static const block_kind phi3_block = {BLOCK_PRE, RMS, "hidden_act", "silu", BLOCK_PACKED, phi3_names};
static const block_kind gemma_block = {
    BLOCK_PRE, RMS, "hidden_act", TANH, BLOCK_PLUS_ONE | BLOCK_GELU_IS_TANH, llama_names};
static const block_kind gemma2_block = {BLOCK_SANDWICH, RMS,         "hidden_activation", TANH,
                                        BLOCK_PLUS_ONE, gemma2_names};
static const block_kind olmo2_block = {BLOCK_RESULT, RMS, "hidden_act", "silu", 0, olmo2_names};
static const block_kind phi_block = {BLOCK_PARALLEL, LAYER,        "hidden_act",
                                     "gelu_new",     BLOCK_BIASES, phi_names};
static const block_kind bert_block = {BLOCK_POST, LAYER, "hidden_act", "gelu", BLOCK_BIASES, bert_names};
static const block_kind gpt2_block = {
    BLOCK_PRE, LAYER, "activation_function", "gelu_new", BLOCK_BIASES | BLOCK_TRANSPOSED, gpt2_names};

#define BERT                                                                                                 \
    .has = BARE | ENCODER, .scheme = "bert", .block = &bert_block, .epsilon_key = "layer_norm_eps",          \
    .epsilon = 1e-12, .biased = true, .out_biased = true,                                                    \
    .refused = {"is_decoder", "add_cross_attention", "position_embedding_type"}
#define QWEN .epsilon = 1e-6, .base = 1e4, .longest = 32768, .window = 4096

static const model_kind kinds[] = {
    {.type = "llama",
     .has = TAKES_NULL_HEADS | HAS_ATTENTION_BIAS | HAS_MLP_BIAS,
     .block = &llama_block,
     .epsilon = 1e-6,
     .base = 1e4,
     .longest = 2048},
    {.type = "mistral",
     .block = &llama_block,
     .epsilon = 1e-6,
     .kv_heads = 8,
     .base = 1e4,
     .longest = 131072,
     .windows = WINDOWS_ALL,
     .window = 4096},
    {.type = "mixtral",
     .epsilon = 1e-5,
     .kv_heads = 8,
     .base = 1e6,
     .longest = 131072,
     .windows = WINDOWS_ALL},
    {.type = "qwen2",
     .has = TAKES_NULL_HEADS,
     .block = &llama_block,
     .biased = true,
     .kv_heads = 32,
     .windows = WINDOWS_USED_FROM,
     QWEN},
    {.type = "qwen3",
     .has = TAKES_NULL_HEADS | HAS_ATTENTION_BIAS,
     .norm = CLATTN_NORM_HEADS,
     .block = &llama_block,
     .head_dim = 128,
     .kv_heads = 32,
     .windows = WINDOWS_USED_FROM,
     QWEN},
    {.type = "qwen3_moe",
     .has = HAS_ATTENTION_BIAS,
     .norm = CLATTN_NORM_HEADS,
     .kv_heads = 4,
     .windows = WINDOWS_USED,
     QWEN},
    {.type = "olmo2",
     .has = TAKES_NULL_HEADS | HAS_ATTENTION_BIAS,
     .norm = CLATTN_NORM_WIDTH,
     .block = &olmo2_block,
     .epsilon = 1e-5,
     .base = 1e4,
     .longest = 2048},
    {.type = "gemma",
     .has = HAS_ATTENTION_BIAS,
     .block = &gemma_block,
     .epsilon = 1e-6,
     .head_dim = 256,
     .kv_heads = 16,
     .base = 1e4,
     .longest = 8192,
     .refused = {"use_bidirectional_attention"}},
    {.type = "gemma2",
     .has = HAS_ATTENTION_BIAS,
     .block = &gemma2_block,
     .epsilon = 1e-6,
     .head_dim = 256,
     .kv_heads = 4,
     .base = 1e4,
     .longest = 8192,
     .windows = WINDOWS_PERIODIC,
     .window = 4096,
     .period = 2,
     .scalar = 256,
     .cap = 50,
     .refused = {"use_bidirectional_attention"}},
    {.type = "gemma3_text",
     .has = HAS_ATTENTION_BIAS | HAS_PATTERN | HAS_BIDIRECTIONAL | PER_LAYER_ROPE | PLUS_ONE,
     .norm = CLATTN_NORM_HEADS,
     .block = &gemma2_block,
     .epsilon = 1e-6,
     .head_dim = 256,
     .kv_heads = 4,
     .base = 1e6,
     .local_base = 1e4,
     .longest = 131072,
     .windows = WINDOWS_PERIODIC,
     .window = 4096,
     .period = 6,
     .scalar = 256},
    {.type = "gpt_oss",
     .has = HAS_ATTENTION_BIAS | SINKS,
     .epsilon = 1e-5,
     .head_dim = 64,
     .kv_heads = 8,
     .biased = true,
     .base = 150000,
     .longest = 131072,
     .rope = "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
             "\"truncate\": false, \"original_max_position_embeddings\": 4096}",
     .windows = WINDOWS_PERIODIC,
     .window = 128,
     .period = 2},
    {.type = "phi",
     .has = TAKES_NULL_HEADS | HAS_PART,
     .scheme = "phi",
     .block = &phi_block,
     .epsilon_key = "layer_norm_eps",
     .epsilon = 1e-5,
     .biased = true,
     .out_biased = true,
     .base = 1e4,
     .part = 0.5,
     .longest = 2048,
     .refused = {"qk_layernorm"}},
    {.type = "phi3",
     .has = TAKES_NULL_HEADS | HAS_PART | LONGROPE,
     .scheme = "phi3",
     .block = &phi3_block,
     .epsilon = 1e-5,
     .base = 1e4,
     .part = 1.0,
     .longest = 4096,
     .original = 4096,
     .windows = WINDOWS_ALL},
    {.type = "bert", .path = bert_path, BERT},
    {.type = "roberta", .path = roberta_path, BERT},
    {.type = "xlm-roberta", .path = roberta_path, BERT},
    {.type = "gpt2",
     .has = BARE | SHORT_KEYS | SCALES_WEIGHTS,
     .scheme = "gpt2",
     .path = gpt2_path,
     .block = &gpt2_block,
     .epsilon_key = "layer_norm_epsilon",
     .epsilon = 1e-5,
     .biased = true,
     .out_biased = true,
     .refused = {"add_cross_attention"}},
};

const model_kind *model_kind_find(const char *type) {
    for (size_t i = 0; type && i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(type, kinds[i].type)) return &kinds[i];
    return NULL;
}

int model_wrong(const model_reader *r, const json_t *object, const char *key, const char *what) {
    char *text = json_dumps(json_object_get(object, key), JSON_ENCODE_ANY | JSON_COMPACT);
    const int status = tool_wrong("--model: %s: %s is %.60s: %s", r->path, key, text ? text : "absent", what);
    free(text);
    return status;
}
