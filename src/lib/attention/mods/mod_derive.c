// mod_derive.c: see mod_derive.h. A walk from the root down to each `score`. It collects the
// factors of the chain rule, and writes their product as a term at each `score`. Products are
// placed inside the branches of a choice. A branch without a derivative is then plain 0, and not 0
// times an infinite factor, such as the derivative of sqrt at 0. Parts that do not depend on score,
// and integers, have no terms.
#include "attention/mods/mod_derive.h"

#include <stdio.h>
#include <string.h>

#include "attention/mods/mod_form.h"
#include "attention/mods/mod_rules.h"
#include "attention/mods/mod_token.h"
#include "base/host.h"

#define LONGEST 65536 // limit on a text

enum { UNKNOWN, FLAT, VARIES };

typedef struct derivation {
    mod_tree *tree;
    mod_form out, factors; // the output, and the current product of factors
    size_t base;           // start of the factors inside the open bracket
    bool negative;         // sign of the product
    // In the open bracket: no term was written yet; no other term will follow.
    bool first, alone;
    unsigned char known[MOD_NODES];
    mod_fault *fault;
} derivation;

static const mod_node *node(const derivation *d, int n) {
    return &d->tree->nodes[n];
}

static bool refuse(derivation *d, const mod_node *x, const char *why) {
    if (d->fault->why[0]) return false;
    d->fault->at = x->at, d->fault->length = x->length;
    snprintf(d->fault->why, sizeof d->fault->why, "%s", why);
    return false;
}

// True if this part has a term in some branch.
static bool counts(const mod_rule *rule, int part) {
    for (int branch = 0; branch <= RULE_CONDITIONS; branch++)
        if (rule->by[branch][part]) return true;
    return false;
}

// True if an integer depends on the bits of the score. Then it is not a step function with
// derivative 0.
static bool reads_bits(derivation *d, int n) {
    const mod_node *x = node(d, n);
    if (!(x->by & MOD_BY_SCORE) || x->type == MOD_BOOL) return false;
    if (x->kind == MOD_CALL && !x->function && x->conversion.same_bits)
        return !refuse(d, x, "reads the bits of what depends on score");
    for (int k = x->kind == MOD_CHOICE; k < x->parts; k++)
        if (reads_bits(d, x->part[k])) return true;
    return false;
}

static bool varies(derivation *d, int n);

static bool varies_by_parts(derivation *d, const mod_node *x) {
    const mod_rule *rule = cla_mod_rule(x);
    bool any = false;
    for (int k = 0; k < x->parts; k++)
        if (!rule || (k < RULE_PARTS && counts(rule, k))) any |= varies(d, x->part[k]);
    return any && (rule || refuse(d, x, "has no derivative here"));
}

// True if the derivative is not 0 everywhere.
static bool varies(derivation *d, int n) {
    const mod_node *x = node(d, n);
    if (d->known[n] != UNKNOWN) return d->known[n] == VARIES;
    bool any = false;
    if (!(x->by & MOD_BY_SCORE) || x->kind == MOD_LOAD)
        any = false;
    else if (x->type < MOD_FLOAT)
        (void)reads_bits(d, n);
    else if (x->width > 1 || x->kind == MOD_SCALARS)
        refuse(d, x, "is a vector that depends on score, or a part of one");
    else if (x->kind == MOD_CALL && !x->function && x->conversion.same_bits)
        refuse(d, x, "reads the bits of what depends on score");
    else
        any = x->kind == MOD_NAME || varies_by_parts(d, x);
    d->known[n] = any ? VARIES : FLAT;
    return any;
}

// True if the derivative contains a choice.
static bool chooses(derivation *d, int n) {
    const mod_node *x = node(d, n);
    const mod_rule *rule = cla_mod_rule(x);
    if (!rule || !varies(d, n)) return false;
    bool any = rule->when[0] != NULL;
    for (int k = 0; k < x->parts && !any; k++) any = rule->by[0][k] && chooses(d, x->part[k]);
    return any;
}

static bool is_one_token(const mod_node *x) {
    return x->open != x->from || x->kind == MOD_NUMBER || x->kind == MOD_NAME || x->kind == MOD_CALL ||
           x->kind == MOD_LOAD;
}

// Write a part's text without comments. `alone`: it is a whole function argument, so it needs no
// brackets.
static void put_part(mod_form *form, const mod_node *x, char way, bool alone) {
    const bool cast = way == '$' && x->type != MOD_FLOAT;
    const bool choice = x->kind == MOD_CHOICE && x->open == x->from;
    const bool bracket = way == '?' ? choice : !is_one_token(x) && (cast || !alone);
    cla_mod_form_put(form, "%s%s", cast ? "(float)" : "", bracket ? "(" : "");
    for (const char *at = x->open; at < x->close;) {
        const int word = cla_mod_word_length(at);
        const int length = cla_mod_begins_number(at) ? cla_mod_number(at).length : word ? word : 1;
        const char *next = cla_mod_skip(at + length);
        cla_mod_form_put(form, "%.*s%s", length, at, next > at + length && next < x->close ? " " : "");
        at = next;
    }
    cla_mod_form_put(form, "%s", bracket ? ")" : "");
}

static void put_template(derivation *d, mod_form *form, const mod_node *x, const char *template) {
    const char *at = template;
    while (*at) {
        const char *const part = at + strcspn(at, "$#?");
        const bool is_part = *part && part[1] >= '1' && part[1] <= '3';
        cla_mod_form_put(form, "%.*s", (int)(part - at) + (*part && !is_part), at);
        at = part + (is_part ? 2 : *part != '\0');
        if (!is_part) continue;
        const bool first = part > template && (part[-1] == '(' || (part[-1] == ' ' && part[-2] == ','));
        put_part(form, node(d, x->part[part[1] - '1']), *part, first && (*at == ')' || *at == ','));
    }
}

static bool is_full(const derivation *d) {
    return !d->out.at || !d->factors.at || d->out.used > LONGEST || d->factors.used > LONGEST;
}

// Append a factor. Returns the length to restore to remove the factor.
static size_t push(derivation *d, const mod_node *x, const char *template) {
    const size_t before = d->factors.used;
    if (*template == '-') d->negative = !d->negative, template ++;
    if (!*template) return before;
    if (*template == '/')
        cla_mod_form_put(&d->factors, before > d->base ? " " : "1.0f ");
    else if (before > d->base)
        cla_mod_form_put(&d->factors, " * ");
    put_template(d, &d->factors, x, template);
    return before;
}

static void begin_term(derivation *d, bool negative) {
    cla_mod_form_put(&d->out, "%s", d->first ? (negative ? "-" : "") : negative ? " - " : " + ");
    d->first = false;
}

// Write the current product as a term, with its sign.
static void put_product(derivation *d, const char *without, const char *behind) {
    const int length = (int)(d->factors.used - d->base);
    begin_term(d, d->negative);
    if (length)
        cla_mod_form_put(&d->out, "%.*s%s", length, d->factors.at + d->base, behind);
    else
        cla_mod_form_put(&d->out, "%s", without);
}

static void put_terms(derivation *d, int n);

// Write the terms of a node's parts, each with its factor. Common factors of several parts are
// written once, unless a part has a choice.
static void put_sum(derivation *d, const mod_node *x, const char *const by[RULE_PARTS]) {
    int count = 0;
    bool choice = false;
    for (int k = 0; k < x->parts && k < RULE_PARTS; k++)
        if (by[k] && varies(d, x->part[k])) count++, choice |= chooses(d, x->part[k]);
    const bool alone = d->alone, group = count > 1 && !choice && d->factors.used > d->base;
    const bool negative = d->negative;
    const size_t base = d->base;
    if (group) {
        put_product(d, "", " * (");
        d->base = d->factors.used, d->negative = false, d->first = true;
    }
    if (count > 1) d->alone = false;
    for (int k = 0; k < x->parts && k < RULE_PARTS && !is_full(d); k++) {
        if (!by[k] || !varies(d, x->part[k])) continue;
        const bool sign = d->negative;
        const size_t before = push(d, x, by[k]);
        put_terms(d, x->part[k]);
        d->factors.used = before, d->negative = sign;
    }
    if (group) cla_mod_form_put(&d->out, ")"), d->first = false;
    d->alone = alone, d->base = base, d->negative = negative;
}

static void put_choice(derivation *d, const mod_node *x, const mod_rule *rule) {
    const bool alone = d->alone, negative = d->negative;
    if (!alone) begin_term(d, false), cla_mod_form_put(&d->out, "(");
    for (int branch = 0, more = 1; more; branch++) {
        more = branch < RULE_CONDITIONS && rule->when[branch];
        if (more) put_template(d, &d->out, x, rule->when[branch]), cla_mod_form_put(&d->out, " ? ");
        d->first = d->alone = true, d->negative = negative;
        put_sum(d, x, rule->by[branch]);
        if (d->first) cla_mod_form_put(&d->out, "0.0f");
        if (more) cla_mod_form_put(&d->out, " : ");
    }
    if (!alone) cla_mod_form_put(&d->out, ")");
    d->first = false, d->alone = alone, d->negative = negative;
}

static void put_terms(derivation *d, int n) {
    const mod_node *x = node(d, n);
    const mod_rule *rule = cla_mod_rule(x);
    if (!rule)
        put_product(d, "1.0f", "");
    else if (rule->when[0])
        put_choice(d, x, rule);
    else
        put_sum(d, x, rule->by[0]);
}

static void write_derivative(derivation *d) {
    if (varies(d, d->tree->root)) put_terms(d, d->tree->root);
    if (d->first) cla_mod_form_put(&d->out, "0.0f");
}

// The derivative must obey the limits of every text.
static void check_size(derivation *d, const mod_source *source) {
    mod_source derived = *source;
    char why[MOD_WHY];
    derived.text = d->out.at;
    if (!is_full(d) && cla_mod_parse(&derived, d->tree, d->fault, why)) return;
    d->fault->at = NULL, d->fault->length = 0;
    snprintf(d->fault->why, sizeof d->fault->why,
             "its derivative has more than the %d words, numbers, operators and brackets, or the %d in one "
             "another, that a text may have",
             MOD_TOKENS, MOD_NESTED);
}

char *cla_mod_derive(const struct clattn_host_memory *host, const mod_source *source, mod_fault *fault) {
    char why[MOD_WHY];
    derivation d = {.tree = cla_host_take(host, sizeof *d.tree),
                    .out = {.host = host, .at = cla_host_take_zeroed(host, 1, 1024), .room = 1024},
                    .factors = {.host = host, .at = cla_host_take_zeroed(host, 1, 1024), .room = 1024},
                    .first = true,
                    .alone = true,
                    .fault = fault};
    fault->why[0] = '\0';
    bool good = d.tree && cla_mod_parse(source, d.tree, fault, why);
    if (good) write_derivative(&d);
    good = good && d.out.at && d.factors.at && !fault->why[0];
    if (good) check_size(&d, source);
    if (d.out.at && (!good || fault->why[0])) cla_host_release(host, d.out.at), d.out.at = NULL;
    cla_host_release(host, d.factors.at);
    cla_host_release(host, d.tree);
    return d.out.at;
}
