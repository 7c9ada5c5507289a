/* `clattn heatmap`: attention weights, or what masks hide, and tokens in, a picture out. The options live here, and what of them
 * belongs together; heatmap_weights.c and heatmap_mask.c draw. Called by the program's main. */
#include "tool/heatmap/heatmap.h"

#include <stdio.h>
#include <string.h>

#include "tool/heatmap/picture_out.h"

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
    {"out", "FILE", "a name in .png or .svg, or - for the terminal (default)",
     AS_OUTPUT_IF(heatmap_request, out, check_out)},
    {"tokens", "FILE",
     "token labels, one a line, for queries and keys; fewer than there are rows crop the picture, which "
     "drops padding",
     AS_TEXT(heatmap_request, tokens)},
    {"heads", "LIST",
     "the heads to draw, such as 0,3,5-7, default all; of a mask how many there are, default 1",
     AS_TEXT(heatmap_request, head_list)},
    {"color", "auto|always|never", "colours on the terminal; auto is where it is one and NO_COLOR is not set",
     AS_CHOICE(heatmap_request, colour, colours)},
};

static const option_row weights_rows[] = {
    {"y-tokens", "FILE", "token labels of the keys, where they are not the queries' tokens",
     AS_TEXT(heatmap_request, y_tokens)},
    {"batch", "N", "the batch item to draw; default 0", AS_INTEGER(heatmap_request, batch, 0, INT32_MAX)},
    {"dtype", "bf16", "the numbers of a .npy of u2 are bfloat16", AS_WORD(heatmap_request, dtype, types)},
    {"scale", "auto|linear|log",
     "colours by a share of the greatest weight, or by powers of ten below it; auto is log where more than "
     "64 keys share a row's 1",
     AS_CHOICE(heatmap_request, scale, scales)},
    {"vmax", "X", "the weight of the last colour; default the greatest", AS_CALL(take_most)},
    {"per-head", NULL, "each head on a scale of its own", AS_SWITCH(heatmap_request, by_head)},
};

static const option_row mask_rows[] = {
    {"n", "N", "query rows", AS_INTEGER(heatmap_request, n, 1, HEATMAP_MOST_SIZE)},
    {"n-kv", "N", "keys; default as many", AS_INTEGER(heatmap_request, n_kv, 1, HEATMAP_MOST_SIZE)},
};

enum { OF_PICTURE, OF_WEIGHTS, OF_MASK, OF_SCORES, OF_ALL };

// What is of the other kind of picture would be without effect.
static int check_request(const heatmap_request *r, const command_line *line) {
    const char *const *given = line->given;
    const common_options *c = &r->common;
    const char *masks = given[OF_MASK] ? given[OF_MASK] : given[OF_SCORES];
    const char *device = c->device ? "device" : c->cache_dir ? "cache-dir" : c->tuned ? "tuned" : NULL;
    if (!r->weights && !masks)
        return tool_wrong(
            "a file of weights is needed, or --n N and what hides keys; see clattn heatmap --help");
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
        [OF_PICTURE] = {"the picture", OPTION_ROWS(picture_rows), r},
        [OF_WEIGHTS] = {"of a file of weights", OPTION_ROWS(weights_rows), r},
        [OF_MASK] = {"of a mask, where no file is given: --n and what hides keys, on a device",
                     OPTION_ROWS(mask_rows), r},
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
