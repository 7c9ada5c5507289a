// score_options.h: the options that attend and layer share: scale, masks, bias, lengths, kernel. Parsed into
// texts first, then loaded, then put on the device, so that a wrong file is told before a device is opened.
#ifndef CLATTN_TOOL_CALL_OPTIONS_SCORE_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_SCORE_OPTIONS_H
#include "tool/call_options/tensors.h"

#define SCORE_FILES_MOST 8
#define SCORE_ROWS 32
enum { SCORE_ALIBI, SCORE_SINKS }; // rows of score_files

typedef struct score_options {
    clattn_score score;
    clattn_kernel kernel;
    int32_t splits;
    bool mods_unchecked;
    bool seeded;                                       // --seed was given
    bool maps_later;                                   // mask and bias: the caller loads them, by parts
    bool rope;                                         // the caller turns queries and keys by their positions
    const char *causal, *align, *offset, *mask, *bias; // as given
    const char *file[SCORE_FILES_MOST];                // as given, a row of score_files each
    const char *buffer[CLATTN_MOD_BUFFERS];            // as given, in order
    int buffers;
    array mask_array, bias_array, buffer_array[CLATTN_MOD_BUFFERS];
    int32_t *offsets;               // [B], owned
    void *values[SCORE_FILES_MOST]; // of the files, owned
    option_row rows[SCORE_ROWS];    // what score_group hands out
} score_options;

option_group score_group(score_options *o);

// Load the files and check what only the command line can get wrong. Returns -1, else the exit status.
int score_options_load(score_options *o, int64_t batch, int64_t heads);
// Whether mask and bias hold what they must. Returns -1, else EXIT_WRONG with a line.
int score_options_types(const score_options *o);
// Put masks on the device and finish o->score.
int score_options_upload(score_options *o, tensors *t);
// [count] integers of an i4 or i8 file; nothing where spec is NULL. The caller frees *result.
int score_options_integers(const char *option, const char *spec, int64_t count, int32_t **result);
void score_options_free(score_options *o);
#endif
