/* `clattn heatmap`: attention weights and tokens in, a picture out. Options, the choice of batch item and
 * heads, and cropping live here; drawing is picture.h's. Called by the program's main. */
#include "tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/ioctl.h>
#endif
#include <unistd.h>

#include "file.h"
#include "load.h"
#include "picture.h"
#include "refuse.h"
#include "tokens.h"

/* Queries, keys or heads of a picture: far beyond what can be read, far below where pixel counts overflow. */
#define SIZE_LIMIT 65536
/* Keys beyond which the weights of a row are mostly far below their greatest. */
#define LOGARITHMIC_FROM 64

typedef struct request {
    const char *weights_spec, *tokens_path, *y_tokens_path, *out_path, *head_list;
    int64_t batch;
    bool bf16, quiet, by_head;
    int scale, colour; /* of their words */
    float most;
} request;

/* All that is loaded for one picture. */
typedef struct heatmap {
    array weights;
    float *values;
    tokens row_tokens, column_tokens;
    int *heads;
    picture picture;
} heatmap;

typedef struct failure {
    char text[1024];
} failure;

static bool has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(path + length - suffix_length, suffix) == 0;
}

enum {
    HEATMAP_TOKENS = 700,
    HEATMAP_Y_TOKENS,
    HEATMAP_OUT,
    HEATMAP_BATCH,
    HEATMAP_HEADS,
    HEATMAP_DTYPE,
    HEATMAP_QUIET,
    HEATMAP_SCALE,
    HEATMAP_MOST,
    HEATMAP_BY_HEAD,
    HEATMAP_COLOUR,
    HEATMAP_VERBOSE
};

static const option_row heatmap_rows[] = {
    {"tokens", "FILE", HEATMAP_TOKENS,
     "token labels, one a line, for queries and keys; fewer than there are rows crop the picture, which "
     "drops padding"},
    {"y-tokens", "FILE", HEATMAP_Y_TOKENS,
     "token labels of the keys, where they are not the queries' tokens"},
    {"out", "FILE", HEATMAP_OUT, "a name in .png or .svg, or - for the terminal (default)"},
    {"batch", "N", HEATMAP_BATCH, "the batch item to draw; default 0"},
    {"heads", "LIST", HEATMAP_HEADS, "the heads to draw, such as 0,3,5-7; default all"},
    {"dtype", "bf16", HEATMAP_DTYPE, "the numbers of a .npy of u2 are bfloat16"},
    {"scale", "auto|linear|log", HEATMAP_SCALE,
     "colours by a share of the greatest weight, or by powers of ten below it; auto is log where more than "
     "64 keys share a row's 1"},
    {"vmax", "X", HEATMAP_MOST, "the weight of the last colour; default the greatest"},
    {"per-head", NULL, HEATMAP_BY_HEAD, "each head on a scale of its own"},
    {"color", "auto|always|never", HEATMAP_COLOUR,
     "colours on the terminal; auto is where it is one and NO_COLOR is not set"},
    {"quiet", NULL, HEATMAP_QUIET, "print no report line"},
    {"verbose", NULL, HEATMAP_VERBOSE, "accepted; there is nothing more to say"},
};

static bool take_out(request *r, const char *value, char why[256]) {
    r->out_path = value;
    snprintf(why, 256, "a name in .png or .svg, or -, is accepted");
    return strcmp(value, "-") == 0 || has_suffix(value, ".png") || has_suffix(value, ".svg");
}

static bool take_heatmap(void *target, int id, const char *value, char why[256]) {
    static const char *const types[] = {"bf16", NULL}, *const scales[] = {"auto", "linear", "log", NULL},
                             *const colours[] = {"auto", "always", "never", NULL};
    request *r = target;
    int type = 0;
    switch (id) {
    case HEATMAP_TOKENS:
        r->tokens_path = value;
        return true;
    case HEATMAP_Y_TOKENS:
        r->y_tokens_path = value;
        return true;
    case HEATMAP_OUT:
        return take_out(r, value, why);
    case HEATMAP_BATCH:
        return option_integer(value, 0, INT32_MAX, &r->batch, why);
    case HEATMAP_HEADS:
        r->head_list = value;
        return true;
    case HEATMAP_DTYPE:
        r->bf16 = option_choice(value, types, &type, why);
        return r->bf16;
    case HEATMAP_SCALE:
        return option_choice(value, scales, &r->scale, why);
    case HEATMAP_MOST:
        snprintf(why, 256, "a number above 0 is needed");
        return option_float(value, &r->most, why) && r->most > 0;
    case HEATMAP_BY_HEAD:
        return r->by_head = true;
    case HEATMAP_COLOUR:
        return option_choice(value, colours, &r->colour, why);
    case HEATMAP_QUIET:
        r->quiet = true;
        return true;
    default:
        return true;
    }
}

// -1 to go on, else the exit status.
static int parse_request(int argc, char **argv, request *r) {
    const option_group groups[] = {
        {"options", heatmap_rows, sizeof heatmap_rows / sizeof heatmap_rows[0], take_heatmap, r}};
    command_line line = {
        .command = "heatmap",
        .summary = "draw attention weights, [H, Nq, Nkv] or [B, H, Nq, Nkv] in FILE.npy or "
                   "FILE.safetensors#TENSOR, a panel for each head: rows are queries, columns are keys",
        .example = "clattn heatmap weights.npy --tokens tokens.txt --out heads.png",
        .groups = groups,
        .group_count = 1,
        .positional_max = 1};
    *r = (request){.out_path = "-"};
    const int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (!line.positional_count)
        return tool_wrong("heatmap", "a file of weights is needed; see clattn heatmap --help");
    r->weights_spec = line.positional[0];
    return -1;
}

static bool load_weights(const request *r, heatmap *map, failure *why) {
    char shape[128];
    array *w = &map->weights;
    if (!load_array(r->weights_spec, w, why->text, sizeof why->text)) return false;
    if (r->bf16 && w->type != ARRAY_U16 && w->type != ARRAY_BF16)
        return refuse(why->text, sizeof why->text, "--dtype bf16: %s holds %s; it is for u2", r->weights_spec,
                      array_type_name(w->type));
    if (w->type == ARRAY_U16 && r->bf16) w->type = ARRAY_BF16;
    if (w->type != ARRAY_F32 && w->type != ARRAY_F16 && w->type != ARRAY_BF16 && w->type != ARRAY_BOOL)
        return refuse(why->text, sizeof why->text,
                      "%s: type %s; f32, f16, bf16 (u2 with --dtype bf16) and, for masks, bool are accepted",
                      r->weights_spec, array_type_name(w->type));
    if (w->rank < (w->type == ARRAY_BOOL ? 2 : 3) || w->rank > 4)
        return refuse(why->text, sizeof why->text,
                      "%s: shape %s; [H, Nq, Nkv] or [B, H, Nq, Nkv] is accepted, and of a mask [Nq, Nkv]",
                      r->weights_spec, array_shape_text(w, shape, sizeof shape));
    if (w->rank == 2) {
        w->shape[2] = w->shape[1], w->shape[1] = w->shape[0], w->shape[0] = 1;
        w->rank = 3;
    }
    for (int axis = 0; axis < w->rank; axis++)
        if (w->shape[axis] < 1 || (axis >= w->rank - 3 && w->shape[axis] > SIZE_LIMIT))
            return refuse(why->text, sizeof why->text, "%s: shape %s; sizes from 1 to %d are drawn",
                          r->weights_spec, array_shape_text(w, shape, sizeof shape), SIZE_LIMIT);
    int64_t batches = w->rank == 4 ? w->shape[0] : 1;
    if (r->batch >= batches)
        return refuse(why->text, sizeof why->text, "--batch %lld: %s holds 0 to %lld", (long long)r->batch,
                      r->weights_spec, (long long)batches - 1);
    if (!array_to_f32(w, &map->values))
        return refuse(why->text, sizeof why->text, "no memory for the weights");
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

static bool choose_heads(const request *r, heatmap *map, failure *why) {
    const array *w = &map->weights;
    int head_count = (int)w->shape[w->rank - 3];
    map->heads = calloc((size_t)head_count, sizeof *map->heads);
    if (!map->heads) return refuse(why->text, sizeof why->text, "no memory for the heads");
    map->picture.head_numbers = map->heads;
    if (!r->head_list) {
        for (int head = 0; head < head_count; head++) map->heads[head] = head;
        map->picture.heads = head_count;
        return true;
    }
    const char *list = r->head_list;
    do
        if (!take_heads(&list, head_count, map))
            return refuse(why->text, sizeof why->text,
                          "--heads %s: a list of different heads from 0 to %d, such as "
                          "0,2-3, is accepted",
                          r->head_list, head_count - 1);
    while (*list);
    return true;
}

/* Crop one axis of `size` to its tokens. */
static bool crop(const char *path, const tokens *labels, int64_t size, const char *axis, int *kept,
                 failure *why) {
    *kept = (int)size;
    if (!path) return true;
    if ((uint64_t)labels->count > (uint64_t)size)
        return refuse(why->text, sizeof why->text,
                      "%s: %zu tokens; the weights have %lld %s, at most as many are "
                      "accepted",
                      path, labels->count, (long long)size, axis);
    *kept = (int)labels->count;
    return true;
}

static bool label_axes(const request *r, heatmap *map, failure *why) {
    const array *w = &map->weights;
    picture *p = &map->picture;
    if (r->tokens_path && !tokens_read(r->tokens_path, &map->row_tokens, why->text, sizeof why->text))
        return false;
    if (r->y_tokens_path && !tokens_read(r->y_tokens_path, &map->column_tokens, why->text, sizeof why->text))
        return false;
    const tokens *columns = r->y_tokens_path ? &map->column_tokens : &map->row_tokens;
    const char *columns_path = r->y_tokens_path ? r->y_tokens_path : r->tokens_path;
    p->row_labels = map->row_tokens.lines;
    p->column_labels = columns->lines;
    return crop(r->tokens_path, &map->row_tokens, w->shape[w->rank - 2], "queries", &p->rows, why) &&
           crop(columns_path, columns, w->shape[w->rank - 1], "keys", &p->columns, why);
}

static void place(const request *r, heatmap *map) {
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

/* As wide as the terminal that it goes to, else as a page; COLUMNS has the last word. */
int heatmap_columns(void) {
    const char *given = getenv("COLUMNS");
    char why[256];
    int64_t columns = 0;
    if (given && option_integer(given, 1, 1000, &columns, why)) return (int)columns;
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    return 80;
}

bool heatmap_coloured(int wanted) {
    const char *without = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (wanted) return wanted == 1;
    return isatty(STDOUT_FILENO) && !(without && *without) && terminal && strcmp(terminal, "dumb") != 0;
}

static void report(const request *r, const picture *p) {
    float least = 0, greatest = 0;
    picture_range(p, &least, &greatest);
    if (!r->quiet)
        printf("%s: %d heads, %d queries x %d keys, weights %.3g to %.3g\n", r->out_path, p->heads, p->rows,
               p->columns, (double)least, (double)greatest);
}

static bool draw(const request *r, heatmap *map, failure *why) {
    char title[512];
    const char *slash = strrchr(r->weights_spec, '/');
    const char *name = slash && slash[1] ? slash + 1 : r->weights_spec;
    if (map->weights.rank == 4)
        (void)snprintf(title, sizeof title, "%.400s, batch item %lld", name, (long long)r->batch);
    else
        (void)snprintf(title, sizeof title, "%.400s", name);
    picture *p = &map->picture;
    float least = 0, greatest = 0;
    picture_range(p, &least, &greatest);
    p->hides_zero = least == 0 && greatest > 0; /* no weight of a softmax is 0 but by a mask, or underflow */
    p->title = title;
    bool done = true;
    if (strcmp(r->out_path, "-") == 0)
        picture_terminal(p, heatmap_columns(), heatmap_coloured(r->colour), stdout);
    else if (has_suffix(r->out_path, ".png"))
        done = picture_png(p, r->out_path, why->text, sizeof why->text);
    else
        done = picture_svg(p, r->out_path, why->text, sizeof why->text);
    if (done && strcmp(r->out_path, "-") != 0) report(r, p);
    p->title = NULL;
    return done;
}

int tool_heatmap(int argc, char **argv) {
    request r;
    failure why = {""};
    heatmap map = {.values = NULL};
    int status = parse_request(argc, argv, &r);
    if (status >= 0) return status;
    status = EXIT_WRONG;
    if (strcmp(r.out_path, "-") != 0 && !file_can_write(r.out_path, why.text, sizeof why.text)) goto end;
    if (!load_weights(&r, &map, &why) || !choose_heads(&r, &map, &why) || !label_axes(&r, &map, &why))
        goto end;
    place(&r, &map);
    status = draw(&r, &map, &why) ? EXIT_DONE : EXIT_FAILED;
end:
    if (status != EXIT_DONE) tool_wrong("heatmap", "%s", why.text);
    tokens_free(&map.row_tokens);
    tokens_free(&map.column_tokens);
    free(map.heads);
    free(map.values);
    array_free(&map.weights);
    return status;
}
