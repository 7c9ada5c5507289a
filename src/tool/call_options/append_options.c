// append_options.c: see append_options.h.
#include "tool/call_options/append_options.h"

option_group append_group(append_options *o) {
    static const option_row rows[] = {
        {"k-new", "FILE",
         "[B,Hkv,n,D] rows that are written into --k, a cache, before the call: the last n of the keys that "
         "--kv-lengths count; with --cu-seqlens packed as q is",
         AS_TEXT(append_options, k_new)},
        {"v-new", "FILE", "[B,Hkv,n,Dv] likewise into --v", AS_TEXT(append_options, v_new)},
        {"out-k", "FILE", "the cache of keys afterwards, .npy", AS_OUTPUT(append_options, out_k)},
        {"out-v", "FILE", "that of values", AS_OUTPUT(append_options, out_v)},
    };
    return (option_group){"appended rows", OPTION_ROWS(rows), o};
}

static int load(const char *option, const char *file, int dtype, array *a) {
    const int status = tensors_load(option, file, 4, a);
    return status >= 0 ? status : tensors_store(option, a, dtype);
}

int append_options_load(append_options *o, int dtype, bool quantised) {
    if (!o->k_new != !o->v_new)
        return tool_wrong("--%s-new: needs --%s-new, too", o->k_new ? "k" : "v", o->k_new ? "v" : "k");
    const char *out = o->out_k ? "k" : o->out_v ? "v" : NULL;
    if (out && !o->k_new)
        return tool_wrong("--out-%s: has no effect without --k-new FILE and --v-new FILE", out);
    if (out && quantised)
        return tool_wrong("--out-%s: caches of --kv-type q8 have no file: f32, f16 or bf16", out);
    if (!o->k_new) return -1;
    const int status = load("k-new", o->k_new, dtype, &o->k_array);
    return status >= 0 ? status : load("v-new", o->v_new, dtype, &o->v_array);
}

int append_options_upload(const append_options *o, tensors *t, clattn_kv *kv) {
    if (!o->k_new) return -1;
    const int status = tensors_upload(t, &o->k_array, &kv->k_new);
    return status >= 0 ? status : tensors_upload(t, &o->v_array, &kv->v_new);
}

int append_options_save(const append_options *o, tensors *t, const clattn_kv *kv, array *k, array *v) {
    const int status = tensors_save(t, &kv->k, k, o->out_k);
    return status >= 0 ? status : tensors_save(t, &kv->v, v, o->out_v);
}

void append_options_free(append_options *o) {
    array_free(&o->k_array);
    array_free(&o->v_array);
}
