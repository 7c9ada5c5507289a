// mod_scalar.c: see mod_scalar.h. A guard surrounds the operation: a function of cl/call/mods.clh,
// or conversions to an unsigned type and back. The operator of a guarded division becomes the comma
// between the arguments.
#include "attention/mods/mod_scalar.h"

#include <stdio.h>
#include <string.h>

#include "attention/mods/mod_types.h"
#include "base/host.h"

typedef struct scalar {
    const mod_tree *tree;
    mod_form out, *needs;
    int *guarded, count; // indices of nodes
} scalar;

#define put(s, ...) cla_mod_form_put(&(s)->out, __VA_ARGS__)

// The digits of a vector type's name.
static const char *digits_of(int width) {
    static const char *const digits[17] = {[2] = "2", [3] = "3", [4] = "4", [8] = "8", [16] = "16"};
    return width <= 16 && digits[width] ? digits[width] : "";
}
static const mod_node *first_of(const mod_tree *tree, const mod_node *x) {
    return &tree->nodes[x->part[0]];
}
static bool is_small(mod_type t) {
    return t < MOD_LONG;
}
static bool is_unsigned(mod_type t) {
    return t != MOD_BOOL && cla_mod_unsigned(t) == t;
}

static const char *rounding_of(char letter) {
    return letter == 'e' ? "rint" : letter == 'p' ? "ceil" : letter == 'n' ? "floor" : "";
}

void cla_mod_whole_name(const mod_node *real, char name[MOD_NAME_SIZE]) {
    snprintf(name, MOD_NAME_SIZE, "mod_to_%s_%s", cla_mod_type_name(real->whole),
             cla_mod_type_name(real->type));
}

void cla_mod_own_name(const mod_tree *tree, const mod_node *x, char name[MOD_NAME_SIZE]) {
    const mod_conversion *c = &x->conversion;
    const char *const to = cla_mod_type_name(x->type), *const wide = digits_of(x->width);
    const char *const from = cla_mod_type_name(first_of(tree, x)->type);
    if (x->function && x->function->shape == MOD_SAME && x->width > 1)
        snprintf(name, MOD_NAME_SIZE, "mod_%s", x->function->name);
    else if (x->function)
        snprintf(name, MOD_NAME_SIZE, "mod_%s_%s%s", x->function->name, cla_mod_type_name(x->conversion.type),
                 wide);
    else if (x->type < MOD_FLOAT)
        snprintf(name, MOD_NAME_SIZE, "mod_%s_%s_%s%s%s%s", c->saturates ? "sat" : "to", to, from, wide,
                 *rounding_of(c->rounding) ? "(" : "", rounding_of(c->rounding));
    else if (c->rounding == 'e')
        snprintf(name, MOD_NAME_SIZE, "convert_%s%s", to, wide);
    else
        snprintf(name, MOD_NAME_SIZE, "mod_float_rt%c_%s%s", c->rounding, from, wide);
}

static void need(scalar *s, const char *line) {
    if (s->needs->at && !strstr(s->needs->at, line)) cla_mod_form_put(s->needs, "%s", line);
}

// Request a scalar guard function, and if width > 1 its vector version.
static void need_function(scalar *s, const char *name, mod_type of, mod_type gives, int parts, int width) {
    char line[160];
    const char *const all = is_small(of) ? "uint" : "ulong", *const t = cla_mod_type_name(of);
    snprintf(line, sizeof line, "MOD_OWN_%s(%s, %s, %s, %s)\n", name, t,
             cla_mod_type_name(cla_mod_unsigned(of)), all, is_unsigned(of) ? "ulong" : "long");
    need(s, line);
    snprintf(line, sizeof line, "MOD_EACH%d(mod_%s, %s, %d, %s)\n", parts, name, t, width,
             cla_mod_type_name(gives));
    if (width > 1) need(s, line);
}

static void need_whole(scalar *s, const char *way, mod_type to, mod_type from, int width) {
    char line[160], name[32];
    const char *const t = cla_mod_type_name(to), *const f = cla_mod_type_name(from);
    snprintf(line, sizeof line, "MOD_OWN_%s(%s, %s, %s)\n", way, t, f, is_unsigned(to) ? "ulong" : "long");
    need(s, line);
    snprintf(name, sizeof name, "%s_%s", way, t);
    snprintf(line, sizeof line, "MOD_EACH1(mod_%s, %s, %d, %s)\n", name, f, width, t);
    if (width > 1) need(s, line);
}

static void need_call(scalar *s, const mod_node *x) {
    const mod_type from = first_of(s->tree, x)->type;
    char name[16];
    if (x->function && x->function->shape == MOD_SAME && x->width > 1) return;
    if (x->function) {
        need_function(s, x->function->name, x->conversion.type, x->type, x->parts, x->width);
    } else if (x->type < MOD_FLOAT) {
        need_whole(s, x->conversion.saturates ? "sat" : "to", x->type, from, x->width);
    } else if (x->conversion.rounding != 'e') {
        snprintf(name, sizeof name, "float_rt%c", x->conversion.rounding);
        need_function(s, name, from == MOD_BOOL ? MOD_INT : from, x->type, 1, x->width);
    }
}

// True if the operator around this node computes with the same unsigned type, so that no conversion
// back is needed.
static bool goes_on(const mod_node *x) {
    return x->guard == GUARD_WRAP && x->is_part && x->of == cla_mod_unsigned(x->type) &&
           x->of_width == x->width;
}
static bool is_open(const mod_node *x) {
    return x->open == x->from;
}

// True if a cast before the node would bind only to its first part.
static bool needs_brackets(const mod_node *x) {
    const bool joins =
        x->kind == MOD_BINARY || x->kind == MOD_AND || x->kind == MOD_OR || x->kind == MOD_CHOICE;
    return joins && is_open(x);
}

// Write the text before a node. put_behind writes the text after it.
static void put_before(scalar *s, const mod_node *x) {
    char name[MOD_NAME_SIZE];
    if (x->is_part && !goes_on(x)) {
        const char *const of = cla_mod_type_name(x->of), *const wide = digits_of(x->of_width);
        if (x->of_width > 1 && x->width > 1)
            put(s, "as_%s%s(", of, wide);
        else if (x->of_width > 1)
            put(s, "(%s%s)((%s)(", of, wide, of);
        else
            put(s, "(%s)%s", of, needs_brackets(x) && !x->guard ? "(" : "");
    }
    if (x->leaves_real) cla_mod_whole_name(x, name), put(s, "%s(", name);
    if (x->guard != GUARD_WRAP || goes_on(x)) return;
    if (x->width > 1)
        put(s, "as_%s%s(", cla_mod_type_name(x->type), digits_of(x->width));
    else
        put(s, "(%s)%s", cla_mod_type_name(x->type), needs_brackets(x) ? "(" : "");
}

static void put_behind(scalar *s, const mod_node *x) {
    if (x->guard == GUARD_WRAP && !goes_on(x) && (x->width > 1 || needs_brackets(x))) put(s, ")");
    if (x->leaves_real) put(s, ")");
    if (!x->is_part || goes_on(x)) return;
    if (x->of_width > 1)
        put(s, x->width > 1 ? ")" : "))");
    else if (needs_brackets(x) && !x->guard)
        put(s, ")");
}

static const char *division_of(const mod_node *x) {
    if (*x->at == '/') return x->type == MOD_UINT ? "mod_divide_uint(" : "mod_divide(";
    return x->type == MOD_UINT ? "mod_modulo_uint(" : "mod_modulo(";
}

// Write everything that belongs at this place. Returns the number of characters of the text that it
// replaces. The outermost of several nodes that begin here was added last.
static int put_at(scalar *s, const char *at) {
    char name[MOD_NAME_SIZE];
    int instead = 0;
    for (int n = 0; n < s->count; n++) {
        const mod_node *x = &s->tree->nodes[s->guarded[n]];
        if (x->to == at && x->guard == GUARD_DIVISION) put(s, ")");
        if (x->to == at && x->guard == GUARD_CALL && !x->function && *rounding_of(x->conversion.rounding) &&
            x->type < MOD_FLOAT)
            put(s, ")");
        if (x->close == at) put_behind(s, x);
    }
    for (int n = s->count - 1; n >= 0; n--) {
        const mod_node *x = &s->tree->nodes[s->guarded[n]];
        if (x->open == at) put_before(s, x);
        if (x->from == at && x->guard == GUARD_DIVISION) put(s, "%s", division_of(x));
        if (x->at != at || (x->guard != GUARD_CALL && x->guard != GUARD_DIVISION)) continue;
        instead = x->length;
        if (x->guard == GUARD_CALL) cla_mod_own_name(s->tree, x, name), put(s, "%s", name);
        if (x->guard == GUARD_DIVISION) put(s, ",");
    }
    return instead;
}

static bool is_of(const scalar *s, const char *at) {
    for (int n = 0; n < s->count; n++) {
        const mod_node *x = &s->tree->nodes[s->guarded[n]];
        if (x->from == at || x->to == at || x->open == at || x->close == at || x->at == at) return true;
    }
    return false;
}

static void write_guarded(scalar *s, const char *text) {
    const char *begin = text;
    for (const char *at = text;; at++) {
        const bool found = is_of(s, at);
        if (*at && !found) continue;
        put(s, "%.*s", (int)(at - begin), begin);
        begin = at + (found ? put_at(s, at) : 0);
        if (!*at) return;
    }
}

static void find_guarded(scalar *s) {
    for (int n = 0; n < s->tree->count; n++) {
        const mod_node *x = &s->tree->nodes[n];
        if (!x->guard && !x->is_part && !x->leaves_real) continue;
        s->guarded[s->count++] = n;
        if (x->guard == GUARD_CALL) need_call(s, x);
        if (x->leaves_real) need_whole(s, "to", x->whole, x->type, 1);
    }
}

char *cla_mod_scalar(const struct clattn_host_memory *host, const mod_source *source, mod_form *needs) {
    mod_tree *tree = cla_host_take(host, sizeof *tree);
    scalar s = {.tree = tree, .out = {.host = host, .room = strlen(source->text) + 1024}, .needs = needs};
    mod_fault fault;
    char why[MOD_WHY];
    s.guarded = cla_host_take_zeroed(host, MOD_NODES, sizeof *s.guarded);
    if (tree && s.guarded) {
        if (source->checked && cla_mod_parse(source, tree, &fault, why)) find_guarded(&s);
        s.out.at = cla_host_take(host, s.out.room);
        write_guarded(&s, source->text);
    }
    cla_host_release(host, s.guarded);
    cla_host_release(host, tree);
    return s.out.at;
}
