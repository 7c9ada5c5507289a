// case_fields.c: see case_fields.h.
#include "verification/case/case_fields.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "verification/words/words.h"

#define AT(field) offsetof(struct test_case, field)
#define NO_LIKE 0 // the offset of `name`: no default is copied from it
_Static_assert(AT(name) == 0, "a default that is another field's value is told by its place");

#define SIZE(key, field)                                                                                     \
    { key, FIELD_SIZE, FIELD_ANY, AT(field), NO_LIKE, NULL }
#define SIZE_LIKE(key, ops, field, like)                                                                     \
    { key, FIELD_INT64, ops, AT(field), AT(like), NULL }
#define NUMBER(key, kind, ops, field)                                                                        \
    { key, FIELD_##kind, ops, AT(field), NO_LIKE, NULL }
#define FLAG(key, ops, field)                                                                                \
    { key, FIELD_FLAG, ops, AT(field), NO_LIKE, NULL }
#define WORD(key, ops, field, names)                                                                         \
    { key, FIELD_WORD, ops, AT(field), NO_LIKE, names }
#define TYPE(key, ops, field)                                                                                \
    { key, FIELD_TYPE, ops, AT(field), AT(q_type), names_types }
#define OTHER(key, kind, ops, field)                                                                         \
    { key, FIELD_##kind, ops, AT(field), NO_LIKE, NULL }

const struct case_field case_fields[] = {
    SIZE("b", batch),
    SIZE("h", heads),
    SIZE_LIKE("hkv", FIELD_ANY, kv_heads, heads),
    SIZE("n", n_q),
    SIZE_LIKE("nkv", FIELD_ANY, n_kv, n_q),
    SIZE("d", head_dim),
    SIZE_LIKE("dv", FIELD_ANY, head_dim_v, head_dim),
    NUMBER("m", INT64, FIELD_LAYER | FIELD_LINEAR, width),
    OTHER("", CAUSAL, FIELD_ANY, score.causal),
    WORD("", FIELD_SCORED, kernel, names_kernels),
    WORD("", FIELD_LAYER | FIELD_LINEAR, projection, names_projections),
    WORD("", FIELD_LAYER | FIELD_LINEAR, precision, names_precisions),
    FLAG("packed", FIELD_LAYER | FIELD_LINEAR, packs),
    FLAG("clblast", FIELD_ATTEND, composed),
    OTHER("", ALIGN, FIELD_GRADED, score.alignment),
    {"kv", FIELD_TYPE, FIELD_TENSORS, AT(kv_type), AT(q_type), names_kv_types},
    WORD("values", FIELD_ATTEND, values, names_v_types),
    {"matrix", FIELD_TYPE, FIELD_LAYER | FIELD_LINEAR, AT(matrix_type), AT(q_type), names_kv_types},
    NUMBER("groups", INT64, FIELD_ATTEND | FIELD_LAYER | FIELD_LINEAR, scale_group),
    NUMBER("valuegroups", INT64, FIELD_ATTEND, value_group),
    WORD("scales", FIELD_ATTEND | FIELD_LAYER | FIELD_LINEAR, scale_type, names_types),
    FLAG("zeros", FIELD_ATTEND | FIELD_LAYER | FIELD_LINEAR, zeros),
    TYPE("out", FIELD_TENSORS, out_type),
    TYPE("vector", FIELD_LAYER | FIELD_LINEAR, bias_type),
    OTHER("my", WIDTH_Y, FIELD_LAYER, width_y),
    SIZE_LIKE("mo", FIELD_LAYER, width_out, width),
    OTHER("biases", BIASES, FIELD_LAYER | FIELD_LINEAR, biases),
    WORD("norm", FIELD_LAYER, norm, names_norms),
    FLAG("normplain", FIELD_LAYER, norm_plain),
    FLAG("normplus", FIELD_LAYER, norm_plus_one),
    NUMBER("normeps", FLOAT, FIELD_LAYER, norm_epsilon),
    WORD("gate", FIELD_LAYER, gate, names_gates),
    FLAG("gatebias", FIELD_LAYER, gate_bias),
    FLAG("ready", FIELD_LAYER, ready),
    WORD("", FIELD_ANY, layout, names_layouts),
    FLAG("packed", FIELD_TENSORS, packed),
    FLAG("latent", FIELD_TENSORS, latent),
    OTHER("lse", ABSENT, FIELD_ATTEND, no_lse),
    OTHER("weights", WEIGHTS, FIELD_SCORED, weights),
    OTHER("scores", SCORES, FIELD_SCORED, scores),
    NUMBER("splits", INT32, FIELD_SCORED, splits),
    FLAG("dlse", FIELD_BACKWARD, dlse),
    TYPE("grad", FIELD_BACKWARD, grad_type),
    OTHER("only", ONLY, FIELD_BACKWARD, only),
    NUMBER("scale", FLOAT, FIELD_GRADED, score.scale),
    NUMBER("softcap", FLOAT, FIELD_GRADED, score.softcap),
    OTHER("past", PAST, FIELD_ATTEND, past),
    FLAG("sharedpast", FIELD_ATTEND, past_shared),
    WORD("cascade", FIELD_ATTEND, cascade, names_cascades),
    NUMBER("pages", INT64, FIELD_ATTEND, page_size),
    NUMBER("krotation", INT32, FIELD_ATTEND | FIELD_LAYER, k_rotation),
    NUMBER("vrotation", INT32, FIELD_ATTEND | FIELD_LAYER, v_rotation),
    OTHER("window", WINDOW, FIELD_GRADED, score.window),
    OTHER("mask", MAP, FIELD_GRADED, mask),
    OTHER("bias", MAP, FIELD_GRADED, bias),
#define HOST(name, key, of_heads, per, low, high, field, option, help)                                       \
    {NULL, FIELD_HOST, FIELD_GRADED, CASE_##name, NO_LIKE, NULL},
#include "verification/sets/hosts.def"
#undef HOST
    WORD("rope", FIELD_GRADED, rope.layout, names_ropes),
    NUMBER("rotary", INT32, FIELD_GRADED, rope.rotary_dim),
    NUMBER("ropebase", DOUBLE, FIELD_GRADED, rope.base),
    NUMBER("ropepos", PLACE, FIELD_GRADED, rope.position),
    WORD("ropescale", FIELD_GRADED, rope.scaling, names_scalings),
    NUMBER("ropefactor", DOUBLE, FIELD_GRADED, rope.factor),
    NUMBER("ropeoriginal", DOUBLE, FIELD_GRADED, rope.original_length),
    NUMBER("ropelength", DOUBLE, FIELD_GRADED, rope.length),
    NUMBER("ropelow", DOUBLE, FIELD_GRADED, rope.low_factor),
    NUMBER("ropehigh", DOUBLE, FIELD_GRADED, rope.high_factor),
    NUMBER("ropefast", DOUBLE, FIELD_GRADED, rope.beta_fast),
    NUMBER("ropeslow", DOUBLE, FIELD_GRADED, rope.beta_slow),
    NUMBER("ropeattention", DOUBLE, FIELD_GRADED, rope.attention_factor),
    FLAG("ropeuntruncated", FIELD_GRADED, rope.untruncated),
    OTHER("dropout", DROPOUT, FIELD_GRADED, score.dropout),
    FLAG("positions", FIELD_GRADED, positions),
    NUMBER("sectiont", INT32, FIELD_GRADED, rope.sections[0]),
    NUMBER("sectionh", INT32, FIELD_GRADED, rope.sections[1]),
    NUMBER("sectionw", INT32, FIELD_GRADED, rope.sections[2]),
    FLAG("sectionsmixed", FIELD_GRADED, rope.sections_interleaved),
    NUMBER("append", INT32, FIELD_ATTEND | FIELD_LAYER, append),
    FLAG("mods", FIELD_GRADED, mods),
    FLAG("modsread", FIELD_GRADED, mods_read),
    FLAG("modsgradient", FIELD_BACKWARD, mods_gradient),
    FLAG("blocks", FIELD_TENSORS, blocks),
    FLAG("devicesinks", FIELD_GRADED, device_sinks),
    WORD("ragged", FIELD_GRADED, ragged, names_ragged),
    WORD("", FIELD_TENSORS, contents, names_contents),
    NUMBER("seed", INT64, FIELD_ANY, seed),
    {NULL, FIELD_SIZE, 0, 0, 0, NULL},
};

#define FACTORS_8 1.0f, 2.5f, INFINITY, 1.75f, 8.0f, 0.5f, 1.03f, 40.0f
#define FACTORS_32 FACTORS_8, FACTORS_8, FACTORS_8, FACTORS_8
#define FACTORS_128 FACTORS_32, FACTORS_32, FACTORS_32, FACTORS_32
const float case_pair_factors[CASE_PAIRS] = {FACTORS_128, FACTORS_128, FACTORS_128, FACTORS_128};

double case_field_get(const struct test_case *test, enum field_kind kind, size_t at) {
    const char *from = (const char *)test + at;
    union {
        int64_t i64;
        int32_t i32;
        float f32;
        double f64;
    } u;
    if (kind == FIELD_INT32 || kind == FIELD_WORD || kind == FIELD_TYPE)
        return memcpy(&u.i32, from, sizeof u.i32), (double)u.i32;
    if (kind == FIELD_FLOAT) return memcpy(&u.f32, from, sizeof u.f32), (double)u.f32;
    if (kind == FIELD_DOUBLE) return memcpy(&u.f64, from, sizeof u.f64), u.f64;
    return memcpy(&u.i64, from, sizeof u.i64), (double)u.i64;
}

void case_field_set(struct test_case *test, enum field_kind kind, size_t at, double x) {
    char *to = (char *)test + at;
    if (kind == FIELD_INT32 || kind == FIELD_WORD || kind == FIELD_TYPE) {
        const int32_t i32 = (int32_t)x;
        memcpy(to, &i32, sizeof i32);
    } else if (kind == FIELD_FLOAT) {
        const float f32 = (float)x;
        memcpy(to, &f32, sizeof f32);
    } else if (kind == FIELD_DOUBLE) {
        memcpy(to, &x, sizeof x);
    } else {
        const int64_t i64 = (int64_t)x;
        memcpy(to, &i64, sizeof i64);
    }
}

_Static_assert(sizeof(clattn_type) == sizeof(int32_t) && sizeof(case_contents) == sizeof(int32_t),
               "words and types are read as 32-bit numbers");

clattn_alignment case_usual_alignment(const struct test_case *test) {
    return test->score.causal ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_TOP_LEFT;
}

int64_t case_usual_width_y(const struct test_case *test) {
    return test->n_kv == test->n_q || test->append ? 0 : test->width;
}
