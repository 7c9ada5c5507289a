// ragged_options.h: --cu-seqlens and --cu-seqlens-kv of clattn attend and layer: sequences of different lengths in files that have them
// one behind the other.
#ifndef CLATTN_TOOL_CALL_OPTIONS_RAGGED_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_RAGGED_OPTIONS_H
#include "tool/call_options/tensors.h"

typedef struct ragged_options {
    const char *file, *kv_file; // [B+1]
    int32_t *cu, *cu_kv;        // cu_kv: NULL where keys are a dense batch; may be cu
    int64_t sequences;
} ragged_options;

option_group ragged_group(ragged_options *o);
// Load the files; k, or y, has so many batch items, -1 for a cache, which is not packed. Returns -1, else the exit status.
int ragged_options_load(ragged_options *o, int64_t k_batch);
// B, where without such files it is `batch`.
int64_t ragged_options_batch(const ragged_options *o, int64_t batch);
// Into the call. `full`: what [B, H, max_q, max_kv] is of an output, from [B, H, Nq, Nkv].
void ragged_options_apply(const ragged_options *o, clattn_attention_params *p, int64_t full[4]);
void ragged_options_free(ragged_options *o);

// Pairs of rows and keys of a call that has such arrays in host memory.
double ragged_pairs(const clattn_attention_params *p);
#endif
