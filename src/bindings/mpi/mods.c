// mods.c: rewrites score_mod and mask_mod for local calls. A mod's names mean positions in the
// whole sequence, but a local call counts its rows, keys and heads from 0. So each name becomes a
// sum with a number that the call reads from one more buffer. The text is the same for all calls,
// so it is compiled once.
//      j -> (j+bufferN(0))            i -> (i+bufferN(0))
//      row -> (row+bufferN(1))        h -> (h+bufferN(2))
//      q_length -> bufferN(3+b)       kv_length -> bufferN(3+B+b)
#include "mpi/local.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_KEY, FIRST_ROW, FIRST_HEAD, LENGTHS };
#define LONGEST_NAME 64 // longest replacement of a name

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// Length of the comment that begins here, up to the end of the text if it is not closed; 0: no
// comment.
static size_t comment_length(const char *at) {
    if (at[0] != '/' || (at[1] != '/' && at[1] != '*')) return 0;
    if (at[1] == '/') return strcspn(at, "\n");
    const char *end = strstr(at + 2, "*/");
    return end ? (size_t)(end + 2 - at) : strlen(at);
}

// Length of the comment, word or sign that begins here. A number such as 1e5f counts as a word.
static size_t token_length(const char *at, bool *word) {
    size_t size = comment_length(at);
    *word = size == 0 && is_word(*at);
    while (*word && is_word(at[size])) size++;
    return size ? size : 1;
}

// The replacement of a name, or NULL to keep it.
static const char *whole_name(const job *j, const char *name, size_t size, char text[LONGEST_NAME]) {
    static const struct {
        const char *name;
        int number;
    } names[] = {{"j", FIRST_KEY}, {"i", FIRST_KEY}, {"row", FIRST_ROW}, {"h", FIRST_HEAD}};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        if (size != strlen(names[n].name) || memcmp(name, names[n].name, size)) continue;
        snprintf(text, LONGEST_NAME, "(%s+buffer%d(%d))", names[n].name, j->mod_slot, names[n].number);
        return text;
    }
    const bool of_q = size == 8 && !memcmp(name, "q_length", size),
               of_kv = size == 9 && !memcmp(name, "kv_length", size);
    if (!of_q && !of_kv) return NULL;
    snprintf(text, LONGEST_NAME, "buffer%d(%lld+b)", j->mod_slot,
             LENGTHS + (of_kv ? (long long)j->batch : 0));
    return text;
}

// Replace names. Comments, words that begin with a digit, and members after a point are kept.
static char *rewrite(const job *j, const char *from) {
    const size_t length = strlen(from);
    char *to = cla_mpi_zeroed(j->w, 1, length * (LONGEST_NAME / 2) + LONGEST_NAME), *at = to,
         text[LONGEST_NAME];
    for (size_t n = 0; to && n < length;) {
        bool word;
        const size_t size = token_length(from + n, &word);
        const bool names = word && !isdigit((unsigned char)from[n]) && (n == 0 || from[n - 1] != '.');
        const char *name = names ? whole_name(j, from + n, size, text) : NULL;
        if (!name) {
            memcpy(at, from + n, size);
            at += size;
        } else {
            memcpy(at, name, strlen(name));
            at += strlen(name);
        }
        n += size;
    }
    if (to) *at = '\0';
    return to;
}

// True if a text reads the buffer that the caller left out and this module uses.
static bool reads_slot(const job *j, const char *text) {
    char name[] = "buffer0";
    name[6] = (char)('0' + j->mod_slot);
    for (const char *at = text ? text : ""; *at;) {
        bool word;
        const size_t size = token_length(at, &word);
        if (word && size == strlen(name) && !memcmp(at, name, size)) return true;
        at += size;
    }
    return false;
}

clattn_status cla_mpi_mods_open(job *j, int most) {
    const clattn_score *s = &j->p->score;
    if (!s->score_mod && !s->mask_mod) return CLATTN_OK;
    for (int n = CLATTN_MOD_BUFFERS - 1; n >= 0; n--)
        if (!cla_mpi_given(&s->mod_buffers[n])) j->mod_slot = n;
    if (j->mod_slot < 0)
        return cla_mpi_fail(j->w, CLATTN_UNSUPPORTED, "mod_buffers: all %d are taken, and one must be free",
                            CLATTN_MOD_BUFFERS);
    if (reads_slot(j, s->score_mod) || reads_slot(j, s->mask_mod))
        return cla_mpi_fail(j->w, CLATTN_INVALID_ARGUMENT,
                            "%s: buffer%d: is not given: there is no mod_buffers[%d]",
                            reads_slot(j, s->score_mod) ? "score_mod" : "mask_mod", j->mod_slot, j->mod_slot);
    j->mod_width = LENGTHS + 2 * (int)j->batch;
    j->mod_most = most;
    j->mod_rows = cla_mpi_zeroed(j->w, (size_t)most + 1, (size_t)j->mod_width * sizeof *j->mod_rows);
    j->score_mod = s->score_mod ? rewrite(j, s->score_mod) : NULL;
    j->mask_mod = s->mask_mod ? rewrite(j, s->mask_mod) : NULL;
    const char *derived = j->b ? j->b->score_mod_gradient : NULL;
    j->score_mod_gradient = derived ? rewrite(j, derived) : NULL;
    if (!j->mod_rows || (s->score_mod && !j->score_mod) || (s->mask_mod && !j->mask_mod) ||
        (derived && !j->score_mod_gradient))
        return cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    j->mod_bytes = ((size_t)most + 1) * (size_t)j->mod_width * sizeof *j->mod_rows;
    return cla_mpi_buffer(j->w, j->mod_bytes, &j->mod_buffer);
}

int cla_mpi_mods_add(job *j, const span *q, const span *k, int64_t first_head) {
    const clattn_score *s = &j->p->score;
    if (j->mod_slot < 0 || j->mod_count == j->mod_most) return -1;
    int32_t *row = j->mod_rows + (size_t)j->mod_count * (size_t)j->mod_width;
    row[FIRST_KEY] = (int32_t)k->start, row[FIRST_ROW] = (int32_t)q->start;
    row[FIRST_HEAD] = (int32_t)first_head;
    for (int64_t b = 0; b < j->batch; b++) {
        row[LENGTHS + b] = s->q_lengths ? s->q_lengths[b] : (int32_t)j->n_q;
        row[LENGTHS + j->batch + b] = s->kv_lengths ? s->kv_lengths[b] : (int32_t)j->n_kv;
    }
    return j->mod_count++;
}

clattn_status cla_mpi_mods_upload(job *j) {
    if (!j->mod_count) return CLATTN_OK;
    const size_t bytes = (size_t)j->mod_count * (size_t)j->mod_width * sizeof *j->mod_rows;
    return cla_mpi_cl(
        j->w, clEnqueueWriteBuffer(j->w->queue, j->mod_buffer, CL_TRUE, 0, bytes, j->mod_rows, 0, NULL, NULL),
        "clEnqueueWriteBuffer");
}

clattn_tensor cla_mpi_mods_view(const job *j, int row) {
    const int64_t width = j->mod_width;
    clattn_tensor t = clattn_tensor_dense(j->mod_buffer, CLATTN_TYPE_I32, 1, &width);
    t.offset = row * width;
    return t;
}
