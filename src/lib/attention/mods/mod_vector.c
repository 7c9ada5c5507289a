// mod_vector.c: see mod_vector.h. Parts that are the same in all lanes stay scalar. Other parts
// become vectors, with C's conversions written out. A comparison of vectors yields 0 and -1, which
// becomes 0 and 1 in arithmetic. Both sides of a choice by a vector are computed. This is safe
// because expressions have no side effects and buffer indices are clamped. A choice that guards an
// integer division, which may trap, has no vector form.
#include "attention/mods/mod_vector.h"

#include <stdio.h>
#include <string.h>

#include "attention/mods/mod_form.h"
#include "attention/mods/mod_scalar.h"
#include "base/host.h"

#define KEPT_MOST 16
// Limit on nested brackets, so that a compiler can handle them with a stack of 512 KiB.
#define FORM_NESTED 56

typedef struct vectors {
    const mod_source *source;
    const mod_tree *tree;
    int lanes;
    unsigned varies; // MOD_BY_... bits that differ between lanes
    int kept[KEPT_MOST], kept_count;
    mod_form out;
    char *why;
} vectors;

#define put(v, ...) cla_mod_form_put(&(v)->out, __VA_ARGS__)

static const mod_node *node(const vectors *v, int n) {
    return &v->tree->nodes[n];
}
static bool is_vector(const vectors *v, int n) {
    return (node(v, n)->by & v->varies) != 0;
}

// The types of scalar and vector parts.
static const char *const
    scalar_types[] = {[MOD_BOOL] = "int", [MOD_INT] = "int", [MOD_UINT] = "uint", [MOD_FLOAT] = "float"},
    *const vector_types[] = {
        [MOD_BOOL] = "VEC_INT", [MOD_INT] = "VEC_INT", [MOD_UINT] = "VEC_UINT", [MOD_FLOAT] = "VEC"};

// Write a node as it is: a number, or a vector of its own type.
static void emit(vectors *v, int n);

static void emit_zero(vectors *v, mod_type t) {
    put(v, "(%s)(%s)", vector_types[t], t == MOD_FLOAT ? "0.0f" : "0");
}

static void emit_converted(vectors *v, int n, mod_type to) {
    static const char *const ways[MOD_FLOAT + 1][MOD_FLOAT + 1] = {
        [MOD_BOOL] = {[MOD_INT] = "(-", [MOD_UINT] = "AS_VEC_UINT(-", [MOD_FLOAT] = "TO_VEC(-"},
        [MOD_INT] = {[MOD_UINT] = "AS_VEC_UINT(", [MOD_FLOAT] = "TO_VEC("},
        [MOD_UINT] = {[MOD_INT] = "AS_VEC_INT(", [MOD_FLOAT] = "TO_VEC("},
        [MOD_FLOAT] = {[MOD_INT] = "TO_VEC_INT(", [MOD_UINT] = "TO_VEC_UINT("},
    };
    const mod_type from = node(v, n)->type;
    if (to == MOD_BOOL && from != MOD_BOOL) {
        put(v, "("), emit(v, n), put(v, " != "), emit_zero(v, from), put(v, ")");
        return;
    }
    const char *const way = from != MOD_FLOAT || to == MOD_FLOAT || !v->source->checked ? ways[from][to]
                            : to == MOD_UINT                                            ? "mod_to_uint_lanes("
                                                                                        : "mod_to_int_lanes(";
    if (way) put(v, "%s", way);
    emit(v, n);
    if (way) put(v, ")");
}

// Write a node converted to a type, as a vector, or as a number if `vector` is false.
static void emit_as(vectors *v, int n, mod_type to, bool vector) {
    if (is_vector(v, n)) {
        emit_converted(v, n, to);
    } else if (to == MOD_BOOL) {
        put(v, vector ? "(VEC_INT)(-(int)(" : "(("), emit(v, n), put(v, " != 0))");
    } else {
        const mod_type from = node(v, n)->type == MOD_BOOL ? MOD_INT : node(v, n)->type;
        const bool leaves_real = from == MOD_FLOAT && to != MOD_FLOAT && v->source->checked;
        if (vector) put(v, "(%s)", vector_types[to]);
        if (leaves_real) put(v, "mod_to_%s_float", scalar_types[to]);
        put(v, "(");
        if (from != to && !leaves_real) put(v, "(%s)", scalar_types[to]);
        emit(v, n), put(v, ")");
    }
}

// Write a node as an unsigned number or vector, which wraps.
static void emit_unsigned(vectors *v, int n, bool vector);

// True if the value increases by one per lane: a name of this kind, plus or minus a scalar.
static bool counts_lanes(const vectors *v, int n) {
    const mod_node *x = node(v, n);
    if (v->lanes == MOD_LANES_HEADS || x->type != MOD_INT || !is_vector(v, n)) return false;
    if (x->kind == MOD_NAME) return true;
    if (x->kind != MOD_BINARY || (*x->at != '+' && *x->at != '-') || x->length != 1) return false;
    const int a = x->part[0], b = x->part[1];
    return is_vector(v, a) ? !is_vector(v, b) && counts_lanes(v, a) : *x->at == '+' && counts_lanes(v, b);
}

static void emit_load(vectors *v, int n) {
    const mod_node *x = node(v, n);
    int axis = -1, vectors_in = 0;
    for (int k = 0; k < x->parts; k++)
        if (is_vector(v, x->part[k])) axis = k, vectors_in++;
    const bool run = vectors_in == 1 && counts_lanes(v, x->part[axis]), gather = vectors_in && !run;
    put(v, "mod_%s%d(clattn_call", run ? "run" : gather ? "gather" : "read", x->buffer);
    for (int k = 0; k < 4; k++) {
        put(v, ", ");
        if (k >= x->parts)
            put(v, gather ? "(VEC_INT)(0)" : "0");
        else
            emit_as(v, x->part[k], MOD_INT, gather);
        if (run && k == axis) put(v, ".s0");
    }
    if (run) put(v, ", %d", axis);
    put(v, ")");
}

static void emit_unary(vectors *v, const mod_node *x) {
    const int a = x->part[0];
    if (x->guard == GUARD_WRAP) {
        put(v, "(-"), emit_unsigned(v, a, is_vector(v, a)), put(v, ")");
        return;
    }
    if (*x->at == '!' && is_vector(v, a)) {
        put(v, "(~"), emit_as(v, a, MOD_BOOL, true), put(v, ")");
        return;
    }
    put(v, "(%c", *x->at);
    if (is_vector(v, a))
        emit_as(v, a, x->type, true);
    else
        emit(v, a);
    put(v, ")");
}

// The type to which an operator's parts are converted.
static mod_type operand_type(const vectors *v, const mod_node *x) {
    const mod_node *a = node(v, x->part[0]), *b = node(v, x->part[1]);
    const bool shifts = x->length == 2 && (x->at[0] == '<' || x->at[0] == '>') && x->at[0] == x->at[1];
    const mod_type of = a->type > b->type ? a->type : b->type;
    if (shifts) return x->type;
    return of == MOD_BOOL && !(x->length == 1 && strchr("&|^", *x->at)) ? MOD_INT : of;
}

// Index of a kept value in the struct; -1: it is not kept.
static int kept_place(const vectors *v, int n) {
    for (int k = 0; k < v->kept_count; k++)
        if (v->kept[k] == n) return k;
    return -1;
}

// True if the left part needs no brackets. Otherwise a long sum would nest its brackets deeply, and
// compilers need stack for each level.
static bool goes_on(const vectors *v, int n, int left) {
    const mod_node *x = node(v, n), *a = node(v, left);
    if (a->kind != x->kind || kept_place(v, left) >= 0 || a->guard != x->guard ||
        is_vector(v, n) != is_vector(v, left))
        return false;
    if (x->kind != MOD_BINARY) return !is_vector(v, n) || is_vector(v, a->part[0]);
    const bool sums = strchr("+-", *x->at) && strchr("+-", *a->at);
    if (x->length != 1 || a->length != 1 || !(sums || (*x->at == *a->at && strchr("*&|^", *x->at))))
        return false;
    return !is_vector(v, n) || (a->type == operand_type(v, x) && operand_type(v, a) == operand_type(v, x));
}

static void emit_division(vectors *v, int n) {
    const mod_node *x = node(v, n);
    put(v, "mod_%s%s%s(", *x->at == '/' ? "divide" : "modulo", x->type == MOD_UINT ? "_uint" : "",
        is_vector(v, n) ? "_lanes" : "");
    emit_as(v, x->part[0], x->type, is_vector(v, n)), put(v, ", ");
    emit_as(v, x->part[1], x->type, false), put(v, ")");
}

static void put_binary(vectors *v, int n) {
    const mod_node *x = node(v, n);
    const mod_type of = operand_type(v, x);
    const bool vector = is_vector(v, n), wraps = x->guard == GUARD_WRAP;
    if (goes_on(v, n, x->part[0]))
        put_binary(v, x->part[0]);
    else if (wraps)
        emit_unsigned(v, x->part[0], vector);
    else if (vector)
        emit_as(v, x->part[0], of, true);
    else
        emit(v, x->part[0]);
    put(v, " %.*s ", x->length, x->at);
    if (wraps && (vector || node(v, x->part[1])->guard == GUARD_WRAP))
        emit_unsigned(v, x->part[1], vector);
    else if (vector)
        emit_as(v, x->part[1], of, true);
    else
        emit(v, x->part[1]);
}

static void emit_unsigned(vectors *v, int n, bool vector) {
    const mod_node *x = node(v, n);
    if (x->guard != GUARD_WRAP || kept_place(v, n) >= 0 || is_vector(v, n) != vector)
        emit_as(v, n, MOD_UINT, vector);
    else if (x->kind == MOD_UNARY)
        emit_unary(v, x);
    else
        put(v, "("), put_binary(v, n), put(v, ")");
}

// Write && and ||. With a scalar on the left, the right part is computed only if C would compute
// it.
static void put_logic(vectors *v, int n) {
    const mod_node *x = node(v, n);
    const int a = x->part[0], b = x->part[1];
    const bool both = x->kind == MOD_AND, vector = is_vector(v, n);
    if (vector && !is_vector(v, a)) {
        emit_as(v, a, MOD_BOOL, false), put(v, both ? " ? " : " ? (VEC_INT)(-1) : ");
        emit_as(v, b, MOD_BOOL, true), put(v, both ? " : (VEC_INT)(0)" : "");
        return;
    }
    if (goes_on(v, n, a))
        put_logic(v, a);
    else if (vector)
        emit_as(v, a, MOD_BOOL, true);
    else
        emit(v, a);
    put(v, vector ? (both ? " & " : " | ") : both ? " && " : " || ");
    if (vector)
        emit_as(v, b, MOD_BOOL, true);
    else
        emit(v, b);
}

static void put_choice(vectors *v, int n) {
    const mod_node *x = node(v, n), *no = node(v, x->part[2]);
    const bool vector = is_vector(v, n);
    const bool again = no->kind == MOD_CHOICE && !is_vector(v, no->part[0]) &&
                       kept_place(v, x->part[2]) < 0 && !no->guard && is_vector(v, x->part[2]) == vector &&
                       (!vector || no->type == x->type);
    if (is_vector(v, x->part[0])) {
        put(v, "select("), emit_as(v, x->part[2], x->type, true), put(v, ", ");
        emit_as(v, x->part[1], x->type, true), put(v, ", "), emit_as(v, x->part[0], MOD_BOOL, true);
        put(v, ")");
        return;
    }
    emit(v, x->part[0]), put(v, " ? ");
    for (int k = 1; k < 3; k++) {
        if (k == 2 && again)
            put_choice(v, x->part[k]);
        else if (vector)
            emit_as(v, x->part[k], x->type, true);
        else
            emit(v, x->part[k]);
        put(v, k == 1 ? " : " : "");
    }
}

static void emit_call(vectors *v, int n) {
    const mod_node *x = node(v, n);
    const mod_word *f = x->function;
    const bool vector = is_vector(v, n);
    mod_type of = node(v, x->part[0])->type;
    if (of == MOD_BOOL) of = MOD_INT;
    // The scalar select tests if the third argument is 0; the vector select tests its sign.
    if (f->shape == MOD_SELECT && !vector) put(v, "("), emit(v, x->part[2]), put(v, " ? ");
    if (f->shape == MOD_SELECT && !vector) {
        emit_as(v, x->part[1], of, false), put(v, " : "), emit_as(v, x->part[0], of, false), put(v, ")");
        return;
    }
    char own[MOD_NAME_SIZE];
    cla_mod_own_name(v->tree, x, own);
    if (f->shape == MOD_SAME && vector) snprintf(own, sizeof own, "mod_%s", f->name);
    put(v, "%s%s(", x->guard == GUARD_CALL ? own : f->name,
        x->guard == GUARD_CALL && vector && f->shape != MOD_SAME ? "_lanes" : "");
    for (int k = 0; k < x->parts; k++) {
        if (k) put(v, ", ");
        emit_as(v, x->part[k], f->shape == MOD_SELECT && k == 2 ? MOD_BOOL : of, vector);
    }
    put(v, ")");
}

static void emit_whole(vectors *v, int n) {
    const mod_node *x = node(v, n);
    if (x->guard == GUARD_WRAP) {
        put(v, is_vector(v, n) ? "AS_VEC_INT" : "(int)"), emit_unsigned(v, n, is_vector(v, n));
        return;
    }
    switch (x->kind) {
    case MOD_NUMBER:
    case MOD_NAME:
    case MOD_SCALARS:
        put(v, "%.*s", x->length, x->at);
        return;
    case MOD_UNARY:
        emit_unary(v, x);
        return;
    case MOD_BINARY:
        if (x->guard == GUARD_DIVISION)
            emit_division(v, n);
        else
            put(v, "("), put_binary(v, n), put(v, ")");
        return;
    case MOD_AND:
    case MOD_OR:
        put(v, "("), put_logic(v, n), put(v, ")");
        return;
    case MOD_CHOICE:
        if (is_vector(v, x->part[0]))
            put_choice(v, n);
        else
            put(v, "("), put_choice(v, n), put(v, ")");
        return;
    case MOD_CAST:
        emit_as(v, x->part[0], x->type, is_vector(v, n));
        return;
    case MOD_CALL:
        emit_call(v, n);
        return;
    case MOD_LOAD:
        emit_load(v, n);
        return;
    }
}

static void emit(vectors *v, int n) {
    const int kept = kept_place(v, n);
    if (kept >= 0)
        put(v, "kept->x%d", kept);
    else
        emit_whole(v, n);
}

static bool divides_whole(const mod_node *x) {
    return x->kind == MOD_BINARY && (*x->at == '/' || *x->at == '%') && x->type != MOD_FLOAT;
}

// True if computing this part needlessly could trap.
static bool may_trap(const vectors *v, int n) {
    const mod_node *x = node(v, n);
    if (divides_whole(x)) {
        const mod_node *by = node(v, x->part[1]);
        if (!by->constant || by->value == 0) return true;
    }
    for (int k = 0; k < x->parts; k++)
        if (may_trap(v, x->part[k])) return true;
    return false;
}

// Check that the node has a vector form. Also collect the values to keep: loads whose indices
// depend on neither key nor score.
static bool look(vectors *v, int n) {
    const mod_node *x = node(v, n);
    const bool by_vector = x->parts > 1 && is_vector(v, x->part[0]);
    const char *why = NULL;
    if (divides_whole(x) && is_vector(v, x->part[1])) why = "an integer division by what differs";
    if ((x->kind == MOD_AND || x->kind == MOD_OR) && by_vector && may_trap(v, x->part[1]))
        why = "&& or || may guard an integer division";
    if (x->kind == MOD_CHOICE && by_vector && (may_trap(v, x->part[1]) || may_trap(v, x->part[2])))
        why = "a choice may guard an integer division";
    if (why) {
        snprintf(v->why, MOD_WHY, "%s", why);
        return false;
    }
    if (x->kind == MOD_LOAD && !(x->by & (MOD_BY_KEY | MOD_BY_SCORE)) && !may_trap(v, n) &&
        v->kept_count < KEPT_MOST) {
        v->kept[v->kept_count++] = n;
        return true; // own_NAME_begin evaluates its indices
    }
    for (int k = 0; k < x->parts; k++)
        if (!look(v, x->part[k])) return false;
    return true;
}

static void put_names(vectors *v, bool key) {
    const char *const row = v->lanes == MOD_LANES_KEYS ? "int" : "VEC_INT";
    put(v, "int b, %s h, %s i, ", v->lanes == MOD_LANES_HEADS ? "VEC_INT" : "int", row);
    if (key) put(v, "%s j, ", v->lanes == MOD_LANES_KEYS ? "VEC_INT" : "int");
    put(v, "%s row, int q_length, int kv_length,\n    const mod_call *clattn_call) {\n", row);
    put(v, "#pragma OPENCL FP_CONTRACT OFF\n");
}

static void write_form(vectors *v) {
    const char *const name = v->source->is_mask ? "mask" : v->source->is_gradient ? "gradient" : "score";
    const int kept = v->kept_count;
    put(v, "typedef struct own_%s_kept {\n", name);
    for (int k = 0; k < kept; k++) {
        const int n = v->kept[k];
        put(v, "    %s x%d;\n", (is_vector(v, n) ? vector_types : scalar_types)[node(v, n)->type], k);
    }
    put(v, "    int none;\n} own_%s_kept;\nvoid own_%s_begin(own_%s_kept *kept, ", name, name, name);
    put_names(v, false);
    v->kept_count = 0; // here the values are loaded
    for (int k = 0; k < kept; k++) put(v, "    kept->x%d = ", k), emit(v, v->kept[k]), put(v, ";\n");
    v->kept_count = kept;
    put(v, "}\n%s own_%s_lanes(const own_%s_kept *kept, %s", v->source->is_mask ? "VEC_INT" : "VEC", name,
        name, v->source->is_mask ? "" : "VEC score, ");
    put_names(v, true);
    put(v, "    return ");
    emit_as(v, v->tree->root, v->source->is_mask ? MOD_BOOL : MOD_FLOAT, true);
    put(v, ";\n}\n");
}

// True if the whole expression has a vector form; else v->why has the reason.
static bool is_for_vectors(vectors *v, mod_tree *tree) {
    mod_fault fault;
    if (!cla_mod_parse(v->source, tree, &fault, v->why)) {
        const int length = fault.length > 24 ? 24 : fault.length;
        snprintf(v->why, MOD_WHY, "%s%.*s%s%.50s", length ? "'" : "", length, fault.at, length ? "' " : "",
                 fault.why);
        return false;
    }
    return !v->why[0] && look(v, tree->root);
}

char *cla_mod_vector(const struct clattn_host_memory *host, const mod_source *source, int lanes,
                     char why[MOD_WHY]) {
    static const unsigned varies[] = {0, MOD_BY_ROW, MOD_BY_ROW | MOD_BY_HEAD, MOD_BY_KEY};
    why[0] = '\0';
    mod_tree *tree = cla_host_take(host, sizeof *tree);
    if (!tree) return NULL;
    vectors v = {.out.host = host,
                 .source = source,
                 .tree = tree,
                 .lanes = lanes,
                 .varies = varies[lanes] | MOD_BY_SCORE,
                 .why = why};
    v.out.room = 4096;
    if (is_for_vectors(&v, tree) && (v.out.at = cla_host_take(host, v.out.room)) != NULL) write_form(&v);
    cla_host_release(host, tree);
    if (!v.out.at || cla_mod_form_nested(&v.out) <= FORM_NESTED) return v.out.at;
    cla_host_release(host, v.out.at);
    snprintf(why, MOD_WHY, "its vectors are nested too deep");
    return NULL;
}
