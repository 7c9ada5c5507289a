// model_rope.c: read a layer's RoPE from config.json: rope_parameters, rope_scaling and the keys
// beside them. Precedence and numbers are those of transformers' configurations and RoPE functions.
#include <math.h>

#include "cli/layer/kinds.h"

// The RoPE of one layer: an object that contains every default.
typedef struct rope_reader {
    const model_reader *r;
    json_t *rope;
    model *m;
    double longest; // max_position_embeddings
} rope_reader;

// Keys of the object that transformers knows, and `finetuned`, a remark in published files. Each
// type reads only some keys.
static const char *const known[] = {"rope_type",
                                    "type",
                                    "rope_theta",
                                    "factor",
                                    "beta_fast",
                                    "original_max_position_embeddings",
                                    "beta_slow",
                                    "truncate",
                                    "attention_factor",
                                    "mscale",
                                    "short_factor",
                                    "low_freq_factor",
                                    "mscale_all_dim",
                                    "long_factor",
                                    "high_freq_factor",
                                    "finetuned",
                                    "partial_rotary_factor"};

static int wrong(const rope_reader *o, const char *key, const char *what) {
    return model_wrong(o->r, o->rope, key, what);
}

static int check_known(const rope_reader *o) {
    const char *key;
    json_t *value;
    json_object_foreach(o->rope, key, value) {
        bool is_known = json_is_null(value);
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || !strcmp(key, known[i]);
        if (!is_known) return wrong(o, key, "RoPE with this key is not known");
    }
    return -1;
}

// Read a required number of at least `least`.
static int number(const rope_reader *o, const char *key, double least, double *x) {
    const json_t *value = json_object_get(o->rope, key);
    char what[48];
    *x = json_number_value(value);
    if (json_is_number(value) && *x >= least && *x < 1e300) return -1;
    snprintf(what, sizeof what, "a number from %g is needed", least);
    return wrong(o, key, what);
}

// Read a number above 0; absent or null becomes 0.
static int optional(const rope_reader *o, const char *key, double *x) {
    const json_t *value = json_object_get(o->rope, key);
    *x = 0.0;
    return !value || json_is_null(value) ? -1 : number(o, key, 1e-6, x);
}

// As `optional`; 0 also selects the default.
static int optional_zero(const rope_reader *o, const char *key, double *x) {
    const json_t *value = json_object_get(o->rope, key);
    *x = 0.0;
    return json_is_number(value) && json_number_value(value) == 0.0 ? -1 : optional(o, key, x);
}

// Read `factor`. If null, or absent and not `needed`, it is the ratio of the two lengths.
static int factor_of(const rope_reader *o, bool needed, double *factor) {
    const json_t *value = json_object_get(o->rope, "factor");
    *factor = o->longest / o->m->rope.original_length;
    if (json_is_null(value) || (!value && !needed)) return -1;
    return number(o, "factor", needed ? 1.0 : 1e-6, factor);
}

static int read_linear(const rope_reader *o) {
    return number(o, "factor", 1.0, &o->m->rope.factor);
}

static int read_dynamic(const rope_reader *o) {
    o->m->rope.original_length = o->longest;
    return number(o, "factor", 1.0, &o->m->rope.factor);
}

static int read_llama3(const rope_reader *o) {
    clattn_rope *rope = &o->m->rope;
    int status = number(o, "factor", 1.0, &rope->factor);
    if (status < 0) status = number(o, "low_freq_factor", 1e-6, &rope->low_factor);
    if (status < 0) status = number(o, "high_freq_factor", 1e-6, &rope->high_factor);
    if (status < 0 && rope->high_factor <= rope->low_factor)
        status = wrong(o, "high_freq_factor", "a number above low_freq_factor is needed");
    return status;
}

static double yarn_scale(double factor, double m) {
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

// Read the two numbers that DeepSeek's files have instead of attention_factor.
static int read_scales(const rope_reader *o) {
    double m = 0.0, all = 0.0;
    int status = optional_zero(o, "mscale", &m);
    if (status < 0) status = optional_zero(o, "mscale_all_dim", &all);
    if (status < 0 && m > 0.0 && all > 0.0)
        o->m->rope.attention_factor = yarn_scale(o->m->rope.factor, m) / yarn_scale(o->m->rope.factor, all);
    return status;
}

static int read_yarn(const rope_reader *o) {
    clattn_rope *rope = &o->m->rope;
    const json_t *truncate = json_object_get(o->rope, "truncate");
    int status = factor_of(o, true, &rope->factor);
    if (status < 0 && !(rope->factor >= 1.0)) status = wrong(o, "factor", "a factor from 1 is needed");
    if (status < 0) status = optional(o, "attention_factor", &rope->attention_factor);
    if (status < 0 && rope->attention_factor == 0.0) status = read_scales(o);
    if (status < 0) status = optional_zero(o, "beta_fast", &rope->beta_fast);
    if (status < 0) status = optional_zero(o, "beta_slow", &rope->beta_slow);
    if (status >= 0) return status;
    if ((rope->beta_fast > 0.0 ? rope->beta_fast : 32.0) <= (rope->beta_slow > 0.0 ? rope->beta_slow : 1.0))
        return wrong(o, "beta_fast", "a number above beta_slow is needed");
    if (rope->base <= 1.0) return wrong(o, "rope_theta", "a number above 1 is needed for yarn");
    if (truncate && !json_is_boolean(truncate) && !json_is_null(truncate))
        return wrong(o, "truncate", "true or false is needed");
    rope->untruncated = truncate && !json_is_true(truncate);
    if (rope->untruncated && (o->r->kind->has & PER_LAYER_ROPE))
        return wrong(o, "truncate", "true is needed where each type of layer has its own RoPE");
    return -1;
}

static int pairs_of(const model *m) {
    return (m->rope.rotary_dim ? m->rope.rotary_dim : m->head_dim) / 2;
}

static int make_pairs(model *m) {
    m->rope.scaling = CLATTN_ROPE_SCALING_PAIRS;
    m->rope.pairs = pairs_of(m);
    m->rope.pair_factors = m->pair_factors = calloc((size_t)m->rope.pairs * 2, sizeof *m->pair_factors);
    return m->pair_factors ? -1 : tool_failed("no memory");
}

static int read_factors(const rope_reader *o, const char *key, float *factors) {
    const json_t *list = json_object_get(o->rope, key);
    const int pairs = o->m->rope.pairs;
    char what[64];
    bool fits = json_is_array(list) && json_array_size(list) == (size_t)pairs;
    for (int d = 0; fits && d < pairs; d++) {
        const json_t *x = json_array_get(list, (size_t)d);
        factors[d] = (float)json_number_value(x);
        fits = json_is_number(x) && factors[d] >= 0.25f && factors[d] < 1e30f;
    }
    snprintf(what, sizeof what, "a list of %d numbers from 0.25 is needed", pairs);
    return fits ? -1 : wrong(o, key, what);
}

static int read_longrope(const rope_reader *o) {
    clattn_rope *rope = &o->m->rope;
    const double original = rope->original_length;
    double factor = 0.0;
    int status = factor_of(o, false, &factor);
    if (status < 0) status = optional(o, "attention_factor", &rope->attention_factor);
    if (status < 0 && rope->attention_factor == 0.0 && factor > 1.0) {
        if (!(original > 1.0))
            return wrong(o, "original_max_position_embeddings", "a number above 1 is needed");
        rope->attention_factor = sqrt(1.0 + log(factor) / log(original));
    }
    if (status < 0) status = make_pairs(o->m);
    if (status < 0) status = read_factors(o, "short_factor", o->m->pair_factors);
    if (status < 0) status = read_factors(o, "long_factor", o->m->pair_factors + rope->pairs);
    o->m->short_length = original, rope->original_length = 0.0;
    return status;
}

// Proportional RoPE: the first pairs of the head are rotated with its frequencies, and the other
// pairs are not rotated.
static int read_proportional(const rope_reader *o) {
    model *m = o->m;
    double part = 1.0, factor = 1.0;
    int status = -1;
    if (json_object_get(o->rope, "partial_rotary_factor"))
        status = number(o, "partial_rotary_factor", 1e-6, &part);
    if (status < 0 && json_object_get(o->rope, "factor")) status = number(o, "factor", 0.25, &factor);
    if (status < 0 && (part > 1.0 || ((o->r->kind->has & HAS_PART) && part < 1.0)))
        status = wrong(o, "partial_rotary_factor", "a proportional RoPE of this type of model needs 1");
    if (status < 0) status = make_pairs(m);
    for (int d = 0; status < 0 && d < m->rope.pairs; d++)
        m->pair_factors[d] = m->pair_factors[d + m->rope.pairs] =
            d < (int)floor(part * m->head_dim / 2.0) ? (float)factor : INFINITY;
    m->short_length = INFINITY;
    return status;
}

static const struct {
    const char *name;
    clattn_rope_scaling scaling;
    bool has_original;
    int (*read)(const rope_reader *o);
} types[] = {{"default", CLATTN_ROPE_SCALING_NONE, false, NULL},
             {"linear", CLATTN_ROPE_SCALING_LINEAR, false, read_linear},
             {"dynamic", CLATTN_ROPE_SCALING_DYNAMIC, false, read_dynamic},
             {"yarn", CLATTN_ROPE_SCALING_YARN, true, read_yarn},
             {"llama3", CLATTN_ROPE_SCALING_LLAMA3, true, read_llama3},
             {"longrope", CLATTN_ROPE_SCALING_PAIRS, true, read_longrope},
             {"proportional", CLATTN_ROPE_SCALING_PAIRS, false, read_proportional}};
enum { DEFAULT, LONG = 5, PROPORTIONAL, TYPES };

// The index in `types`; -1: prints a line.
static int find_type(const rope_reader *o) {
    const bool only_long = (o->r->kind->has & LONGROPE) != 0;
    const char *name = json_string_value(json_object_get(o->rope, "rope_type"));
    if (only_long && name && (!strcmp(name, "su") || !strcmp(name, "yarn"))) name = "longrope";
    for (int i = 0; name && i < TYPES; i++)
        if (!strcmp(name, types[i].name) && (!only_long || i == DEFAULT || i == LONG)) return i;
    wrong(o, "rope_type",
          only_long ? "default and longrope are read for this type of model"
                    : "default, linear, dynamic, yarn, llama3, longrope and proportional are read");
    return -1;
}

// Read the length before scaling. A key beside the object has precedence, unless each type of layer
// has an object.
static int read_original(const rope_reader *o) {
    static const char key[] = "original_max_position_embeddings";
    json_t *beside = json_object_get(o->r->config, key);
    const double fallback = o->r->kind->original > 0.0 ? o->r->kind->original : o->longest;
    if (beside && !(o->r->kind->has & PER_LAYER_ROPE))
        json_object_set(o->rope, key, beside);
    else if (o->r->kind->original > 0.0 || !json_object_get(o->rope, key))
        json_object_set_new(o->rope, key, json_real(fallback));
    return number(o, key, 1.0, &o->m->rope.original_length);
}

// Read the rotary width. Kinds without the key rotate whole heads. For them a part counts only with
// scaling, and then must be 1.
static int read_width(const rope_reader *o, int type) {
    static const char key[] = "partial_rotary_factor";
    double part = 1.0;
    const bool has = (o->r->kind->has & HAS_PART) != 0;
    if (!json_object_get(o->rope, key) || type == PROPORTIONAL || (!has && type == DEFAULT))
        part = 1.0;
    else {
        const int status = number(o, key, 1e-6, &part);
        if (status >= 0) return status;
    }
    const int width = part <= 1.0 ? (int)(part * o->m->head_dim) : 0;
    if (!has && width != o->m->head_dim)
        return wrong(o, key, "a scaled RoPE of this type of model rotates whole heads, and needs 1");
    if (width < 2 || width % 2 || (width < 4 && type != DEFAULT))
        return wrong(o, key, "it must make an even rotary width of the head, from 2, scaled from 4");
    o->m->rope.rotary_dim = width < o->m->head_dim ? width : 0;
    return -1;
}

static int read_longest(rope_reader *o) {
    const json_t *value = json_object_get(o->r->config, "max_position_embeddings");
    o->longest = value ? json_number_value(value) : o->r->kind->longest;
    if ((!value || json_is_integer(value)) && o->longest >= 1.0) return -1;
    return model_wrong(o->r, o->r->config, "max_position_embeddings", "a whole number from 1 is needed");
}

static int read_type(rope_reader *o) {
    const int type = find_type(o);
    if (type < 0) return EXIT_WRONG;
    clattn_rope *rope = &o->m->rope;
    *rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .scaling = types[type].scaling};
    int status = number(o, "rope_theta", 1.0, &rope->base);
    if (status < 0) status = check_known(o);
    if (status < 0) status = read_width(o, type);
    if (status < 0 && type != DEFAULT) status = read_longest(o);
    if (status < 0 && types[type].has_original) status = read_original(o);
    return status < 0 && types[type].read ? types[type].read(o) : status;
}

// Fill in missing keys. rope_theta and partial_rotary_factor: from beside the object, else the
// kind's default. rope_type: from type, else "default".
static void complete(json_t *rope, const model_reader *r, bool local) {
    json_t *base = json_object_get(r->config, local ? "rope_local_base_freq" : "rope_theta"),
           *part = json_object_get(r->config, "partial_rotary_factor"), *type = json_object_get(rope, "type");
    if (!json_object_get(rope, "rope_theta")) {
        if (base)
            json_object_set(rope, "rope_theta", base);
        else
            json_object_set_new(rope, "rope_theta", json_real(local ? r->kind->local_base : r->kind->base));
    }
    if (!json_object_get(rope, "partial_rotary_factor")) {
        if (part && (!json_is_null(part) || (r->kind->has & HAS_PART)))
            json_object_set(rope, "partial_rotary_factor", part);
        else if (r->kind->has & HAS_PART)
            json_object_set_new(rope, "partial_rotary_factor", json_real(r->kind->part));
    }
    if (json_object_get(rope, "rope_type")) return;
    if (type)
        json_object_set(rope, "rope_type", type);
    else
        json_object_set_new(rope, "rope_type", json_string("default"));
}

// Copy an object; an empty one for anything else.
static json_t *copy_of(const json_t *object) {
    return json_is_object(object) ? json_copy((json_t *)(uintptr_t)object) : json_object();
}

// rope_scaling has precedence over rope_parameters if it is not empty.
static json_t *flat_object(const model_reader *r) {
    const json_t *scaling = json_object_get(r->config, "rope_scaling"),
                 *parameters = json_object_get(r->config, "rope_parameters");
    if (json_object_size(scaling) > 0) return copy_of(scaling);
    if (!json_is_object(parameters) && r->kind->rope) return json_loads(r->kind->rope, 0, NULL);
    return copy_of(parameters);
}

// The object of one type of layer. rope_scaling applies to the layers without a window. Without
// rope_parameters, only rope_type names the type.
static json_t *object_of_type(const model_reader *r, bool sliding) {
    const char *name = sliding ? "sliding_attention" : "full_attention";
    json_t *parameters = json_object_get(r->config, "rope_parameters"),
           *scaling = json_object_get(r->config, "rope_scaling"),
           *rope = copy_of(json_object_get(parameters, name));
    if (!json_is_object(parameters)) json_object_set_new(rope, "rope_type", json_string("default"));
    if (!sliding && scaling) json_object_update(rope, scaling);
    return rope;
}

static bool same(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b) == 1;
}

// Check rope_parameters without objects for types of layers: transformers ignores its values, so
// they must equal those of the layers without a window.
static int check_flat(const model_reader *r, const json_t *full) {
    const json_t *parameters = json_object_get(r->config, "rope_parameters"),
                 *type = json_object_get(json_object_get(r->config, "rope_scaling"), "type");
    if (type && !same(type, json_object_get(full, "rope_type")) &&
        !json_object_get(json_object_get(r->config, "rope_scaling"), "rope_type"))
        return model_wrong(r, json_object_get(r->config, "rope_scaling"), "type",
                           "rope_scaling of this type of model names its type rope_type");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
        const bool of_type = !strcmp(key, "full_attention") || !strcmp(key, "sliding_attention");
        if (of_type && !json_is_object(value) && !json_is_null(value))
            return model_wrong(r, parameters, key, "an object is needed");
        if (!of_type && !json_is_null(value) && !same(value, json_object_get(full, key)))
            return model_wrong(r, parameters, key,
                               "rope_parameters of this type of model are those of full_attention and of "
                               "sliding_attention");
    }
    return -1;
}

int model_rope_read(const model_reader *r, bool sliding, model *m) {
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    const bool by_type = (r->kind->has & PER_LAYER_ROPE) != 0;
    int status = -1;
    for (int i = 0; i < 2; i++) {
        const json_t *value = json_object_get(r->config, places[i]);
        if (value && !json_is_object(value) && !json_is_null(value))
            return model_wrong(r, r->config, places[i], "an object is needed");
    }
    if (by_type) {
        json_t *full = object_of_type(r, false);
        complete(full, r, false);
        status = check_flat(r, full);
        json_decref(full);
    }
    rope_reader o = {.r = r, .m = m, .rope = by_type ? object_of_type(r, sliding) : flat_object(r)};
    complete(o.rope, r, by_type && sliding);
    if (status < 0) status = read_type(&o);
    json_decref(o.rope);
    return status;
}
