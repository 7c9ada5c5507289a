// mod_parse.c: see mod_parse.h. Recursive descent over C expressions without side effects. Types
// are computed bottom up, as in C (mod_types.c). The compiler rejects types that do not fit
// together.
#include "attention/mods/mod_parse.h"

#include <stdio.h>
#include <string.h>

#include "attention/mods/mod_token.h"
#include "attention/mods/mod_types.h"

#define VECTOR_MOST 16 // elements of a vector

typedef mod_parser parser;

static mod_node *node(parser *p, int n) {
    return &p->tree->nodes[n];
}

static void skip(parser *p) {
    p->at = cla_mod_skip(p->at);
}

static bool takes(parser *p, const char *token) {
    skip(p);
    if (cla_mod_operator_length(p->at) != (int)strlen(token) || strncmp(p->at, token, strlen(token)) != 0)
        return false;
    p->at += strlen(token);
    return true;
}

// The length of the token at this place, for an error message.
static int length_here(const char *at) {
    const int word = cla_mod_word_length(at), sign = cla_mod_operator_length(at);
    return word ? word : sign ? sign : *at != '\0';
}
// Reject the token at this place. Explains Python's operators, and a // that began a comment.
static int refuse_here(parser *p, const char *why) {
    skip(p);
    const char *at = p->at, *meant = cla_mod_word_meant(at, cla_mod_word_length(at));
    const bool ends = *at == '\0', power = *at == '*' && at > p->source->text && at[-1] == '*';
    if (meant || power)
        return cla_mod_refuse(p, at, length_here(at), "is no word of an expression: write %s",
                              power ? "pow(x, y) in place of **" : meant);
    return cla_mod_refuse(p, at, length_here(at), "%s%s%s", ends ? "the text ends here: " : "", why,
                          ends && strstr(p->source->text, "//") ? " (// begins a comment: / divides)" : "");
}

static int add(parser *p, mod_kind kind, const char *at, int length) {
    if (p->tree->count == MOD_NODES) return cla_mod_refuse(p, at, length, "is too long");
    mod_node *n = &p->tree->nodes[p->tree->count];
    memset(n, 0, sizeof *n);
    n->kind = kind, n->width = 1, n->at = n->from = n->open = at, n->length = length,
    n->to = n->close = at + length;
    return p->tree->count++;
}
static void give(parser *p, int to, int part) {
    mod_node *n = node(p, to);
    n->part[n->parts++] = part;
    n->by |= node(p, part)->by;
    if (node(p, part)->open < n->from) n->from = n->open = node(p, part)->open;
    n->to = n->close = node(p, part)->close;
}

// Enter one more level of nesting.
static bool enter(parser *p, const char *at, int length) {
    return ++p->depth <= MOD_NESTED ||
           cla_mod_refuse(p, at, length, "is in more than %d brackets and operators in one another",
                          MOD_NESTED) >= 0;
}

static int choice(parser *p);

static int number(parser *p) {
    const mod_number read = cla_mod_number(p->at);
    const char *at = p->at;
    if (!read.valid) return cla_mod_refuse(p, at, read.length, "is no number of OpenCL C");
    p->at += read.length;
    if (read.type == MOD_DOUBLE) cla_mod_note(p, "a number without f is a double:", at, read.length);
    if (read.type == MOD_LONG || read.type == MOD_ULONG)
        cla_mod_note(p, "a number that is not an int or uint:", at, read.length);
    const int n = add(p, MOD_NUMBER, at, read.length);
    if (n < 0) return n;
    node(p, n)->type = read.type;
    node(p, n)->constant = read.whole, node(p, n)->value = read.value;
    return n;
}

// Parse the parts up to the closing bracket. With `become`, each is converted to that type. The
// node stores at most four parts, and what all of them depend on.
static int parts(parser *p, int n, int most, const mod_type *become) {
    int count = 0;
    const char *open = p->at - 1;
    if (!enter(p, open, 1)) return -1;
    do {
        if (count == most)
            return cla_mod_refuse(p, p->at - 1, 1, "stands before more parts than the %d that are possible",
                                  most);
        const int part = choice(p);
        if (part < 0 ||
            (become && !cla_mod_type_becomes(p, node(p, part), *become, node(p, n)->kind == MOD_SCALARS)))
            return -1;
        const unsigned by = node(p, part)->by;
        if (count++ < 4)
            give(p, n, part);
        else
            node(p, n)->by |= by;
    } while (takes(p, ","));
    if (!takes(p, ")")) return refuse_here(p, "an operator or ) is missing before it");
    node(p, n)->to = node(p, n)->close = p->at;
    p->depth--;
    return count;
}

static int load(parser *p, const char *at, int length) {
    const int which = at[6] - '0', rank = which < CLATTN_MOD_BUFFERS ? p->source->buffers[which].rank : 0;
    if (!rank)
        return cla_mod_refuse(p, at, length, "is not given: there is no mod_buffers[%d]%s", which,
                              which < CLATTN_MOD_BUFFERS ? "" : ", they are 0 to 3");
    const int n = add(p, MOD_LOAD, at, length);
    if (n < 0 || !takes(p, "("))
        return refuse_here(p, "a buffer is read by numbers in brackets, as in buffer0(j)");
    const mod_type index = MOD_INT;
    const int count = parts(p, n, VECTOR_MOST, &index);
    if (count < 0) return -1;
    if (count != rank)
        return cla_mod_refuse(p, at, length, "takes as many numbers as mod_buffers[%d] has axes: %d, not %d",
                              which, rank, count);
    node(p, n)->buffer = which;
    cla_mod_type_load(p, node(p, n));
    return n;
}

// Parse a function call, or a conversion if `f` is NULL.
static int call(parser *p, const char *at, int length, const mod_word *f, const mod_conversion *to) {
    const int n = add(p, MOD_CALL, at, length), wanted = f ? f->parts : 1;
    if (n < 0 || !takes(p, "(")) return refuse_here(p, "a function needs its arguments in brackets");
    const int count = parts(p, n, VECTOR_MOST, NULL);
    if (count < 0) return -1;
    if (count != wanted)
        return cla_mod_refuse(p, at, length, "takes %d number%s, not %d", wanted, wanted == 1 ? "" : "s",
                              count);
    node(p, n)->function = f;
    if (!f) node(p, n)->conversion = *to;
    return (f ? cla_mod_type_call(p, node(p, n)) : cla_mod_type_conversion(p, node(p, n))) ? n : -1;
}

static int unknown(parser *p, const char *at, int length) {
    const char *meant = cla_mod_word_meant(at, length);
    if (meant) return cla_mod_refuse(p, at, length, "is no word of an expression: write %s", meant);
    const char *near = cla_mod_word_near(at, length, p->source->is_mask);
    return cla_mod_refuse(p, at, length,
                          "is no word of an expression%s%s%s: it has %sb, h, i, j, row, q_length, kv_length, "
                          "the buffers that are given, types, constants and functions",
                          near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
                          p->source->is_mask ? "" : "score, ");
}

static int name(parser *p) {
    const char *at = p->at;
    const int length = cla_mod_word_length(at);
    p->at += length;
    if (length == 7 && !strncmp(at, "buffer", 6) && at[6] >= '0' && at[6] <= '9') return load(p, at, length);
    const mod_word *w = cla_mod_word_find(at, length, p->source->is_mask);
    const mod_conversion to = cla_mod_conversion(at, length);
    mod_type type;
    if (!w && to.width) return call(p, at, length, NULL, &to);
    if (cla_mod_type_width(at, length, &type))
        return cla_mod_refuse(p, at, length, "is a type, which stands in brackets: (float)j");
    if (!w) return unknown(p, at, length);
    if (w->kind == WORD_FUNCTION) return call(p, at, length, w, NULL);
    if (w->type == MOD_LONG || w->type == MOD_ULONG) cla_mod_note(p, "not known in vectors:", at, length);
    const int n = add(p, MOD_NAME, at, length);
    if (n < 0) return n;
    node(p, n)->type = w->type, node(p, n)->by = w->by;
    return n;
}

static int primary(parser *p) {
    skip(p);
    if (cla_mod_begins_number(p->at)) return number(p);
    if (cla_mod_word_length(p->at)) return name(p);
    const char *open = p->at;
    if (!takes(p, "("))
        return refuse_here(p, "a number, a name, an opening bracket, or -, +, ! or ~ is missing");
    if (!enter(p, open, 1)) return -1;
    const int n = choice(p);
    if (n < 0) return n;
    if (!takes(p, ")")) return refuse_here(p, "an operator or ) is missing before it");
    p->depth--;
    node(p, n)->open = open, node(p, n)->close = p->at;
    return n;
}

// Number of elements that .x, .s0 or .hi selects from a vector of this width. 0: the name is
// invalid, or an element is out of range.
static int member_width(const char *at, int length, int width) {
    static const char *const halves[] = {"lo", "even", "hi", "odd"};
    for (int n = 0; n < 4; n++)
        if ((int)strlen(halves[n]) == length && !strncmp(at, halves[n], (size_t)length))
            return width == 3 ? (n < 2 ? 2 : 0) : width / 2;
    const bool counts = length > 1 && (*at | 0x20) == 's';
    const char *const all = counts ? "0123456789abcdef" : "xyzw";
    for (int n = counts; n < length; n++) {
        const char *known = memchr(all, counts ? at[n] | 0x20 : at[n], counts ? 16 : 4);
        if (!known || known - all >= width) return 0;
    }
    const int named = length - counts;
    return named <= 4 || named == 8 || named == 16 ? named : 0;
}

static int members(parser *p, int n) {
    while (n >= 0 && takes(p, ".")) {
        const char *dot = p->at - 1;
        skip(p);
        const int length = cla_mod_word_length(p->at), width = member_width(p->at, length, node(p, n)->width);
        if (!width) return refuse_here(p, "a part of a vector, such as x or s0, is missing");
        cla_mod_note(p, "a part of a vector", dot, 1);
        p->at += length;
        const int whole = n;
        n = add(p, MOD_SCALARS, dot, 1);
        if (n < 0) return n;
        give(p, n, whole);
        node(p, n)->type = node(p, whole)->type, node(p, n)->width = width;
        node(p, n)->to = node(p, n)->close = p->at;
    }
    return n;
}

// Skip (TYPE). Returns the type's width; 0: the bracket is something else, and nothing is skipped.
static int cast_type(parser *p, mod_type *type) {
    const char *const start = p->at;
    if (takes(p, "(")) {
        skip(p);
        const int length = cla_mod_word_length(p->at), width = cla_mod_type_width(p->at, length, type);
        p->at += length;
        if (width && takes(p, ")")) return width;
    }
    p->at = start;
    return 0;
}

static int unary(parser *p, int in_a_row);

// Parse (float4)(x, y, z, w) or (float4)x.
static int vector(parser *p, const char *at, mod_type type, int width, int in_a_row) {
    mod_type next;
    int n = -1;
    cla_mod_note(p, "a vector type", at, 0);
    if (!enter(p, at, 1)) return -1;
    const char *start = p->at;
    const bool casts = cast_type(p, &next) > 0;
    p->at = start;
    if (!casts && takes(p, "(")) {
        n = add(p, MOD_SCALARS, at, 1);
        if (n < 0) return -1;
        node(p, n)->type = type, node(p, n)->width = width;
        if (parts(p, n, VECTOR_MOST, &node(p, n)->type) < 0) return -1;
        n = members(p, n);
    } else {
        const int part = unary(p, in_a_row + 1);
        n = part < 0 || !cla_mod_type_becomes(p, node(p, part), type, true) ? -1 : add(p, MOD_SCALARS, at, 1);
        if (n < 0) return -1;
        node(p, n)->type = type, node(p, n)->width = width;
        give(p, n, part);
    }
    p->depth--;
    return n;
}

static int prefixed(parser *p, const char *at, const mod_type *cast, int in_a_row) {
    if (!enter(p, at, 1)) return -1;
    const int part = unary(p, in_a_row + 1);
    if (part < 0) return part;
    const int n = add(p, cast ? MOD_CAST : MOD_UNARY, at, 1);
    if (n < 0) return n;
    give(p, n, part);
    p->depth--;
    if (!cast) return cla_mod_type_unary(p, node(p, n)) ? n : -1;
    if (*cast != MOD_BOOL && *cast != MOD_INT && *cast != MOD_UINT && *cast != MOD_FLOAT)
        cla_mod_note(p, "a type not known in vectors", at, 0);
    node(p, n)->type = *cast;
    return cla_mod_type_becomes(p, node(p, part), *cast, false) ? n : -1;
}

static int too_many(parser *p, const char *at) {
    return cla_mod_refuse(p, at, 1, "is one of more than %d operators and casts in a row", MOD_PREFIXES);
}

static int unary(parser *p, int in_a_row) {
    mod_type type;
    skip(p);
    const char *at = p->at;
    const int width = cast_type(p, &type);
    if (width && in_a_row == MOD_PREFIXES) return too_many(p, at);
    if (width > 1) return vector(p, at, type, width, in_a_row);
    if (width) return prefixed(p, at, &type, in_a_row);
    if (cla_mod_operator_length(at) != 1 || !strchr("-+!~", *at)) return members(p, primary(p));
    if (in_a_row == MOD_PREFIXES) return too_many(p, at);
    p->at++;
    return prefixed(p, at, NULL, in_a_row);
}

// Precedence of a binary operator; 0: not a binary operator.
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

static int join(parser *p, const char *at, int length, int level, int left, int right) {
    const int n = add(p, level == 1 ? MOD_OR : level == 2 ? MOD_AND : MOD_BINARY, at, length);
    if (n < 0) return n;
    give(p, n, left), give(p, n, right);
    return cla_mod_type_join(p, node(p, n), level) ? n : -1;
}

static int binary(parser *p, int least) {
    int left = unary(p, 0);
    while (left >= 0) {
        skip(p);
        const char *at = p->at;
        const int length = cla_mod_operator_length(at), level = level_of(at, length);
        if (!level || level < least) break;
        p->at += length;
        const int right = binary(p, level + 1);
        left = right < 0 ? right : join(p, at, length, level, left, right);
    }
    return left;
}

static int choice(parser *p) {
    const int n = binary(p, 1);
    if (n < 0 || !takes(p, "?")) return n;
    const char *at = p->at - 1;
    if (!enter(p, at, 1)) return -1;
    const int yes = choice(p);
    if (yes < 0) return yes;
    p->depth--;
    if (!takes(p, ":")) return refuse_here(p, "a choice has : between its two values");
    const int no = choice(p);
    if (no < 0) return no;
    const int x = add(p, MOD_CHOICE, at, 1);
    if (x < 0) return x;
    give(p, x, n), give(p, x, yes), give(p, x, no);
    return cla_mod_type_choice(p, node(p, x)) ? x : -1;
}

static bool few_tokens(parser *p) {
    const char *at = cla_mod_skip(p->at);
    for (int count = 0; *at; count++) {
        const int length = cla_mod_begins_number(at) ? cla_mod_number(at).length : length_here(at);
        if (count == MOD_TOKENS)
            return cla_mod_refuse(p, at, length,
                                  "is behind the %d words, numbers, operators and brackets that are possible",
                                  MOD_TOKENS) >= 0;
        at = cla_mod_skip(at + length);
    }
    return true;
}

bool cla_mod_parse(const mod_source *source, mod_tree *tree, mod_fault *fault, char why[MOD_WHY]) {
    parser p = {.source = source, .tree = tree, .at = source->text, .why = why, .fault = fault};
    tree->count = 0;
    why[0] = fault->why[0] = '\0';
    if (!few_tokens(&p)) return false;
    tree->root = choice(&p);
    if (tree->root < 0) return false;
    skip(&p);
    return !*p.at || refuse_here(&p, "is behind the expression's end, and no operator of an expression") >= 0;
}
