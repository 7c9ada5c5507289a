/* score_mod and mask_mod: a text, its NUL, and a byte that selects score or mask, checking, and
 * buffers. Accepted texts are read again here as a compiler reads them, where a carriage return
 * ends a line. They must contain no statement, directive or open bracket. Checked texts must have
 * only words and operators of the language, and not too many tokens. The generated forms must have
 * balanced brackets. The derivative of an accepted score_mod is accepted, or refused with a
 * position in the text. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "attention/mods/mod_derive.h"
#include "attention/mods/mod_scalar.h"
#include "attention/mods/mod_vector.h"
#include "attention/mods/mods.h"
#include "base/host.h"

static char said[1024];
static void keep_line(void *user, clattn_log_level level, const char *line) {
    (void)user, (void)level;
    strncpy(said, line, sizeof said - 1);
}

static clattn_context *the_context(void) {
    static clattn_context context;
    static bool ready;
    if (!ready) FUZZ_CHECK(cla_os_mutex_init_two(&context.error_lock, &context.program_lock));
    ready = true;
    context.log = (clattn_log){.fn = keep_line, .level = CLATTN_LOG_DEBUG};
    return &context;
}

/* Replace comments by spaces. */
static char *without_comments(const char *text) {
    char *plain = strdup(text);
    FUZZ_CHECK(plain != NULL);
    for (char *at = plain; *at;) {
        const bool line = at[0] == '/' && at[1] == '/', block = at[0] == '/' && at[1] == '*';
        const char *end = block ? strstr(at + 2, "*/") : NULL;
        FUZZ_CHECK(!block || end);
        const size_t size = block ? (size_t)(end + 2 - at) : line ? strcspn(at, "\n\r") : 1;
        if (line || block) memset(at, ' ', size);
        at += size;
    }
    return plain;
}

static void check_brackets(const char *plain) {
    char open[300];
    int depth = 0;
    for (; *plain; plain++) {
        FUZZ_CHECK(!strchr(";#\"'`\\@$", *plain));
        if (strchr("([{", *plain)) {
            FUZZ_CHECK(depth < 300);
            open[depth++] = *plain;
        } else if (strchr(")]}", *plain)) {
            FUZZ_CHECK(depth > 0 && open[--depth] == (*plain == ')' ? '(' : *plain == ']' ? '[' : '{'));
        }
    }
    FUZZ_CHECK(depth == 0);
}

static bool is_word_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Words must be in the table. For numbers, and after a point, only letters are checked. */
static void check_word(const char *at, int length, bool behind_point, const mod_source *s) {
    mod_type type;
    if ((*at >= '0' && *at <= '9') || behind_point) return;
    if (length == 7 && !strncmp(at, "buffer", 6)) {
        FUZZ_CHECK(at[6] >= '0' && at[6] <= '3' && s->buffers[at[6] - '0'].rank > 0);
        return;
    }
    FUZZ_CHECK(cla_mod_word_find(at, length, s->is_mask) || cla_mod_type_width(at, length, &type) ||
               cla_mod_conversion(at, length).width);
}

static void check_language(const char *plain, const mod_source *s) {
    int tokens = 0;
    char before = '\0', word_before = '\0'; /* word_before skips blanks, which may follow a point */
    for (const char *at = plain; *at;) {
        int length = 0;
        while (is_word_letter(at[length])) length++;
        if (length) check_word(at, length, word_before == '.' || (before >= '0' && before <= '9'), s);
        FUZZ_CHECK(length || strchr(" \t\r\n()+-!~*/%<>=&^|?:,.", *at));
        const char *comparison = length ? NULL : strchr("=<>!", *at);
        if (at[0] == '=')
            FUZZ_CHECK(at[1] == '=' || before == '=' || before == '<' || before == '>' || before == '!');
        if (comparison && at[1] == '=') FUZZ_CHECK(at[2] != '=');
        FUZZ_CHECK(strncmp(at, "++", 2) != 0 && strncmp(at, "--", 2) != 0 && strncmp(at, "->", 2) != 0);
        tokens += length > 0;
        before = at[length ? length - 1 : 0];
        if (!strchr(" \t\r\n", before)) word_before = before;
        at += length ? length : 1;
    }
    FUZZ_CHECK(tokens > 0 && tokens <= MOD_TOKENS);
}

static void check_written(char *text) {
    char *plain = text ? without_comments(text) : NULL;
    if (plain) {
        for (char *c = plain; *c; c++) /* the functions around a form */
            if (*c == ';' || *c == '#') *c = ' ';
        check_brackets(plain);
    }
    free(plain);
    free(text);
}

static void check_gradient(const mod_source *s) {
    mod_source derived = *s;
    mod_fault fault;
    char why[MOD_WHY];
    char *const text = cla_mod_derive(NULL, s, &fault);
    const char *const end = s->text + strlen(s->text);
    derived.text = text, derived.is_gradient = true;
    if (!text) {
        FUZZ_CHECK(fault.why[0] && (!fault.at || (fault.at >= s->text && fault.at <= end)));
        return;
    }
    FUZZ_CHECK(cla_mods_check_text(the_context(), &derived) == CLATTN_OK);
    char *const plain = without_comments(text);
    check_brackets(plain);
    if (s->checked) check_language(plain, s);
    free(plain);
    mod_form needs = {.at = calloc(1, 64), .room = 64};
    check_written(cla_mod_scalar(NULL, &derived, &needs));
    check_written(needs.at);
    for (int lanes = 1; lanes <= MOD_LANES_MOST; lanes++)
        check_written(cla_mod_vector(NULL, &derived, lanes, why));
    free(text);
}

static bool judge(mod_source *s) {
    char why[MOD_WHY];
    said[0] = '\0';
    const bool good = cla_mods_check_text(the_context(), s) == CLATTN_OK;
    fuzz_check_error(good, said);
    if (good) {
        char *plain = without_comments(s->text);
        check_brackets(plain);
        if (s->checked) check_language(plain, s);
        free(plain);
        mod_form needs = {.at = calloc(1, 64), .room = 64};
        check_written(cla_mod_scalar(NULL, s, &needs));
        check_written(needs.at);
        if (!s->is_mask) check_gradient(s);
    }
    if (!good) return false;
    for (int lanes = 1; lanes <= MOD_LANES_MOST; lanes++) check_written(cla_mod_vector(NULL, s, lanes, why));
    return true;
}

bool fuzz_one(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t length = nul ? (size_t)(nul - data) : size;
    fuzz_bytes rest = {data + length, size - length};
    char *text = malloc(length + 1);
    if (!text) return false;
    if (length) memcpy(text, data, length);
    text[length] = '\0';
    (void)fuzz_byte(&rest);
    const int flags = fuzz_byte(&rest);
    mod_source s = {.text = text,
                    .is_mask = flags & 1,
                    .checked = !(flags & 2),
                    .buffers = {{1, CLATTN_TYPE_F32}, {2, CLATTN_TYPE_I32}, {3, CLATTN_TYPE_BOOL}}};
    if (flags & 4) s.buffers[0].rank = 0;
    if (flags & 8) s.buffers[3].rank = 4, s.buffers[3].type = CLATTN_TYPE_BF16;
    const bool good = judge(&s);
    free(text);
    return good;
}
