/* `clattn heatmap`: attention weights and tokens in, a picture out. Options, the choice of batch item and
 * heads, and cropping live here; drawing is picture.h's. Called by the program's main. */
#include "tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "load.h"
#include "picture.h"
#include "refuse.h"
#include "tokens.h"

/* Queries, keys or heads of a picture: far beyond what can be read, far below where pixel counts overflow. */
#define SIZE_LIMIT 65536

static const char help[] =
    "usage: clattn heatmap WEIGHTS [options]\n"
    "\n"
    "Draw attention weights, a panel for each head: rows are queries, columns are keys.\n"
    "WEIGHTS is [H, Nq, Nkv] or [B, H, Nq, Nkv], FILE.npy or FILE.safetensors#TENSOR.\n"
    "\n"
    "  --tokens FILE    token labels, one a line, for queries and keys; fewer than there are\n"
    "                   rows crop the picture, which drops padding\n"
    "  --y-tokens FILE  token labels of the keys, where they are not the queries' tokens\n"
    "  --out FILE       .png, .svg, or - for the terminal (default)\n"
    "  --batch N        the batch item to draw (default 0)\n"
    "  --heads LIST     the heads to draw, such as 0,3,5-7 (default all)\n"
    "  --dtype bf16     the numbers of a .npy of u2 are bfloat16\n"
    "  --quiet          print no report line\n"
    "  --verbose        accepted; there is nothing more to say\n"
    "\n"
    "With --mask-mod EXPR there is no file: which keys a device's rows see, by that and the other masks of\n"
    "clattn attend. clattn heatmap --mask-mod 1 --help tells of it.\n"
    "\n"
    "example: clattn heatmap weights.npy --tokens tokens.txt --out heads.png\n"
    "         clattn heatmap --mask-mod 'j <= i && i - j < 8' --n 32 --out mask.png\n";

typedef struct request {
    const char *weights_spec, *tokens_path, *y_tokens_path, *out_path, *head_list;
    long batch;
    bool bf16, quiet, help;
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

static bool parse_number(const char *text, long *number) {
    char *end = NULL;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *number = strtol(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(path + length - suffix_length, suffix) == 0;
}

static bool take_option(int option, request *r, failure *why) {
    switch (option) {
    case 't':
        r->tokens_path = optarg;
        return true;
    case 'y':
        r->y_tokens_path = optarg;
        return true;
    case 'H':
        r->head_list = optarg;
        return true;
    case 'q':
        r->quiet = true;
        return true;
    case 'v':
        return true;
    case 'h':
        r->help = true;
        return true;
    case 'o':
        r->out_path = optarg;
        if (strcmp(optarg, "-") == 0 || has_suffix(optarg, ".png") || has_suffix(optarg, ".svg")) return true;
        return refuse(why->text, sizeof why->text, "--out %s: a name in .png or .svg, or -, is accepted",
                      optarg);
    case 'b':
        if (parse_number(optarg, &r->batch)) return true;
        return refuse(why->text, sizeof why->text, "--batch %s: a number from 0 is accepted", optarg);
    case 'd':
        r->bf16 = strcmp(optarg, "bf16") == 0;
        if (r->bf16) return true;
        return refuse(why->text, sizeof why->text, "--dtype %s: bf16 is accepted", optarg);
    default:
        return false;
    }
}

static bool parse_request(int argc, char **argv, request *r, failure *why) {
    static const struct option options[] = {
        {"tokens", required_argument, NULL, 't'}, {"y-tokens", required_argument, NULL, 'y'},
        {"out", required_argument, NULL, 'o'},    {"batch", required_argument, NULL, 'b'},
        {"heads", required_argument, NULL, 'H'},  {"dtype", required_argument, NULL, 'd'},
        {"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    bool taken[128] = {false};
    *r = (request){.out_path = "-"};
    opterr = 0;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        const char *given = argv[optind - 1], letter[] = {'-', (char)optopt, '\0'};
        /* getopt still stands on a group of letters such as -xy, so argv[optind - 1] is not the culprit
         * there. */
        if (option == '?' && optopt && !strchr(given, '=')) given = letter;
        if (option == ':') return refuse(why->text, sizeof why->text, "%s: its value is missing", given);
        if (option == '?')
            return refuse(why->text, sizeof why->text,
                          "%s: not an option here; clattn heatmap --help lists them", given);
        if (optarg && taken[option])
            return refuse(why->text, sizeof why->text, "%s: is given twice: one value is accepted", optarg);
        taken[option] = true;
        if (!take_option(option, r, why)) return false;
        if (r->help) return true;
    }
    if (argc - optind != 1)
        return refuse(why->text, sizeof why->text, "%d files of weights given; one is accepted",
                      argc - optind);
    r->weights_spec = argv[optind];
    return true;
}

static bool load_weights(const request *r, heatmap *map, failure *why) {
    char shape[128];
    array *w = &map->weights;
    if (!load_array(r->weights_spec, w, why->text, sizeof why->text)) return false;
    if (r->bf16 && w->type != ARRAY_U16 && w->type != ARRAY_BF16)
        return refuse(why->text, sizeof why->text, "--dtype bf16: %s holds %s; it is for u2", r->weights_spec,
                      array_type_name(w->type));
    if (w->type == ARRAY_U16 && r->bf16) w->type = ARRAY_BF16;
    if (w->type != ARRAY_F32 && w->type != ARRAY_F16 && w->type != ARRAY_BF16)
        return refuse(why->text, sizeof why->text,
                      "%s: type %s; f32, f16 and bf16 (u2 with --dtype bf16) are accepted", r->weights_spec,
                      array_type_name(w->type));
    if (w->rank != 3 && w->rank != 4)
        return refuse(why->text, sizeof why->text,
                      "%s: shape %s; [H, Nq, Nkv] or [B, H, Nq, Nkv] is accepted", r->weights_spec,
                      array_shape_text(w, shape, sizeof shape));
    for (int axis = 0; axis < w->rank; axis++)
        if (w->shape[axis] < 1 || (axis >= w->rank - 3 && w->shape[axis] > SIZE_LIMIT))
            return refuse(why->text, sizeof why->text, "%s: shape %s; sizes from 1 to %d are drawn",
                          r->weights_spec, array_shape_text(w, shape, sizeof shape), SIZE_LIMIT);
    int64_t batches = w->rank == 4 ? w->shape[0] : 1;
    if (r->batch >= batches)
        return refuse(why->text, sizeof why->text, "--batch %ld: %s holds 0 to %lld", r->batch,
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
    p->weights = map->values + r->batch * w->shape[w->rank - 3] * p->head_stride;
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
        (void)snprintf(title, sizeof title, "%.400s, batch item %ld", name, r->batch);
    else
        (void)snprintf(title, sizeof title, "%.400s", name);
    picture *p = &map->picture;
    p->title = title;
    bool done = true;
    if (strcmp(r->out_path, "-") == 0)
        picture_terminal(p, stdout);
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
    int status = 2;
    if (!parse_request(argc, argv, &r, &why)) goto end;
    if (r.help) {
        fputs(help, stdout);
        return 0;
    }
    if (strcmp(r.out_path, "-") != 0 && !file_can_write(r.out_path, why.text, sizeof why.text)) goto end;
    if (!load_weights(&r, &map, &why) || !choose_heads(&r, &map, &why) || !label_axes(&r, &map, &why))
        goto end;
    place(&r, &map);
    status = draw(&r, &map, &why) ? 0 : 1;
end:
    if (status) fprintf(stderr, "clattn heatmap: %s\n", why.text);
    tokens_free(&map.row_tokens);
    tokens_free(&map.column_tokens);
    free(map.heads);
    free(map.values);
    array_free(&map.weights);
    return status;
}
