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
static bool is_real(mod_type t) {
    return t >= MOD_FLOAT;
}
static bool is_signed(mod_type t) {
    return t == MOD_CHAR || t == MOD_SHORT || t == MOD_INT || t == MOD_LONG;
}
mod_type cla_mod_unsigned(mod_type t) {
    return is_signed(t) ? (mod_type)(t + 1) : t;
}

// The type after C's integer promotion.
static mod_type promoted(mod_type t) {
    return t < MOD_INT ? MOD_INT : t;
}

// The result type of a comparison of vectors: the signed integer of the same size.
static mod_type compared(mod_type t) {
    return t == MOD_FLOAT ? MOD_INT : t == MOD_DOUBLE ? MOD_LONG : is_signed(t) ? t : (mod_type)(t - 1);
}

// The common type of two operands. A vector and a number become the vector. False: no compiler
// accepts them.
static bool common(const mod_node *a, const mod_node *b, mod_type *type, int *width) {
    const mod_node *v = a->width >= b->width ? a : b, *s = v == a ? b : a;
    *width = v->width;
    *type = v->type;
    if (s->width > 1) return s->width == v->width && s->type == v->type;
    if (v->width > 1) return is_real(v->type) || !is_real(s->type);
    if (promoted(s->type) > *type) *type = s->type;
    *type = promoted(*type);
    return true;
}

static bool refuse_types(mod_parser *p, const mod_node *x) {
    return cla_mod_refuse(p, x->at, x->length, "has parts whose types do not fit together") >= 0;
}

// Record that an operator converts this part to another type.
static void count_as(mod_node *x, mod_type t, int width) {
    x->is_part = true, x->of = t, x->of_width = width;
}

// Signed arithmetic that may overflow is done unsigned, where it wraps. For two numbers it is
// enough to convert the first.
static void guard_wrap(mod_parser *p, mod_node *x) {
    if (!p->source->checked || !is_signed(x->type)) return;
    x->guard = GUARD_WRAP;
    for (int n = 0; n < x->parts; n++) {
        const mod_node *a = part(p, x, n);
        if (n == 0 || x->width > 1 || (a->guard == GUARD_WRAP && a->type == x->type))
            count_as(part(p, x, n), cla_mod_unsigned(x->type), x->width);
    }
}

bool cla_mod_type_becomes(mod_parser *p, mod_node *x, mod_type to, bool in_vector) {
    if (x->width > 1 && !(in_vector && x->type == to))
        return cla_mod_refuse(p, x->at, x->length, "is a vector, which becomes nothing else") >= 0;
    if (!p->source->checked || !is_real(x->type) || is_real(to) || to == MOD_BOOL) return true;
    x->leaves_real = true, x->whole = to;
    return true;
}

bool cla_mod_type_unary(mod_parser *p, mod_node *x) {
    const mod_node *a = part(p, x, 0);
    x->width = a->width;
    x->type = x->width > 1    ? (*x->at == '!' ? compared(a->type) : a->type)
              : *x->at == '!' ? MOD_BOOL
                              : promoted(a->type);
    if (*x->at == '-') guard_wrap(p, x);
    return *x->at != '~' || !is_real(x->type) || cla_mod_refuse(p, x->at, 1, "is for whole numbers") >= 0;
}

bool cla_mod_type_conversion(mod_parser *p, mod_node *x) {
    const mod_conversion *to = &x->conversion;
    const mod_node *a = part(p, x, 0);
    cla_mod_note(p, "not known in vectors:", x->at, x->length);
    x->type = to->type, x->width = to->width;
    if (to->same_bits)
        return a->width != 3 || to->width == 3 ||
               cla_mod_refuse(p, x->at, x->length, "takes a vector of three, and gives more") >= 0;
    if (a->width != to->width) return refuse_types(p, x);
    if (p->source->checked && is_real(a->type) != is_real(to->type) && (is_real(a->type) || to->rounding))
        x->guard = GUARD_CALL;
    return true;
}

// Set the type to which a call's first `alike` arguments are converted. False: they do not fit
// together.
static bool type_alike(mod_parser *p, mod_node *x, int alike) {
    const mod_shape shape = x->function->shape;
    mod_node counted = *part(p, x, 0);
    bool fit = true;
    for (int n = 1; n < alike; n++) {
        const mod_node *a = part(p, x, n);
        const bool same = a->type == counted.type && a->width == counted.width;
        if (!same) fit &= common(&counted, a, &counted.type, &counted.width);
    }
    if (counted.type == MOD_BOOL) counted.type = MOD_INT;
    x->type = counted.type, x->width = counted.width;
    if (shape == MOD_FLOATS || shape == MOD_IS || shape == MOD_POWERS) {
        if (x->type < MOD_FLOAT) x->type = MOD_FLOAT;
        // `fit` does not matter: if the arguments do not fit, the compiler rejects them.
        return true;
    }
    if (!strncmp(x->function->name, "mul24", 5) || !strncmp(x->function->name, "mad24", 5))
        x->type = promoted(x->type);
    for (int n = 0; fit && p->source->checked && n < alike; n++)
        if (part(p, x, n)->width == 1 && part(p, x, n)->type != x->type) count_as(part(p, x, n), x->type, 1);
    return fit;
}

// Set the result type of a call from its argument types.
static bool type_given(mod_parser *p, mod_node *x) {
    const mod_word *f = x->function;
    const mod_type first = promoted(part(p, x, 0)->type), bits = part(p, x, 0)->type;
    switch (f->shape) {
    case MOD_FLOATS:
    case MOD_SAME:
    case MOD_POWERS:
    case MOD_SELECT:
    case MOD_NUMBERS:
        return true;
    case MOD_MAGNITUDE:
        x->type = cla_mod_unsigned(x->type);
        return true;
    case MOD_IS:
        x->type = x->width > 1 ? compared(x->type) : MOD_BOOL;
        return true;
    case MOD_COUNTS:
        if (*f->name == 'i') x->type = MOD_INT;
        return true;
    case MOD_QUIET:
        x->type = bits == MOD_LONG || bits == MOD_ULONG ? MOD_DOUBLE : MOD_FLOAT;
        return true;
    case MOD_TRUTH:
        x->type = MOD_INT, x->width = 1;
        return true;
    case MOD_JOINED:
        x->type = (mod_type)((bits == MOD_BOOL ? first : bits) + 2);
        return !is_real(bits) && x->type <= MOD_ULONG;
    }
    return false;
}

// True if the call has a vector form: its arguments already have the types that C needs without
// conversion.
static bool is_plain_call(mod_parser *p, const mod_node *x) {
    const mod_shape shape = x->function->shape;
    const mod_type t = promoted(part(p, x, 0)->type);
    const int alike = shape == MOD_SELECT ? 2 : shape == MOD_POWERS ? 1 : x->parts;
    for (int n = 1; n < alike; n++)
        if (promoted(part(p, x, n)->type) != t) return false;
    if (shape == MOD_FLOATS || shape == MOD_IS) return t == MOD_FLOAT;
    if (shape == MOD_MAGNITUDE) return !is_real(t);
    return shape != MOD_SELECT || !is_real(part(p, x, 2)->type);
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
                              f->shape == MOD_POWERS ? "takes a whole number as its second argument"
                                                     : "takes whole numbers") >= 0;
    if (f->shape == MOD_COUNTS && !last->by && p->source->checked)
        return cla_mod_refuse(p, x->at, x->length, "is always the same: write the number that it gives") >= 0;
    if (!type_alike(p, x,
                    f->shape == MOD_SELECT                             ? 2
                    : f->shape == MOD_POWERS || f->shape == MOD_JOINED ? 1
                                                                       : x->parts))
        return refuse_types(p, x);
    const mod_type taken = x->type;
    x->conversion.type = taken;
    if ((f->shape == MOD_NUMBERS || f->shape == MOD_MAGNITUDE) && is_real(taken))
        return cla_mod_refuse(p, x->at, x->length, "takes whole numbers") >= 0;
    if (!type_given(p, x)) return refuse_types(p, x);
    if (f->shape == MOD_TRUTH && !is_signed(last->width > 1 ? last->type : promoted(last->type)))
        return cla_mod_refuse(p, x->at, x->length, "takes whole numbers with a sign") >= 0;
    if (f->own && p->source->checked && !is_real(taken)) x->guard = GUARD_CALL;
    for (int n = 0; x->guard == GUARD_CALL && x->width == 1 && n < x->parts;
         // The guard function expects the argument's own type.
         n++)
        if (part(p, x, n)->guard == GUARD_WRAP && part(p, x, n)->type == taken)
            count_as(part(p, x, n), cla_mod_unsigned(taken), 1);
    if (!is_plain_call(p, x)) cla_mod_note(p, "mixed types in", x->at, x->length);
    return true;
}

void cla_mod_type_load(mod_parser *p, mod_node *x) {
    const clattn_type t = p->source->buffers[x->buffer].type;
    x->type = t == CLATTN_TYPE_F32 || t == CLATTN_TYPE_F16 || t == CLATTN_TYPE_BF16 ? MOD_FLOAT : MOD_INT;
    x->by |= MOD_BY_CALL;
}

// True if the node is a float product. Compilers may fuse it into a sum and round once, in only one
// of the scalar and vector forms.
static bool is_product(mod_parser *p, const mod_node *x) {
    if (x->kind == MOD_UNARY || (x->kind == MOD_CAST && x->type == MOD_FLOAT))
        return is_product(p, part(p, x, 0));
    return x->kind == MOD_BINARY && *x->at == '*' && x->type == MOD_FLOAT;
}

// In OpenCL C, integer division by 0 is undefined, and so is the smallest integer divided by -1. A
// literal may become 0 in a vector of a smaller type.
static bool type_division(mod_parser *p, mod_node *x) {
    const mod_node *by = part(p, x, 1);
    if (!p->source->checked || is_real(x->type)) return true;
    if (by->constant && by->value == 0) return cla_mod_refuse(p, x->at, 1, "divides by 0") >= 0;
    if (by->constant && (x->type >= MOD_INT || by->value < 128)) return true;
    if (x->width > 1 || x->type > MOD_UINT)
        return cla_mod_refuse(
                   p, x->at, 1,
                   "divides what may be whole numbers, and neither int nor uint: cast both to int, "
                   "uint or float") >= 0;
    x->guard = GUARD_DIVISION;
    // The guard function expects the argument's own type.
    for (int n = 0; n < 2; n++)
        if (part(p, x, n)->guard == GUARD_WRAP) count_as(part(p, x, n), MOD_UINT, 1);
    return true;
}

bool cla_mod_type_join(mod_parser *p, mod_node *x, int level) {
    const mod_node *left = part(p, x, 0), *right = part(p, x, 1);
    const mod_type a = left->type, b = right->type;
    const bool whole = (level >= 3 && level <= 5) || level == 8 || *x->at == '%', shifts = level == 8;
    const bool compares = level <= 2 || level == 6 || level == 7;
    mod_type both;
    if (whole && (is_real(a) || is_real(b)))
        return cla_mod_refuse(p, x->at, x->length, "is for whole numbers") >= 0;
    bool fit = common(left, right, &both, &x->width);
    if (shifts) fit = left->width == right->width || right->width == 1, x->width = left->width;
    if (!fit) return refuse_types(p, x);
    if (p->source->is_mask && level == 9 && both == MOD_FLOAT &&
        (is_product(p, left) || is_product(p, right)))
        cla_mod_note(p, "a mask depends on the last bit of a product in", x->at, x->length);
    const bool of_bools = level <= 5 && a == MOD_BOOL && b == MOD_BOOL;
    x->type = x->width > 1           ? (compares ? compared(both)
                                        : shifts ? a
                                                 : both)
              : compares || of_bools ? MOD_BOOL
              : shifts               ? promoted(a)
                                     : both;
    if (level == 9 || *x->at == '*') guard_wrap(p, x);
    return level != 10 || *x->at == '*' || type_division(p, x);
}

// A vector condition selects element by element.
bool cla_mod_type_choice(mod_parser *p, mod_node *x) {
    const mod_node *by = part(p, x, 0), *a = part(p, x, 1), *b = part(p, x, 2);
    if (!common(a, b, &x->type, &x->width) || (by->width > 1 && is_real(by->type))) return refuse_types(p, x);
    if (a->type == MOD_BOOL && b->type == MOD_BOOL) x->type = MOD_BOOL;
    if (by->width > 1 && x->width > 1 && by->width != x->width) return refuse_types(p, x);
    if (by->width > x->width) x->width = by->width;
    return true;
}
