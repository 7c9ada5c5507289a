// score_options.h: the options that attend and layer share: scale, masks, bias, lengths, kernel. Parsed into
// texts first, then loaded, then put on the device, so that a wrong file is told before a device is opened.
#ifndef CLATTN_TOOL_SCORE_OPTIONS_H
#define CLATTN_TOOL_SCORE_OPTIONS_H
#include "tool/tensors.h"

typedef struct score_options {
    clattn_attention_params params; // everything but the tensors
    const char *causal, *align;     // as given
    const char *offset, *mask, *bias, *alibi, *sinks, *q_lengths, *kv_lengths;
    array mask_array, bias_array;
    int32_t *offsets, *q_length, *kv_length; // [B], owned
    float *slopes, *sink;                    // [H], owned
    bool offset_is_file;
} score_options;

option_group score_group(score_options *o);

// Load the files and check what only the command line can get wrong. Returns -1, else the exit status.
int score_options_load(const char *command, score_options *o, int64_t batch, int64_t heads);
// Put masks on the device and finish o->params.
int score_options_upload(score_options *o, tensors *t);
// [count] integers of an i4 or i8 file; nothing where spec is NULL. The caller frees *result.
int score_options_integers(const char *command, const char *option, const char *spec, int64_t count,
                           int32_t **result);
void score_options_free(score_options *o);
#endif
