// score_options.c: see score_options.h.
#include "tool/score_options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load.h"

enum {
    SCORE_SCALE = 100,
    SCORE_SOFTCAP,
    SCORE_CAUSAL,
    SCORE_OFFSET,
    SCORE_ALIGN,
    SCORE_WINDOW,
    SCORE_MASK,
    SCORE_BIAS,
    SCORE_ALIBI,
    SCORE_SINKS,
    SCORE_Q_LENGTHS,
    SCORE_KV_LENGTHS,
    SCORE_MOD,
    SCORE_KERNEL,
    SCORE_SPLITS,
    SCORE_DROPOUT,
    SCORE_SEED
};

static const char *const causal_names[] = {"none", "top-left", "bottom-right", "offset", NULL};
static const char *const align_names[] = {"top-left", "bottom-right", "offset", NULL};
static const char *const kernel_names[] = {"auto", "unfused", "flash", "decode", NULL};

static bool take_float(const char *value, float *result, char why[256]) {
    double x = 0.0;
    if (!option_number(value, &x, why)) return false;
    *result = (float)x;
    return true;
}

static bool take_window(clattn_attention_params *p, const char *value, char why[256]) {
    int left, right, end = 0;
    if (sscanf(value, "%d,%d%n", &left, &right, &end) != 2 || value[end] || left < -1 || right < -1) {
        snprintf(why, 256, "two numbers L,R are needed, -1 for an open side");
        return false;
    }
    p->window = true;
    p->window_left = left;
    p->window_right = right;
    return true;
}

static bool take_number_option(score_options *o, int id, const char *value, char why[256]) {
    clattn_attention_params *p = &o->params;
    int64_t n = 0;
    int index = 0;
    switch (id) {
    case SCORE_SCALE:
        return take_float(value, &p->scale, why);
    case SCORE_SOFTCAP:
        return take_float(value, &p->softcap, why);
    case SCORE_WINDOW:
        return take_window(p, value, why);
    case SCORE_DROPOUT:
        return take_float(value, &p->dropout, why);
    case SCORE_SEED:
        if (!option_integer(value, 0, INT64_MAX, &n, why)) return false;
        p->dropout_seed = (uint64_t)n;
        return true;
    case SCORE_SPLITS:
        if (!option_integer(value, 0, 65536, &n, why)) return false;
        p->splits = (int32_t)n;
        return true;
    default:
        if (!option_choice(value, kernel_names, &index, why)) return false;
        p->kernel = (clattn_kernel)index;
        return true;
    }
}

static bool take_score(void *target, int id, const char *value, char why[256]) {
    score_options *o = target;
    int index;
    switch (id) {
    case SCORE_CAUSAL:
        o->causal = value;
        return option_choice(value, causal_names, &index, why);
    case SCORE_ALIGN:
        o->align = value;
        return option_choice(value, align_names, &index, why);
    case SCORE_OFFSET:
        o->offset = value;
        return true;
    case SCORE_MASK:
        o->mask = value;
        return true;
    case SCORE_BIAS:
        o->bias = value;
        return true;
    case SCORE_ALIBI:
        o->alibi = value;
        return true;
    case SCORE_SINKS:
        o->sinks = value;
        return true;
    case SCORE_Q_LENGTHS:
        o->q_lengths = value;
        return true;
    case SCORE_KV_LENGTHS:
        o->kv_lengths = value;
        return true;
    case SCORE_MOD:
        o->params.score_mod = value;
        return true;
    default:
        return take_number_option(o, id, value, why);
    }
}

option_group score_group(score_options *o) {
    static const option_row rows[] = {
        {"scale", "X", SCORE_SCALE, "factor of the scores; default 1/sqrt(D)"},
        {"softcap", "X", SCORE_SOFTCAP, "s = X tanh(s / X), before bias and masks"},
        {"causal", "MODE", SCORE_CAUSAL, "none, top-left, bottom-right or offset"},
        {"offset", "N|FILE", SCORE_OFFSET, "position of row 0 among the keys: one integer, or [B] in a file"},
        {"align", "MODE", SCORE_ALIGN,
         "top-left, bottom-right or offset where --causal is none (window, ALiBi)"},
        {"window", "L,R", SCORE_WINDOW, "keys from position - L to position + R; -1 is open"},
        {"mask", "FILE", SCORE_MASK,
         "bool, true keeps: [Nkv], [Nq,Nkv], [H,Nq,Nkv] or [B,H,Nq,Nkv]; a size of 1 repeats"},
        {"bias", "FILE", SCORE_BIAS, "float, added to the scores; shapes as --mask"},
        {"alibi", "FILE", SCORE_ALIBI, "[H] slopes"},
        {"sinks", "FILE", SCORE_SINKS, "[H] sink logits"},
        {"q-lengths", "FILE", SCORE_Q_LENGTHS, "[B] valid query rows"},
        {"kv-lengths", "FILE", SCORE_KV_LENGTHS, "[B] valid keys"},
        {"score-mod", "EXPR", SCORE_MOD, "OpenCL C over score, b, h, i, j (not built yet)"},
        {"kernel", "NAME", SCORE_KERNEL, "auto, unfused, flash or decode"},
        {"splits", "N", SCORE_SPLITS, "key ranges of the decode kernel"},
        {"dropout", "P", SCORE_DROPOUT, "dropout probability (not built yet)"},
        {"seed", "S", SCORE_SEED, "seed of the dropout"},
    };
    return (option_group){"scores and masks", rows, sizeof rows / sizeof rows[0], take_score, o};
}

static int choose_alignment(const char *command, score_options *o) {
    clattn_attention_params *p = &o->params;
    char why[256];
    int causal = 0, align = 0;
    if (o->causal) option_choice(o->causal, causal_names, &causal, why);
    if (o->align) option_choice(o->align, align_names, &align, why);
    if (causal && o->align)
        return tool_wrong(command, "--align: is for --causal none; --causal %s says it already", o->causal);
    p->causal = causal != 0;
    p->alignment = (clattn_alignment)(causal ? causal - 1 : align);
    if (o->offset && p->alignment != CLATTN_ALIGN_OFFSET)
        return tool_wrong(command, "--offset: needs --causal offset or --align offset");
    if (!o->offset && p->alignment == CLATTN_ALIGN_OFFSET)
        return tool_wrong(command, "--%s offset: needs --offset N or --offset FILE",
                          causal ? "causal" : "align");
    return -1;
}

// [count] integers from i4 or i8.
int score_options_integers(const char *command, const char *option, const char *spec, int64_t count,
                           int32_t **result) {
    array a;
    if (!spec) return -1;
    int status = tensors_load(command, option, spec, 1, &a);
    if (status >= 0) return status;
    if ((a.type != ARRAY_I32 && a.type != ARRAY_I64) || a.shape[0] != count)
        status = tool_wrong(command, "--%s: holds %s of size %lld: i32 or i64 of size %lld is needed", option,
                            array_type_name(a.type), (long long)a.shape[0], (long long)count);
    else if (!(*result = calloc((size_t)count + 1, sizeof **result)))
        status = tool_failed(command, "no memory");
    for (int64_t i = 0; status < 0 && i < count; i++) {
        const int64_t x = a.type == ARRAY_I64 ? ((const int64_t *)a.data)[i] : ((const int32_t *)a.data)[i];
        if (x > INT32_MAX || x < INT32_MIN)
            status = tool_wrong(command, "--%s: item %lld is %lld: must fit 32 bits", option, (long long)i,
                                (long long)x);
        (*result)[i] = (int32_t)x;
    }
    array_free(&a);
    return status;
}

static int load_floats(const char *command, const char *option, const char *spec, int64_t count,
                       float **result) {
    array a;
    if (!spec) return -1;
    int status = tensors_load(command, option, spec, 1, &a);
    if (status >= 0) return status;
    if ((a.type != ARRAY_F32 && a.type != ARRAY_F16 && a.type != ARRAY_BF16) || a.shape[0] != count)
        status = tool_wrong(command, "--%s: holds %s of size %lld: floats of size H = %lld are needed",
                            option, array_type_name(a.type), (long long)a.shape[0], (long long)count);
    else if (!array_to_f32(&a, result))
        status = tool_failed(command, "no memory");
    array_free(&a);
    return status;
}

static int load_offset(const char *command, score_options *o, int64_t batch) {
    char why[256];
    int64_t n;
    if (!o->offset) return -1;
    if (option_integer(o->offset, INT32_MIN, INT32_MAX, &n, why)) {
        o->params.offset = (int32_t)n;
        return -1;
    }
    return score_options_integers(command, "offset", o->offset, batch, &o->offsets);
}

int score_options_load(const char *command, score_options *o, int64_t batch, int64_t heads) {
    int status = choose_alignment(command, o);
    if (status < 0) status = load_offset(command, o, batch);
    if (status < 0) status = score_options_integers(command, "q-lengths", o->q_lengths, batch, &o->q_length);
    if (status < 0)
        status = score_options_integers(command, "kv-lengths", o->kv_lengths, batch, &o->kv_length);
    if (status < 0) status = load_floats(command, "alibi", o->alibi, heads, &o->slopes);
    if (status < 0) status = load_floats(command, "sinks", o->sinks, heads, &o->sink);
    if (status < 0 && o->mask) status = tensors_load(command, "mask", o->mask, -1, &o->mask_array);
    if (status < 0 && o->bias) status = tensors_load(command, "bias", o->bias, -1, &o->bias_array);
    if (status >= 0) return status;
    if (o->mask && o->mask_array.type != ARRAY_BOOL)
        return tool_wrong(command, "--mask: holds %s: bool is needed (true keeps)",
                          array_type_name(o->mask_array.type));
    if (o->bias && o->bias_array.type == ARRAY_BOOL)
        return tool_wrong(command, "--bias: holds bool: floats are needed; --mask takes a boolean mask");
    return -1;
}

int score_options_upload(score_options *o, tensors *t) {
    clattn_attention_params *p = &o->params;
    int status = -1;
    p->offsets = o->offsets;
    p->q_lengths = o->q_length;
    p->kv_lengths = o->kv_length;
    p->alibi_slopes = o->slopes;
    p->sinks = o->sink;
    if (o->mask) status = tensors_upload(t, &o->mask_array, &p->mask);
    if (status < 0 && o->bias) status = tensors_upload(t, &o->bias_array, &p->bias);
    return status;
}

void score_options_free(score_options *o) {
    array_free(&o->mask_array);
    array_free(&o->bias_array);
    free(o->offsets);
    free(o->q_length);
    free(o->kv_length);
    free(o->slopes);
    free(o->sink);
}
