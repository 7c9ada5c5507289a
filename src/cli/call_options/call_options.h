// call_options.h: the options of a call of attention, which attend and layer share. Parsed into texts first, then loaded, then put on the
// device, so that a wrong file is told before a device is opened. Functions return -1, else the exit status with its line printed.
#ifndef CLATTN_TOOL_CALL_OPTIONS_CALL_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_CALL_OPTIONS_H
#include <jansson.h>

#include "cli/call_options/store_options.h"

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
int kv_options_load(kv_options *o, int64_t batch, const int types[2], bool bf16);
// Put them on the device and into `kv`, whose k is there, of k and of v.
int kv_options_upload(const kv_options *o, tensors *t, const store stores[2], clattn_kv *kv);
void kv_options_free(kv_options *o);

// Keys of a call, past ones and new; and numbers of a row, of a view of rank 4.
int64_t kv_count(const clattn_kv *kv);
int64_t kv_width(const clattn_tensor *t);

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

typedef struct rope_options {
    clattn_rope rope;
    int layout;           // index into names_ropes; -1: not given
    const char *files[2]; // of positions, and of those of the keys, as given
    array arrays[2];
} rope_options;

option_group rope_group(rope_options *o);

// check refuses options without effect; load reads the files. Each returns -1, else the exit status.
int rope_options_check(const rope_options *o);
int rope_options_load(rope_options *o);
// Put positions on the device and into o->rope.
int rope_options_upload(rope_options *o, tensors *t);
void rope_options_free(rope_options *o);

#define ROPE_SCALING_HELP                                                                                    \
    "linear, ntk, yarn, llama3 or dynamic, with its numbers: 'llama3,factor=8,original=8192,low=1,high=4'; " \
    "'yarn,factor=4,original=4096' and fast=, slow=, attention=, untruncated=1; "                            \
    "'dynamic,factor=2,original=2048,length=4096'"

// NAME[,KEY=NUMBER...] of the option; false with what would be accepted in why[256].
bool rope_scaling_parse(const char *text, clattn_rope *rope, char why[256]);

#define SCORE_ROWS 32
// Rows of score_files.
enum {
#define HOST(name, key, of_heads, per, low, high, field, option, help) SCORE_##name,
#include "verification/sets/hosts.def"
#undef HOST
    SCORE_FILES
};

typedef struct score_options {
    clattn_score score;
    clattn_kernel kernel;
    int32_t splits;
    bool mods_unchecked;
    bool seeded;                                       // --seed was given
    bool maps_later;                                   // mask and bias: the caller loads them, by parts
    bool rope;                                         // the caller turns queries and keys by their positions
    const char *causal, *align, *offset, *mask, *bias; // as given
    const char *file[SCORE_FILES];                     // as given, a row of score_files each
    const char *buffer[CLATTN_MOD_BUFFERS];            // as given, in order
    int buffers;
    array mask_array, bias_array, buffer_array[CLATTN_MOD_BUFFERS];
    int32_t *offsets;            // [B], owned
    void *values[SCORE_FILES];   // of the files, owned
    option_row rows[SCORE_ROWS]; // what score_group hands out
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
