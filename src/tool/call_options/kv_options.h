// kv_options.h: the options of attend that say where keys lie besides --k and --v: past rows, and pages; layer has the past ones.
// And how K and V go to the device, as numbers or quantised.
#ifndef CLATTN_TOOL_CALL_OPTIONS_KV_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_KV_OPTIONS_H
#include "tool/call_options/tensors.h"

typedef struct kv_options {
    const char *prefix_k, *prefix_v, *past_k, *past_v, *past_lengths, *block_table; // files, as given
    bool past_later;   // past rows: the caller loads them, by parts
    int64_t page_size; // 0: the rows of a page in the file
    array past_k_array, past_v_array, table_array;
    int32_t *lengths; // [B], owned
} kv_options;

option_group kv_group(kv_options *o);
option_group kv_past_group(kv_options *o); // those of past rows alone
// Load the files; what they hold is stored as names_types[type] says, u2 files of `bf16` as that. Returns -1, else the exit
// status.
int kv_options_load(kv_options *o, int64_t batch, int type, bool bf16);
// Put them on the device and into `kv`, whose k is there. `quantised`: as int8 with a scale a row.
int kv_options_upload(const kv_options *o, tensors *t, bool quantised, clattn_kv *kv);
void kv_options_free(kv_options *o);

// K, V or past rows of them.
int kv_upload(tensors *t, const array *x, bool quantised, clattn_tensor *view, clattn_tensor *scale);
// Keys of a call, past ones and new.
int64_t kv_count(const clattn_kv *kv);
#endif
