// layer_ranks.c: clattn layer --mpi: by rows, of which each rank has some and all weights, or by heads, of which each has some and so
// their part of the weights, and all rows.
#include <ctype.h>
#include <string.h>

#include "tool/layer/layer_run.h"

// Whether an expression names its head, which on a rank is counted from its own first.
static bool names_head(const char *text) {
    for (const char *at = text; text && *at; at++) {
        const bool before = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.');
        if (*at == 'h' && !before && !isalnum((unsigned char)at[1]) && at[1] != '_') return true;
    }
    return false;
}

int layer_shared_deal(layer_run *r) {
    clattn_layer_params *p = &r->params;
    const clattn_score *s = &r->score.score;
    if (!ranks_way_is(&r->ranks, "heads")) return -1;
    const char *what = p->norm == CLATTN_NORM_WIDTH                          ? "--norm width"
                       : s->dropout != 0                                     ? "--dropout"
                       : names_head(s->score_mod) || names_head(s->mask_mod) ? "an expression of h"
                                                                             : NULL;
    if (what) return tool_wrong("%s: is not built for --mpi-way heads, which are shared", what);
    layer_share *share = &r->weights.share;
    const int status = layer_share_heads(share, r->ranks.rank, r->ranks.count, p->heads,
                                         p->kv_heads ? p->kv_heads : p->heads);
    if (status >= 0) return status;
    p->heads = r->model.heads = (int32_t)share->count;
    p->kv_heads = r->model.kv_heads = (int32_t)share->kv_count;
    return -1;
}

int layer_shared_check(layer_run *r) {
    r->score.maps_later = r->expect.later = r->ranks.wanted;
    if (r->ranks.wanted && ranks_way_is(&r->ranks, "decode"))
        return tool_wrong("--mpi-way decode: is of attend");
    if (r->ranks.wanted && (r->kv.past_k || r->kv.past_v || r->kv.prefix_k || r->kv.prefix_v))
        return tool_wrong("--%s: is not built for --mpi; attend --mpi takes it",
                          r->kv.past_k || r->kv.past_v ? "past-k" : "prefix-k");
    return -1;
}

// Of numbers that are one a head in files, this rank's.
static void keep_heads(layer_run *r) {
    clattn_score *s = &r->score.score;
    const int64_t first = r->weights.share.first;
    if (s->alibi_slopes) s->alibi_slopes += first;
    if (s->head_scales) s->head_scales += first;
    if (r->score.file[SCORE_SINKS]) s->sinks += first;
}

static int load_maps(layer_run *r, const ranks_rows *heads) {
    if (!heads) return ranks_load_maps(&r->ranks, &r->score, 1, r->rows.whole, &r->rows, -1);
    keep_heads(r);
    r->ranks.read_bytes += (double)r->x_array.bytes + (double)r->y_array.bytes;
    return ranks_load_maps(&r->ranks, &r->score, 2, heads->whole, heads, -1);
}

static int run(layer_run *r, session *s, tensors *t, const ranks_rows *heads) {
    int status = load_maps(r, heads);
    if (status < 0) status = layer_upload(r, t);
    r->whole = r->out_array;
    r->whole.shape[1] = heads ? r->x_array.shape[1] : r->rows.whole;
    if (status < 0) status = expect_fits(&r->expect, &r->whole, 1);
    status = ranks_agree(&r->ranks, status);
    if (status < 0) status = ranks_layer(&r->ranks, s, &r->params, heads ? NULL : &r->rows);
    if (status < 0) status = session_read(s, r->params.out.buffer, r->out_array.data, r->out_array.bytes);
    if (status < 0 && r->attention_weights)
        status = session_read(s, r->params.weights.buffer, r->weights_array.data, r->weights_array.bytes);
    if (status < 0 && heads) { // all have all of it
        ranks_share(&r->ranks, r->whole.shape[1], &r->rows);
        status = ranks_keep(&r->rows, 1, &r->out_array);
    }
    return ranks_agree(&r->ranks, status);
}

static int save(layer_run *r, const ranks_rows *heads) {
    const ranks_part out = {&r->out_array, &r->rows}, weights = {&r->weights_array, heads};
    int status = ranks_save(&r->ranks, r->out, &r->whole, 1, &out, 1);
    if (status < 0 && r->attention_weights) {
        array whole = r->weights_array;
        whole.shape[1] = heads->whole;
        status = ranks_save(&r->ranks, r->attention_weights, &whole, 1, &weights, 1);
    }
    if (status < 0 && r->expect.file)
        status = ranks_agree(&r->ranks, ranks_expect(&r->ranks, &r->expect, 1, &out));
    return status;
}

int layer_shared_run(layer_run *r, session *s, tensors *t) {
    const layer_share *share = &r->weights.share;
    ranks_rows heads = ranks_all(share->all);
    heads.chunks[0].start = share->first, heads.chunks[0].count = heads.rows = share->count;
    r->ranks.read_bytes += r->weights.read_bytes;
    int status = ranks_begin(&r->ranks, s);
    if (status < 0) status = run(r, s, t, share->wanted ? &heads : NULL);
    ranks_end(&r->ranks);
    if (status < 0) status = save(r, &heads);
    if (status >= 0) return status;
    status = ranks_verdict(&r->ranks, &r->expect);
    const int told = ranks_tell(&r->ranks, s, r->out, &r->expect);
    return status >= 0 ? status : told;
}
