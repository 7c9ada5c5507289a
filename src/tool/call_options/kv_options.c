// kv_options.c: see kv_options.h.
#include "tool/call_options/kv_options.h"

#include <math.h>
#include <stdlib.h>

#include "tool/call_options/score_options.h"

static const option_row kv_rows[] = {
    {"past-k", "FILE",
     "[B or 1,Hkv,P,D] keys before the call's own, which a size of 1 shares; --causal bottom-right, or "
     "--align, lets rows stand behind them",
     AS_TEXT(kv_options, past_k)},
    {"past-v", "FILE", "[B or 1,Hkv,P,Dv] their values", AS_TEXT(kv_options, past_v)},
    {"prefix-k", "FILE",
     "[1,Hkv,P,D] keys before the call's own that all batch items share: read once for all, where that pays",
     AS_TEXT(kv_options, prefix_k)},
    {"prefix-v", "FILE", "[1,Hkv,P,Dv] their values", AS_TEXT(kv_options, prefix_v)},
    {"past-lengths", "FILE", "[B] past rows of each item; default all", AS_TEXT(kv_options, past_lengths)},
    {"block-table", "FILE",
     "[B,blocks] pages of each item: --k and --v are then pools [pages,Hkv,page size,D]; --kv-lengths count",
     AS_TEXT(kv_options, block_table)},
    {"page-size", "N", "rows of a page; default those of --k",
     AS_INTEGER(kv_options, page_size, 1, INT32_MAX)},
};

option_group kv_group(kv_options *o) {
    return (option_group){"past and pages", OPTION_ROWS(kv_rows), o};
}

option_group kv_past_group(kv_options *o) {
    return (option_group){"past", kv_rows, 5, o};
}

// A prefix is a past of all items.
static int take_prefix(kv_options *o) {
    if (!o->prefix_k && !o->prefix_v) return -1;
    if (!o->prefix_k != !o->prefix_v)
        return tool_wrong("--prefix-%s: needs --prefix-%s, too", o->prefix_k ? "k" : "v",
                          o->prefix_k ? "v" : "k");
    if (o->past_k || o->past_v) return tool_wrong("--prefix-k: not with --past-%s", o->past_k ? "k" : "v");
    o->past_k = o->prefix_k, o->past_v = o->prefix_v;
    return -1;
}

static int check(const kv_options *o) {
    if (!o->past_k != !o->past_v)
        return tool_wrong("--past-%s: needs --past-%s, too", o->past_k ? "k" : "v", o->past_k ? "v" : "k");
    if (o->past_lengths && !o->past_k)
        return tool_wrong("--past-lengths: has no effect without --past-k FILE");
    if (o->page_size && !o->block_table)
        return tool_wrong("--page-size: has no effect without --block-table FILE");
    return -1;
}

static int load_past(const kv_options *o, const char *option, const char *file, int type, bool bf16,
                     array *a) {
    if (!file || o->past_later) return -1;
    int status = tensors_load(option, file, 4, a);
    if (status >= 0) return status;
    if (bf16 && a->type == ARRAY_U16) a->type = ARRAY_BF16;
    return tensors_store(option, a, type);
}

int kv_options_load(kv_options *o, int64_t batch, int type, bool bf16) {
    const char *const options[] = {o->prefix_k ? "prefix-k" : "past-k", o->prefix_v ? "prefix-v" : "past-v"};
    int status = take_prefix(o);
    if (status < 0) status = check(o);
    if (status < 0) status = load_past(o, options[0], o->past_k, type, bf16, &o->past_k_array);
    if (status < 0) status = load_past(o, options[1], o->past_v, type, bf16, &o->past_v_array);
    if (status < 0 && o->prefix_k && !o->past_later &&
        (o->past_k_array.shape[0] != 1 || o->past_v_array.shape[0] != 1))
        return tool_wrong(
            "--prefix-%s: has %lld items: 1 is needed, which all share",
            o->past_k_array.shape[0] != 1 ? "k" : "v",
            (long long)(o->past_k_array.shape[0] != 1 ? o->past_k_array.shape[0] : o->past_v_array.shape[0]));
    if (status < 0) status = score_options_integers("past-lengths", o->past_lengths, batch, &o->lengths);
    if (status >= 0 || !o->block_table) return status;
    status = tensors_load("block-table", o->block_table, 2, &o->table_array);
    return status >= 0 ? status : tensors_narrow("block-table", &o->table_array, false);
}

int kv_options_upload(const kv_options *o, tensors *t, bool quantised, clattn_kv *kv) {
    int status = -1;
    if (o->past_k) status = kv_upload(t, &o->past_k_array, quantised, &kv->past_k, &kv->past_k_scale);
    if (status < 0 && o->past_v)
        status = kv_upload(t, &o->past_v_array, quantised, &kv->past_v, &kv->past_v_scale);
    kv->past_lengths = o->lengths;
    if (status >= 0 || !o->block_table) return status;
    kv->page_size = (int32_t)(o->page_size ? o->page_size : kv->k.shape[2]);
    return tensors_upload(t, &o->table_array, &kv->block_table);
}

void kv_options_free(kv_options *o) {
    array_free(&o->past_k_array);
    array_free(&o->past_v_array);
    array_free(&o->table_array);
    free(o->lengths);
}

int64_t kv_count(const clattn_kv *kv) {
    if (kv->block_table.rank) return kv->block_table.shape[1] * kv->page_size;
    return kv->k.shape[2] + (kv->past_k.rank ? kv->past_k.shape[2] : 0);
}

// A float32 array as integers of -127 to 127 and a scale for each row of its last axis. A row of zeros has a scale of 0;
// one with an infinity or a NaN cannot be told by integers.
static int quantise(const array *x, const array *integers, const array *scales) {
    const int64_t size = x->shape[3], rows = array_count(scales);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)x->data + r * size;
        int8_t *to = (int8_t *)integers->data + r * size;
        float largest = 0.0f;
        for (int64_t d = 0; d < size; d++) {
            if (!isfinite(row[d]))
                return tool_wrong(
                    "--kv-type q8: row %lld holds an infinity or NaN: finite numbers are needed",
                    (long long)r);
            largest = fmaxf(largest, fabsf(row[d]));
        }
        const float scale = ((float *)scales->data)[r] = largest / 127.0f;
        for (int64_t d = 0; d < size; d++)
            to[d] = (int8_t)(scale > 0.0f ? fminf(fmaxf(nearbyintf(row[d] / scale), -127.0f), 127.0f) : 0.0f);
    }
    return -1;
}

// Bytes of integers travel as those of booleans.
int kv_upload(tensors *t, const array *x, bool quantised, clattn_tensor *view, clattn_tensor *scale) {
    array integers = {0}, scales = {0};
    if (!quantised) return tensors_upload(t, x, view);
    const bool made =
        array_create(&integers, ARRAY_BOOL, 4, x->shape) && array_create(&scales, ARRAY_F32, 3, x->shape);
    int status = made ? quantise(x, &integers, &scales) : tool_failed("no memory for q8");
    if (status < 0) status = tensors_upload(t, &integers, view);
    if (status < 0) status = tensors_upload(t, &scales, scale);
    view->type = CLATTN_TYPE_I8;
    array_free(&integers);
    array_free(&scales);
    return status;
}
