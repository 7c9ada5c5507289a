/* fuzz_call_gradients.c: see fuzz_call_gradients.h. Also the forward call that keeps state for a
 * layer's gradients. */
#include "fuzz/fuzz_call_gradients.h"

/* A layer's options, and which of three calls to make: gradients, gradients from kept state, or the
 * forward call that keeps it. */
enum { NORM = 1, WIDTH = 2, GATE = 4, GATE_ALL = 8, TEXTS = 16, POSITIONS = 32, KEEP = 64, FORWARD = 128 };

/* A result and its input tensor. */
typedef struct gradient {
    clattn_tensor *to;
    const clattn_tensor *of;
} gradient;

/* Add each result that `wanted` selects, if the call has its input tensor. */
static void add_results(fuzz_fields *f, const gradient *results, int count, unsigned wanted,
                        clattn_type type) {
    for (int i = 0; i < count; i++) {
        const clattn_tensor *of = results[i].of;
        const int number =
            fuzz_add_optional(f, of->rank && wanted >> i & 1, results[i].to, type, of->rank, of->shape);
        f->written |= UINT64_C(1) << number;
    }
}

static clattn_status ask_linear(const void *params, void *bytes) {
    return clattn_linear_backward_workspace(fuzz_context, params, bytes);
}

static bool linear_may_run(const clattn_linear_backward_params *p) {
    const int64_t of[] = {-7,
                          p->x.type,
                          p->w.type,
                          p->dout.type,
                          p->dx.rank ? 1 + (int64_t)p->dx.type : 0,
                          p->dw.rank ? 1 + (int64_t)p->dw.type : 0,
                          p->db.rank ? 1 + (int64_t)p->db.type : 0};
    const clattn_tensor x = {.shape = {1, p->dout.shape[0], p->dout.shape[1]}};
    return p->projection == CLATTN_PROJECTION_NATIVE &&
           fuzz_work(&x, p->dout.shape[2], p->w.rank ? p->w.shape[1] : p->x.shape[2]) <= FUZZ_MOST_WORK &&
           fuzz_kernel_may_run(of, sizeof of);
}

bool fuzz_linear_backward(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const clattn_type type = fuzz_float_type(b), to = fuzz_float_type(b);
    const unsigned wanted = fuzz_byte(b) | fuzz_byte(b);
    clattn_linear_backward_params p = {.projection = CLATTN_PROJECTION_NATIVE};
    fuzz_fields f = {.required = 1, .workspace = &p.workspace};
    fuzz_launch at;
    size_t bytes = 0;
    bool right = false;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.dout, type, 3, (int64_t[]){l.batch, l.n_q, l.d});
    fuzz_add_view(&f, &p.x, type, 3, (int64_t[]){l.batch, l.n_q, l.n_kv});
    fuzz_add_view(&f, &p.w, type, 2, (int64_t[]){l.d, l.n_kv});
    if (l.repeats) fuzz_repeat(&f, NULL);
    const clattn_tensor bias = {.rank = 1, .shape = {l.d}};
    add_results(&f, (gradient[]){{&p.dx, &p.x}, {&p.dw, &p.w}, {&p.db, &bias}}, 3, wanted, to);
    fuzz_add_int(&f, &p.projection), fuzz_add_int(&f, &p.precision);
    fuzz_change_all(&f, b);
    const clattn_status status = fuzz_plan(&f, ask_linear, &p, &bytes, &right);
    if (status == CLATTN_OK && right && !linear_may_run(&p)) return true;
    return fuzz_end(
        &f, &at,
        clattn_linear_backward_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
        right && !at.wrong);
}

/* A layer's call under construction. */
typedef struct layer_call {
    clattn_layer_backward_params p;
    fuzz_fields f;
    fuzz_launch at;
    fuzz_sizes l;
    unsigned with, inputs, results;
} layer_call;

static clattn_status ask_layer(const void *params, void *bytes) {
    return clattn_layer_backward_workspace(fuzz_context, params, bytes);
}

/* Returns true if the programs of this call may be compiled now. */
static bool layer_may_run(const layer_call *c) {
    const clattn_layer_params *p = &c->p.forward;
    struct {
        int64_t of_score[16], numbers[9];
    } of = {{0},
            {-8, p->x.type, c->p.dout.type, c->p.dx.type + 16 * (int64_t)c->p.dwq.type,
             c->with & ~(unsigned)POSITIONS, c->inputs, c->results, p->norm,
             p->heads ? p->wq.shape[0] / p->heads : 0}};
    const clattn_tensor q = {.shape = {p->x.shape[0], p->heads, p->x.shape[1]}};
    fuzz_score_signature(&p->score, &p->rope, of.of_score);
    return p->projection == CLATTN_PROJECTION_NATIVE &&
           fuzz_work(&q, p->y.rank ? p->y.shape[1] : p->x.shape[1], p->wq.shape[0] + p->wv.shape[0]) <=
               FUZZ_MOST_WORK &&
           fuzz_kernel_may_run(&of, sizeof of);
}

static int64_t product(int64_t a, int64_t b) {
    int64_t all = -1;
    return __builtin_mul_overflow(a, b, &all) ? -1 : all;
}

/* Add the forward call without its result. */
static void add_layer(layer_call *c, fuzz_bytes *b, clattn_type type) {
    clattn_layer_params *p = &c->p.forward;
    fuzz_fields *f = &c->f;
    const fuzz_sizes *l = &c->l;
    const unsigned with = c->with, in = c->inputs;
    const int64_t width = 16, of_q = product(l->heads, l->d), of_k = product(l->kv_heads, l->d),
                  norms[2] = {with & WIDTH ? of_q : l->d, with & WIDTH ? of_k : l->d},
                  gates[2] = {with & GATE_ALL ? of_q : l->heads, width},
                  full[4] = {l->batch, l->heads, l->n_q, in & 1 ? l->n_kv : l->n_q};
    *p = (clattn_layer_params){.heads = (int32_t)(uint64_t)l->heads,
                               .kv_heads = (int32_t)(uint64_t)l->kv_heads,
                               .projection = CLATTN_PROJECTION_NATIVE};
    if (with & NORM) p->norm = with & WIDTH ? CLATTN_NORM_WIDTH : CLATTN_NORM_HEADS;
    fuzz_add_view(f, &p->x, type, 3, (int64_t[]){l->batch, l->n_q, width});
    fuzz_add_view(f, &p->wq, type, 2, (int64_t[]){of_q, width});
    fuzz_add_view(f, &p->wk, type, 2, (int64_t[]){of_k, width});
    fuzz_add_view(f, &p->wv, type, 2, (int64_t[]){of_k, width});
    fuzz_add_view(f, &p->wo, type, 2, (int64_t[]){width, of_q});
    if (with & FORWARD) // the forward call ignores it
        c->p.dout = clattn_tensor_dense(fuzz_buffers[PLACES - 2], type, 3, p->x.shape);
    else
        fuzz_add_view(f, &c->p.dout, type, 3, p->x.shape);
    if (l->repeats) fuzz_repeat(f, NULL);
    fuzz_add_optional(f, in & 1, &p->y, type, 3, (int64_t[]){l->batch, l->n_kv, width});
    fuzz_add_optional(f, in & 2, &p->bq, type, 1, &of_q);
    fuzz_add_optional(f, in & 4, &p->bv, type, 1, &of_k);
    fuzz_add_optional(f, in & 8, &p->bo, type, 1, &width);
    fuzz_add_optional(f, in & 16, &p->score.bias, type, 4, full);
    fuzz_add_optional(f, with & NORM, &p->q_norm, type, 1, &norms[0]);
    fuzz_add_optional(f, with & NORM, &p->k_norm, type, 1, &norms[1]);
    fuzz_add_optional(f, with & GATE, &p->w_gate, type, 2, gates);
    fuzz_add_optional(f, with & GATE && in & 2, &p->b_gate, type, 1, gates);
    fuzz_add_int(f, &p->norm), fuzz_add_int(f, &p->precision), fuzz_add_int(f, &p->projection);
    fuzz_add_int(f, &p->heads), fuzz_add_int(f, &p->kv_heads);
    fuzz_add_float(f, &p->norm_epsilon), fuzz_add_bool(f, &p->norm_plus_one);
    fuzz_add_score(f, &p->score, &p->rope);
    p->score.causal = in >> 5 & 1;
    fuzz_add_expressions(f, with & TEXTS ? fuzz_byte(b) : 0, &p->score, full);
    fuzz_add_positions(f, with & POSITIONS ? 1 : 0, &p->rope, l->batch, l->n_q, in & 1 ? l->n_kv : 0);
}

/* Add the outputs: the gradients, or the forward call's result and kept state. The forward call
 * ignores gradients, so one that the planner accepts is set. */
static void add_written(layer_call *c, clattn_type type) {
    clattn_layer_backward_params *p = &c->p;
    clattn_layer_params *in = &p->forward;
    fuzz_fields *f = &c->f;
    int64_t numbers = 0;
    const gradient results[] = {
        {&p->dwq, &in->wq},          {&p->dwk, &in->wk},         {&p->dwv, &in->wv},
        {&p->dwo, &in->wo},          {&p->dx, &in->x},           {&p->dy, &in->y},
        {&p->dbq, &in->bq},          {&p->dbv, &in->bv},         {&p->dbo, &in->bo},
        {&p->dq_norm, &in->q_norm},  {&p->dk_norm, &in->k_norm}, {&p->dw_gate, &in->w_gate},
        {&p->dbias, &in->score.bias}};
    const bool kept =
        (c->with & (KEEP | FORWARD)) != 0 && clattn_layer_kept(fuzz_context, p, &numbers) == CLATTN_OK;
    const int place = fuzz_add_optional(f, kept, &p->kept, CLATTN_TYPE_F32, 1, &numbers);
    if (!(c->with & FORWARD)) {
        add_results(f, results, (int)(sizeof results / sizeof results[0]), c->results, type);
        return;
    }
    f->written |= UINT64_C(1) << place;
    f->written |= UINT64_C(1) << fuzz_add_view(f, &in->out, in->x.type, 3, in->x.shape);
    p->dwo = clattn_tensor_dense(fuzz_buffers[PLACES - 1], CLATTN_TYPE_F32, 2, in->wo.shape);
}

static bool run_layer(layer_call *c) {
    clattn_layer_backward_params *p = &c->p;
    size_t bytes = 0;
    bool right = false;
    const clattn_status status = fuzz_plan(&c->f, ask_layer, p, &bytes, &right);
    if (status == CLATTN_OK && right && !layer_may_run(c)) return true;
    return fuzz_end(&c->f, &c->at,
                    (c->with & FORWARD ? clattn_layer_forward_enqueue : clattn_layer_backward_enqueue)(
                        fuzz_context, c->at.queue, p, c->at.wait_count, c->at.wait_list, c->at.to),
                    right && !c->at.wrong);
}

bool fuzz_layer_backward(fuzz_bytes *b) {
    layer_call c = {.l = fuzz_letters(b), .f = {.workspace = &c.p.workspace}};
    const clattn_type type = fuzz_float_type(b), to = fuzz_float_type(b);
    c.with = fuzz_byte(b) & fuzz_byte(b), c.inputs = fuzz_byte(b) & fuzz_byte(b);
    c.results = fuzz_byte(b) | 256u * fuzz_byte(b);
    c.f.required = c.with & FORWARD ? 5 : 6;
    fuzz_launch_choose(&c.at, b);
    add_layer(&c, b, type);
    add_written(&c, to);
    fuzz_change_all(&c.f, b);
    fuzz_add_arrays(&c.f, b, c.p.forward.x.shape[0], c.p.forward.heads);
    fuzz_fill(&c.p.forward.rope.positions, b, false), fuzz_fill(&c.p.forward.rope.k_positions, b, false);
    const bool done = run_layer(&c);
    fuzz_free(&c.f);
    return done;
}
