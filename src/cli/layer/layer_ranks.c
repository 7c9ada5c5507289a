// layer_ranks.c: `clattn layer --mpi`. By rows: each rank has some rows and all weights. By heads:
// each rank has all rows and some heads with their part of the weights.
#include "cli/layer/layer.h"

// Advance the arrays that have one number for each head to this rank's first head.
static void keep_heads(layer_run *r) {
    clattn_score *s = &r->score.score;
    const int64_t first = r->weights.share.first;
    // Already only this rank's heads.
    const float *const sinks = r->score.file[SCORE_SINKS] ? NULL : s->sinks;
#define OPTION_HEADS(field, flag, differs, apart)                                                            \
    if (s->field) s->field += first;
#include "tables/score.def"
    if (sinks) s->sinks = sinks;
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
    if (status < 0 && heads) { // every rank has the whole result
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
