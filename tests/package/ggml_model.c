// ggml_model.c: a whole llama model with random weights through llama.cpp's C API. Compares greedy
// tokens and logits of three runs: ggml's CPU backend, attention replaced by double precision, and
// clattn's backend, with caches of three types.
//
//   ggml_model LIBGGML_CPU LIBGGML_CLATTN MODEL
//
// Writes MODEL, a GGUF file, and one line per cache. Exit status 1 if one is wrong. The last line
// has clattn's tokens with q4_0, for prompt() below, so that other programs can compare them.
#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "ggml_model"
#include "ggml_support.h"

enum {
    VOCABULARY = 384,
    WIDTH = 256,
    LAYERS = 4,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = 64,
    INNER = 512,
    PROMPT = 40,
    STEPS = 48
};

// ------------------------------------------------------------------------------------------- the
// model ---

// Add a tensor of `columns` x `rows`. A deviation of 0: ones.
static void add(struct gguf_context *file, struct ggml_context *c, const char *name, int columns, int rows,
                float deviation) {
    struct ggml_tensor *t = rows ? ggml_new_tensor_2d(c, GGML_TYPE_F32, columns, rows)
                                 : ggml_new_tensor_1d(c, GGML_TYPE_F32, columns);
    float *numbers = t->data;
    for (int64_t at = 0; at < ggml_nelements(t); at++) {
        numbers[at] = deviation > 0 ? deviation * noise() : 1;
    }
    ggml_set_name(t, name);
    gguf_add_tensor(file, t);
}

static void add_layer(struct gguf_context *file, struct ggml_context *c, int layer) {
    const float root = 1 / sqrtf(WIDTH);
    const struct {
        const char *name;
        int columns, rows;
        float deviation;
    } parts[] = {
        {"attn_norm", WIDTH, 0, 0},
        {"ffn_norm", WIDTH, 0, 0},
        {"attn_q", WIDTH, HEADS * HEAD, 1.6f * root},
        {"attn_k", WIDTH, KV_HEADS * HEAD, 1.6f * root},
        {"attn_v", WIDTH, KV_HEADS * HEAD, 1.5f * root},
        {"attn_output", HEADS * HEAD, WIDTH, 2 * root},
        {"ffn_gate", WIDTH, INNER, root},
        {"ffn_up", WIDTH, INNER, root},
        {"ffn_down", INNER, WIDTH, root},
    };
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[at].name);
        add(file, c, name, parts[at].columns, parts[at].rows, parts[at].deviation);
    }
}

static void write_model(const char *path) {
    struct gguf_context *file = must(gguf_init_empty(), "gguf_init_empty");
    struct ggml_context *c = must(ggml_init((struct ggml_init_params){.mem_size = 64u << 20}), "ggml_init");
    const struct {
        const char *key;
        uint32_t number;
    } sizes[] = {{"llama.vocab_size", VOCABULARY},
                 {"llama.context_length", 512},
                 {"llama.embedding_length", WIDTH},
                 {"llama.block_count", LAYERS},
                 {"llama.feed_forward_length", INNER},
                 {"llama.attention.head_count", HEADS},
                 {"llama.attention.head_count_kv", KV_HEADS},
                 {"llama.rope.dimension_count", HEAD}};
    gguf_set_val_str(file, "general.architecture", "llama");
    gguf_set_val_str(file, "tokenizer.ggml.model", "none");
    gguf_set_val_f32(file, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        gguf_set_val_u32(file, sizes[at].key, sizes[at].number);
    }
    add(file, c, "token_embd.weight", WIDTH, VOCABULARY, 1);
    add(file, c, "output_norm.weight", WIDTH, 0, 0);
    add(file, c, "output.weight", WIDTH, VOCABULARY, 3 / sqrtf(WIDTH));
    for (int layer = 0; layer < LAYERS; layer++) {
        add_layer(file, c, layer);
    }
    must(gguf_write_to_file(file, path, false) ? file : NULL, path);
    gguf_free(file);
    ggml_free(c);
}

// ----------------------------------------------------------------------------- attention in double
// precision ---

// Statistics of a run's attention: number of nodes, and sums of squared errors and numbers. With
// `replaces` the double-precision results replace those of the run.
typedef struct attention {
    bool replaces;
    int nodes;
    double wrong, all;
} attention;

static void numbers_of(const struct ggml_tensor *t, int64_t row, int64_t head, float *to) {
    const void *from = (const char *)t->data + row * (int64_t)t->nb[1] + head * (int64_t)t->nb[2];
    if (t->type == GGML_TYPE_F32) {
        memcpy(to, from, (size_t)t->ne[0] * sizeof *to);
    } else {
        ggml_get_type_traits(t->type)->to_float(from, to, t->ne[0]);
    }
}

// One row of one head, with keys and values [keys][HEAD].
static void attend(const struct ggml_tensor *t, int64_t row, int64_t head, const float *k, const float *v,
                   double *out) {
    const struct ggml_tensor *mask = t->src[3];
    const int64_t keys = t->src[1]->ne[1];
    const ggml_fp16_t *bias = (const void *)((const char *)mask->data + row * (int64_t)mask->nb[1]);
    double *p = must(malloc((size_t)keys * sizeof *p), "malloc"), top = -INFINITY, sum = 0;
    float q[HEAD];
    numbers_of(t->src[0], row, head, q);
    for (int64_t j = 0; j < keys; j++) {
        p[j] = 0;
        for (int at = 0; at < HEAD; at++) {
            p[j] += (double)q[at] * k[j * HEAD + at];
        }
        p[j] = p[j] / sqrt(HEAD) + ggml_fp16_to_fp32(bias[j]);
        top = fmax(top, p[j]);
    }
    memset(out, 0, HEAD * sizeof *out);
    for (int64_t j = 0; j < keys; j++) {
        p[j] = exp(p[j] - top);
        sum += p[j];
        for (int at = 0; at < HEAD && p[j] > 0; at++) {
            out[at] += p[j] * v[j * HEAD + at];
        }
    }
    for (int at = 0; at < HEAD; at++) {
        out[at] /= sum;
    }
    free(p);
}

// llama.cpp calls this before each node to ask whether it is wanted, and again after the node was
// computed.
static bool look_at(struct ggml_tensor *t, bool asks, void *user) {
    attention *a = user;
    if (t->op != GGML_OP_FLASH_ATTN_EXT || asks) {
        return t->op == GGML_OP_FLASH_ATTN_EXT || !asks;
    }
    const int64_t keys = t->src[1]->ne[1];
    float *k = must(malloc((size_t)keys * HEAD * sizeof *k), "malloc"),
          *v = must(malloc((size_t)keys * HEAD * sizeof *v), "malloc");
    for (int64_t head = 0; head < HEADS; head++) {
        for (int64_t j = 0; j < keys; j++) {
            numbers_of(t->src[1], j, head / (HEADS / KV_HEADS), k + j * HEAD);
            numbers_of(t->src[2], j, head / (HEADS / KV_HEADS), v + j * HEAD);
        }
        for (int64_t row = 0; row < t->src[0]->ne[1]; row++) {
            float *found = (float *)((char *)t->data + head * (int64_t)t->nb[1] + row * (int64_t)t->nb[2]);
            double out[HEAD];
            attend(t, row, head, k, v, out);
            for (int at = 0; at < HEAD; at++) {
                a->wrong += (found[at] - out[at]) * (found[at] - out[at]);
                a->all += out[at] * out[at];
                found[at] = a->replaces ? (float)out[at] : found[at];
            }
        }
    }
    a->nodes++;
    free(k);
    free(v);
    return true;
}

// ------------------------------------------------------------------------------------------------
// runs ---

typedef struct run {
    attention attention;
    llama_token tokens[STEPS];
    float logits[STEPS][VOCABULARY];
} run;

static void prompt(llama_token *tokens) {
    for (int at = 0; at < PROMPT; at++) {
        tokens[at] = (at * at * 31 + 17 * at + 5) % VOCABULARY;
    }
}

static void write_tokens(const char *path, enum ggml_type type, run *r) {
    struct llama_model_params how = llama_model_default_params();
    struct llama_context_params cache = llama_context_default_params();
    how.n_gpu_layers = 0;
    cache.n_ctx = 256;
    cache.n_threads = cache.n_threads_batch =
        1; // several threads would wait for each other by spinning, which is slow on a busy machine
    cache.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    cache.type_k = cache.type_v = type;
    cache.cb_eval = look_at;
    cache.cb_eval_user_data = &r->attention;
    struct llama_model *model = must(llama_model_load_from_file(path, how), "llama_model_load_from_file");
    struct llama_context *c = must(llama_init_from_model(model, cache), "llama_init_from_model");
    llama_token given[PROMPT];
    prompt(given);
    struct llama_batch batch = llama_batch_get_one(given, PROMPT);
    for (int step = 0; step < STEPS; step++) {
        must(llama_decode(c, batch) == 0 ? c : NULL, "llama_decode");
        memcpy(r->logits[step], llama_get_logits_ith(c, -1), sizeof r->logits[step]);
        llama_token best = 0;
        for (int token = 1; token < VOCABULARY; token++) {
            best = r->logits[step][token] > r->logits[step][best] ? token : best;
        }
        r->tokens[step] = given[0] = best;
        batch = llama_batch_get_one(given, 1);
    }
    llama_free(c);
    llama_model_free(model);
}

// Number of equal tokens before the first difference.
static int alike(const run *a, const run *b) {
    int same = 0;
    while (same < STEPS && a->tokens[same] == b->tokens[same]) {
        same++;
    }
    return same;
}

// The smallest distance between the logits of the best and the second-best token of a step.
static float margin(const run *r) {
    float least = INFINITY;
    for (int step = 0; step < STEPS; step++) {
        float next = -INFINITY;
        for (int token = 0; token < VOCABULARY; token++) {
            next = token == r->tokens[step] ? next : fmaxf(next, r->logits[step][token]);
        }
        least = fminf(least, r->logits[step][r->tokens[step]] - next);
    }
    return least;
}

// With f16 clattn's tokens equal those of ggml's CPU backend. With fewer bits that backend rounds
// the queries, so clattn's tokens are compared with double precision. Only clattn's attention is
// within float32 precision of it.
static bool judge(const char *name, const run *theirs, const run *doubles, const run *ours, bool exact) {
    const attention *a = &ours->attention, *b = &theirs->attention;
    const double error = a->wrong / a->all;
    const bool good = alike(ours, doubles) == STEPS && (!exact || alike(ours, theirs) == STEPS) &&
                      error < 1e-11 && a->nodes == b->nodes && a->nodes == LAYERS * STEPS;
    printf("a llama over %s: clattn's tokens are those of ggml's CPU backend for %d of %d, of attention in "
           "double for %d (ggml's: %d), whose best is above the next by %.2g or more; NMSE of %d attentions "
           "ggml %.1e, clattn %.1e%s\n",
           name, alike(ours, theirs), STEPS, alike(ours, doubles), alike(theirs, doubles), margin(doubles),
           a->nodes, b->wrong / b->all, error, good ? "" : ": WRONG");
    return good;
}

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        enum ggml_type type;
    } caches[] = {{"f16", GGML_TYPE_F16}, {"q8_0", GGML_TYPE_Q8_0}, {"q4_0", GGML_TYPE_Q4_0}};
    static run theirs[3], doubles[3], ours[3];
    if (count != 4) {
        fprintf(stderr, "ggml_model: three arguments are wanted\n");
        return 2;
    }
    llama_log_set(quiet, NULL);
    must(ggml_backend_load(words[1]), "ggml's CPU backend");
    llama_backend_init();
    write_model(words[3]);
    for (int at = 0; at < 3; at++) {
        doubles[at].attention.replaces = true;
        write_tokens(words[3], caches[at].type, &theirs[at]);
        write_tokens(words[3], caches[at].type, &doubles[at]);
    }
    must(ggml_backend_load(words[2]), "clattn's backend"); // all later contexts have it
    bool good = true;
    for (int at = 0; at < 3; at++) {
        write_tokens(words[3], caches[at].type, &ours[at]);
        good = judge(caches[at].name, &theirs[at], &doubles[at], &ours[at], at == 0) && good;
    }
    for (int step = 0; step < STEPS; step++) {
        printf("%d%c", ours[2].tokens[step], step + 1 < STEPS ? ' ' : '\n');
    }
    return good ? 0 : 1;
}
