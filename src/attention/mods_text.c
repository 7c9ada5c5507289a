// mods_text.c: whether a caller's text is one expression. It is put between the parentheses of a return statement: what
// could end that, or be seen by the preprocessor, is refused here, before a compiler sees it. All else is the compiler's.
#include <stdbool.h>
#include <string.h>

#include "attention/mods.h"

#define TEXT_MOST 65536
#define DEPTH_MOST 256

typedef struct scanner {
    const char *text, *at, *line; // where the line begins
    int line_number, depth;
    char open[DEPTH_MOST]; // brackets that are open
    bool seen;             // something besides spaces and comments
} scanner;

static char closing(char open) {
    return open == '(' ? ')' : open == '[' ? ']' : '}';
}

// Past a space or a comment that begins here; false where there is none. *why: a comment that never ends.
static bool skip(scanner *s, const char **why) {
    if (strchr(" \t\r\n", *s->at)) {
        if (*s->at++ == '\n') s->line = s->at, s->line_number++;
        return true;
    }
    if (s->at[0] == '/' && s->at[1] == '/') {
        s->at += strcspn(s->at, "\n");
        return true;
    }
    if (s->at[0] != '/' || s->at[1] != '*') return false;
    const char *end = strstr(s->at + 2, "*/");
    if (!end) *why = "a comment opens here and never closes";
    for (; end && s->at < end + 2; s->at++)
        if (*s->at == '\n') s->line = s->at + 1, s->line_number++;
    return end != NULL;
}

// The second spellings of brackets and of #.
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

static clattn_status refuse(clattn_context *c, const char *name, const scanner *s, const char *why) {
    const bool printable = (unsigned char)*s->at > ' ' && (unsigned char)*s->at < 127;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: line %d, column %d%s%.*s%s: %s", name,
                            s->line_number, (int)(s->at - s->line) + 1, printable ? ", '" : "", printable,
                            s->at, printable ? "'" : "", why);
}

clattn_status cla_mods_check_text(clattn_context *context, const char *name, const char *text) {
    scanner s = {.text = text, .at = text, .line = text, .line_number = 1};
    const char *why = NULL;
    if (strlen(text) > TEXT_MOST)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "%s: has %zu characters: at most %d are possible", name, strlen(text),
                                TEXT_MOST);
    // The preprocessor joins lines and replaces trigraphs before it knows of comments.
    const char *spliced = strchr(text, '\\'), *trigraph = strstr(text, "??");
    if (spliced || trigraph)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "%s: character %d: a %s is not accepted in it, not even in a comment", name,
                                (int)((spliced ? spliced : trigraph) - text) + 1,
                                spliced ? "backslash" : "pair of question marks");
    while (!why && *s.at)
        if (!skip(&s, &why) && !why) why = take(&s);
    if (!why && s.depth > 0) why = "the text ends and brackets are open";
    if (!why && !s.seen) why = "has no expression";
    return why ? refuse(context, name, &s, why) : CLATTN_OK;
}
