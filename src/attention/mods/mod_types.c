// mod_types.c: see mod_types.h.
#include "attention/mods/mod_types.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cla_mod_refuse(mod_parser *p, const char *at, int length, const char *format, ...) {
    if (p->fault->why[0]) return -1;
    va_list list;
    va_start(list, format);
    vsnprintf(p->fault->why, sizeof p->fault->why, format, list);
    va_end(list);
    p->fault->at = at, p->fault->length = length;
    return -1;
}

void cla_mod_note(mod_parser *p, const char *reason, const char *at, int length) {
    if (p->why[0]) return;
    snprintf(p->why, MOD_WHY, "%s%s%.*s%s", reason, length ? " '" : "", length > 24 ? 24 : length,
             length ? at : "", length ? "'" : "");
}

static mod_node *part(mod_parser *p, const mod_node *x, int n) {
    return &p->tree->nodes[x->part[n]];
}
static bool is_whole(mod_type t) {
    return t <= MOD_LONG;
}
static bool is_real(mod_type t) {
    return t == MOD_FLOAT || t == MOD_DOUBLE;
}

// What a number is counted with.
static mod_type promoted(mod_type t) {
    return t == MOD_BOOL ? MOD_INT : t;
}
static mod_type common(mod_type a, mod_type b) {
    a = promoted(a), b = promoted(b);
    return a > b ? a : b;
}

// What the text alone gives may be too large, which a compiler would see.
bool cla_mod_type_whole(mod_parser *p, mod_node *x, mod_type to) {
    if (!p->source->checked || x->by || is_whole(x->type)) return true;
    if (x->type == MOD_FLOAT && (to == MOD_INT || to == MOD_UINT)) {
        x->guard = to == MOD_UINT ? GUARD_UINT : GUARD_INT;
        return true;
    }
    return cla_mod_refuse(p, x->at, x->length,
                          "is always the same: write the whole number that it becomes") >= 0;
}

bool cla_mod_type_unary(mod_parser *p, mod_node *x) {
    const mod_type t = promoted(part(p, x, 0)->type);
    x->type = *x->at == '!' && t != MOD_OTHER ? MOD_BOOL : t;
    return *x->at != '~' || !is_real(t) || cla_mod_refuse(p, x->at, 1, "is for whole numbers") >= 0;
}

bool cla_mod_type_cast(mod_parser *p, mod_node *x, bool is_real_type) {
    return x->type == MOD_BOOL || is_real_type || cla_mod_type_whole(p, part(p, x, 0), x->type);
}

bool cla_mod_type_conversion(mod_parser *p, mod_node *x, mod_type to) {
    cla_mod_note(p, "not known in vectors:", x->at, x->length);
    x->type = to;
    return is_whole(part(p, x, 0)->type) || part(p, x, 0)->by || !strncmp(x->at, "as_", 3) ||
           strstr(x->at, "float") == x->at + 8 || cla_mod_type_whole(p, part(p, x, 0), MOD_OTHER);
}

// What a call gives, by its first part.
static mod_type given(mod_shape shape, mod_type first) {
    if (shape == MOD_TRUTH) return MOD_INT;
    if (first == MOD_OTHER) return MOD_OTHER;
    if (shape == MOD_JOINED || (first == MOD_LONG && shape != MOD_QUIET)) return MOD_LONG;
    return shape == MOD_IS          ? MOD_BOOL
           : shape == MOD_MAGNITUDE ? MOD_UINT
           : shape == MOD_COUNTS    ? MOD_INT
           : shape == MOD_QUIET     ? MOD_FLOAT
                                    : first;
}

// Whether the types of a call's parts are those that C takes without a conversion; its own then.
static bool fits_call(mod_parser *p, mod_node *x) {
    const mod_shape shape = x->function->shape;
    mod_type t[4] = {MOD_OTHER, MOD_OTHER, MOD_OTHER, MOD_OTHER};
    for (int n = 0; n < x->parts; n++) t[n] = promoted(part(p, x, n)->type);
    bool same = true;
    const int alike = shape == MOD_SELECT ? 2 : shape == MOD_POWERS ? 1 : x->parts;
    for (int n = 1; n < alike; n++) same &= t[n] == t[0];
    x->type = same || shape == MOD_TRUTH ? given(shape, t[0]) : MOD_OTHER;
    if (!same || x->type == MOD_OTHER) return false;
    if (shape == MOD_FLOATS || shape == MOD_IS) return t[0] == MOD_FLOAT;
    if (shape == MOD_MAGNITUDE) return is_whole(t[0]);
    return shape != MOD_SELECT || is_whole(t[2]);
}

bool cla_mod_type_call(mod_parser *p, mod_node *x) {
    const mod_word *f = x->function;
    const mod_node *last = part(p, x, x->parts - 1);
    const bool whole = f->shape == MOD_NUMBERS || f->shape == MOD_QUIET || f->shape == MOD_POWERS;
    if (f->alone) cla_mod_note(p, "not known in vectors:", x->at, x->length);
    if (p->source->is_mask && f->rounds)
        cla_mod_note(p, "a mask depends on the last bit of", x->at, x->length);
    if (whole && is_real(last->type))
        return cla_mod_refuse(p, x->at, x->length,
                              f->shape == MOD_POWERS ? "takes a whole number behind the comma"
                                                     : "takes whole numbers") >= 0;
    if (f->shape == MOD_COUNTS && !last->by && p->source->checked)
        return cla_mod_refuse(p, x->at, x->length, "is always the same: write the number that it gives") >= 0;
    if (!fits_call(p, x)) cla_mod_note(p, "mixed types in", x->at, x->length);
    return true;
}

void cla_mod_type_load(mod_parser *p, mod_node *x) {
    const clattn_type t = p->source->buffers[x->buffer].type;
    x->type = t == CLATTN_TYPE_F32 || t == CLATTN_TYPE_F16 || t == CLATTN_TYPE_BF16 ? MOD_FLOAT : MOD_INT;
    x->by |= MOD_BY_CALL;
}

// Compilers may join a product to a sum, and so round once, in vectors or in numbers alone.
static bool is_product(mod_parser *p, const mod_node *x) {
    if (x->kind == MOD_UNARY || (x->kind == MOD_CAST && x->type == MOD_FLOAT))
        return is_product(p, part(p, x, 0));
    return x->kind == MOD_BINARY && *x->at == '*' && x->type == MOD_FLOAT;
}

// OpenCL C leaves open what whole numbers give divided by 0, and the least of them by -1; compilers and processors make of it what they
// like.
static bool type_division(mod_parser *p, mod_node *x) {
    const mod_node *by = part(p, x, 1);
    if (!p->source->checked || is_real(part(p, x, 0)->type) || is_real(by->type)) return true;
    if (by->constant && by->value == 0) return cla_mod_refuse(p, x->at, 1, "divides by 0") >= 0;
    if (by->constant) return true;
    if (x->type != MOD_INT && x->type != MOD_UINT)
        return cla_mod_refuse(
                   p, x->at, 1,
                   "divides what may be whole numbers, and neither int nor uint: cast both to int, "
                   "uint or float") >= 0;
    x->guard = GUARD_DIVISION;
    return true;
}

bool cla_mod_type_join(mod_parser *p, mod_node *x, int level) {
    const mod_type a = part(p, x, 0)->type, b = part(p, x, 1)->type, both = common(a, b);
    const bool whole = (level >= 3 && level <= 5) || level == 8 || *x->at == '%';
    if (whole && (is_real(a) || is_real(b)))
        return cla_mod_refuse(p, x->at, x->length, "is for whole numbers") >= 0;
    if (p->source->is_mask && level == 9 && both == MOD_FLOAT &&
        (is_product(p, part(p, x, 0)) || is_product(p, part(p, x, 1))))
        cla_mod_note(p, "a mask depends on the last bit of a product in", x->at, x->length);
    const bool compares = level <= 2 || level == 6 || level == 7,
               of_bools = level <= 5 && a == MOD_BOOL && b == MOD_BOOL;
    x->type = both == MOD_OTHER      ? MOD_OTHER
              : compares || of_bools ? MOD_BOOL
              : level == 8           ? promoted(a)
                                     : both;
    return level != 10 || *x->at == '*' || type_division(p, x);
}

void cla_mod_type_choice(mod_parser *p, mod_node *x) {
    const mod_type a = part(p, x, 1)->type, b = part(p, x, 2)->type;
    x->type = a == MOD_BOOL && b == MOD_BOOL ? MOD_BOOL : common(a, b);
}
