// heatmap_mask.c: `clattn heatmap` of no file: which keys each row sees by --mask-mod and the other masks, as a device makes of
// them. The scores of zeros are 0 where a key is seen and -infinity where it is hidden, so that the kernels themselves are asked.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/heatmap/heatmap.h"
#include "tool/heatmap/picture_out.h"
#include "tool/cli/text.h"
#include "tool/cli/report.h"
#include "tool/heatmap/label.h"

typedef struct mask_picture {
    heatmap_request *r;
    int64_t heads;
    tokens labels;
    array zeros[3], out_array, scores; // q, k and v
} mask_picture;

static int check(mask_picture *m) {
    heatmap_request *r = m->r;
    reason why;
    m->heads = 1;
    if (r->head_list && !option_integer(r->head_list, 1, HEATMAP_MOST_SIZE, &m->heads, why))
        return tool_wrong("--heads %s: of a mask it is their number: %s", r->head_list, why);
    if (!r->n_kv) r->n_kv = r->n;
    if (r->tokens && !tokens_read(r->tokens, &m->labels, why)) return tool_wrong("%s", why);
    if (r->tokens && (int64_t)m->labels.count < (r->n < r->n_kv ? r->n_kv : r->n))
        return tool_wrong("--tokens: %zu lines: as many as rows and keys are needed", m->labels.count);
    r->common.mods_unchecked = r->score.mods_unchecked;
    return score_options_load(&r->score, 1, m->heads);
}

// What of each pair is left of a score of 0.
static int find_seen(mask_picture *m, session *s, tensors *t) {
    clattn_attention_params p = {.scores_at = CLATTN_TAP_MASKED};
    const int64_t q[4] = {1, m->heads, m->r->n, 1}, k[4] = {1, 1, m->r->n_kv, 1},
                  scores[4] = {1, m->heads, m->r->n, m->r->n_kv};
    int status = tensors_output(t, ARRAY_F32, 4, q, &m->zeros[0], &p.q);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, k, &m->zeros[1], &p.kv.k);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, k, &m->zeros[2], &p.kv.v);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, q, &m->out_array, &p.out);
    if (status < 0) status = tensors_output(t, ARRAY_F32, 4, scores, &m->scores, &p.scores);
    if (status < 0) status = score_options_upload(&m->r->score, t);
    if (status >= 0) return status;
    p.score = m->r->score.score, p.kernel = m->r->score.kernel, p.splits = m->r->score.splits;
    const clattn_status done = clattn_attention_enqueue(s->context, s->queue, &p, 0, NULL, NULL);
    if (done != CLATTN_OK) return session_status(s, done);
    status = session_finish(s);
    if (status < 0) status = session_read(s, p.scores.buffer, m->scores.data, m->scores.bytes);
    float *x = m->scores.data;
    for (int64_t n = 0; status < 0 && n < m->heads * m->r->n * m->r->n_kv; n++)
        x[n] = x[n] == -INFINITY ? 0.0f : 1.0f;
    return status;
}

static int report(const mask_picture *m, const picture *p) {
    const heatmap_request *r = m->r;
    const int64_t all = m->heads * r->n * r->n_kv;
    double seen = 0;
    if (picture_out_is_terminal(r->out) || r->common.quiet) return EXIT_DONE;
    for (int64_t n = 0; n < all; n++) seen += (double)((const float *)m->scores.data)[n];
    if (r->common.json)
        return report_json(json_pack("{s:o, s:i, s:i, s:i, s:I, s:I}", "out", report_text(r->out), "heads",
                                     p->heads, "queries", p->rows, "keys", p->columns, "seen",
                                     (json_int_t)seen, "pairs", (json_int_t)all));
    printable_printf(stdout, "%s: %d heads, %d queries x %d keys, %.0f of %lld pairs seen\n", r->out,
                     p->heads, p->rows, p->columns, seen, (long long)all);
    return EXIT_DONE;
}

static int draw(const mask_picture *m) {
    const heatmap_request *r = m->r;
    char title[512], error[512] = "no memory for the heads";
    int *heads = calloc((size_t)m->heads, sizeof *heads);
    const char *const *labels = r->tokens ? m->labels.lines : NULL;
    const picture p = {.title = title,
                       .weights = m->scores.data,
                       .head_stride = r->n * r->n_kv,
                       .row_stride = r->n_kv,
                       .heads = (int)m->heads,
                       .rows = (int)r->n,
                       .columns = (int)r->n_kv,
                       .head_numbers = heads,
                       .row_labels = labels,
                       .column_labels = labels,
                       .hides_zero = true};
    for (int h = 0; heads && h < m->heads; h++) heads[h] = h;
    snprintf(title, sizeof title, "%.400s", r->score.score.mask_mod ? r->score.score.mask_mod : "mask");
    const bool done = heads && picture_out(&p, r->out, r->colour, error);
    const int status = done ? report(m, &p) : tool_failed("%s", error);
    free(heads);
    return status;
}

int heatmap_mask(heatmap_request *r) {
    mask_picture m = {.r = r};
    session s = {0};
    int status = check(&m);
    if (status < 0) status = session_open(&s, &r->common);
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
    return status;
}
