// append_options.h: --k-new and --v-new of clattn attend: rows that the call appends to --k and --v, which are caches; and
// --out-k and --out-v, the caches afterwards.
#ifndef CLATTN_TOOL_CALL_OPTIONS_APPEND_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_APPEND_OPTIONS_H
#include "tool/call_options/tensors.h"

typedef struct append_options {
    const char *k_new, *v_new, *out_k, *out_v; // files, as given
    array k_array, v_array;
} append_options;

option_group append_group(append_options *o);
// Load the files, whose u2 ones hold bf16 with `dtype` 2. `quantised`: the caches are. Returns -1, else the exit status.
int append_options_load(append_options *o, int dtype, bool quantised);
int append_options_upload(const append_options *o, tensors *t, clattn_kv *kv);
// Write the caches that were asked for; k and v: the arrays that they were made of.
int append_options_save(const append_options *o, tensors *t, const clattn_kv *kv, array *k, array *v);
void append_options_free(append_options *o);
#endif
