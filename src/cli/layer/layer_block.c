// layer_block.c: `clattn layer --block`: the norms, the residuals and the feed-forward network
// (MLP) around a layer. Tensors between two calls have x's type.
#include "cli/layer/layer_block.h"

#include "cli/files/formats.h"

int layer_block_check(const layer_run *r) {
    if (!r->block.wanted) return -1;
    if (!r->model_folder)
        return tool_wrong("--block: needs --model DIR, whose config.json has norms and activation");
    if (r->gradients.out) return tool_wrong("--block: has no gradients: leave out --grad-out, or --block");
    if (r->ranks.wanted) return tool_wrong("--block: is run on one device: leave out --mpi, or --block");
    return -1;
}

static bool is_norm(int i) {
    return i < BLOCK_GATE;
}

// Find a tensor's name. The weights may use gamma and beta for weight and bias. Returns false if
// there is no such tensor.
static bool find_name(const layer_run *r, char **names, size_t count, int i, bool bias, char name[256]) {
    static const char *const endings[2][2] = {{"gamma", "weight"}, {"beta", "bias"}};
    const char *begin = strchr(r->model.names, ':') + 1, *end = strrchr(begin, '.');
    bool there = false;
    for (int n = is_norm(i) ? 0 : 1; n < 2 && !there; n++) {
        snprintf(name, 256, "%.*s.%s.%s", (int)(end - begin), begin, r->model.block->names[i],
                 endings[bias][n]);
        there = layer_weights_have(&r->weights, names, count, name);
    }
    return there;
}

static int check_array(const layer_run *r, const char *name, int i, bool bias) {
    const array *a = &r->block.arrays[i][bias];
    const block_kind *kind = r->model.block;
    const bool transposed = (kind->is & BLOCK_TRANSPOSED) && !is_norm(i) && !bias;
    const int64_t width = r->model.width, hidden = r->model.hidden,
                  first = kind->is & BLOCK_PACKED ? 2 * hidden : hidden;
    const int64_t out = is_norm(i) || i == BLOCK_DOWN ? width
                        : i == BLOCK_GATE             ? first
                                                      : hidden,
                  in = i == BLOCK_DOWN ? hidden : width;
    array wanted = {.rank = is_norm(i) || bias ? 1 : 2, .shape = {transposed ? in : out}};
    char is[128], must[128];
    if (wanted.rank == 2) wanted.shape[1] = transposed ? out : in;
    if (a->type > ARRAY_BF16 && (bias || r->block.scales[i].type == CLATTN_TYPE_F32))
        return tool_wrong("--block: %s holds %s: f32, f16 or bf16 is needed", name, array_type_name(a->type));
    array_shape_text(a, is), array_shape_text(&wanted, must);
    return !strcmp(is, must) ? -1 : tool_wrong("--block: %s is %s, but config.json needs %s", name, is, must);
}

static int load_one(layer_run *r, char **names, size_t count, int i, bool bias) {
    const block_kind *kind = r->model.block;
    char name[256];
    const bool there = find_name(r, names, count, i, bias, name);
    const bool wanted = !bias || (is_norm(i) ? kind->norm == CLATTN_NORM_KIND_LAYER : r->model.mlp_bias);
    if (!wanted && !there) return -1;
    if (!wanted) return tool_wrong("--block: the weights have %s, which config.json does not have", name);
    array *a = &r->block.arrays[i][bias];
    matrix_scales *scales = &r->block.scales[i];
    const bool matrix = !is_norm(i) && !bias;
    int status =
        matrix ? layer_stored_read(&r->weights, name, a, scales) : layer_weights_read(&r->weights, name, a);
    if (status < 0) status = check_array(r, name, i, bias);
    if (status >= 0 || !matrix) return status;
    if (kind->is & BLOCK_TRANSPOSED)
        status =
            scales->type == CLATTN_TYPE_F32
                ? layer_weights_transpose(a)
                : tool_wrong(
                      "--block: %s has scales, which are unsupported for this model's [in, out] matrices",
                      name);
    return status < 0 ? layer_stored_convert(&r->weights, name, a, scales) : status;
}

int layer_block_load(layer_run *r) {
    char **names = NULL, error[512];
    size_t count = 0;
    int status = -1;
    if (!r->block.wanted) return -1;
    if (r->weights.file && !safetensors_names(r->weights.file, &names, &count, error))
        return tool_wrong("--model: %s", error);
    for (int n = 0; n < 2 * BLOCK_TENSORS && status < 0; n++)
        if (r->model.block->names[n / 2]) status = load_one(r, names, count, n / 2, n % 2);
    free(names);
    return status;
}

// Allocate a tensor [B, N, width] of x's type, with undefined contents.
static int make_rows(const layer_run *r, tensors *t, int64_t width, clattn_tensor *view) {
    array rows = {
        .type = r->x_array.type, .rank = 3, .shape = {r->x_array.shape[0], r->x_array.shape[1], width}};
    if (!array_measure(rows.type, 3, rows.shape, &rows.bytes))
        return tool_failed("the rows of a block are too many");
    return tensors_upload(t, &rows, view);
}

// Split a tensor: the first `rows` rows are gate, the second half is up.
static void halve(clattn_tensor *gate, clattn_tensor *up, int64_t rows) {
    *up = *gate;
    if (gate->rank) gate->shape[0] = up->shape[0] = rows, up->offset = rows * gate->stride[0];
}

static int upload(layer_run *r, tensors *t) {
    layer_block *b = &r->block;
    int status = -1;
    for (int i = 0; i < BLOCK_TENSORS; i++)
        for (int bias = 0; bias < 2 && status < 0; bias++) {
            clattn_tensor *const views[] = {&b->views[i][bias], &b->scale_views[i][0], &b->scale_views[i][1]};
            const array *a = &b->arrays[i][bias];
            if (a->rank)
                status = is_norm(i) || bias ? tensors_upload(t, a, views[0])
                                            : layer_stored_upload(&r->weights, t, a, &b->scales[i], views);
        }
    for (int n = 0; n < 2 && (r->model.block->is & BLOCK_PACKED); n++) {
        halve(&b->views[BLOCK_GATE][n], &b->views[BLOCK_UP][n], r->model.hidden);
        halve(&b->scale_views[BLOCK_GATE][n], &b->scale_views[BLOCK_UP][n], r->model.hidden);
    }
    return status;
}

// Append out = norm(x), or out = norm(x + residual). With `sum`, x + residual is stored there.
static void add_norm(layer_run *r, int i, const clattn_tensor *x, const clattn_tensor *residual,
                     const clattn_tensor *sum, const clattn_tensor *out) {
    layer_block *b = &r->block;
    clattn_norm_params p = {
        .x = *x, .out = *out, .kind = r->model.block->norm, .epsilon = r->model.block_epsilon};
    p.weight = b->views[i][0], p.bias = b->views[i][1],
    p.plus_one = (r->model.block->is & BLOCK_PLUS_ONE) != 0;
    if (residual) p.residual = *residual;
    if (sum) p.sum = *sum;
    b->steps[b->count++] = (block_step){.what = STEP_NORM, .norm = p};
}

// Append sum = x + residual. The library has no call for a sum alone: use a norm without weights
// and ignore its result, written to `lost`.
static void add_sum(layer_run *r, const clattn_tensor *x, const clattn_tensor *residual,
                    const clattn_tensor *sum, const clattn_tensor *lost) {
    layer_block *b = &r->block;
    const clattn_norm_params p = {.x = *x, .residual = *residual, .sum = *sum, .out = *lost};
    b->steps[b->count++] = (block_step){.what = STEP_NORM, .norm = p};
}

static void add_layer(layer_run *r, const clattn_tensor *x, const clattn_tensor *out) {
    layer_block *b = &r->block;
    r->params.x = *x, r->params.out = *out;
    b->steps[b->count++] = (block_step){.what = STEP_LAYER};
}

static void add_linear(layer_run *r, int i, const clattn_tensor *x, const clattn_tensor *residual,
                       const clattn_tensor *out) {
    layer_block *b = &r->block;
    clattn_linear_params p = {.x = *x, .w = b->views[i][0], .b = b->views[i][1], .out = *out};
    p.projection = r->params.projection, p.precision = r->params.precision;
    p.w_scale = b->scale_views[i][0], p.w_zero = b->scale_views[i][1];
    if (i == BLOCK_GATE)
        p.activation = r->model.activation, p.w_up = b->views[BLOCK_UP][0], p.b_up = b->views[BLOCK_UP][1],
        p.w_up_scale = b->scale_views[BLOCK_UP][0], p.w_up_zero = b->scale_views[BLOCK_UP][1];
    if (residual) p.residual = *residual;
    b->steps[b->count++] = (block_step){.what = STEP_LINEAR, .linear = p};
}

// Append the steps of the block's form. `in` holds the input of a half. `h` holds the first half's
// result, and after x is added the residual stream.
static void add_steps(layer_run *r, const clattn_tensor *in, const clattn_tensor *h,
                      const clattn_tensor *wide) {
    const clattn_tensor x = r->params.x, out = r->params.out;
    const block_form form = r->model.block->form;
    const bool reads_norm = form == BLOCK_PRE || form == BLOCK_SANDWICH || form == BLOCK_PARALLEL;
    const bool gives_norm = form == BLOCK_SANDWICH || form == BLOCK_RESULT;
    if (reads_norm) add_norm(r, BLOCK_NORM_X, &x, NULL, NULL, in);
    add_layer(r, reads_norm ? in : &x, h);
    if (gives_norm) add_norm(r, BLOCK_NORM_ATTENTION, h, NULL, NULL, h);
    if (form == BLOCK_POST) add_norm(r, BLOCK_NORM_ATTENTION, &x, h, NULL, h);
    if (form == BLOCK_PRE || form == BLOCK_SANDWICH) add_norm(r, BLOCK_NORM_H, &x, h, h, in);
    if (form == BLOCK_RESULT || form == BLOCK_PARALLEL) add_sum(r, &x, h, h, &out);
    add_linear(r, BLOCK_GATE, reads_norm ? in : h, NULL, wide);
    if (form == BLOCK_PRE || form == BLOCK_PARALLEL) {
        add_linear(r, BLOCK_DOWN, wide, h, &out);
        return;
    }
    add_linear(r, BLOCK_DOWN, wide, NULL, in);
    add_norm(r, BLOCK_NORM_MLP, in, form == BLOCK_POST ? h : NULL, NULL, gives_norm ? in : &out);
    if (gives_norm) add_sum(r, in, h, &out, in);
}

int layer_block_begin(layer_run *r, tensors *t) {
    clattn_tensor in, h, wide;
    const clattn_layer_params *p = &r->params;
    if (!r->block.wanted) {
        add_layer(r, &p->x, &p->out);
        return -1;
    }
    int status = upload(r, t);
    if (status < 0) status = make_rows(r, t, p->x.shape[2], &in);
    if (status < 0) status = make_rows(r, t, p->out.shape[2], &h);
    if (status < 0) status = make_rows(r, t, r->model.hidden, &wide);
    if (status < 0) add_steps(r, &in, &h, &wide);
    return status;
}

double layer_block_flops(const layer_run *r) {
    double flops = 0.0;
    for (int n = 0; n < r->block.count; n++) {
        const clattn_linear_params *p = &r->block.steps[n].linear;
        const double rows = (double)(p->x.shape[0] * p->x.shape[1]);
        if (r->block.steps[n].what == STEP_LINEAR)
            flops += rows * layer_weights_numbers(&p->w) * (p->w_up.rank ? 4.0 : 2.0);
    }
    return flops;
}

// A norm has no prepare function, so it is enqueued once. The tensors' contents do not matter.
clattn_status layer_block_prepare(layer_run *r, session *s) {
    clattn_status done = CLATTN_OK;
    for (int n = 0; n < r->block.count && done == CLATTN_OK; n++) {
        const block_step *step = &r->block.steps[n];
        done = step->what == STEP_LAYER ? clattn_layer_prepare(s->context, &r->params)
               : step->what == STEP_LINEAR
                   ? clattn_linear_prepare(s->context, &step->linear)
                   : clattn_norm_enqueue(s->context, s->queue, &step->norm, 0, NULL, NULL);
    }
    return done;
}

clattn_status layer_block_enqueue(layer_run *r, session *s) {
    clattn_status done = CLATTN_OK;
    for (int n = 0; n < r->block.count && done == CLATTN_OK; n++) {
        const block_step *step = &r->block.steps[n];
        done = step->what == STEP_LAYER
                   ? clattn_layer_enqueue(s->context, s->queue, &r->params, 0, NULL, NULL)
               : step->what == STEP_LINEAR
                   ? clattn_linear_enqueue(s->context, s->queue, &step->linear, 0, NULL, NULL)
                   : clattn_norm_enqueue(s->context, s->queue, &step->norm, 0, NULL, NULL);
    }
    return done;
}

json_t *layer_block_json(const layer_run *r) {
    static const char *const forms[] = {"pre", "sandwich", "result", "post", "parallel"};
    const model *m = &r->model;
    if (!r->block.wanted) return NULL;
    return json_pack("{s:s, s:s, s:f, s:s, s:b, s:i, s:i}", "form", forms[m->block->form], "norm",
                     m->block->norm == CLATTN_NORM_KIND_RMS ? "rms" : "layer", "norm_eps",
                     (double)m->block_epsilon, "activation", m->activation_name, "gated",
                     (m->block->is & BLOCK_PACKED) || m->block->names[BLOCK_UP], "hidden", m->hidden, "calls",
                     r->block.count);
}

void layer_block_free(layer_block *b) {
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        array_free(&b->arrays[i][0]), array_free(&b->arrays[i][1]);
        layer_stored_free(&b->scales[i]);
    }
}
