// tuned.c: parsing and finding tuned rows; see tuned.h.
#include "plan/tuned.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE 512

static bool parse_range(const char *text, tuned_range *r) {
    char *end = NULL;
    *r = (tuned_range){0, INT_MAX};
    if (*text != '.') {
        const long x = strtol(text, &end, 10);
        if (end == text || x < 0 || x > INT_MAX) return false;
        *r = (tuned_range){(int)x, (int)x};
        text = end;
    }
    if (!*text) return true;
    if (strncmp(text, "..", 2) != 0) return false;
    text += 2;
    r->most = INT_MAX;
    if (!*text) return true;
    const long x = strtol(text, &end, 10);
    if (end == text || *end || x < r->least || x > INT_MAX) return false;
    r->most = (int)x;
    return true;
}

static bool parse_type(const char *text, tuned_range *r) {
    static const char *const names[] = {"f32", "f16", "bf16"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *r = (tuned_range){i, i};
            return true;
        }
    return false;
}

static bool parse_condition(char *word, tuned_row *row) {
    char *value = strchr(word, '=');
    if (!value) return false;
    *value++ = '\0';
    if (!strcmp(word, "type")) return parse_type(value, &row->type);
    tuned_range *r = !strcmp(word, "cpu")     ? &row->cpu
                     : !strcmp(word, "lanes") ? &row->lanes
                     : !strcmp(word, "d")     ? &row->d
                     : !strcmp(word, "nq")    ? &row->nq
                                              : NULL;
    return r && parse_range(value, r);
}

// Knobs that choose among right programs. Those that describe the data (types, head sizes, SCORE_OPS, ...) are
// not for rows.
static bool may_tune(const char *macro) {
    static const char *const names[] = {"LANES",      "ROW_VECTORS",   "KEY_BLOCK",   "TILE_KV",
                                        "ROWS",       "COLUMN_BLOCK",  "COLUMN_TILE", "ROW_BLOCK",
                                        "ROW_PANELS", "REDUCTION_TILE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(macro, names[i])) return true;
    return false;
}

static bool is_vector(int lanes) {
    return lanes == 0 || lanes == 4 || lanes == 8 || lanes == 16;
}
static bool divides(int part, int whole) {
    return part == 0 || whole == 0 || whole % part == 0;
}

// What the kernels themselves would refuse with #error.
static bool knobs_fit(const tuned_row *row) {
    const knobs *k = &row->knobs;
    return is_vector(k->lanes) && divides(k->key_block, k->tile_kv) && divides(k->lanes, k->column_tile) &&
           divides(k->column_block, k->column_tile) && divides(k->lanes, k->reduction_tile) && k->rows <= 8 &&
           k->row_vectors <= 8;
}

static bool parse_knob(char *word, tuned_row *row) {
    char *value = strchr(word, '='), *end = NULL;
    if (!value) return false;
    *value++ = '\0';
    const long x = strtol(value, &end, 10);
    return end != value && !*end && x >= 0 && x <= 65536 && may_tune(word) &&
           cla_knobs_set(&row->knobs, word, (int)x);
}

static bool parse_kernel(const char *word, enum kernel_id *id) {
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (!strcmp(word, clattn_kernel_sources[i].name)) {
            *id = (enum kernel_id)i;
            return true;
        }
    *id = TUNED_CLBLAST;
    return !strcmp(word, "clblast");
}

// The next word of a line, NULL at its end; words are cut in place.
static char *next_word(char **rest) {
    char *word = *rest + strspn(*rest, " \t\r");
    if (!*word) return NULL;
    char *end = word + strcspn(word, " \t\r");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

// 1: a row, 0: an empty line, -1: wrong.
static int parse_line(char *line, tuned_row *row) {
    const tuned_range any = {0, INT_MAX};
    *row = (tuned_row){.cpu = any, .lanes = any, .type = any, .d = any, .nq = any};
    char *comment = strchr(line, '#'), *rest = line;
    if (comment) *comment = '\0';
    char *word = next_word(&rest);
    if (!word) return 0;
    if (!parse_kernel(word, &row->id)) return -1;
    bool after = false;
    while ((word = next_word(&rest)) != NULL) {
        if (!after && !strcmp(word, ":")) {
            after = true;
            continue;
        }
        if (!(after ? parse_knob(word, row) : parse_condition(word, row))) return -1;
    }
    return after && knobs_fit(row) ? 1 : -1;
}

bool cla_tuned_parse(const char *text, tuned_rows *rows, char *why, size_t size) {
    *rows = (tuned_rows){0};
    for (int number = 1; *text; number++) {
        char line[MAX_LINE];
        const size_t n = strcspn(text, "\n");
        tuned_row row;
        const bool fits = n < sizeof line;
        memcpy(line, text, fits ? n : 0);
        line[fits ? n : 0] = '\0';
        text += n + (text[n] == '\n');
        const int kind = fits ? parse_line(line, &row) : -1;
        tuned_row *grown =
            kind == 1 ? realloc(rows->rows, (size_t)(rows->count + 1) * sizeof *grown) : rows->rows;
        if (kind < 0 || (kind == 1 && !grown)) {
            snprintf(why, size,
                     "tuned rows: line %d is not a row: \"kernel condition=value ... : KNOB=number ...\" is "
                     "needed",
                     number);
            cla_tuned_free(rows);
            return false;
        }
        rows->rows = grown;
        if (kind == 1) rows->rows[rows->count++] = row;
    }
    return true;
}

void cla_tuned_free(tuned_rows *rows) {
    free(rows->rows);
    *rows = (tuned_rows){0};
}

static bool within(const tuned_range *r, int x) {
    return x >= r->least && x <= r->most;
}

static const tuned_row *find_in(const tuned_rows *rows, unsigned kernels, const tuned_key *key) {
    for (int i = 0; rows && i < rows->count; i++) {
        const tuned_row *r = &rows->rows[i];
        if ((kernels >> r->id & 1u) && within(&r->cpu, key->cpu) && within(&r->lanes, key->lanes) &&
            within(&r->type, key->type) && within(&r->d, key->d) && within(&r->nq, key->nq))
            return r;
    }
    return NULL;
}

const tuned_row *cla_tuned_find(const tuned_rows *own, const tuned_rows *shipped, unsigned kernels,
                                const tuned_key *key) {
    const tuned_row *r = find_in(own, kernels, key);
    return r ? r : find_in(shipped, kernels, key);
}
