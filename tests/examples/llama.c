/* llama.c: a whole decoder of Llama's kind, without a kernel of its own. Embedding, norms,
 * attention with its cache, the gated feed-forward network, logits and the choice of the next
 * token are clattn's, in one queue. The chosen token stays on the device, where the next step
 * reads it. The residual stream is float32; everything else has the type of the weights. Models:
 * Llama, Mistral without windows, SmolLM2, as Hugging Face stores them, in one file.
 *     cc llama.c $(pkg-config --cflags --libs clattn OpenCL) -lm; ./a.out FOLDER STEPS TOKEN...
 *     ./a.out --check FOLDER      compare with its logits.npy: the logits of its tokens.npy, half
 *                                 of them at once and the rest token by token
 *  */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NO_DEVICE = 77 };

static clattn_context *context;
static cl_command_queue queue;

static void stop(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(clattn_status status, const char *what) {
    char why[512] = ""; /* without a context there is only a log */
    if (status == CLATTN_OK) return;
    clattn_context_last_error(context, why, sizeof why);
    stop(what, why[0] ? why : clattn_status_name(status));
}

static void *take(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) stop("memory", "there is not enough");
    return memory;
}

/* ---- files: only what these need of JSON; an application has a library for it. */

typedef struct text {
    char *begin;
    size_t size;
    char path[1024];
} text;

static text read_file(const char *folder, const char *name) {
    text t = {NULL, 0, ""};
    snprintf(t.path, sizeof t.path, "%s/%s", folder, name);
    FILE *file = fopen(t.path, "rb");
    if (!file) stop(t.path, "cannot be read");
    fseek(file, 0, SEEK_END);
    t.size = (size_t)ftell(file);
    rewind(file);
    t.begin = take(t.size + 1, 1);
    if (fread(t.begin, 1, t.size, file) != t.size) stop(t.path, "was not read");
    fclose(file);
    return t;
}

/* The text behind "key": in a file, or NULL. */
static const char *value_of(const char *json, const char *key) {
    char quoted[160];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(json, quoted);
    if (at) at += strlen(quoted) + strspn(at + strlen(quoted), " \t\r\n:");
    return at;
}

/* otherwise: the result if the key is absent; below 0: the key is required. */
static double number_of(const text *config, const char *key, double otherwise) {
    const char *at = value_of(config->begin, key);
    if (at && strncmp(at, "null", 4) != 0) return strtod(at, NULL);
    if (otherwise < 0) stop(key, "is not in config.json");
    return otherwise;
}

/* The numbers of a .npy file, of 4 bytes each. Bytes 8 and 9 have the header's length. */
static void *npy(const char *folder, const char *name, size_t *count) {
    text t = read_file(folder, name);
    const size_t header = 10 + (unsigned char)t.begin[8] + 256 * (size_t)(unsigned char)t.begin[9];
    *count = (t.size - header) / 4;
    void *numbers = take(*count, 4);
    memcpy(numbers, t.begin + header, *count * 4);
    free(t.begin);
    return numbers;
}

/* ---- tensors */

static cl_mem made[4096]; /* all buffers, to be released at the end */
static size_t made_count;

static cl_mem buffer(size_t bytes, const void *values) {
    cl_int code;
    const cl_mem_flags use = CL_MEM_READ_WRITE | (values ? CL_MEM_COPY_HOST_PTR : 0);
    cl_mem b = clCreateBuffer(clattn_context_opencl(context), use, bytes, (void *)values, &code);
    if (!b || made_count == sizeof made / sizeof made[0]) stop("clCreateBuffer", "failed");
    return made[made_count++] = b;
}

static clattn_tensor tensor(clattn_type type, int rank, const int64_t *shape, const void *values) {
    clattn_tensor t = clattn_tensor_dense(NULL, type, rank, shape);
    size_t bytes = clattn_type_size(type);
    for (int i = 0; i < rank; i++) bytes *= (size_t)shape[i];
    t.buffer = buffer(bytes, values);
    return t;
}

static clattn_tensor rows(clattn_type type, int64_t count, int64_t width) {
    return tensor(type, 3, (const int64_t[]){1, count, width}, NULL);
}

/* `count` rows of a tensor [1, N, M] from one on, the first `width` of their numbers. */
static clattn_tensor part(clattn_tensor t, int64_t first, int64_t count, int64_t width) {
    t.offset += first * t.stride[1];
    t.shape[1] = count, t.shape[2] = width;
    return t;
}

/* A .safetensors file: 8 bytes of length, a JSON header, then the numbers. */
typedef struct weights {
    text file;
    const char *data;
} weights;

static weights open_weights(const char *folder) {
    weights w = {.file = read_file(folder, "model.safetensors")};
    uint64_t header = 0;
    if (w.file.size >= 8) memcpy(&header, w.file.begin, sizeof header);
    if (header == 0 || header > w.file.size - 8) stop(w.file.path, "is no safetensors file");
    w.data = w.file.begin + 8 + header;
    w.file.begin[8 + header - 1] = '\0'; /* the header's last brace: searched keys precede it */
    return w;
}

/* The place, type and count of a tensor's numbers; NULL: it does not exist. */
static const char *find_weight(const weights *w, const char *name, clattn_type *type, int64_t *count) {
    static const char *const types[] = {"\"F32\"", "\"F16\"", "\"BF16\""}; /* as clattn_type */
    const char *entry = value_of(w->file.begin + 8, name);
    if (!entry) return NULL;
    const char *dtype = value_of(entry, "dtype"), *offsets = value_of(entry, "data_offsets");
    unsigned long long begin = 0, end = 0;
    *type = CLATTN_TYPE_COUNT;
    for (int i = 0; dtype && i < 3; i++)
        if (!strncmp(dtype, types[i], strlen(types[i]))) *type = (clattn_type)i;
    if (*type == CLATTN_TYPE_COUNT) stop(name, "F32, F16 and BF16 are read");
    if (!offsets || sscanf(offsets, "[ %llu , %llu", &begin, &end) != 2 || begin > end ||
        w->data + end > w->file.begin + w->file.size)
        stop(name, "lies outside of its file");
    *count = (int64_t)((end - begin) / clattn_type_size(*type));
    return w->data + begin;
}

/* A matrix [height, width], or a vector if `height` is 0. */
static clattn_tensor weight(const weights *w, int layer, const char *name, int64_t height, int64_t width) {
    const int64_t shape[] = {height ? height : width, width};
    char whole[128];
    clattn_type type = CLATTN_TYPE_F32;
    int64_t count = 0;
    if (layer < 0)
        snprintf(whole, sizeof whole, "%s.weight", name);
    else
        snprintf(whole, sizeof whole, "model.layers.%d.%s.weight", layer, name);
    const char *values = find_weight(w, whole, &type, &count);
    if (!values) stop(whole, "is not in the file");
    if (count != (height ? height : 1) * width) stop(whole, "has another size than config.json says");
    return tensor(type, height ? 2 : 1, shape, values);
}

/* ---- the model */

typedef struct block {
    clattn_tensor attention_norm, wq, wk, wv, wo, network_norm, gate, up, down, k, v;
} block;

typedef struct model {
    int blocks, width, hidden, heads, kv_heads, size, vocabulary;
    int32_t capacity, length; /* the cache's capacity, and the number of its tokens */
    float base, epsilon;
    clattn_type type;
    block *block;
    clattn_tensor embedding, norm, head;
    /* Rows of a step: the stream, input and output of a projection, those of the network, and
     * the logits. */
    clattn_tensor stream, inner, result, wide, last, logits;
    clattn_tensor ids, chosen; /* the input tokens; the chosen token becomes the first */
    clattn_tensor ends, keys;  /* of one row: 0 and 1; `length` once more */
    clattn_recording *step;    /* the launches of one row and the choice of the next token */
} model;

static void read_sizes(model *m, const char *folder) {
    const text config = read_file(folder, "config.json");
    const char *scaling = value_of(config.begin, "rope_scaling"), *act = value_of(config.begin, "hidden_act");
    if (scaling && strncmp(scaling, "null", 4) != 0) stop("rope_scaling", "is not known to this example");
    if (act && strncmp(act, "\"silu\"", 6) != 0) stop("hidden_act", "silu is known to this example");
    m->blocks = (int)number_of(&config, "num_hidden_layers", -1);
    m->width = (int)number_of(&config, "hidden_size", -1);
    m->hidden = (int)number_of(&config, "intermediate_size", -1);
    m->heads = (int)number_of(&config, "num_attention_heads", -1);
    m->kv_heads = (int)number_of(&config, "num_key_value_heads", m->heads);
    m->vocabulary = (int)number_of(&config, "vocab_size", -1);
    if (m->heads < 1 || m->blocks < 1 || m->width < 1) stop(config.path, "has sizes of 0");
    m->size = (int)number_of(&config, "head_dim", m->width / m->heads);
    m->base = (float)number_of(&config, "rope_theta", 10000);
    m->epsilon = (float)number_of(&config, "rms_norm_eps", 1e-6);
    free(config.begin);
}

static void read_block(const model *m, const weights *w, int n) {
    const int64_t q = m->heads * m->size, kv = m->kv_heads * m->size, width = m->width;
    const int64_t cache[] = {1, m->kv_heads, m->capacity, m->size};
    m->block[n] = (block){.attention_norm = weight(w, n, "input_layernorm", 0, width),
                          .wq = weight(w, n, "self_attn.q_proj", q, width),
                          .wk = weight(w, n, "self_attn.k_proj", kv, width),
                          .wv = weight(w, n, "self_attn.v_proj", kv, width),
                          .wo = weight(w, n, "self_attn.o_proj", width, q),
                          .network_norm = weight(w, n, "post_attention_layernorm", 0, width),
                          .gate = weight(w, n, "mlp.gate_proj", m->hidden, width),
                          .up = weight(w, n, "mlp.up_proj", m->hidden, width),
                          .down = weight(w, n, "mlp.down_proj", width, m->hidden),
                          .k = tensor(m->type, 4, cache, NULL),
                          .v = tensor(m->type, 4, cache, NULL)};
}

static model read_model(const char *folder, int32_t capacity, int32_t at_once, int32_t logits) {
    model m = {.capacity = capacity};
    const weights w = open_weights(folder);
    clattn_type type;
    int64_t count;
    read_sizes(&m, folder);
    m.embedding = weight(&w, -1, "model.embed_tokens", m.vocabulary, m.width);
    m.norm = weight(&w, -1, "model.norm", 0, m.width);
    m.head = find_weight(&w, "lm_head.weight", &type, &count)
                 ? weight(&w, -1, "lm_head", m.vocabulary, m.width)
                 : m.embedding;
    m.type = m.embedding.type;
    m.block = take((size_t)m.blocks, sizeof *m.block);
    for (int n = 0; n < m.blocks; n++) read_block(&m, &w, n);
    free(w.file.begin);
    m.stream = rows(CLATTN_TYPE_F32, at_once, m.width), m.inner = rows(m.type, at_once, m.width);
    m.result = rows(m.type, at_once, m.width), m.wide = rows(m.type, at_once, m.hidden);
    m.last = rows(CLATTN_TYPE_F32, logits, m.width), m.logits = rows(CLATTN_TYPE_F32, logits, m.vocabulary);
    m.ids = tensor(CLATTN_TYPE_I32, 2, (const int64_t[]){1, at_once}, NULL);
    m.chosen = m.ids, m.chosen.shape[1] = 1;
    m.ends = tensor(CLATTN_TYPE_I32, 1, (const int64_t[]){2}, (const int32_t[]){0, 1});
    m.keys = tensor(CLATTN_TYPE_I32, 1, (const int64_t[]){1}, NULL);
    return m;
}

static void project(clattn_tensor x, clattn_tensor w, clattn_tensor out) {
    const clattn_linear_params p = {.x = x, .w = w, .out = out};
    check(clattn_linear_enqueue(context, queue, &p, 0, NULL, NULL), "a projection");
}

/* out = norm(stream), and before that stream += residual. */
static void normalise(const model *m, clattn_tensor stream, const clattn_tensor *residual, clattn_tensor w,
                      clattn_tensor out) {
    clattn_norm_params p = {.x = stream, .out = out, .weight = w, .epsilon = m->epsilon};
    if (residual) p.residual = *residual, p.sum = stream;
    check(clattn_norm_enqueue(context, queue, &p, 0, NULL, NULL), "a norm");
}

static void attend(const model *m, const block *b, clattn_tensor x, clattn_tensor out) {
    clattn_layer_params p = {.x = x, .out = out, .heads = m->heads, .kv_heads = m->kv_heads, .append = true};
    p.wq = b->wq, p.wk = b->wk, p.wv = b->wv, p.wo = b->wo, p.kv.k = b->k, p.kv.v = b->v;
    /* Each replay reads the number of keys from a buffer. A row is a packed sequence; the last
     * key belongs to the last row. */
    p.score.causal = true, p.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    if (x.shape[1] > 1)
        p.score.kv_lengths = &m->length;
    else
        p.sequences = p.max_q = 1, p.cu_seqlens_q_device = m->ends, p.kv.kv_lengths_device = m->keys;
    p.rope.layout = CLATTN_ROPE_HALF, p.rope.base = m->base;
    check(clattn_layer_enqueue(context, queue, &p, 0, NULL, NULL), "attention");
}

static void grow(model *m, int32_t count) {
    if ((m->length += count) > m->capacity) stop("the cache", "is full");
    if (!m->step) /* steps advance it */
        clEnqueueWriteBuffer(queue, m->keys.buffer, CL_TRUE, 0, sizeof m->length, &m->length, 0, NULL, NULL);
}

/* The last `count` tokens in ids are the input. Computes the logits of `wanted`, and writes the
 * most likely next token to ids. */
static void feed(const model *m, int32_t count, int32_t wanted) {
    const clattn_tensor stream = part(m->stream, 0, count, m->width),
                        inner = part(m->inner, 0, count, m->width),
                        result = part(m->result, 0, count, m->width),
                        wide = part(m->wide, 0, count, m->hidden);
    clattn_embedding_params embedding = {.ids = m->ids, .table = m->embedding, .out = stream};
    embedding.ids.shape[1] = count;
    check(clattn_embedding_enqueue(context, queue, &embedding, 0, NULL, NULL), "the embedding");
    for (int n = 0; n < m->blocks; n++) {
        const block *b = &m->block[n];
        normalise(m, stream, n ? &result : NULL, b->attention_norm, inner);
        attend(m, b, inner, result);
        normalise(m, stream, &result, b->network_norm, inner);
        const clattn_linear_params gated = {
            .x = inner, .w = b->gate, .w_up = b->up, .activation = CLATTN_ACTIVATION_SILU, .out = wide};
        check(clattn_linear_enqueue(context, queue, &gated, 0, NULL, NULL), "the gated projection");
        project(wide, b->down, result);
    }
    const clattn_tensor end = part(result, count - wanted, wanted, m->width),
                        last = part(m->last, 0, wanted, m->width);
    normalise(m, part(stream, count - wanted, wanted, m->width), &end, m->norm, last);
    const clattn_tensor logits = part(m->logits, 0, 1, m->vocabulary);
    clattn_argmax_params likeliest = {.x = logits, .out = m->chosen, .lengths = m->chosen};
    likeliest.lengths.buffer = m->keys.buffer;
    project(last, m->head, part(m->logits, 0, wanted, m->vocabulary));
    check(clattn_argmax_enqueue(context, queue, &likeliest, 0, NULL, NULL), "argmax");
}

/* The input is the token in ids, and the next one is chosen. The first call records the step;
 * later calls only launch. */
static void step(model *m) {
    grow(m, 1);
    if (!m->step) {
        check(clattn_recording_begin(context, queue, &m->step), "recording"), feed(m, 1, 1);
        check(clattn_recording_end(m->step), "recording"), check(clattn_recording_fuse(m->step), "recording");
    }
    check(clattn_recording_enqueue(m->step, queue, 0, NULL, NULL), "a step");
}

static void write_ids(const model *m, const int32_t *ids, int32_t count) {
    clEnqueueWriteBuffer(queue, m->ids.buffer, CL_TRUE, 0, (size_t)count * sizeof *ids, ids, 0, NULL, NULL);
}

static void read_back(cl_mem from, size_t bytes, void *to) {
    if (clEnqueueReadBuffer(queue, from, CL_TRUE, 0, bytes, to, 0, NULL, NULL) != CL_SUCCESS)
        stop("reading back", "failed");
}

static int generate(const char *folder, int32_t steps, const int32_t *prompt, int32_t count) {
    model m = read_model(folder, count + steps, count, 1);
    /* times at the begin of the prompt, at the begin of the steps, and at their end */
    struct timespec at[3];
    timespec_get(&at[0], TIME_UTC), write_ids(&m, prompt, count);
    for (int32_t n = 0; n < steps; n++) {
        int32_t token;
        n ? step(&m) : (grow(&m, count), feed(&m, count, 1));
        read_back(m.ids.buffer, sizeof token, &token);
        printf("%s%d", n ? " " : "", (int)token), fflush(stdout);
        timespec_get(&at[n ? 2 : 1], TIME_UTC);
    }
    for (int n = 1; n < 3 && n <= steps; n++)
        fprintf(stderr, "\n%s: %.3f s", n == 1 ? "prompt and first token" : "the other tokens",
                difftime(at[n].tv_sec, at[n - 1].tv_sec) +
                    1e-9 * (double)(at[n].tv_nsec - at[n - 1].tv_nsec));
    printf("\n");
    clattn_recording_destroy(m.step), free(m.block);
    return 0;
}

/* Compare row n of the logits with the recorded one, and whether the same token is the maximum. */
static int compare(const char *folder) {
    size_t count, numbers;
    int32_t *tokens = npy(folder, "tokens.npy", &count);
    float *want = npy(folder, "logits.npy", &numbers);
    const int32_t all = (int32_t)count, half = (all + 1) / 2;
    model m = read_model(folder, all, half, half);
    float *got = take((size_t)half * (size_t)m.vocabulary, sizeof *got);
    double most = 0, largest = 0;
    int same = 0;
    if (numbers != count * (size_t)m.vocabulary) stop("logits.npy", "has no row for each token");
    for (int32_t n = 0, fed; n < all; n += fed) {
        fed = n ? 1 : half;
        write_ids(&m, tokens + n, fed);
        n ? step(&m) : (grow(&m, fed), feed(&m, fed, fed));
        read_back(m.logits.buffer, (size_t)(fed * m.vocabulary) * sizeof *got, got);
        for (int32_t r = 0; r < fed; r++) {
            const float *is = got + (size_t)(r * m.vocabulary),
                        *was = want + (size_t)((n + r) * m.vocabulary);
            int best = 0, recorded = 0;
            for (int i = 0; i < m.vocabulary; i++) {
                most = fmax(most, fabs((double)is[i] - (double)was[i])),
                largest = fmax(largest, fabs((double)was[i]));
                best = is[i] > is[best] ? i : best, recorded = was[i] > was[recorded] ? i : recorded;
            }
            same += best == recorded;
        }
    }
    printf("%d tokens, logits up to %.3g: the largest difference is %.2g; %d of %d tokens are chosen alike\n",
           (int)all, largest, most, same, (int)all);
    const double allowed = m.type == CLATTN_TYPE_F32 ? 3e-6 : m.type == CLATTN_TYPE_F16 ? 3e-3 : 3e-2;
    free(got), free(want), free(tokens), free(m.block), clattn_recording_destroy(m.step);
    return most <= allowed * largest ? 0 : 1;
}

int main(int count, char **words) {
    const int checks = count == 3 && !strcmp(words[1], "--check");
    const int32_t steps = !checks && count > 3 ? (int32_t)strtol(words[2], NULL, 10) : 0;
    int32_t *prompt = take((size_t)count, sizeof *prompt);
    clattn_device device;
    size_t devices;
    if (!checks && steps < 1) stop("usage", "llama FOLDER STEPS TOKEN..., or llama --check FOLDER");
    if (clattn_device_list(&device, 1, &devices, NULL) != CLATTN_OK) return NO_DEVICE;
    check(clattn_context_create(&(clattn_context_params){.device = device.device}, &context), "context");
    queue = clCreateCommandQueue(clattn_context_opencl(context), device.device, 0, NULL);
    for (int n = 3; n < count; n++) prompt[n - 3] = (int32_t)strtol(words[n], NULL, 10);
    const int status = checks ? compare(words[2]) : generate(words[1], steps, prompt, count - 3);
    for (size_t n = 0; n < made_count; n++) clReleaseMemObject(made[n]);
    free(prompt);
    clReleaseCommandQueue(queue);
    clattn_context_destroy(context);
    return status;
}
