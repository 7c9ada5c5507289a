// tuned.c: parse tuned rows, and find the first that fits; see tuned.h. The families check which
// knobs are legal.
#include "base/host.h"
#include "plan/backward_families.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MAX_LINE 512

static bool parse_range(const char *text, tuned_range *r) {
    *r = (tuned_range){0, INT_MAX};
    if (*text != '.') {
        if (!cla_text_count(&text, &r->least)) return false;
        r->most = r->least;
    }
    if (!*text) return true;
    if (strncmp(text, "..", 2) != 0) return false;
    text += 2;
    r->most = INT_MAX;
    if (!*text) return true;
    return cla_text_count(&text, &r->most) && !*text && r->most >= r->least;
}

static bool parse_type(const char *text, tuned_range *r) {
    for (int i = 0; i < CLATTN_TYPE_COUNT; i++)
        if (!strcmp(text, clattn_type_name((clattn_type)i))) {
            *r = (tuned_range){i, i};
            return true;
        }
    return false;
}

static bool parse_condition(char *word, tuned_row *row) {
    static const char *const words[] = {
#define CONDITION(word, field, what) #word,
#include "tables/conditions.def"
#undef CONDITION
    };
    char *value = strchr(word, '=');
    if (!value) return false;
    *value++ = '\0';
    for (int i = 0; i < CONDITION_COUNT; i++)
        if (!strcmp(word, words[i]))
            return i == CONDITION_type ? parse_type(value, &row->when[i]) : parse_range(value, &row->when[i]);
    return false;
}

// True if `word` is in a list of words that each end with a space.
static bool is_listed(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && at[n] == ' ') return true;
    return false;
}

// Index of the CLBlast kernel that a row is for; negative: none.
static int clblast_kernel_of(const tuned_row *row) {
    return (int)row->id - TUNED_CLBLAST_KERNELS;
}

static const family *family_of(enum kernel_id id) {
    for (int i = 0; i < cla_family_count; i++)
        if (cla_families[i]->id == id && cla_families[i]->tunes) return cla_families[i];
    for (int i = 0; i < CLA_BACKWARD_FAMILIES; i++)
        if (cla_backward_families[i].id == id) return &cla_backward_families[i];
    return NULL;
}

// Parse a CLBlast parameter. Each may occur once.
static bool parse_parameter(char *word, tuned_row *row) {
    char *value = strchr(word, '=');
    int x = 0;
    if (!value) return false;
    *value = '\0';
    const char *number = value + 1;
    const int at = cla_clblast_parameter_of(clblast_kernel_of(row), word);
    if (at < 0 || row->clblast[at] >= 0 || !cla_text_count(&number, &x) || *number || x > 65536) return false;
    row->clblast[at] = x;
    return true;
}

// Parse a knob. Rows may set only the knobs that the family lists: all of these keep the result
// correct. Types and sizes are excluded.
static bool parse_knob(char *word, tuned_row *row) {
    if (clblast_kernel_of(row) >= 0) return parse_parameter(word, row);
    const family *f = family_of(row->id);
    char *value = strchr(word, '=');
    int x = 0;
    if (!value || !f) return false;
    *value = '\0';
    const char *number = value + 1;
    return cla_text_count(&number, &x) && !*number && x <= 65536 && is_listed(f->tunes, word) &&
           cla_knobs_set(&row->knobs, word, x);
}

static bool parse_kernel(const char *word, tuned_row *row) {
    enum kernel_id *id = &row->id;
    const int clblast = cla_clblast_kernel_of(word);
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (!strcmp(word, clattn_kernel_sources[i].name)) {
            *id = (enum kernel_id)i;
            return family_of(*id) != NULL;
        }
    *id = (enum kernel_id)(clblast < CLBLAST_KERNELS ? TUNED_CLBLAST_KERNELS + clblast : TUNED_CLBLAST);
    for (int i = 0; clblast < CLBLAST_KERNELS && i < CLBLAST_MOST_PARAMETERS; i++) row->clblast[i] = -1;
    return clblast < CLBLAST_KERNELS || !strcmp(word, "clblast");
}

// The next word of a line, or NULL at its end. Writes a terminator behind the word.
static char *next_word(char **rest) {
    char *word = *rest + strspn(*rest, " \t\r");
    if (!*word) return NULL;
    char *end = word + strcspn(word, " \t\r");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

// Why a row is invalid, or NULL. CLBlast's parameters apply to a device, so their only conditions
// are cpu and lanes.
static const char *row_refusal(const tuned_row *row) {
    const family *f = family_of(row->id);
    if (clblast_kernel_of(row) < 0) return f && f->knobs_refusal ? f->knobs_refusal(&row->knobs) : NULL;
    for (int i = 0; i < CONDITION_COUNT; i++)
        if (i != CONDITION_cpu && i != CONDITION_lanes &&
            (row->when[i].least > 0 || row->when[i].most < INT_MAX))
            return "asks for a condition other than cpu and lanes: CLBlast's parameters are for all problems";
    return cla_clblast_refusal(clblast_kernel_of(row), row->clblast);
}

#define NO_ROW "is not a row: \"kernel condition=value ... : KNOB=number ...\" is needed"

// Parse a line. 1: a row. 0: an empty line. -1: an error, described in *why.
static int parse_line(char *line, tuned_row *row, const char **why) {
    *row = (tuned_row){0};
    for (int i = 0; i < CONDITION_COUNT; i++) row->when[i] = (tuned_range){0, INT_MAX};
    char *comment = strchr(line, '#'), *rest = line;
    if (comment) *comment = '\0';
    char *word = next_word(&rest);
    *why = NO_ROW;
    if (!word) return 0;
    if (!parse_kernel(word, row)) return -1;
    bool after = false;
    while ((word = next_word(&rest)) != NULL) {
        if (!after && !strcmp(word, ":")) {
            after = true;
            continue;
        }
        if (!(after ? parse_knob(word, row) : parse_condition(word, row))) return -1;
    }
    if (!after) return -1;
    const char *refusal = row_refusal(row);
    if (refusal) *why = refusal;
    return refusal ? -1 : 1;
}

bool cla_tuned_parse_in(const struct clattn_host_memory *host, const char *text, tuned_rows *rows, char *why,
                        size_t size) {
    *rows = (tuned_rows){.host = host};
    for (int number = 1; *text; number++) {
        char line[MAX_LINE];
        const size_t n = strcspn(text, "\n");
        tuned_row row;
        const char *wrong = NO_ROW;
        const bool fits = n < sizeof line;
        memcpy(line, text, fits ? n : 0);
        line[fits ? n : 0] = '\0';
        text += n + (text[n] == '\n');
        const int kind = fits ? parse_line(line, &row, &wrong) : -1;
        tuned_row *grown = kind == 1 ? cla_host_grow(host, rows->rows, (size_t)rows->count * sizeof *grown,
                                                     (size_t)(rows->count + 1) * sizeof *grown)
                                     : rows->rows;
        if (kind < 0 || (kind == 1 && !grown)) {
            snprintf(why, size, "tuned rows: line %d %s", number, kind < 0 ? wrong : "finds no memory");
            cla_tuned_free(rows);
            rows->no_memory = kind > 0;
            return false;
        }
        rows->rows = grown;
        if (kind == 1) rows->rows[rows->count++] = row;
    }
    return true;
}

void cla_tuned_free(tuned_rows *rows) {
    cla_host_release(rows->host, rows->rows);
    *rows = (tuned_rows){0};
}

static bool holds(const tuned_row *r, const tuned_key *key) {
    const int x[CONDITION_COUNT] = {
#define CONDITION(word, field, what) key->field,
#include "tables/conditions.def"
#undef CONDITION
    };
    for (int i = 0; i < CONDITION_COUNT; i++)
        if (x[i] < r->when[i].least || x[i] > r->when[i].most) return false;
    return true;
}

static const tuned_row *find_in(const tuned_rows *rows, const tuned_kernels *kernels, const tuned_key *key,
                                const tuned_row *after) {
    const int first = cla_tuned_has(rows, after) ? (int)(after - rows->rows) + 1 : 0;
    for (int i = first; rows && i < rows->count; i++) {
        const tuned_row *r = &rows->rows[i];
        if (kernels->has[r->id] && holds(r, key)) return r;
    }
    return NULL;
}

const tuned_row *cla_tuned_find(const tuned_rows *own, const tuned_rows *shipped,
                                const tuned_kernels *kernels, const tuned_key *key, const tuned_row *after) {
    const tuned_row *r = cla_tuned_has(shipped, after) ? NULL : find_in(own, kernels, key, after);
    return r ? r : find_in(shipped, kernels, key, after);
}
