// case_name.c: print and parse the name of a case. Parsing accepts tokens in any order and then
// requires that the printed name is equal, so that each case has one name. case.h has the grammar,
// case_fields.c its table.
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verification/case/case_fields.h"
#include "verification/words/words.h"

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

// Append the shortest text that parses to the same number. A minus is written m, because '-'
// separates tokens.
static void add_number(char *name, double x, bool is_float) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        double read = 0;
        (void)number_real(text, &read);
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

static int all_biases(const struct test_case *t) {
    return t->op == CASE_LINEAR ? 1 << LAYER_Q : LAYER_ALL_BIASES;
}

// Letters of projections, and of gradients in the order of GRADIENT_Q.
static const char letters_of_matrices[] = "qkvo", letters_of_gradients[] = "qkvbsah";

static void add_letters(const struct case_field *f, int set, int all, const char *letters, char *name) {
    if (set == 0) return;
    add(name, "-%s", f->key);
    for (int n = 0; letters[n] && set != all; n++)
        if (set >> n & 1) add(name, "%c", letters[n]);
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
    case FIELD_ABSENT:
        if (flag(t, f) == (f->kind == FIELD_FLAG)) add(name, "-%s", f->key);
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
        add_letters(f, t->biases, all_biases(t), letters_of_matrices, name);
        break;
    case FIELD_WEIGHTS:
        if (t->weights) add(name, "-%s%s", f->key, t->weights_type ? names_types[t->weights_type] : "");
        break;
    case FIELD_ONLY:
        add_letters(f, t->only, 0, letters_of_gradients, name);
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

#define MOST_SIZE 16777216

// Parse a number at *text, with m for minus, and advance *text.
static bool read_number(const char **text, double *x) {
    char copy[40];
    size_t n = 0;
    const char *p = *text;
    for (; n < sizeof copy - 1 && (strchr("0123456789.m", p[n]) || (n > 0 && p[n] == 'e')) && p[n]; n++)
        copy[n] = p[n] == 'm' ? '-' : p[n];
    copy[n] = '\0';
    if (copy[0] == '.' || !number_real(copy, x)) return false;
    *text = p + n;
    return true;
}

static bool whole_number(const char *text, double *x) {
    return read_number(&text, x) && *text == '\0';
}

static bool within(double x, double least, double most) {
    return x == floor(x) && x >= least && x <= most;
}

static bool parse_number(struct test_case *t, const struct case_field *f, const char *text) {
    double x = 0;
    const bool is_size = f->kind == FIELD_SIZE || f->like != 0 || f->kind == FIELD_WIDTH_Y;
    if (!whole_number(text, &x)) return false;
    if (is_size && !within(x, f->kind == FIELD_WIDTH_Y ? 0 : 1, MOST_SIZE)) return false;
    if (f->kind == FIELD_INT64 && !within(x, 0, 0x1p53)) return false;
    if (f->kind == FIELD_PLACE && !within(x, -0x1p53, 0x1p53)) return false;
    if (f->kind == FIELD_INT32 && !within(x, 0, INT32_MAX)) return false;
    if (f->kind == FIELD_FLOAT && (fabs(x) > FLT_MAX || (x != 0.0 && fabs(x) < FLT_MIN))) return false;
    case_field_set(t, f->kind, f->at, x);
    return true;
}

static bool parse_word(struct test_case *t, const struct case_field *f, const char *text) {
    const int index = names_find(f->names, text, strlen(text));
    if (index < 0 || (f->kind == FIELD_WORD && index == 0)) return false;
    case_field_set(t, f->kind, f->at, index);
    return true;
}

static bool parse_causal(struct test_case *t, const char *text) {
    t->score.causal = strcmp(text, "causal") == 0;
    t->score.alignment = case_usual_alignment(t);
    return t->score.causal || strcmp(text, "full") == 0;
}

static bool parse_align(struct test_case *t, const char *text) {
    double x = 0;
    clattn_alignment *align = &t->score.alignment;
    if (strcmp(text, "topleft") == 0) return *align = CLATTN_ALIGN_TOP_LEFT, true;
    if (strcmp(text, "bottomright") == 0) return *align = CLATTN_ALIGN_BOTTOM_RIGHT, true;
    if (strncmp(text, "offset", 6) != 0 || !whole_number(text + 6, &x) || !within(x, INT32_MIN, INT32_MAX))
        return false;
    *align = CLATTN_ALIGN_OFFSET;
    t->score.offset = (int32_t)x;
    return true;
}

static bool parse_biases(struct test_case *t, const char *text) {
    if (*text == '\0') t->biases = all_biases(t);
    for (; *text; text++) {
        const char *letter = strchr("qkvo", *text);
        if (letter == NULL || t->op == CASE_LINEAR) return false;
        t->biases |= 1 << (letter - "qkvo");
    }
    return true;
}

static bool parse_only(struct test_case *t, const char *text) {
    for (; *text; text++) {
        const char *letter = strchr(letters_of_gradients, *text);
        if (letter == NULL) return false;
        t->only |= 1 << (letter - letters_of_gradients);
    }
    return t->only != 0;
}

static bool parse_weights(struct test_case *t, const char *text) {
    const int type = *text ? names_find(names_types, text, strlen(text)) : CLATTN_TYPE_F32;
    t->weights = true;
    t->weights_type = (clattn_type)type;
    return type >= 0;
}

static bool parse_scores(struct test_case *t, const char *text) {
    const int tap = names_find(names_taps, text, strlen(text));
    t->scores = true;
    t->scores_at = (clattn_tap)tap;
    return tap >= 0;
}

static bool parse_window(clattn_score *s, const char *text) {
    double left = 0, right = 0;
    if (!read_number(&text, &left) || *text++ != ':' || !whole_number(text, &right) ||
        !within(left, -1, INT32_MAX) || !within(right, -1, INT32_MAX))
        return false;
    s->window = true;
    s->window_left = (int32_t)left;
    s->window_right = (int32_t)right;
    return true;
}

static bool parse_dropout(clattn_score *s, const char *text) {
    double probability = 0, seed = 0;
    if (!read_number(&text, &probability) || *text++ != ':' || !whole_number(text, &seed) ||
        !(probability > 0.0 && (float)probability < 1.0f) || !within(seed, 0, 0x1p53))
        return false;
    s->dropout = (float)probability;
    s->dropout_seed = (uint64_t)seed;
    return true;
}

static bool parse_map(struct score_map *map, bool typed, const char *text) {
    const char *colon = strchr(text, ':');
    const int type = colon ? names_find(names_types, colon + 1, strlen(colon + 1)) : 0;
    map->rank = (int)strcspn(text, ":");
    map->type = (clattn_type)type;
    if (map->rank < 1 || map->rank > 4 || type < 0 || (colon && !typed)) return false;
    for (int axis = 4 - map->rank; axis < 4; axis++, text++) {
        if (*text == '1') map->repeat |= 1 << axis;
        if (*text != '1' && *text != "bhqk"[axis]) return false;
    }
    return true;
}

static bool parse_host(struct test_case *t, int host, const char *text) {
    t->hosts |= CASE_HOST_BIT(host);
    for (int n = 0; *text; n++) {
        if (n == CASE_GIVEN_MOST || (n > 0 && *text++ != ':')) return false;
        double *x = &t->given[host].x[n];
        if (!read_number(&text, x) || (!case_hosts[host].of_heads && !within(*x, INT32_MIN, INT32_MAX)))
            return false;
        t->given[host].count = n + 1;
    }
    return true;
}

static bool parse_past(struct test_case *t, const char *text) {
    double x = 0;
    if (!read_number(&text, &x) || !within(x, 0, MOST_SIZE)) return false;
    t->has_past = true;
    t->past = (int64_t)x;
    for (; *text; t->past_count++) {
        if (t->past_count == CASE_GIVEN_MOST || *text++ != ':' || !read_number(&text, &x)) return false;
        if (!within(x, 0, MOST_SIZE)) return false;
        t->past_length[t->past_count] = x;
    }
    return true;
}

static bool parse_rest(struct test_case *t, const struct case_field *f, const char *text) {
    bool *flag = (bool *)(void *)((char *)t + f->at);
    switch (f->kind) {
    case FIELD_FLAG:
        return *text == '\0' && (*flag = true);
    case FIELD_ABSENT:
        return *text == '\0' && !(*flag = false);
    case FIELD_WORD:
    case FIELD_TYPE:
        return parse_word(t, f, text);
    case FIELD_CAUSAL:
        return parse_causal(t, text);
    case FIELD_ALIGN:
        return parse_align(t, text);
    case FIELD_BIASES:
        return parse_biases(t, text);
    case FIELD_WEIGHTS:
        return parse_weights(t, text);
    case FIELD_ONLY:
        return parse_only(t, text);
    case FIELD_SCORES:
        return parse_scores(t, text);
    case FIELD_PAST:
        return parse_past(t, text);
    case FIELD_WINDOW:
        return parse_window(&t->score, text);
    case FIELD_DROPOUT:
        return parse_dropout(&t->score, text);
    case FIELD_MAP:
        return parse_map((struct score_map *)(void *)((char *)t + f->at), strcmp(f->key, "bias") == 0, text);
    case FIELD_HOST:
        return parse_host(t, (int)f->at, text);
    default:
        return parse_number(t, f, text);
    }
}

// Try every field of the op. A field that does not accept the token must not change the case.
static bool parse_token(struct test_case *t, const char *token) {
    for (const struct case_field *f = case_fields; f->ops; f++) {
        const char *key = f->kind == FIELD_HOST ? case_hosts[f->at].key : f->key;
        struct test_case next = *t;
        if (!(f->ops >> t->op & 1) || strncmp(token, key, strlen(key)) != 0) continue;
        if (!parse_rest(&next, f, token + strlen(key))) continue;
        *t = next;
        return true;
    }
    return false;
}

static bool parse_start(const char **text, struct test_case *t, char why[256]) {
    char all[64];
    const size_t op = strcspn(*text, "-"), dash = (*text)[op] == '-';
    const size_t type = dash ? strcspn(*text + op + 1, "-") : 0;
    const int of_op = names_find(names_ops, *text, op),
              of_type = names_find(names_types, *text + op + dash, type);
    *t = (struct test_case){.op = (case_op)of_op, .no_lse = true};
    t->q_type = t->kv_type = t->out_type = t->grad_type = (clattn_type)of_type;
    t->matrix_type = t->bias_type = (clattn_type)of_type;
    *text += op + dash + type;
    if (of_op >= 0 && of_type >= 0) return true;
    snprintf(why, 256,
             "a case's name starts with one of %s, and a type; such as attend-f32-b1-h12-n1024-d64-full",
             names_all(names_ops, all, sizeof all));
    return false;
}

bool case_read(const char *tokens, struct test_case *t, char why[256]) {
    char token[256];
    const char *at = tokens;
    bool has_width_y = false;
    if (!parse_start(&at, t, why)) return false;
    while (*at == '-') {
        const size_t length = strcspn(++at, "-");
        snprintf(token, sizeof token, "%.*s", (int)(length < 255 ? length : 255), at);
        has_width_y = has_width_y || strncmp(token, "my", 2) == 0;
        at += length;
        if (parse_token(t, token)) continue;
        snprintf(why, 256, "'%.60s' is no part of the name of a case with op %s", token, names_ops[t->op]);
        return false;
    }
    if (t->n_kv == 0) t->n_kv = t->n_q;
    if (t->op == CASE_LAYER && !has_width_y) t->width_y = case_usual_width_y(t);
    *t = case_complete(t);
    return case_valid(t, why);
}

bool case_parse(const char *name, struct test_case *t, char why[256]) {
    char again[CASE_NAME_SIZE];
    if (!case_read(name, t, why)) return false;
    if (strcmp(case_name(t, again), name) == 0) return true;
    snprintf(why, 256, "is written %.240s", again);
    return false;
}
