// mod_parse.c: see mod_parse.h. Recursive descent over the expressions of C without effects; types follow from the bottom up
// as C has them. What is not understood wholly is refused here: the scalar form does it.
#include "attention/mod_parse.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MOST 200

const mod_function cla_mod_functions[] = {
    {"abs", MOD_MAGNITUDE, 1, false}, {"abs_diff", MOD_MAGNITUDE, 2, false}, {"min", MOD_SAME, 2, false},
    {"max", MOD_SAME, 2, false},      {"clamp", MOD_SAME, 3, false},         {"select", MOD_SELECT, 3, false},
    {"fabs", MOD_FLOATS, 1, false},   {"floor", MOD_FLOATS, 1, false},       {"ceil", MOD_FLOATS, 1, false},
    {"trunc", MOD_FLOATS, 1, false},  {"rint", MOD_FLOATS, 1, false},        {"fmin", MOD_FLOATS, 2, false},
    {"fmax", MOD_FLOATS, 2, false},   {"copysign", MOD_FLOATS, 2, false},    {"isnan", MOD_IS, 1, false},
    {"isinf", MOD_IS, 1, false},      {"isfinite", MOD_IS, 1, false},        {"tanh", MOD_FLOATS, 1, true},
    {"exp", MOD_FLOATS, 1, true},     {"exp2", MOD_FLOATS, 1, true},         {"log", MOD_FLOATS, 1, true},
    {"log2", MOD_FLOATS, 1, true},    {"sqrt", MOD_FLOATS, 1, true},         {"rsqrt", MOD_FLOATS, 1, true},
    {"sin", MOD_FLOATS, 1, true},     {"cos", MOD_FLOATS, 1, true},          {"pow", MOD_FLOATS, 2, true},
    {NULL, MOD_IS, 0, false}};

static const struct {
    const char *name;
    mod_type type;
    unsigned by;
} names[] = {{"b", MOD_INT, 0},          {"h", MOD_INT, MOD_BY_HEAD},
             {"i", MOD_INT, MOD_BY_ROW}, {"row", MOD_INT, MOD_BY_ROW},
             {"j", MOD_INT, MOD_BY_KEY}, {"q_length", MOD_INT, 0},
             {"kv_length", MOD_INT, 0},  {"score", MOD_FLOAT, MOD_BY_SCORE},
             {"true", MOD_INT, 0},       {"false", MOD_INT, 0},
             {"INT_MAX", MOD_INT, 0},    {"INFINITY", MOD_FLOAT, 0},
             {"FLT_MAX", MOD_FLOAT, 0},  {"M_PI_F", MOD_FLOAT, 0},
             {"M_LOG2E_F", MOD_FLOAT, 0}};

typedef struct parser {
    const mod_source *source;
    mod_tree *tree;
    const char *at;
    int depth;
    char *why;
} parser;

// Every reason is one line; the first one counts. Returns no node.
static int refuse(parser *p, const char *reason, const char *at, int length) {
    if (!p->why[0])
        snprintf(p->why, MOD_WHY, "%s%s%.*s%s", reason, length ? " '" : "", length > 24 ? 24 : length,
                 length ? at : "", length ? "'" : "");
    return -1;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Comments are closed: mods_text.c has seen to that.
static void skip(parser *p) {
    for (;;) {
        p->at += strspn(p->at, " \t\r\n");
        if (p->at[0] != '/' || (p->at[1] != '/' && p->at[1] != '*')) return;
        if (p->at[1] == '/') {
            p->at += strcspn(p->at, "\n");
        } else {
            const char *end = strstr(p->at + 2, "*/");
            p->at = end ? end + 2 : p->at + strlen(p->at);
        }
    }
}

static int word_length(const char *at) {
    int n = 0;
    while (is_letter(at[n]) || (n && is_digit(at[n]))) n++;
    return n;
}
static bool is_word(const char *at, int length, const char *word) {
    return (int)strlen(word) == length && !strncmp(at, word, (size_t)length);
}

// An operator of C, the longest that begins here; 0: none.
static int operator_length(const char *at) {
    static const char *const longer[] = {"<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++",
                                         "--",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->"};
    for (size_t n = 0; n < sizeof longer / sizeof longer[0]; n++)
        if (!strncmp(at, longer[n], strlen(longer[n]))) return (int)strlen(longer[n]);
    return *at && strchr("+-*/%<>&|^!~?:=.,()[]{}", *at) ? 1 : 0;
}

static bool takes(parser *p, const char *token) {
    skip(p);
    if (operator_length(p->at) != (int)strlen(token) || strncmp(p->at, token, strlen(token)) != 0)
        return false;
    p->at += strlen(token);
    return true;
}

static int add(parser *p, mod_kind kind, const char *at, int length) {
    if (p->tree->count == MOD_NODES) return refuse(p, "it is too long", at, 0);
    mod_node *n = &p->tree->nodes[p->tree->count];
    memset(n, 0, sizeof *n);
    n->kind = kind, n->at = at, n->length = length;
    return p->tree->count++;
}
static mod_node *node(parser *p, int n) {
    return &p->tree->nodes[n];
}
static void give(parser *p, int to, int part) {
    mod_node *n = node(p, to);
    n->part[n->parts++] = part;
    n->by |= node(p, part)->by;
}

// What a number is counted with.
static mod_type promoted(mod_type t) {
    return t == MOD_BOOL ? MOD_INT : t;
}
static mod_type common(mod_type a, mod_type b) {
    a = promoted(a), b = promoted(b);
    return a > b ? a : b;
}

static int choice(parser *p);

// A whole number of C, in its three bases; -1: none, or above 32 bits.
static long long whole(const char *at, int length, bool hex) {
    const int base = hex ? 16 : at[0] == '0' ? 8 : 10;
    long long value = 0;
    for (int n = hex ? 2 : 0; n < length; n++) {
        static const char digits[] = "0123456789abcdef";
        const char small = at[n] >= 'A' && at[n] <= 'F' ? (char)(at[n] - 'A' + 'a') : at[n];
        const char *digit = memchr(digits, small, (size_t)base);
        if (!digit) return -1;
        value = value * base + (digit - digits);
        if (value > UINT_MAX) return -1;
    }
    return length > (hex ? 2 : 0) ? value : -1;
}

static int number(parser *p) {
    const char *at = p->at;
    const bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    int length = hex ? 2 : 0;
    bool real = false;
    for (char c = at[length]; is_digit(c) || is_letter(c) || c == '.'; c = at[++length]) {
        real |= c == '.' || (!hex && (c == 'e' || c == 'E')) || (hex && (c == 'p' || c == 'P'));
        if (!hex && (c == 'e' || c == 'E') && (at[length + 1] == '+' || at[length + 1] == '-')) length++;
    }
    const char last = at[length - 1];
    p->at += length;
    if (real && (hex || (last != 'f' && last != 'F')))
        return refuse(p, "a number without f is a double:", at, length);
    const int n = add(p, MOD_NUMBER, at, length);
    if (n < 0) return n;
    node(p, n)->type = MOD_FLOAT;
    if (real) return n;
    const bool no_sign = last == 'u' || last == 'U';
    const long long value = whole(at, length - no_sign, hex);
    if (value < 0 || value > (no_sign ? UINT_MAX : INT_MAX))
        return refuse(p, "a number that is not an int or uint:", at, length);
    node(p, n)->type = no_sign ? MOD_UINT : MOD_INT;
    node(p, n)->constant = true, node(p, n)->value = value;
    return n;
}

// The parts of a call, up to and with its closing bracket.
static bool parts(parser *p, int n) {
    if (!takes(p, "("))
        return refuse(p, "a name that is not known:", node(p, n)->at, node(p, n)->length) >= 0;
    if (takes(p, ")")) return true;
    do {
        const int part = choice(p);
        if (part < 0) return false;
        if (node(p, n)->parts == 4) return refuse(p, "more than four parts in a bracket", p->at, 0) >= 0;
        give(p, n, part);
    } while (takes(p, ","));
    return takes(p, ")") || refuse(p, "a bracket is not closed", p->at, 0) >= 0;
}

static int load(parser *p, const char *at, int length) {
    const int which = at[6] - '0', n = add(p, MOD_LOAD, at, length);
    if (n < 0 || !parts(p, n)) return -1;
    mod_node *x = node(p, n);
    if (which >= CLATTN_MOD_BUFFERS || x->parts != p->source->buffers[which].rank || !x->parts)
        return refuse(p, "not what is given:", at, length);
    x->function = which;
    const clattn_type t = p->source->buffers[which].type;
    x->type = t == CLATTN_TYPE_F32 || t == CLATTN_TYPE_F16 || t == CLATTN_TYPE_BF16 ? MOD_FLOAT : MOD_INT;
    return n;
}

// Whether the types of a call's parts are those that C takes without a conversion; its own then.
static bool type_call(parser *p, mod_node *x) {
    const mod_function *f = &cla_mod_functions[x->function];
    mod_type t[4];
    for (int n = 0; n < x->parts; n++) t[n] = promoted(node(p, x->part[n])->type);
    bool same = x->parts == f->parts;
    const int alike = f->shape == MOD_SELECT ? 2 : f->parts;
    for (int n = 1; same && n < alike; n++) same = t[n] == t[0];
    if (!same) return false;
    x->type = f->shape == MOD_IS ? MOD_BOOL : f->shape == MOD_MAGNITUDE ? MOD_UINT : t[0];
    if (f->shape == MOD_FLOATS || f->shape == MOD_IS) return t[0] == MOD_FLOAT;
    if (f->shape == MOD_MAGNITUDE) return t[0] != MOD_FLOAT;
    return f->shape != MOD_SELECT || t[2] != MOD_FLOAT;
}

static int call(parser *p, const char *at, int length) {
    int f = 0;
    while (cla_mod_functions[f].name && !is_word(at, length, cla_mod_functions[f].name)) f++;
    if (!cla_mod_functions[f].name) return refuse(p, "not known in vectors:", at, length);
    if (p->source->is_mask && cla_mod_functions[f].rounds)
        return refuse(p, "a mask depends on the last bit of", at, length);
    const int n = add(p, MOD_CALL, at, length);
    if (n < 0 || !parts(p, n)) return -1;
    node(p, n)->function = f;
    return type_call(p, node(p, n)) ? n : refuse(p, "mixed types in", at, length);
}

static int name(parser *p) {
    const char *at = p->at;
    const int length = word_length(at);
    p->at += length;
    if (length == 7 && !strncmp(at, "buffer", 6) && is_digit(at[6])) return load(p, at, length);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (!is_word(at, length, names[k].name)) continue;
        if (p->source->is_mask && names[k].by == MOD_BY_SCORE) break;
        const int n = add(p, MOD_NAME, at, length);
        if (n < 0) return n;
        node(p, n)->type = names[k].type, node(p, n)->by = names[k].by;
        return n;
    }
    return call(p, at, length);
}

// (int), (uint), (float) or (bool), which then is passed; -1: another bracket.
static int cast_type(parser *p) {
    static const char *const words[] = {"bool", "int", "uint", "float"};
    const char *const start = p->at;
    if (takes(p, "(")) {
        skip(p);
        const int length = word_length(p->at);
        for (int t = 0; t < 4; t++)
            if (is_word(p->at, length, words[t])) {
                p->at += length;
                if (takes(p, ")")) return t;
            }
    }
    p->at = start;
    return -1;
}

static int primary(parser *p) {
    skip(p);
    if (is_digit(*p->at) || (*p->at == '.' && is_digit(p->at[1]))) return number(p);
    if (is_letter(*p->at)) return name(p);
    if (takes(p, "(")) {
        const int n = choice(p);
        if (n < 0) return n;
        return takes(p, ")") ? n : refuse(p, "in a bracket", p->at, operator_length(p->at));
    }
    return refuse(p, *p->at ? "here" : "the text ends", p->at, operator_length(p->at));
}

static int unary(parser *p);

static int prefixed(parser *p) {
    const int cast = cast_type(p);
    skip(p);
    const char *at = p->at;
    if (cast < 0 && !(operator_length(at) == 1 && strchr("-+!~", *at))) return primary(p);
    if (cast < 0) p->at++;
    const int part = unary(p);
    if (part < 0) return part;
    const int n = add(p, cast < 0 ? MOD_UNARY : MOD_CAST, at, 1);
    if (n < 0) return n;
    give(p, n, part);
    const mod_type t = promoted(node(p, part)->type);
    if (cast < 0 && *at == '~' && t == MOD_FLOAT) return refuse(p, "of a float", at, 1);
    node(p, n)->type = cast >= 0 ? (mod_type)cast : *at == '!' ? MOD_BOOL : t;
    return n;
}

static int unary(parser *p) {
    if (++p->depth > DEPTH_MOST) return refuse(p, "it is nested too deep", p->at, 0);
    const int n = prefixed(p);
    p->depth--;
    return n;
}

// How strongly an operator binds; 0: none of two parts.
static int level_of(const char *at, int length) {
    static const char *const levels[] = {"||",    "&&",        "|",     "^",   "&",
                                         "== !=", "< > <= >=", "<< >>", "+ -", "* / %"};
    for (int level = 0; length && level < 10; level++)
        for (const char *word = levels[level]; *word; word += strspn(word, " ")) {
            const int size = (int)strcspn(word, " ");
            if (size == length && !strncmp(word, at, (size_t)size)) return level + 1;
            word += size;
        }
    return 0;
}

// Compilers may join a product to a sum, and so round once, in vectors or in numbers alone.
static bool is_product(parser *p, int n) {
    const mod_node *x = node(p, n);
    if (x->kind == MOD_UNARY || (x->kind == MOD_CAST && x->type == MOD_FLOAT))
        return is_product(p, x->part[0]);
    return x->kind == MOD_BINARY && *x->at == '*' && x->type == MOD_FLOAT;
}

static int join(parser *p, const char *at, int length, int level, int left, int right) {
    const int n = add(p, level == 1 ? MOD_OR : level == 2 ? MOD_AND : MOD_BINARY, at, length);
    if (n < 0) return n;
    give(p, n, left), give(p, n, right);
    const mod_type a = node(p, left)->type, b = node(p, right)->type, both = common(a, b);
    const bool whole = (level >= 3 && level <= 5) || level == 8 || *at == '%';
    if (whole && both == MOD_FLOAT) return refuse(p, "of a float", at, length);
    if (p->source->is_mask && level == 9 && both == MOD_FLOAT &&
        (is_product(p, left) || is_product(p, right)))
        return refuse(p, "a mask depends on the last bit of a product in", at, length);
    const bool compares = level <= 2 || level == 6 || level == 7,
               of_bools = level <= 5 && a == MOD_BOOL && b == MOD_BOOL;
    node(p, n)->type = compares || of_bools ? MOD_BOOL : level == 8 ? promoted(a) : both;
    return n;
}

static int binary(parser *p, int least) {
    int left = unary(p);
    while (left >= 0) {
        skip(p);
        const char *at = p->at;
        const int length = operator_length(at), level = level_of(at, length);
        if (!level || level < least) break;
        p->at += length;
        const int right = binary(p, level + 1);
        left = right < 0 ? right : join(p, at, length, level, left, right);
    }
    return left;
}

static int choice(parser *p) {
    if (++p->depth > DEPTH_MOST) return refuse(p, "it is nested too deep", p->at, 0);
    int n = binary(p, 1);
    if (n >= 0 && takes(p, "?")) {
        const int whether = n, yes = choice(p);
        if (yes < 0) return yes;
        if (!takes(p, ":")) return refuse(p, "a choice without :", p->at, 0);
        const int no = choice(p);
        if (no < 0) return no;
        n = add(p, MOD_CHOICE, p->at, 0);
        if (n < 0) return n;
        give(p, n, whether), give(p, n, yes), give(p, n, no);
        const mod_type a = node(p, yes)->type, b = node(p, no)->type;
        node(p, n)->type = a == MOD_BOOL && b == MOD_BOOL ? MOD_BOOL : common(a, b);
    }
    p->depth--;
    return n;
}

bool cla_mod_parse(const mod_source *source, mod_tree *tree, char why[MOD_WHY]) {
    parser p = {.source = source, .tree = tree, .at = source->text, .why = why};
    tree->count = 0;
    why[0] = '\0';
    tree->root = choice(&p);
    if (tree->root < 0) return false;
    skip(&p);
    if (*p.at) return refuse(&p, "behind the expression", p.at, operator_length(p.at)) >= 0;
    return true;
}
