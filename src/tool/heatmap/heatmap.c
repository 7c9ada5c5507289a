/* `clattn heatmap`: attention weights, or what masks hide, and tokens in, a picture out. The options live here, and what of them
 * belongs together; heatmap_weights.c and heatmap_mask.c draw. Called by the program's main. */
#include "tool/heatmap/heatmap.h"

#include <stdio.h>
#include <string.h>

#include "tool/files/outputs.h"
#include "tool/heatmap/picture_out.h"

enum {
    HEATMAP_TOKENS = 700,
    HEATMAP_Y_TOKENS,
    HEATMAP_OUT,
    HEATMAP_BATCH,
    HEATMAP_HEADS,
    HEATMAP_DTYPE,
    HEATMAP_SCALE,
    HEATMAP_MOST,
    HEATMAP_BY_HEAD,
    HEATMAP_COLOUR,
    HEATMAP_N,
    HEATMAP_N_KV
};

static const option_row picture_rows[] = {
    {"out", "FILE", HEATMAP_OUT, "a name in .png or .svg, or - for the terminal (default)"},
    {"tokens", "FILE", HEATMAP_TOKENS,
     "token labels, one a line, for queries and keys; fewer than there are rows crop the picture, which "
     "drops padding"},
    {"heads", "LIST", HEATMAP_HEADS,
     "the heads to draw, such as 0,3,5-7, default all; of a mask how many there are, default 1"},
    {"color", "auto|always|never", HEATMAP_COLOUR,
     "colours on the terminal; auto is where it is one and NO_COLOR is not set"},
};

static const option_row weights_rows[] = {
    {"y-tokens", "FILE", HEATMAP_Y_TOKENS,
     "token labels of the keys, where they are not the queries' tokens"},
    {"batch", "N", HEATMAP_BATCH, "the batch item to draw; default 0"},
    {"dtype", "bf16", HEATMAP_DTYPE, "the numbers of a .npy of u2 are bfloat16"},
    {"scale", "auto|linear|log", HEATMAP_SCALE,
     "colours by a share of the greatest weight, or by powers of ten below it; auto is log where more than "
     "64 keys share a row's 1"},
    {"vmax", "X", HEATMAP_MOST, "the weight of the last colour; default the greatest"},
    {"per-head", NULL, HEATMAP_BY_HEAD, "each head on a scale of its own"},
};

static const option_row mask_rows[] = {
    {"n", "N", HEATMAP_N, "query rows"},
    {"n-kv", "N", HEATMAP_N_KV, "keys; default as many"},
};

static bool take_picture(void *target, int id, const char *value, char why[256]) {
    static const char *const colours[] = {"auto", "always", "never", NULL};
    heatmap_request *r = target;
    switch (id) {
    case HEATMAP_TOKENS:
        r->tokens = value;
        return true;
    case HEATMAP_OUT:
        r->out = value;
        snprintf(why, 256, "a name in .png or .svg, or -, is accepted");
        return picture_out_accepts(value);
    case HEATMAP_HEADS:
        r->head_list = value;
        return true;
    default:
        return option_choice(value, colours, &r->colour, why);
    }
}

static bool take_weights(void *target, int id, const char *value, char why[256]) {
    static const char *const types[] = {"bf16", NULL}, *const scales[] = {"auto", "linear", "log", NULL};
    heatmap_request *r = target;
    int type = 0;
    switch (id) {
    case HEATMAP_Y_TOKENS:
        r->y_tokens = value;
        return true;
    case HEATMAP_BATCH:
        return option_integer(value, 0, INT32_MAX, &r->batch, why);
    case HEATMAP_DTYPE:
        r->bf16 = option_choice(value, types, &type, why);
        return r->bf16;
    case HEATMAP_SCALE:
        return option_choice(value, scales, &r->scale, why);
    case HEATMAP_MOST:
        snprintf(why, 256, "a number above 0 is needed");
        return option_float(value, &r->most, why) && r->most > 0;
    default:
        return r->by_head = true;
    }
}

static bool take_mask(void *target, int id, const char *value, char why[256]) {
    heatmap_request *r = target;
    return option_integer(value, 1, HEATMAP_MOST_SIZE, id == HEATMAP_N ? &r->n : &r->n_kv, why);
}

enum { OF_PICTURE, OF_WEIGHTS, OF_MASK, OF_SCORES, OF_ALL };
#define ROWS(rows) rows, (int)(sizeof(rows) / sizeof(rows)[0])

// What is of the other kind of picture would be without effect.
static int refuse(const heatmap_request *r, const command_line *line) {
    const char *const *given = line->given;
    const common_options *c = &r->common;
    const char *masks = given[OF_MASK] ? given[OF_MASK] : given[OF_SCORES];
    const char *device = c->device ? "device" : c->cache_dir ? "cache-dir" : c->tuned ? "tuned" : NULL;
    if (!r->weights && !masks)
        return tool_wrong("a file of weights is needed, or --n N and what hides keys; see clattn "
                          "heatmap --help");
    if (!r->weights && !r->n) return tool_wrong("--n N is needed with a mask; see clattn heatmap --help");
    if (!r->weights && given[OF_WEIGHTS])
        return tool_wrong("--%s: is for a file of weights, and a mask is drawn", given[OF_WEIGHTS]);
    if (r->weights && masks)
        return tool_wrong("--%s: is for the picture of a mask, and %s holds weights", masks, r->weights);
    if (r->weights && device)
        return tool_wrong("--%s: has no effect: a file of weights needs no device", device);
    if (c->json && picture_out_is_terminal(r->out))
        return tool_wrong("--json: needs --out FILE: without it standard output holds the picture");
    return -1;
}

static int run(int argc, char **argv, heatmap_request *r) {
    const option_group groups[] = {
        [OF_PICTURE] = {"the picture", ROWS(picture_rows), take_picture, r},
        [OF_WEIGHTS] = {"of a file of weights", ROWS(weights_rows), take_weights, r},
        [OF_MASK] = {"of a mask, where no file is given: --n and what hides keys, on a device",
                     ROWS(mask_rows), take_mask, r},
        [OF_SCORES] = score_group(&r->score),
        [OF_ALL] = common_group(&r->common)};
    command_line line = {
        .command = "heatmap",
        .summary = "draw attention weights, [H, Nq, Nkv] or [B, H, Nq, Nkv] in FILE.npy or "
                   "FILE.safetensors#TENSOR, a panel for each head: rows are queries, columns are keys; "
                   "without a file which keys each row sees by the masks given",
        .example = "clattn heatmap weights.npy --tokens tokens.txt --out heads.png\n"
                   "    clattn heatmap --mask-mod 'j <= i && i - j < 8' --n 32 --out mask.png",
        .groups = groups,
        .group_count = sizeof groups / sizeof groups[0],
        .positional_max = 1};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    const output_file output = {"out", picture_out_is_terminal(r->out) ? NULL : r->out};
    r->weights = line.positional_count ? line.positional[0] : NULL;
    status = refuse(r, &line);
    if (status < 0) status = outputs_check(&line, &output, 1);
    if (status >= 0) return status;
    return r->weights ? heatmap_weights(r) : heatmap_mask(r);
}

int tool_heatmap(int argc, char **argv) {
    heatmap_request r = {.out = "-"};
    const int status = run(argc, argv, &r);
    score_options_free(&r.score);
    return status;
}
