// mod_scalar.c: see mod_scalar.h. A guard is a function of cl/call/mods.clh around what it guards; of a division the operator becomes the
// comma between its two numbers.
#include "attention/mods/mod_scalar.h"

#include <string.h>

#include "base/host.h"

#define GUARD_LONGEST 24 // a guard's name and its brackets

static const char *guard_of(const mod_node *x) {
    if (x->guard == GUARD_INT) return "mod_in_int(";
    if (x->guard == GUARD_UINT) return "mod_in_uint(";
    if (*x->at == '/') return x->type == MOD_UINT ? "mod_divide_uint(" : "mod_divide(";
    return x->type == MOD_UINT ? "mod_modulo_uint(" : "mod_modulo(";
}

static char *put(char *to, const char *text) {
    const size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

// Of guards that begin at one place the outermost was added last.
static void write_guarded(const char *text, const mod_tree *tree, const int *guarded, int count, char *to) {
    for (const char *at = text;; at++) {
        bool is_operator = false;
        for (int n = 0; n < count; n++)
            if (tree->nodes[guarded[n]].to == at) to = put(to, ")");
        for (int n = count - 1; n >= 0; n--) {
            const mod_node *x = &tree->nodes[guarded[n]];
            if (x->from == at) to = put(to, guard_of(x));
            is_operator |= x->at == at && x->guard == GUARD_DIVISION;
        }
        *to++ = is_operator ? ',' : *at;
        if (!*at) return;
    }
}

char *cla_mod_scalar(const struct clattn_host_memory *host, const mod_source *source) {
    mod_tree *tree = cla_host_take(host, sizeof *tree);
    int *guarded = cla_host_take_zeroed(host, MOD_NODES, sizeof *guarded), count = 0;
    mod_fault fault;
    char why[MOD_WHY], *written = NULL;
    if (tree && guarded) {
        if (source->checked && cla_mod_parse(source, tree, &fault, why))
            for (int n = 0; n < tree->count; n++)
                if (tree->nodes[n].guard) guarded[count++] = n;
        written = cla_host_take(host, strlen(source->text) + 1 + (size_t)count * GUARD_LONGEST);
        if (written) write_guarded(source->text, tree, guarded, count, written);
    }
    cla_host_release(host, guarded);
    cla_host_release(host, tree);
    return written;
}
