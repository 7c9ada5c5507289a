// case_name.c: prints the name of a case. The grammar is in case.h, its table in case_fields.c.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "evidence/case/case_fields.h"
#include "evidence/words/names.h"

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 2, 3)))
#endif
static void
add(char *name, const char *format, ...) {
    const size_t used = strlen(name);
    va_list list;
    va_start(list, format);
    vsnprintf(name + used, CASE_NAME_SIZE - used, format, list);
    va_end(list);
}

// The shortest text that reads as the number again; a minus is written m, since '-' parts tokens.
static void add_number(char *name, double x, bool is_float) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        double read = 0;
        sscanf(text, "%lf", &read);
        if (is_float ? (float)read == (float)x : read == x) break;
    }
    if (fabs(x) < 1e15 && x == floor(x)) snprintf(text, sizeof text, "%.0f", x);
    for (const char *p = text; *p; p++)
        if (*p != '+') add(name, "%c", *p == '-' ? 'm' : *p);
}

static void add_align(const struct test_case *t, char *name) {
    const clattn_alignment align = t->score.alignment;
    if (t->hosts & CASE_HOST_BIT(CASE_OFFSETS) || (align == case_usual_alignment(t))) return;
    add(name, "%s",
        align == CLATTN_ALIGN_TOP_LEFT       ? "-topleft"
        : align == CLATTN_ALIGN_BOTTOM_RIGHT ? "-bottomright"
                                             : "-offset");
    if (align == CLATTN_ALIGN_OFFSET) add_number(name, t->score.offset, false);
}

static void add_biases(const struct test_case *t, char *name) {
    const int all = t->op == CASE_LINEAR ? 1 << LAYER_Q : LAYER_ALL_BIASES;
    if (t->biases == 0) return;
    add(name, "-biases");
    for (int m = 0; m < LAYER_MATRICES && t->biases != all; m++)
        if (t->biases >> m & 1) add(name, "%c", "qkvo"[m]);
}

static void add_map(const struct case_field *f, const struct score_map *map, char *name) {
    if (map->rank == 0) return;
    add(name, "-%s", f->key);
    for (int axis = 4 - map->rank; axis < 4; axis++)
        add(name, "%c", map->repeat >> axis & 1 ? '1' : "bhqk"[axis]);
    if (map->type != CLATTN_TYPE_F32) add(name, ":%s", names_types[map->type]);
}

static void add_host(const struct test_case *t, int host, char *name) {
    if (!(t->hosts & CASE_HOST_BIT(host))) return;
    add(name, "-%s", case_hosts[host].key);
    for (int n = 0; n < t->given[host].count; n++) {
        if (n > 0) add(name, ":");
        add_number(name, t->given[host].x[n], case_hosts[host].of_heads);
    }
}

static void add_window(const struct case_field *f, const clattn_score *s, char *name) {
    if (!s->window) return;
    add(name, "-%s", f->key);
    add_number(name, s->window_left, false);
    add(name, ":");
    add_number(name, s->window_right, false);
}

static void add_past(const struct test_case *t, char *name) {
    if (!t->has_past) return;
    add(name, "-past%lld", (long long)t->past);
    for (int b = 0; b < t->past_count; b++) add(name, ":%lld", (long long)t->past_length[b]);
}

static void add_dropout(const struct case_field *f, const clattn_score *s, char *name) {
    if (s->dropout == 0.0f) return;
    add(name, "-%s", f->key);
    add_number(name, (double)s->dropout, true);
    add(name, ":%llu", (unsigned long long)s->dropout_seed);
}

static bool flag(const struct test_case *t, const struct case_field *f) {
    return *((const bool *)(const void *)((const char *)t + f->at));
}

static void add_plain(const struct test_case *t, const struct case_field *f, char *name) {
    const double x = case_field_get(t, f->kind, f->at);
    const bool is_word = f->kind == FIELD_WORD || f->kind == FIELD_TYPE;
    if (f->kind != FIELD_SIZE && x == (f->like ? case_field_get(t, f->kind, f->like) : 0)) return;
    add(name, "-%s", f->key);
    if (is_word)
        add(name, "%s", f->names[(int)x]);
    else
        add_number(name, x, f->kind == FIELD_FLOAT);
}

static void add_field(const struct test_case *t, const struct case_field *f, char *name) {
    switch (f->kind) {
    case FIELD_FLAG:
        if (flag(t, f)) add(name, "-%s", f->key);
        break;
    case FIELD_ABSENT:
        if (!flag(t, f)) add(name, "-%s", f->key);
        break;
    case FIELD_CAUSAL:
        add(name, "-%s", t->score.causal ? "causal" : "full");
        break;
    case FIELD_ALIGN:
        add_align(t, name);
        break;
    case FIELD_WIDTH_Y:
        if (t->width_y != case_usual_width_y(t)) add(name, "-%s%lld", f->key, (long long)t->width_y);
        break;
    case FIELD_BIASES:
        add_biases(t, name);
        break;
    case FIELD_WEIGHTS:
        if (t->weights) add(name, "-%s%s", f->key, t->weights_type ? names_types[t->weights_type] : "");
        break;
    case FIELD_SCORES:
        if (t->scores) add(name, "-%s%s", f->key, names_taps[t->scores_at]);
        break;
    case FIELD_PAST:
        add_past(t, name);
        break;
    case FIELD_WINDOW:
        add_window(f, &t->score, name);
        break;
    case FIELD_DROPOUT:
        add_dropout(f, &t->score, name);
        break;
    case FIELD_MAP:
        add_map(f, (const struct score_map *)(const void *)((const char *)t + f->at), name);
        break;
    case FIELD_HOST:
        add_host(t, (int)f->at, name);
        break;
    default:
        add_plain(t, f, name);
    }
}

const char *case_name(const struct test_case *test, char name[CASE_NAME_SIZE]) {
    const struct test_case t = case_complete(test);
    snprintf(name, CASE_NAME_SIZE, "%s-%s", names_ops[t.op], names_types[t.q_type]);
    for (const struct case_field *f = case_fields; f->ops; f++)
        if (f->ops >> t.op & 1) add_field(&t, f, name);
    return name;
}
