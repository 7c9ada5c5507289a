// mod_random.c: see mod_random.h. Integers may overflow. Products of floats are absent, because a
// compiler may contract a product and a sum.
#include "mods/mod_random.h"

#include <stdio.h>
#include <string.h>

struct writer {
    struct random *r;
    bool score;
    char *at;
};

static int below(struct random *r, int n) {
    return (int)random_uniform(r, 0.0, (double)n);
}
static void put(struct writer *w, const char *text) {
    w->at += sprintf(w->at, "%s", text);
}

// Replaces $i, $f and $b of a form by expressions, $n by a number from 1 to 9, and $s by the square
// of an expression.
static void expand(struct writer *w, const char *form, int depth);

static void put_leaf(struct writer *w, enum mod_random_kind kind) {
    static const char *const ints[] = {"b",  "h",    "i",  "j",       "row",     "q_length", "kv_length",
                                       "$n", "0x1F", "-3", "INT_MIN", "INT_MAX", "46341"};
    static const char *const floats[] = {"(float)j",   "(float)(i - j)", "0.25f",
                                         "buffer2(j)", "1.5e-1f",        "score"};
    static const char *const bools[] = {"j <= i", "i != row", "true", "(j & 1)", "j - i > $n"};
    if (kind == RANDOM_INT) expand(w, ints[below(w->r, 13)], 0);
    if (kind == RANDOM_FLOAT) expand(w, floats[below(w->r, w->score ? 6 : 5)], 0);
    if (kind == RANDOM_BOOL) expand(w, bools[below(w->r, 5)], 0);
}

static const char *const ints[] = {"($i + $i)",
                                   "($i - $i)",
                                   "(($i * $i) & 255)",
                                   "($i * $i)",
                                   "$s",
                                   "buffer1($s, $s)",
                                   "(int)abs($i)",
                                   "(int)abs_diff($i, $i)",
                                   "(int)(1e9f * $f)",
                                   "(int)(uint)$f",
                                   "clamp($i, $i, $i)",
                                   "$i / $n",
                                   "$i % $n",
                                   "($i & 15) << $n",
                                   "$i >> $n",
                                   "($b ? $i : $i)",
                                   "min($i, $i)",
                                   "max($i, $i)",
                                   "(int)abs($i - $i)",
                                   "clamp($i, 0, $n)",
                                   "select($i, $i, $i)",
                                   "$b",
                                   "~$i",
                                   "-$i",
                                   "($i ^ $i)",
                                   "(int)(0.5f * (float)$i)",
                                   "buffer0(b, row)",
                                   "buffer0(b, $i)",
                                   "buffer1(b, j)",
                                   "buffer1(b, j - $n)",
                                   "buffer1($n, $i)",
                                   "(int)((uint)$i % $nu)",
                                   "!$i"};
static const char *const floats[] = {"($f + $f)",
                                     "($f - $f)",
                                     "$f / 2.0f",
                                     "$f / (fabs($f) + 1.0f)",
                                     "($b ? $f : $f)",
                                     "fmin($f, $f)",
                                     "fmax($f, $f)",
                                     "fabs($f)",
                                     "floor($f)",
                                     "(float)$i",
                                     "(float)((uint)$i)",
                                     "-$f",
                                     "clamp($f, -2.0f, 2.0f)",
                                     "copysign($f, $f)",
                                     "buffer2(h)",
                                     "buffer2(j + $n)",
                                     "buffer3(h, $i)",
                                     "buffer3(row, j)",
                                     "trunc($f)",
                                     "select($f, $f, $i)",
                                     "buffer2($s)"};
static const char *const bools[] = {
    "$b && $b",  "$b || $b",       "$f && $b",  "$f || $b",
    "!($b)",     "($b ? $b : $b)", "$i < $i",   "$i == $i",
    "$f >= $f",  "$f != $f",       "($b | $b)", "($b & $b)",
    "isnan($f)", "isfinite($f)",   "(bool)$i",  "buffer0(b, row) == buffer1(b, j)",
    "$i"};

static void put_expression(struct writer *w, enum mod_random_kind kind, int depth) {
    if (depth <= 0) {
        put_leaf(w, kind);
        return;
    }
    static const struct {
        const char *const *forms;
        size_t count;
    } kinds[] = {[RANDOM_INT] = {ints, sizeof ints / sizeof ints[0]},
                 [RANDOM_FLOAT] = {floats, sizeof floats / sizeof floats[0]},
                 [RANDOM_BOOL] = {bools, sizeof bools / sizeof bools[0]}};
    put(w, "(");
    expand(w, kinds[kind].forms[below(w->r, (int)kinds[kind].count)], depth - 1);
    put(w, ")");
}

static void put_square(struct writer *w, int depth) {
    put(w, "(");
    const char *const begin = w->at;
    put_expression(w, RANDOM_INT, depth);
    const int size = (int)(w->at - begin);
    put(w, " * ");
    w->at += sprintf(w->at, "%.*s)", size, begin);
}

static void expand(struct writer *w, const char *form, int depth) {
    for (; *form; form++) {
        if (*form != '$') {
            *w->at++ = *form, *w->at = '\0';
            continue;
        }
        form++;
        if (*form == 's')
            put_square(w, depth);
        else if (*form == 'n')
            w->at += sprintf(w->at, "%d", 1 + below(w->r, 9));
        else
            put_expression(w, *form == 'i' ? RANDOM_INT : *form == 'f' ? RANDOM_FLOAT : RANDOM_BOOL, depth);
    }
}

void mod_random(struct random *r, enum mod_random_kind kind, int depth, bool score, char *text) {
    struct writer w = {r, score, text + strlen(text)};
    put_expression(&w, kind, depth);
}
