/* heatmap_weights.c: `clattn heatmap` of attention weights: reading them and their tokens, the choice of batch item and heads, and
 * cropping. Drawing is picture.h's. Called by heatmap.c. */
#include "tool/heatmap/heatmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/files/formats.h"
#include "tool/heatmap/picture_out.h"
#include "tool/cli/text.h"
#include "tool/cli/report.h"
#include "tool/heatmap/label.h"

/* Keys beyond which the weights of a row are mostly far below their greatest. */
#define LOGARITHMIC_FROM 64

/* All that is loaded for one picture. */
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

/* One item of a list of heads, "N" or "N-M", appended to p->head_numbers; moves on to the next. */
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

/* Crop one axis of `size` to its tokens. */
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

static void place(const heatmap_request *r, heatmap *map) {
    const array *w = &map->weights;
    picture *p = &map->picture;
    p->row_stride = w->shape[w->rank - 1];
    p->head_stride = w->shape[w->rank - 2] * p->row_stride;
    p->by_head = r->by_head;
    p->most = r->most;
    p->logarithmic =
        r->scale == 2 || (r->scale == 0 && p->columns > LOGARITHMIC_FROM && w->type != ARRAY_BOOL);
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
    p->hides_zero = least == 0 && greatest > 0; /* no weight of a softmax is 0 but by a mask, or underflow */
    p->title = title;
    const bool done = picture_out(p, r->out, r->colour, why);
    const int status = done ? report(r, p) : tool_failed("%s", why);
    p->title = NULL;
    return status;
}

int heatmap_weights(const heatmap_request *r) {
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
