// mods.c: see mods.h.
#include "attention/mods/mods.h"

#include <stdio.h>
#include <string.h>

#include "attention/mods/mod_scalar.h"
#include "attention/mods/mod_vector.h"
#include "attention/mods/mods_kept.h"
#include "attention/call/tensor.h"
#include "base/host.h"

#define put cla_mod_form_put

// The texts of a call, one per function, in the order in which they are written.
enum { OF_SCORE, OF_MASK, OF_GRADIENT, TEXTS };

static const struct {
    // `load`: a format with the buffer's number. `vector`, `loads`: the same for a vector of
    // adjacent elements.
    const char *element, *result, *load;
    const char *vector, *loads;
} types[CLATTN_TYPE_COUNT] = {
    [CLATTN_TYPE_F32] = {"ELEMENT(0)", "float", "LOAD(0, m->b%d, at)", "VEC", "LOAD_LANES(0, m->b%d, at)"},
    [CLATTN_TYPE_F16] = {"ELEMENT(1)", "float", "LOAD(1, m->b%d, at)", "VEC", "LOAD_LANES(1, m->b%d, at)"},
    [CLATTN_TYPE_BF16] = {"ELEMENT(2)", "float", "LOAD(2, m->b%d, at)", "VEC", "LOAD_LANES(2, m->b%d, at)"},
    [CLATTN_TYPE_BOOL] = {"uchar", "int", "m->b%d[at] != 0", "VEC_INT",
                          "-(TO_VEC_INT(VLOAD(0, m->b%d + at)) != (VEC_INT)(0))"},
    [CLATTN_TYPE_I8] = {"char", "int", "m->b%d[at]", "VEC_INT", "TO_VEC_INT(VLOAD(0, m->b%d + at))"},
    [CLATTN_TYPE_I32] = {"int", "int", "m->b%d[at]", "VEC_INT", "VLOAD(0, m->b%d + at)"},
};

// Write the kernel arguments for the buffers, and the struct that holds them.
static void put_arguments(mod_form *w, const mod_text *t) {
    put(w, "\n#define MOD_ARGUMENTS");
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++)
        if (t->buffers[n].rank) put(w, ", __global const %s *mod%d", types[t->buffers[n].type].element, n);
    put(w, ", const mod_args mods\n#define MOD_CALL {&mods");
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++)
        if (t->buffers[n].rank) put(w, ", mod%d", n);
    put(w, "}\ntypedef struct mod_call {\n    const mod_args *args;\n");
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++)
        if (t->buffers[n].rank) put(w, "    __global const %s *b%d;\n", types[t->buffers[n].type].element, n);
    put(w, "} mod_call;\n");
}

// Write bufferN(x0, x1, ...), with as many arguments as the buffer has axes.
static void put_reader(mod_form *w, const mod_text *t, int n) {
    static const char *const taken[] = {"x0", "x0, x1", "x0, x1, x2", "x0, x1, x2, x3"},
                             *const given[] = {"x0, 0, 0, 0", "x0, x1, 0, 0", "x0, x1, x2, 0",
                                               "x0, x1, x2, x3"};
    const int rank = t->buffers[n].rank;
    if (!rank) return;
    put(w, "%s mod_read%d(const mod_call *m, int x0, int x1, int x2, int x3) {\n",
        types[t->buffers[n].type].result, n);
    put(w, "    const long at = mod_element%d(&m->args->buffer[%d], x0, x1, x2, x3);\n    return ", rank, n);
    put(w, types[t->buffers[n].type].load, n);
    put(w, ";\n}\n#define buffer%d(%s) mod_read%d(clattn_call, %s)\n", n, taken[rank - 1], n,
        given[rank - 1]);
}

// Write mod_runN for adjacent elements along an axis, and mod_gatherN for arbitrary ones.
static void put_vector_reader(mod_form *w, const mod_text *t, int n) {
    const int rank = t->buffers[n].rank;
    if (!rank) return;
    const char *const vector = types[t->buffers[n].type].vector;
    put(w, "%s mod_gather%d(const mod_call *m, VEC_INT x0, VEC_INT x1, VEC_INT x2, VEC_INT x3) {\n", vector,
        n);
    put(w,
        "    MOD_RETURN_EACH_LANE(%s, mod_read%d(m, MOD_LANE(x0), MOD_LANE(x1), MOD_LANE(x2), "
        "MOD_LANE(x3)))\n}\n",
        types[t->buffers[n].type].result, n);
    put(w, "%s mod_run%d(const mod_call *m, int x0, int x1, int x2, int x3, const int axis) {\n", vector, n);
    put(w,
        "    if (mod_is_run(&m->args->buffer[%d], axis, axis == 0 ? x0 : axis == 1 ? x1 : axis == 2 ? x2 : "
        "x3)) {\n",
        n);
    put(w, "        const long at = mod_element%d(&m->args->buffer[%d], x0, x1, x2, x3);\n        return ",
        rank, n);
    put(w, types[t->buffers[n].type].loads, n);
    put(w, ";\n    }\n    const VEC_INT y = lane_numbers(), none = (VEC_INT)(0);\n    return mod_gather%d(m",
        n);
    for (int x = 0; x < 4; x++)
        put(w, ", AS_VEC_INT((VEC_UINT)((uint)x%d) + AS_VEC_UINT(axis == %d ? y : none))", x, x);
    put(w, ");\n}\n");
}

// Write the functions that kernels with MOD_LANES use instead of the scalar ones.
static void put_vectors(mod_form *w, const mod_text *t, char *forms[TEXTS][MOD_LANES_MOST]) {
    static const char *const names[TEXTS] = {"SCORE", "MASK", "GRADIENT"};
    if (!forms[OF_SCORE][0] && !forms[OF_MASK][0] && !forms[OF_GRADIENT][0]) return;
    put(w, "#if MOD_LANES && !" PROGRAM_PLAIN "\n");
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) put_vector_reader(w, t, n);
    for (int lanes = 1; lanes <= MOD_LANES_MOST; lanes++) {
        put(w, "#if MOD_LANES == %d\n", lanes);
        for (int n = 0; n < TEXTS; n++)
            if (forms[n][lanes - 1]) put(w, "#define MOD_%s_LANES 1\n%s", names[n], forms[n][lanes - 1]);
        put(w, "#endif\n");
    }
    put(w, "#endif\n");
}

// The caller's text starts in column 1 of a #line of its own, so that compiler errors show its line
// and column.
static void put_function(mod_form *w, const char *type, const char *name, const char *first, const char *text,
                         const char *without) {
    put(w, "%s own_%s(%sint b, int h, int i, int j, int row, int q_length, int kv_length,\n", type, name,
        first);
    // Round products and sums separately, so that scalar and vector forms agree. A text with fma is
    // exempt, because lanes.clh may build fma from a contracted product and sum.
    put(w, "    const mod_call *clattn_call) {\n%s    return (%s)(\n",
        text && strstr(text, "fma") ? "" : "#pragma OPENCL FP_CONTRACT OFF\n", type);
    if (text)
        put(w, "#line 1 \"%s\"\n%s\n", name, text);
    else
        put(w, "%s\n", without);
    put(w, ");\n}\n");
}

static void write_text(const mod_text *t, mod_form *w, const char *needs, char *const scalars[TEXTS],
                       char *forms[TEXTS][MOD_LANES_MOST]) {
    put_arguments(w, t);
    put(w, "%s", needs);
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) put_reader(w, t, n);
    put_function(w, "float", "score_mod", "float score, ", scalars[OF_SCORE], "score");
    put_function(w, "bool", "mask_mod", "", scalars[OF_MASK], "true");
    if (scalars[OF_GRADIENT])
        put_function(w, "float", "score_mod_gradient", "float score, ", scalars[OF_GRADIENT], "1.0f");
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) put(w, "#undef buffer%d\n", n);
    put(w, "#line 1 \"mods.clh\"\n");
    put_vectors(w, t, forms);
}

static mod_source source_of(const clattn_context *c, const mod_text *t, int which) {
    static const char *const names[TEXTS] = {"score_mod", "mask_mod", "score_mod_gradient"};
    const char *const texts[TEXTS] = {t->score, t->mask, t->gradient};
    mod_source s = {.text = texts[which],
                    .name = names[which],
                    .is_mask = which == OF_MASK,
                    .is_gradient = which == OF_GRADIENT,
                    .checked = !c->mods_unchecked};
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++)
        s.buffers[n].rank = t->buffers[n].rank, s.buffers[n].type = t->buffers[n].type;
    return s;
}

// Make the scalar form of a text, and its vector forms: for all kinds of lanes, or for none. False:
// no memory.
static bool make_forms(const clattn_context *c, mod_text *t, int which, char **scalar, mod_form *needs,
                       char *forms[MOD_LANES_MOST]) {
    const mod_source s = source_of(c, t, which);
    if (!s.text) return true;
    *scalar = cla_mod_scalar(&c->host, &s, needs);
    if (!*scalar) return false;
    for (int lanes = 1; lanes <= MOD_LANES_MOST && !t->why[which][0]; lanes++) {
        forms[lanes - 1] = cla_mod_vector(&c->host, &s, lanes, t->why[which]);
        if (!forms[lanes - 1] && !t->why[which][0]) return false;
    }
    for (int lanes = 0; t->why[which][0] && lanes < MOD_LANES_MOST; lanes++)
        cla_host_release(&c->host, forms[lanes]), forms[lanes] = NULL;
    return true;
}

// False: no memory.
static bool make_inserted(const clattn_context *c, mod_text *t) {
    char *scalars[TEXTS] = {NULL}, *forms[TEXTS][MOD_LANES_MOST] = {{NULL}};
    mod_form needs = {.host = &c->host, .at = cla_host_take_zeroed(&c->host, 1, 64), .room = 64},
             w = {.host = &c->host, .room = 16384};
    bool ok = needs.at != NULL;
    for (int n = 0; ok && n < TEXTS; n++) ok = make_forms(c, t, n, &scalars[n], &needs, forms[n]) && needs.at;
    w.at = ok ? cla_host_take(&c->host, w.room) : NULL;
    if (w.at) write_text(t, &w, needs.at, scalars, forms);
    t->inserted = w.at;
    for (int n = 0; n < TEXTS * MOD_LANES_MOST; n++)
        cla_host_release(&c->host, forms[n / MOD_LANES_MOST][n % MOD_LANES_MOST]);
    for (int n = 0; n < TEXTS; n++) cla_host_release(&c->host, scalars[n]);
    cla_host_release(&c->host, needs.at);
    return w.at != NULL;
}

static clattn_status create(clattn_context *c, const clattn_score *s, const char *gradient, bool derived,
                            mod_text **made) {
    bool ok = true;
    mod_text *t = *made = cla_host_take_zeroed(&c->host, 1, sizeof *t);
    if (t) {
        t->score = cla_text_copy(&c->host, s->score_mod, &ok);
        t->mask = cla_text_copy(&c->host, s->mask_mod, &ok);
        t->gradient = cla_text_copy(&c->host, gradient, &ok);
    }
    if (!t || !ok) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "score_mod: no host memory for its text");
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) {
        if (!cla_tensor_given(&s->mod_buffers[n])) continue;
        t->buffers[n].rank = s->mod_buffers[n].rank;
        t->buffers[n].type = s->mod_buffers[n].type;
    }
    t->derived = derived;
    for (int n = 0; n < TEXTS; n++) {
        const mod_source score = source_of(c, t, OF_SCORE);
        if (n == OF_GRADIENT && derived) TRY(cla_mods_derive(c, &score, &t->gradient));
        const mod_source source = source_of(c, t, n);
        if (source.text) TRY(cla_mods_check_text(c, &source));
    }
    if (make_inserted(c, t)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "score_mod: no host memory for its text");
}

static void tell_found(const mod_text *t, mods_found *found) {
    found->inserted = t->inserted;
    memcpy(found->lane_by_lane, t->why, sizeof found->lane_by_lane);
}

static clattn_status find(clattn_context *context, const clattn_score *score, const char *gradient,
                          bool derived, mods_found *found) {
    *found = (mods_found){.inserted = NULL};
    if (!score->score_mod && !score->mask_mod) return CLATTN_OK;
    cla_os_mutex_lock(&context->program_lock);
    mod_text *t = cla_mods_find_text(context, score, gradient, derived);
    if (t) tell_found(t, found);
    cla_os_mutex_unlock(&context->program_lock);
    if (t) return CLATTN_OK;
    const clattn_status status = create(context, score, gradient, derived, &t);
    if (status == CLATTN_OK) {
        tell_found(t, found);
        cla_mods_keep(context, t); // another thread may have added the same text; both are valid
    } else if (t) {
        cla_mods_release_text(context, t);
    }
    return status;
}

clattn_status cla_mods_find(clattn_context *context, const clattn_score *score, mods_found *found) {
    return find(context, score, NULL, false, found);
}

clattn_status cla_mods_find_gradient(clattn_context *context, const clattn_score *score, const char *gradient,
                                     mods_found *found) {
    if (gradient && !score->score_mod)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "score_mod_gradient: is there for score_mod, which is not given");
    return find(context, score, gradient, score->score_mod && !gradient, found);
}

mod_args cla_mods_arguments(const clattn_score *score) {
    mod_args a = {0};
    if (!score->score_mod && !score->mask_mod) return a;
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) {
        const clattn_tensor *t = &score->mod_buffers[n];
        if (!cla_tensor_given(t)) continue;
        a.buffer[n].offset = t->offset;
        for (int x = 0; x < 4; x++) {
            const int64_t size = x < t->rank ? t->shape[x] : 1;
            a.buffer[n].size[x] = size < INT32_MAX ? (int32_t)size : INT32_MAX;
            a.buffer[n].stride[x] = x < t->rank ? t->stride[x] : 0;
        }
    }
    return a;
}

void cla_mods_set(const clattn_score *score, int score_ops, const mod_args *args, launch *l) {
    if (!(score_ops & ARGS_MODS)) return;
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++)
        if (cla_tensor_given(&score->mod_buffers[n])) cla_launch_buffer(l, &score->mod_buffers[n].buffer);
    cla_launch_value(l, args, sizeof *args);
}
