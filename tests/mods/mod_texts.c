// mod_texts.c: see mod_texts.h.
#include "mods/mod_texts.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/mods/mod_vector.h"

#define ONE_SIZE 4096

struct writer {
    struct mod_texts *t;
    char *at;
    const char *end;
};

static int below(struct mod_texts *t, int n) {
    return (int)random_uniform(&t->random, 0.0, (double)n);
}
static void put(struct writer *w, const char *text) {
    w->at += snprintf(w->at, (size_t)(w->end - w->at), "%s", text);
    // too long: detected later by unbalanced brackets
    if (w->at >= w->end) w->at = (char *)w->end - 1;
}

// In a form, $i, $u, $f and $b become expressions of one level less, and $s a squared expression.
// The names $m and $n become an integer or float element of a buffer.
static void expand(struct writer *w, const char *form, int depth);

static void put_buffer(struct writer *w, bool of_floats, int depth) {
    static const char *const indices[] = {"$i", "$i",      "$i", "$s",      "$s",    "(int)abs($i)",
                                          "$f", "(int)$u", "j",  "row + 7", "i - 1", "j + 30"};
    for (int turn = 0, n = below(w->t, 4); turn < 4; turn++, n = (n + 1) % 4) {
        const int rank = w->t->source.buffers[n].rank;
        const clattn_type type = w->t->source.buffers[n].type;
        if (!rank || (type <= CLATTN_TYPE_BF16) != of_floats) continue;
        char name[16];
        snprintf(name, sizeof name, "buffer%d(", n);
        put(w, name);
        for (int axis = 0; axis < rank; axis++)
            put(w, axis ? ", " : ""), expand(w, indices[below(w->t, 12)], axis ? 0 : depth);
        put(w, ")");
        return;
    }
    put(w, of_floats ? "0.5f" : "3");
}

// The argument list of a function of this shape. NULL: not generated here.
static const char *call_of(const mod_word *f, char kind) {
    static const char *const floats[] = {"", "($f)", "($f, $f)", "($f, $f, $f)"},
                             *const ints[] = {"", "($i)", "($i, $i)", "($i, $i, $i)"},
                             *const uints[] = {"", "($u)", "($u, $u)", "($u, $u, $u)"};
    const char *const *all = kind == 'f' ? floats : kind == 'u' ? uints : ints;
    if (f->kind != WORD_FUNCTION) return NULL;
    switch (f->shape) {
    case MOD_FLOATS:
        return kind == 'f' ? floats[f->parts] : NULL;
    case MOD_SAME:
        return all[f->parts];
    case MOD_MAGNITUDE:
        return kind == 'u' ? ints[f->parts] : NULL;
    case MOD_SELECT:
        return kind == 'f' ? "($f, $f, $i)" : kind == 'i' ? "($i, $i, $i)" : NULL;
    case MOD_IS:
        return kind == 'i' ? floats[f->parts] : NULL;
    case MOD_POWERS:
        return kind == 'f' ? "($f, $i)" : NULL;
    case MOD_NUMBERS:
        return kind == 'f' ? NULL : all[f->parts];
    case MOD_COUNTS:
        return kind != 'i' ? NULL : !strcmp(f->name, "clz") ? "(j + $i)" : "((float)j + $f)";
    case MOD_QUIET:
        return kind == 'f' ? "($u)" : NULL;
    case MOD_TRUTH:
        return kind == 'i' ? "($i)" : NULL;
    case MOD_JOINED:
        return kind == 'i' ? "((short)$i, (ushort)$i)" : NULL;
    }
    return NULL;
}

static void put_call(struct writer *w, char kind, int depth) {
    const char *form = NULL;
    size_t n = 0;
    while (!form || (w->t->in_vectors && cla_mod_words[n].alone)) {
        n = (size_t)below(w->t, (int)cla_mod_word_count);
        form = call_of(&cla_mod_words[n], kind);
    }
    w->t->used[n] = true;
    put(w, cla_mod_words[n].name), expand(w, form, depth);
}

// Append a constant or a name of this type.
static void put_word(struct writer *w, mod_type type) {
    for (;;) {
        const size_t n = (size_t)below(w->t, (int)cla_mod_word_count);
        const mod_word *x = &cla_mod_words[n];
        const bool odd = !w->t->in_vectors && type == MOD_INT &&
                         (x->type == MOD_LONG || x->type == MOD_ULONG) && x->kind == WORD_CONSTANT;
        if (x->kind > WORD_CONSTANT || (x->type != type && !odd)) continue;
        if (w->t->source.is_mask && x->by == MOD_BY_SCORE) continue;
        w->t->used[n] = true;
        put(w, odd ? "(int)" : ""), put(w, x->name);
        return;
    }
}

static void put_leaf(struct writer *w, char kind) {
    static const char *const ints[] = {"7",          "-1",      "(h - h)", "0x7FFFFFFF", "2147483647",
                                       "1000000000", "(j - 5)", "INT_MIN", "46341"},
                             *const uints[] = {"7u", "0xFFFFFFFFu", "(uint)j", "UINT_MAX", "(uint)(h - h)"},
                             *const floats[] = {"1.5f",  "-0.0f",  "3e38f", "1e-45f",          "(float)j",
                                                "-3e9f", ".5e+1f", "5.f",   "(float)(i - row)"};
    const int turn = below(w->t, 3);
    if (kind == 'f' && turn)
        put_word(w, MOD_FLOAT);
    else if (turn && (kind == 'i' || turn == 1))
        put_word(w, kind == 'i' ? MOD_INT : MOD_UINT);
    else
        put(w, kind == 'f'   ? floats[below(w->t, 9)]
               : kind == 'i' ? ints[below(w->t, 9)]
                             : uints[below(w->t, 5)]);
}

static const char *const int_forms[] = {"$i + $i",
                                        "$i - $i",
                                        "$i * $i",
                                        "$i / $i",
                                        "$i % $i",
                                        "$i & $i",
                                        "$i | $i",
                                        "$i ^ $i",
                                        "$i << $i",
                                        "$i >> $i",
                                        "~$i",
                                        "- - $i",
                                        "!$b",
                                        "$b ? $i : $i",
                                        "(int)$u",
                                        "(int)$f",
                                        "$b",
                                        "$i / 7",
                                        "$i % 0x11 /* of */",
                                        "(bool)$i",
                                        "$m",
                                        "$m",
                                        "- $i",
                                        "(int)($u / 3u)",
                                        "$s",
                                        "abs($i) - abs(INT_MIN ^ $i)"};
static const char *const uint_forms[] = {"$u + $u",      "$u - $u",  "$u * $u",  "$u / $u",
                                         "$u % $u",      "$u >> $i", "(uint)$i", "(uint)$f",
                                         "$b ? $u : $u", "$i % $u",  "$u / $i"};
static const char *const float_forms[] = {"$f + $f", "$f - $f",      "$f * $f",   "$f / $f",
                                          "- $f",    "$b ? $f : $f", "(float)$i", "(float)$u",
                                          "$n",      "$n",           "$f / $i",   "$i * $f"};
static const char *const bool_forms[] = {"$i < $i",  "$f <= $f", "$u > $u",  "$i >= $f",
                                         "$i == $u", "$f != $f", "$b && $b", "$b || $b",
                                         "$f && $b", "$b || $f", "$i"};
// Forms that only the scalar translation supports.
static const char *const odd_ints[] = {"convert_int_rtz((float)j * $f)",
                                       "convert_int_sat((float)j + $f)",
                                       "as_int($f)",
                                       "(int)(long)$i",
                                       "(int4)($i, $i, $i, $i).z",
                                       "(int)((long)$i << 33)",
                                       "(int)(((long)$i + 3037000500l) * ((long)$i + 3037000500l))",
                                       "(int)min((long)$i * (long)$i * (long)$i, 3l)",
                                       "(int)(char)$f",
                                       "(int)(ulong)($f * 1e10f)",
                                       "convert_int_rte($f)",
                                       "convert_short_sat_rtp($f)",
                                       "(int)convert_long_sat($f)",
                                       "((int4)($i) * (int4)($i, $i, $i, $i)).w",
                                       "(-(char2)($i, $i)).y",
                                       "(int)mad_sat((long)$i, (long)$i << 32, LONG_MIN)",
                                       "(int)abs((short)$i)",
                                       "mul_hi((int3)($i), (int3)($i)).z",
                                       "convert_int4((float4)($f)).s3",
                                       "(int)(uchar)$i",
                                       "(int)(char)$i",
                                       "(short)$i + (ushort)$i",
                                       "(int)convert_ulong($u)",
                                       "any((int2)($i, $i) < (int2)($i))"};
static const char *const odd_floats[] = {"as_float($u)",
                                         "convert_float_rte($i)",
                                         "convert_float_rtz($i)",
                                         "convert_float_rtp((ulong)$i)",
                                         "convert_float_rtn((long)$i << 31)",
                                         "(float4)($f, $f, $f, $f).y",
                                         "((float2)($f, $f) * (float2)$f).s1",
                                         "(float)($f * 2.0)",
                                         "fma($f, $f, $f)"};

#define ANY(w, forms) (forms)[below((w)->t, (int)(sizeof(forms) / sizeof(forms)[0]))]

static void put_expression(struct writer *w, char kind, int depth) {
    const bool odd = !w->t->in_vectors && below(w->t, 6) == 0;
    if (depth <= 0 && kind != 'b') {
        put_leaf(w, kind);
        return;
    }
    put(w, "(");
    if (depth <= 0)
        expand(w, bool_forms[below(w->t, 6)], 0); // these forms contain no further expressions
    else if (kind != 'b' && below(w->t, 2) == 0)
        put_call(w, kind, depth - 1);
    else if (odd && (kind == 'i' || kind == 'f'))
        expand(w, kind == 'i' ? ANY(w, odd_ints) : ANY(w, odd_floats), depth - 1);
    else
        expand(w,
               kind == 'i'   ? ANY(w, int_forms)
               : kind == 'u' ? ANY(w, uint_forms)
               : kind == 'f' ? ANY(w, float_forms)
                             : ANY(w, bool_forms),
               depth - 1);
    put(w, ")");
}

static void put_square(struct writer *w, int depth) {
    put(w, "(");
    const char *const begin = w->at;
    put_expression(w, 'i', depth);
    char one[ONE_SIZE];
    snprintf(one, sizeof one, "%.*s", (int)(w->at - begin), begin);
    put(w, " * "), put(w, one), put(w, ")");
}

static void expand(struct writer *w, const char *form, int depth) {
    char letter[2] = "";
    for (; *form; form++) {
        if (*form != '$') {
            letter[0] = *form, put(w, letter);
        } else if (*++form == 'm' || *form == 'n') {
            put_buffer(w, *form == 'n', depth);
        } else if (*form == 's') {
            put_square(w, depth);
        } else {
            put_expression(w, *form, depth);
        }
    }
}

// Returns true if the source has vector forms for every number of lanes.
static bool is_for_vectors(const mod_source *source) {
    char why[MOD_WHY];
    bool all = true;
    for (int lanes = 1; all && lanes <= MOD_LANES_MOST; lanes++) {
        char *form = cla_mod_vector(NULL, source, lanes, why);
        all = form != NULL;
        free(form);
    }
    return all;
}

static bool fits(const struct mod_texts *t, const char *text) {
    mod_source source = t->source;
    mod_tree *tree = malloc(sizeof *tree);
    mod_fault fault;
    char why[MOD_WHY];
    source.text = text;
    ck_assert_ptr_nonnull(tree);
    const bool good = cla_mod_parse(&source, tree, &fault, why);
    free(tree);
    ck_assert_msg(good || strstr(fault.why, "possible") || strstr(fault.why, "in one another") ||
                      strstr(fault.why, "neither int nor uint") || strstr(fault.why, "with a sign"),
                  "%s: %s, at %s", text, fault.why, fault.at);
    return good && (!t->in_vectors || is_for_vectors(&source));
}

int mod_texts_make(struct mod_texts *t, int most, char text[MOD_TEXT_SIZE]) {
    int count = 0;
    char one[ONE_SIZE], all[MOD_TEXT_SIZE];
    const char *const end = t->source.is_mask ? "true" : "score";
    strcpy(text, end);
    t->source.checked = true;
    for (int misses = 0; count < most && misses < 400;) {
        struct writer w = {t, one, one + sizeof one};
        w.at += sprintf(one, "b == %d ? ", count);
        put_expression(&w, t->source.is_mask ? 'b' : 'f', 3);
        put(&w, " : ");
        const size_t used = strlen(text) - strlen(end);
        snprintf(all, sizeof all, "%.*s%s%s", (int)used, text, one, end);
        if (w.at < w.end - 1 && fits(t, all))
            strcpy(text, all), count++;
        else
            misses++;
    }
    return count;
}
