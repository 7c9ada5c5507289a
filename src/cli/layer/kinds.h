// kinds.h: the kinds of models whose config.json is supported: their table, and functions that read
// values by it.
#ifndef CLATTN_CLI_LAYER_KINDS_H
#define CLATTN_CLI_LAYER_KINDS_H
#include "cli/layer/layer.h"

// Which layers have a window of sliding_window keys.
typedef enum model_windows {
    WINDOWS_NONE, // no layer
    WINDOWS_ALL,  // every layer
    WINDOWS_USED, // every layer if use_sliding_window
    // layer_types, else the layers from max_window_layers on, if use_sliding_window
    WINDOWS_USED_FROM,
    WINDOWS_PERIODIC // layer_types, else all layers but every `period`-th
} model_windows;

enum {
    HAS_ATTENTION_BIAS = 1,   // the key attention_bias; its default is `biased`
    HAS_MLP_BIAS = 2,         // the key mlp_bias
    HAS_PART = 4,             // the key partial_rotary_factor sets the rotary width
    HAS_PATTERN = 8,          // the key sliding_window_pattern is the period
    TAKES_NULL_HEADS = 16,    // null in num_key_value_heads means num_attention_heads
    PER_LAYER_ROPE = 32,      // rope_parameters has an object for each type of layer
    SINKS = 64,               // learned sinks
    PLUS_ONE = 128,           // the norms of q and k multiply by 1 + w
    BARE = 256,               // no RoPE
    ENCODER = 512,            // every row sees every key
    SHORT_KEYS = 1024,        // n_head, n_embd, n_layer
    LONGROPE = 2048,          // scaling is default or longrope; longrope is also called su and yarn
    HAS_BIDIRECTIONAL = 4096, // the key use_bidirectional_attention
    SCALES_WEIGHTS = 8192     // scale_attn_weights and scale_attn_by_inverse_layer_idx
};

// One kind. Each number is the default of an absent key, as in transformers' configuration class of
// that kind.
typedef struct model_kind {
    const char *type;
    int has;
    clattn_norm norm;
    const char *scheme; // naming scheme of the tensors (layer_weights.h); NULL: llama
    // Paths of a layer's attention, ended by NULL. NULL: model.layers.N.self_attn.
    const char *const *path;
    const block_kind *block; // NULL: a mixture of experts, which --block does not support
    const char *epsilon_key; // NULL: rms_norm_eps
    double epsilon;
    int32_t head_dim; // 0: hidden_size / num_attention_heads
    int32_t kv_heads; // 0: num_attention_heads
    bool biased;      // q, k and v have biases
    // The output has a bias; with HAS_ATTENTION_BIAS, attention_bias decides.
    bool out_biased;
    double base, local_base; // rope_theta, rope_local_base_freq
    double part;             // partial_rotary_factor
    const char *rope;        // rope_parameters, as JSON; NULL: {}
    double longest;          // max_position_embeddings
    double original;         // original_max_position_embeddings; 0: the kind has no such default
    model_windows windows;
    int32_t window, period; // sliding_window, 0: null; sliding_window_pattern
    double scalar;          // query_pre_attn_scalar; 0: the kind has no such key
    double cap;             // attn_logit_softcapping; 0: the kind has no such key
    // Unsupported keys, ended by NULL: an error unless the value is null, false or "absolute".
    const char *refused[6];
} model_kind;

// The kind of this model_type, or NULL.
const model_kind *model_kind_find(const char *type);
#define MODEL_KINDS                                                                                          \
    "llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, olmo2, gemma, gemma2, gemma3_text, gpt_oss, phi, "    \
    "phi3, bert, roberta, xlm-roberta and gpt2"

// A config.json that is being read, at `path`.
typedef struct model_reader {
    const char *path;
    const json_t *config;
    const model_kind *kind;
} model_reader;

// Print that a key of `object` is wrong, and return EXIT_WRONG.
int model_wrong(const model_reader *r, const json_t *object, const char *key, const char *what);

// Read the layer's RoPE from all places in config.json that affect it. Returns -1, or EXIT_WRONG
// after printing a line.
int model_rope_read(const model_reader *r, bool sliding, model *m);
#endif
