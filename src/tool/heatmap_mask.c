// heatmap_mask.c: `clattn heatmap` of no file: which keys each row sees by --mask-mod and the other masks, as a device makes of
// them. The scores of zeros are 0 where a key is seen and -infinity where it is hidden, so that the kernels themselves are asked.
// With a file of weights it is heatmap.c's.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/outputs.h"
#include "tool/picture.h"
#include "tool/score_options.h"
#include "tool/tokens.h"

#define SIZE_LIMIT 65536 // rows, keys or heads, as heatmap.c has it

enum { MASK_N = 1100, MASK_N_KV, MASK_HEADS, MASK_TOKENS, MASK_OUT };

typedef struct mask_picture {
    int64_t n, n_kv, heads;
    const char *tokens_path, *out;
    tokens labels;
    array zeros[3], out_array, scores; // q, k and v
    score_options score;
    common_options common;
} mask_picture;

static bool take_picture(void *target, int id, const char *value, char why[256]) {
    mask_picture *m = target;
    switch (id) {
    case MASK_N:
        return option_integer(value, 1, SIZE_LIMIT, &m->n, why);
    case MASK_N_KV:
        return option_integer(value, 1, SIZE_LIMIT, &m->n_kv, why);
    case MASK_HEADS:
        return option_integer(value, 1, SIZE_LIMIT, &m->heads, why);
    case MASK_TOKENS:
        m->tokens_path = value;
        return true;
    default:
        m->out = value;
        return true;
    }
}

static const option_row picture_rows[] = {
    {"n", "N", MASK_N, "query rows"},
    {"n-kv", "N", MASK_N_KV, "keys; default as many"},
    {"heads", "N", MASK_HEADS, "heads, a panel each; default 1"},
    {"tokens", "FILE", MASK_TOKENS, "token labels, one a line, for queries and keys"},
    {"out", "FILE", MASK_OUT, ".png, .svg, or - for the terminal (default)"},
};

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static int check(mask_picture *m) {
    char why[512];
    if (!m->n) return tool_wrong("heatmap", "--n N is needed with a mask; see clattn heatmap --help");
    if (!m->n_kv) m->n_kv = m->n;
    if (!m->heads) m->heads = 1;
    if (!m->out) m->out = "-";
    const bool is_file = strcmp(m->out, "-") != 0;
    if (is_file && !ends_with(m->out, ".png") && !ends_with(m->out, ".svg"))
        return tool_wrong("heatmap", "--out %s: a name in .png or .svg, or -, is accepted", m->out);
    if (m->tokens_path && !tokens_read(m->tokens_path, &m->labels, why, sizeof why))
        return tool_wrong("heatmap", "%s", why);
    const int64_t least = m->n < m->n_kv ? m->n : m->n_kv;
    if (m->tokens_path && (int64_t)m->labels.count < (least == m->n ? m->n_kv : m->n))
        return tool_wrong("heatmap", "--tokens: %zu lines: as many as rows and keys are needed",
                          m->labels.count);
    const output_file outputs[] = {{"out", is_file ? m->out : NULL}};
    const int status = outputs_check("heatmap", outputs, 1);
    return status >= 0 ? status : score_options_load("heatmap", &m->score, 1, m->heads);
}

// What of each pair is left of a score of 0.
static int find_seen(mask_picture *m, session *s, tensors *t) {
    clattn_attention_params p = {.scores_at = CLATTN_TAP_MASKED};
    const int64_t q[4] = {1, m->heads, m->n, 1}, k[4] = {1, 1, m->n_kv, 1},
                  scores[4] = {1, m->heads, m->n, m->n_kv};
    int status = tensors_output(t, ARRAY_F32, 4, q, &m->zeros[0], &p.q);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, k, &m->zeros[1], &p.kv.k);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, k, &m->zeros[2], &p.kv.v);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, q, &m->out_array, &p.out);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, scores, &m->scores, &p.scores);
    if (status < 0) status = score_options_upload(&m->score, t);
    if (status >= 0) return status;
    p.score = m->score.score, p.kernel = m->score.kernel, p.splits = m->score.splits;
    const clattn_status done = clattn_attention_enqueue(s->context, s->queue, &p, 0, NULL, NULL);
    if (done != CLATTN_OK) return session_status(s, done);
    status = session_finish(s);
    if (status < 0) status = session_read(s, p.scores.buffer, m->scores.data, m->scores.bytes);
    float *x = m->scores.data;
    for (int64_t n = 0; status < 0 && n < m->heads * m->n * m->n_kv; n++)
        x[n] = x[n] == -INFINITY ? 0.0f : 1.0f;
    return status;
}

static int draw(const mask_picture *m) {
    char title[512], error[512] = "no memory for the heads";
    int *heads = calloc((size_t)m->heads, sizeof *heads);
    picture p = {.title = title,
                 .weights = m->scores.data,
                 .row_stride = m->n_kv,
                 .head_stride = m->n * m->n_kv,
                 .hides_zero = true};
    bool done = heads != NULL;
    for (int h = 0; heads && h < m->heads; h++) heads[h] = h;
    p.heads = (int)m->heads, p.rows = (int)m->n, p.columns = (int)m->n_kv, p.head_numbers = heads;
    if (m->tokens_path) p.row_labels = p.column_labels = m->labels.lines;
    snprintf(title, sizeof title, "%.400s", m->score.score.mask_mod ? m->score.score.mask_mod : "mask");
    if (done && strcmp(m->out, "-") == 0)
        picture_terminal(&p, heatmap_columns(), heatmap_coloured(0), stdout);
    else if (done)
        done = ends_with(m->out, ".png") ? picture_png(&p, m->out, error, sizeof error)
                                         : picture_svg(&p, m->out, error, sizeof error);
    double seen = 0;
    const int64_t all = m->heads * m->n * m->n_kv;
    for (int64_t n = 0; n < all; n++) seen += (double)((const float *)m->scores.data)[n];
    if (done && strcmp(m->out, "-") != 0 && !m->common.quiet)
        printf("%s: %d heads, %d queries x %d keys, %.0f of %lld pairs seen\n", m->out, p.heads, p.rows,
               p.columns, seen, (long long)all);
    free(heads);
    return done ? EXIT_DONE : tool_failed("heatmap", "%s", error);
}

static int draw_mask(int argc, char **argv) {
    mask_picture m = {0};
    session s = {0};
    const option_group groups[] = {
        {"the picture", picture_rows, sizeof picture_rows / sizeof picture_rows[0], take_picture, &m},
        score_group(&m.score),
        common_group(&m.common)};
    command_line line = {.command = "heatmap",
                         .summary = "draw which keys each row sees by the masks given",
                         .example = "clattn heatmap --mask-mod 'j <= i && i - j < 8' --n 32 --out mask.png",
                         .groups = groups,
                         .group_count = sizeof groups / sizeof groups[0]};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    status = check(&m);
    if (status < 0) status = session_open(&s, "heatmap", &m.common);
    if (status < 0) {
        tensors t = {.session = &s};
        status = find_seen(&m, &s, &t);
        if (status < 0) status = draw(&m);
        tensors_release(&t);
        session_close(&s);
    }
    array *const all[] = {&m.zeros[0], &m.zeros[1], &m.zeros[2], &m.out_array, &m.scores};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) array_free(all[i]);
    tokens_free(&m.labels);
    score_options_free(&m.score);
    return status;
}

int tool_heatmap_any(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "--mask-mod", 10) && (argv[i][10] == '\0' || argv[i][10] == '='))
            return draw_mask(argc, argv);
    return tool_heatmap(argc, argv);
}
