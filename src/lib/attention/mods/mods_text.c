// mods_text.c: check that a caller's text is one expression, and derive it. The text is placed
// inside the parentheses of a return statement. First, anything that could end the statement or
// reach the preprocessor is rejected. Then, unless the context is mods_unchecked, anything outside
// the language of mod_parse.h is rejected. The compiler finds all other errors.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "attention/mods/mod_derive.h"
#include "attention/mods/mods.h"
#include "base/host.h"

#define TEXT_MOST 65536
#define DEPTH_MOST 256

typedef struct scanner {
    const char *at;
    int depth;
    char open[DEPTH_MOST]; // open brackets
    bool seen;             // the text has more than spaces and comments
} scanner;

static char closing(char open) {
    return open == '(' ? ')' : open == '[' ? ']' : '}';
}

// Skip a space or a comment. False: there is none. *why: the comment has no end.
static bool skip(scanner *s, const char **why) {
    if (strchr(" \t\r\n", *s->at)) {
        s->at++;
        return true;
    }
    if (s->at[0] == '/' && s->at[1] == '/') {
        s->at += strcspn(s->at, "\n");
        return true;
    }
    if (s->at[0] != '/' || s->at[1] != '*') return false;
    const char *end = strstr(s->at + 2, "*/");
    if (!end) *why = "a comment opens here and never closes";
    if (end) s->at = end + 2;
    return end != NULL;
}

// Alternative spellings of brackets and of #.
static bool is_digraph(const char *at) {
    static const char *const pairs[] = {"<%", "%>", "<:", ":>", "%:"};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (at[0] == pairs[i][0] && at[1] == pairs[i][1]) return true;
    return false;
}

static const char *take(scanner *s) {
    const char c = *s->at;
    if (strchr("([{", c)) {
        if (s->depth == DEPTH_MOST) return "more than 256 brackets are open";
        s->open[s->depth++] = c;
    } else if (strchr(")]}", c)) {
        if (s->depth == 0 || closing(s->open[s->depth - 1]) != c) return "closes what nothing here opened";
        s->depth--;
    } else if (c == ';') {
        return "an expression has no statements";
    } else if (strchr("#\"'`$@", c) || (unsigned char)c < ' ' || c == 127) {
        return "an expression of numbers has no such character";
    } else if (is_digraph(s->at)) {
        return "write a space between these two characters: together they spell another one";
    }
    s->seen = true;
    s->at++;
    return NULL;
}

// Fail with a message that has the line, the column, the text at this place, and the reason.
static clattn_status refuse(clattn_context *c, clattn_status status, const mod_source *source, const char *at,
                            int length, const char *why) {
    const char *const name = source->name, *const text = source->text;
    int line = 1;
    const char *begins = text;
    for (const char *x = text; x < at; x++)
        if (*x == '\n') line++, begins = x + 1;
    const bool printable = (unsigned char)*at > ' ' && (unsigned char)*at < 127;
    return cla_context_fail(c, status, "%s: line %d, column %d%s%.*s%s: %s", name, line,
                            (int)(at - begins) + 1, printable ? ", '" : "",
                            !printable    ? 0
                            : length > 40 ? 40
                                          : length,
                            at, printable ? "'" : "", why);
}

// Before it handles comments, the preprocessor joins lines and replaces trigraphs. It also treats a
// carriage return as the end of a line.
static clattn_status check_characters(clattn_context *c, const char *name, const char *text) {
    for (const char *at = text; *at; at++) {
        const char *what = *at == '\\'                      ? "backslash"
                           : at[0] == '?' && at[1] == '?'   ? "pair of question marks"
                           : at[0] == '\r' && at[1] != '\n' ? "carriage return without a line feed"
                           : *at == '\v' || *at == '\f'     ? "vertical tab or form feed"
                                                            : NULL;
        if (what)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: character %d: a %s is not accepted in it, not even in a comment",
                                    name, (int)(at - text) + 1, what);
    }
    return CLATTN_OK;
}

// Check that the text is in the language, which cannot write, trap or loop.
static clattn_status check_language(clattn_context *c, const char *name, const mod_source *source) {
    mod_fault fault;
    char why[MOD_WHY];
    mod_tree *tree = cla_host_take(&c->host, sizeof *tree);
    if (!tree) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "%s: no host memory for its text", name);
    const bool good = cla_mod_parse(source, tree, &fault, why);
    cla_host_release(&c->host, tree);
    return good ? CLATTN_OK : refuse(c, CLATTN_INVALID_ARGUMENT, source, fault.at, fault.length, fault.why);
}

clattn_status cla_mods_check_text(clattn_context *context, const mod_source *source) {
    const char *text = source->text, *name = source->name, *why = NULL;
    scanner s = {.at = text};
    if (strlen(text) > TEXT_MOST)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "%s: has %zu characters: at most %d are possible", name, strlen(text),
                                TEXT_MOST);
    TRY(check_characters(context, name, text));
    while (!why && *s.at)
        if (!skip(&s, &why) && !why) why = take(&s);
    if (!why && s.depth > 0)
        why = strstr(text, "//") ? "the text ends and brackets are open (// begins a comment: / divides)"
                                 : "the text ends and brackets are open";
    if (!why && !s.seen) why = "has no expression";
    if (why) return refuse(context, CLATTN_INVALID_ARGUMENT, source, s.at, 1, why);
    return source->checked ? check_language(context, name, source) : CLATTN_OK;
}

clattn_status cla_mods_derive(clattn_context *context, const mod_source *source, char **derived) {
    mod_fault fault;
    char why[MOD_FAULT + 80];
    *derived = cla_mod_derive(&context->host, source, &fault);
    if (*derived) return CLATTN_OK;
    if (!fault.why[0])
        return cla_context_fail(context, CLATTN_OUT_OF_MEMORY, "%s: no host memory for its derivative",
                                source->name);
    snprintf(why, sizeof why, "%s: give its derivative as score_mod_gradient", fault.why);
    if (fault.at) return refuse(context, CLATTN_UNSUPPORTED, source, fault.at, fault.length, why);
    return cla_context_fail(context, CLATTN_UNSUPPORTED, "%s: %s", source->name, why);
}
