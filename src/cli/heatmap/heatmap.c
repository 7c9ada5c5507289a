// heatmap.c: the command `clattn heatmap`: draw attention weights from a file, or the mask of a
// call (picture.h).
#include <math.h>

#include "cli/call_options/call_options.h"
#include "cli/files/formats.h"
#include "cli/heatmap/picture.h"

// The most queries, keys or heads of a picture: more than is readable, and small enough for pixel
// counts.
#define HEATMAP_MOST_SIZE 65536

typedef struct heatmap_request {
    const char *weights; // the file; NULL: draw a mask
    const char *tokens, *y_tokens, *out, *head_list, *dtype;
    int64_t batch, n, n_kv;
    bool by_head;
    int scale, colour; // indices into the lists of words
    float most;
    score_options score;
    common_options common;
} heatmap_request;

// With more keys than this the default scale is logarithmic, because most weights are far below the
// greatest.
#define LOGARITHMIC_FROM 64

// Everything that is loaded for a picture of weights.
typedef struct heatmap {
    array weights;
    float *values;
    tokens row_tokens, column_tokens;
    int *heads;
    picture picture;
} heatmap;

static bool load_weights(const heatmap_request *r, heatmap *map, reason why) {
    char shape[128];
    array *w = &map->weights;
    if (!load_array(r->weights, w, why)) return false;
    if (r->dtype && w->type != ARRAY_U16 && w->type != ARRAY_BF16)
        return refuse(why, "--dtype bf16: %s holds %s; it is for u2", r->weights, array_type_name(w->type));
    if (w->type == ARRAY_U16 && r->dtype) w->type = ARRAY_BF16;
    if (w->type != ARRAY_F32 && w->type != ARRAY_F16 && w->type != ARRAY_BF16 && w->type != ARRAY_BOOL)
        return refuse(why,
                      "%s: type %s; f32, f16, bf16 (u2 with --dtype bf16) and, for masks, bool are accepted",
                      r->weights, array_type_name(w->type));
    if (w->rank < (w->type == ARRAY_BOOL ? 2 : 3) || w->rank > 4)
        return refuse(why,
                      "%s: shape %s; [H, Nq, Nkv] or [B, H, Nq, Nkv] is accepted, and of a mask [Nq, Nkv]",
                      r->weights, array_shape_text(w, shape));
    if (w->rank == 2) {
        w->shape[2] = w->shape[1], w->shape[1] = w->shape[0], w->shape[0] = 1;
        w->rank = 3;
    }
    for (int axis = 0; axis < w->rank; axis++)
        if (w->shape[axis] < 1 || (axis >= w->rank - 3 && w->shape[axis] > HEATMAP_MOST_SIZE))
            return refuse(why, "%s: shape %s; sizes from 1 to %d are drawn", r->weights,
                          array_shape_text(w, shape), HEATMAP_MOST_SIZE);
    int64_t batches = w->rank == 4 ? w->shape[0] : 1;
    if (r->batch >= batches)
        return refuse(why, "--batch %lld: %s holds 0 to %lld", (long long)r->batch, r->weights,
                      (long long)batches - 1);
    if (!array_to_f32(w, &map->values)) return refuse(why, "no memory for the weights");
    return true;
}

// Parse one item of a list of heads, "N" or "N-M", append its heads, and advance *list.
static bool take_heads(const char **list, int head_count, heatmap *map) {
    char *end = NULL;
    if (**list < '0' || **list > '9') return false;
    long first = strtol(*list, &end, 10), last = first;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9') last = strtol(end + 1, &end, 10);
    if (first > last || last >= head_count || (*end != ',' && *end != '\0') ||
        (*end == ',' && end[1] == '\0'))
        return false;
    for (long head = first; head <= last; head++) {
        for (int k = 0; k < map->picture.heads; k++)
            if (map->heads[k] == head) return false;
        map->heads[map->picture.heads++] = (int)head;
    }
    *list = *end ? end + 1 : end;
    return true;
}

static bool choose_heads(const heatmap_request *r, heatmap *map, reason why) {
    const array *w = &map->weights;
    int head_count = (int)w->shape[w->rank - 3];
    map->heads = calloc((size_t)head_count, sizeof *map->heads);
    if (!map->heads) return refuse(why, "no memory for the heads");
    map->picture.head_numbers = map->heads;
    if (!r->head_list) {
        for (int head = 0; head < head_count; head++) map->heads[head] = head;
        map->picture.heads = head_count;
        return true;
    }
    const char *list = r->head_list;
    do
        if (!take_heads(&list, head_count, map))
            return refuse(why,
                          "--heads %s: a list of different heads from 0 to %d, such as 0,2-3, is accepted",
                          r->head_list, head_count - 1);
    while (*list);
    return true;
}

// Crop one axis of `size` to its tokens.
static bool crop(const char *path, const tokens *labels, int64_t size, const char *axis, int *kept,
                 reason why) {
    *kept = (int)size;
    if (!path) return true;
    if ((uint64_t)labels->count > (uint64_t)size)
        return refuse(why, "%s: %zu tokens; the weights have %lld %s, at most as many are accepted", path,
                      labels->count, (long long)size, axis);
    *kept = (int)labels->count;
    return true;
}

static bool label_axes(const heatmap_request *r, heatmap *map, reason why) {
    const array *w = &map->weights;
    picture *p = &map->picture;
    if (r->tokens && !tokens_read(r->tokens, &map->row_tokens, why)) return false;
    if (r->y_tokens && !tokens_read(r->y_tokens, &map->column_tokens, why)) return false;
    const tokens *columns = r->y_tokens ? &map->column_tokens : &map->row_tokens;
    const char *columns_path = r->y_tokens ? r->y_tokens : r->tokens;
    p->row_labels = map->row_tokens.lines;
    p->column_labels = columns->lines;
    return crop(r->tokens, &map->row_tokens, w->shape[w->rank - 2], "queries", &p->rows, why) &&
           crop(columns_path, columns, w->shape[w->rank - 1], "keys", &p->columns, why);
}

static const char *const truth[2] = {"false", "true"}, *const sight[2] = {"hidden", "seen"};

static void place(const heatmap_request *r, heatmap *map) {
    const array *w = &map->weights;
    picture *p = &map->picture;
    p->row_stride = w->shape[w->rank - 1];
    p->head_stride = w->shape[w->rank - 2] * p->row_stride;
    p->by_head = r->by_head;
    p->most = r->most;
    p->logarithmic =
        r->scale == 2 || (r->scale == 0 && p->columns > LOGARITHMIC_FROM && w->type != ARRAY_BOOL);
    p->words = w->type == ARRAY_BOOL ? truth : NULL;
    p->weights = map->values + r->batch * w->shape[w->rank - 3] * p->head_stride;
}

static int report(const heatmap_request *r, const picture *p) {
    float least = 0, greatest = 0;
    if (r->common.quiet || picture_out_is_terminal(r->out)) return EXIT_DONE;
    picture_range(p, &least, &greatest);
    if (r->common.json)
        return report_json(json_pack("{s:o, s:i, s:i, s:i, s:f, s:f}", "out", report_text(r->out), "heads",
                                     p->heads, "queries", p->rows, "keys", p->columns, "least", (double)least,
                                     "greatest", (double)greatest));
    printable_printf(stdout, "%s: %d heads, %d queries x %d keys, weights %.3g to %.3g\n", r->out, p->heads,
                     p->rows, p->columns, (double)least, (double)greatest);
    return EXIT_DONE;
}

static int draw(const heatmap_request *r, heatmap *map, reason why) {
    char title[512];
    const char *slash = strrchr(r->weights, '/');
    const char *name = slash && slash[1] ? slash + 1 : r->weights;
    if (map->weights.rank == 4)
        (void)snprintf(title, sizeof title, "%.400s, batch item %lld", name, (long long)r->batch);
    else
        (void)snprintf(title, sizeof title, "%.400s", name);
    picture *p = &map->picture;
    float least = 0, greatest = 0;
    picture_range(p, &least, &greatest);
    // Softmax weights are 0 only where a mask hides them, or by underflow.
    p->hides_zero = least == 0 && greatest > 0;
    p->title = title;
    const bool done = picture_out(p, r->out, r->colour, why);
    const int status = done ? report(r, p) : tool_failed("%s", why);
    p->title = NULL;
    return status;
}

static int heatmap_weights(const heatmap_request *r) {
    reason why = "";
    heatmap map = {.values = NULL};
    int status = EXIT_WRONG;
    if (load_weights(r, &map, why) && choose_heads(r, &map, why) && label_axes(r, &map, why)) {
        place(r, &map);
        status = draw(r, &map, why);
    } else {
        tool_wrong("%s", why);
    }
    tokens_free(&map.row_tokens);
    tokens_free(&map.column_tokens);
    free(map.heads);
    free(map.values);
    array_free(&map.weights);
    return status;
}

// A picture of a mask: the keys that each row sees by --mask-mod and the other masks. The kernels
// compute it: the scores of zero tensors are 0 for a visible key and -infinity for a hidden one.
typedef struct mask_picture {
    heatmap_request *r;
    int64_t heads;
    tokens labels;
    array zeros[3], out_array, scores; // q, k and v
} mask_picture;

static int check_mask(mask_picture *m) {
    heatmap_request *r = m->r;
    reason why;
    m->heads = 1;
    if (r->head_list && !option_integer(r->head_list, 1, HEATMAP_MOST_SIZE, &m->heads, why))
        return tool_wrong("--heads %s: for a mask it is the number of heads: %s", r->head_list, why);
    if (!r->n_kv) r->n_kv = r->n;
    if (r->tokens && !tokens_read(r->tokens, &m->labels, why)) return tool_wrong("%s", why);
    if (r->tokens && (int64_t)m->labels.count < (r->n < r->n_kv ? r->n_kv : r->n))
        return tool_wrong("--tokens: %zu lines: as many lines as rows and keys are needed", m->labels.count);
    r->common.mods_unchecked = r->score.mods_unchecked;
    return score_options_load(&r->score, 1, m->heads);
}

// Compute the masked scores of zero tensors, which show the visible pairs.
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

static int report_mask(const mask_picture *m, const picture *p) {
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

static int draw_mask(const mask_picture *m) {
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
                       .hides_zero = true,
                       .words = sight};
    for (int h = 0; heads && h < m->heads; h++) heads[h] = h;
    snprintf(title, sizeof title, "%.400s", r->score.score.mask_mod ? r->score.score.mask_mod : "mask");
    const bool done = heads && picture_out(&p, r->out, r->colour, error);
    const int status = done ? report_mask(m, &p) : tool_failed("%s", error);
    free(heads);
    return status;
}

static int heatmap_mask(heatmap_request *r) {
    mask_picture m = {.r = r};
    session s = {0};
    int status = check_mask(&m);
    if (status < 0) status = session_open(&s, &r->common);
    if (status < 0) {
        tensors t = {.session = &s};
        status = find_seen(&m, &s, &t);
        if (status < 0) status = draw_mask(&m);
        tensors_release(&t);
        session_close(&s);
    }
    array *const all[] = {&m.zeros[0], &m.zeros[1], &m.zeros[2], &m.out_array, &m.scores};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) array_free(all[i]);
    tokens_free(&m.labels);
    return status;
}

static bool check_out(void *target, const char *value, char why[256]) {
    (void)target;
    snprintf(why, 256, "a name in .png or .svg, or -, is accepted");
    return picture_out_accepts(value);
}

static bool take_most(void *target, const char *value, char why[256]) {
    heatmap_request *r = target;
    snprintf(why, 256, "a number above 0 is needed");
    return option_float(value, &r->most, why) && r->most > 0;
}

static const char *const colours[] = {"auto", "always", "never", NULL},
                         *const scales[] = {"auto", "linear", "log", NULL}, *const types[] = {"bf16", NULL};

static const option_row picture_rows[] = {
    {"out", "FILE", "a name that ends in .png or .svg, or - for the terminal, which is the default",
     AS_OUTPUT_IF(heatmap_request, out, check_out)},
    {"tokens", "FILE",
     "token labels, one a line, for queries and keys; fewer labels than rows crop the picture, which drops "
     "padding",
     AS_TEXT(heatmap_request, tokens)},
    {"heads", "LIST",
     "the heads to draw, such as 0,3,5-7; default: all. For a mask, the number of heads; default 1",
     AS_TEXT(heatmap_request, head_list)},
    {"color", "auto|always|never",
     "colours on the terminal; auto: if stdout is a terminal and NO_COLOR is not set",
     AS_CHOICE(heatmap_request, colour, colours)},
};

static const option_row weights_rows[] = {
    {"y-tokens", "FILE", "token labels of the keys, if they differ from the queries' labels",
     AS_TEXT(heatmap_request, y_tokens)},
    {"batch", "N", "the batch item to draw; default 0", AS_INTEGER(heatmap_request, batch, 0, INT32_MAX)},
    {"dtype", "bf16", "read the u2 numbers of a .npy as bfloat16", AS_WORD(heatmap_request, dtype, types)},
    {"scale", "auto|linear|log",
     "colour scale of the weights: linear in the weight, or in its logarithm over four powers of ten; auto "
     "is log for more than 64 keys",
     AS_CHOICE(heatmap_request, scale, scales)},
    {"vmax", "X", "the weight of the last colour; default: the greatest weight", AS_CALL(take_most)},
    {"per-head", NULL, "give each head its own colour scale", AS_SWITCH(heatmap_request, by_head)},
};

static const option_row mask_rows[] = {
    {"n", "N", "query rows", AS_INTEGER(heatmap_request, n, 1, HEATMAP_MOST_SIZE)},
    {"n-kv", "N", "keys; default: as --n", AS_INTEGER(heatmap_request, n_kv, 1, HEATMAP_MOST_SIZE)},
};

enum { OF_PICTURE, OF_WEIGHTS, OF_MASK, OF_SCORES, OF_ALL };

// Reject options of the other kind of picture, because they would have no effect.
static int check_request(const heatmap_request *r, const command_line *line) {
    const char *const *given = line->given;
    const common_options *c = &r->common;
    const char *masks = given[OF_MASK] ? given[OF_MASK] : given[OF_SCORES];
    const char *device = c->device ? "device" : c->cache_dir ? "cache-dir" : c->tuned ? "tuned" : NULL;
    if (!r->weights && !masks)
        return tool_wrong(
            "a file of weights, or --n N and a mask option, is needed; see clattn heatmap --help");
    if (!r->weights && !r->n) return tool_wrong("--n N is needed with a mask; see clattn heatmap --help");
    if (!r->weights && given[OF_WEIGHTS])
        return tool_wrong("--%s: is for a file of weights, not for a mask", given[OF_WEIGHTS]);
    if (r->weights && masks)
        return tool_wrong("--%s: is for the picture of a mask, but %s holds weights", masks, r->weights);
    if (r->weights && device)
        return tool_wrong("--%s: has no effect: a file of weights needs no device", device);
    if (c->json && picture_out_is_terminal(r->out))
        return tool_wrong("--json: needs --out FILE: without it standard output holds the picture");
    return -1;
}

// The score options without --scale: it changes no mask, and heatmap's own --scale maps weights to
// colours.
static option_group mask_group(score_options *o) {
    option_group group = score_group(o);
    for (int n = 0; n < group.count; n++)
        if (!strcmp(o->rows[n].name, "scale")) {
            memmove(&o->rows[n], &o->rows[n + 1], (size_t)(group.count - n - 1) * sizeof o->rows[0]);
            group.count--;
        }
    return group;
}

static int run(int argc, char **argv, heatmap_request *r) {
    const option_group groups[] = {
        [OF_PICTURE] = {"the picture", OPTION_ROWS(picture_rows), r},
        [OF_WEIGHTS] = {"for a file of weights", OPTION_ROWS(weights_rows), r},
        [OF_MASK] = {"for a mask, without a file: --n and mask options, computed on a device",
                     OPTION_ROWS(mask_rows), r},
        [OF_SCORES] = mask_group(&r->score),
        [OF_ALL] = common_group(&r->common)};
    command_line line = {.command = "heatmap",
                         .summary = "draw attention weights, [H, Nq, Nkv] or [B, H, Nq, Nkv] in FILE.npy or "
                                    "FILE.safetensors#TENSOR, a panel for each head: rows are queries, "
                                    "columns are keys; without a file, draw which keys the mask options hide",
                         .example = "clattn heatmap weights.npy --tokens tokens.txt --out heads.png\n"
                                    "clattn heatmap --mask-mod 'j <= i && i - j < 8' --n 32 --out mask.png",
                         .groups = groups,
                         .group_count = sizeof groups / sizeof groups[0],
                         .positional_max = 1};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    r->weights = line.positional_count ? line.positional[0] : NULL;
    status = check_request(r, &line);
    if (status < 0) status = options_check_outputs(&line);
    if (status >= 0) return status;
    return r->weights ? heatmap_weights(r) : heatmap_mask(r);
}

int tool_heatmap(int argc, char **argv) {
    heatmap_request r = {.out = "-"};
    const int status = run(argc, argv, &r);
    score_options_free(&r.score);
    return status;
}
