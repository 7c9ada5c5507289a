// call_options.h: the options of an attention call, which attend and layer share. Each group of
// options has three steps: parse the command line into texts, load the files, upload to the device.
// A wrong file is thus reported before a device is opened. Functions return -1, or print one line
// and return the exit status.
#ifndef CLATTN_CLI_CALL_OPTIONS_CALL_OPTIONS_H
#define CLATTN_CLI_CALL_OPTIONS_CALL_OPTIONS_H
#include <jansson.h>

#include "cli/call_options/store_options.h"

typedef struct kv_options {
    // Paths from the command line.
    const char *prefix_k, *prefix_v, *past_k, *past_v, *past_lengths, *block_table;
    bool past_later;   // the caller loads the past rows itself, in parts
    int64_t page_size; // 0: number of rows of a page in the file
    array past_k_array, past_v_array, table_array;
    int32_t *lengths; // [B], owned
} kv_options;

option_group kv_group(kv_options *o);
option_group kv_past_group(kv_options *o); // only the options of past rows
// Load the files and store past keys and values as names_types[type]. `bf16`: files of NumPy type
// u2 contain bf16. Returns -1, else the exit status.
int kv_options_load(kv_options *o, int64_t batch, const int types[2], bool bf16);
// Upload the loaded arrays and add them to `kv`, whose k and v are already set.
int kv_options_upload(const kv_options *o, tensors *t, const store stores[2], clattn_kv *kv);
void kv_options_free(kv_options *o);

// The number of past and new keys of a call; and the head size that a view of rank 4 stores in a
// row.
int64_t kv_count(const clattn_kv *kv);
int64_t kv_width(const clattn_tensor *t);

typedef struct append_options {
    const char *k_new, *v_new, *out_k, *out_v; // paths from the command line
    array k_array, v_array;
} append_options;

option_group append_group(append_options *o);
// Load the files. `dtype` 2: files of NumPy type u2 contain bf16. `quantised`: the caches are
// quantised. Returns -1, else the exit status.
int append_options_load(append_options *o, int dtype, bool quantised);
int append_options_upload(const append_options *o, tensors *t, clattn_kv *kv);
// Write the caches that the user requested. k and v are the arrays that the caches were made from.
int append_options_save(const append_options *o, tensors *t, const clattn_kv *kv, array *k, array *v);
void append_options_free(append_options *o);

typedef struct ragged_options {
    const char *file, *kv_file; // paths of [B+1] sequence starts
    int32_t *cu, *cu_kv;        // cu_kv is NULL if the keys are a dense batch, and may equal cu
    int64_t sequences;
} ragged_options;

option_group ragged_group(ragged_options *o);
// Load the files. `k_batch` is the number of batch items of k or y; -1: a cache, which is never
// packed. Returns -1, else the exit status.
int ragged_options_load(ragged_options *o, int64_t k_batch);
// The number of sequences; without --cu-seqlens it is `batch`.
int64_t ragged_options_batch(const ragged_options *o, int64_t batch);
// Set the sequence starts in the call. `full` holds [B, H, Nq, Nkv] and is changed to [B, H, max_q,
// max_kv], the shape of an output such as the weights.
void ragged_options_apply(const ragged_options *o, clattn_attention_params *p, int64_t full[4]);
void ragged_options_free(ragged_options *o);

// The number of pairs of a query row and a key in a ragged call. The call must have its starts in
// host memory.
double ragged_pairs(const clattn_attention_params *p);

typedef struct rope_options {
    clattn_rope rope;
    int layout;           // index into names_ropes; -1: not given
    const char *files[2]; // paths of positions and k-positions from the command line
    array arrays[2];
} rope_options;

option_group rope_group(rope_options *o);

// rope_options_check rejects options without effect. rope_options_load reads the files. Both
// functions return -1, else the exit status.
int rope_options_check(const rope_options *o);
int rope_options_load(rope_options *o);
// Upload the positions and set them in o->rope.
int rope_options_upload(rope_options *o, tensors *t);
void rope_options_free(rope_options *o);

#define ROPE_SCALING_HELP                                                                                    \
    "linear, ntk, yarn, llama3 or dynamic, with its numbers: 'llama3,factor=8,original=8192,low=1,high=4'; " \
    "'yarn,factor=4,original=4096' and fast=, slow=, attention=, untruncated=1; "                            \
    "'dynamic,factor=2,original=2048,length=4096'"

// Parse NAME[,KEY=NUMBER...]. False: `why` says which input is accepted.
bool rope_scaling_parse(const char *text, clattn_rope *rope, char why[256]);

#define SCORE_ROWS 32
// Indices of score_files in score_options.c.
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
    bool seeded; // --seed was given
    // The caller loads mask and bias itself, in parts.
    bool maps_later;
    bool rope;                                         // the caller applies RoPE by position
    const char *causal, *align, *offset, *mask, *bias; // from the command line
    // Paths from the command line, one for each row of score_files.
    const char *file[SCORE_FILES];
    const char *buffer[CLATTN_MOD_BUFFERS]; // paths from the command line, in order
    int buffers;
    array mask_array, bias_array, buffer_array[CLATTN_MOD_BUFFERS];
    int32_t *offsets;            // [B], owned
    void *values[SCORE_FILES];   // numbers of the files, owned
    option_row rows[SCORE_ROWS]; // the rows that score_group returns
} score_options;

option_group score_group(score_options *o);

// Load the files and check conditions that only the command line can violate. Returns -1, else the
// exit status.
int score_options_load(score_options *o, int64_t batch, int64_t heads);
// Check that mask and bias have allowed types. Returns -1, or EXIT_WRONG after printing a line.
int score_options_types(const score_options *o);
// Upload mask, bias and buffers, and complete o->score.
int score_options_upload(score_options *o, tensors *t);
// Load [count] integers from a file of i32 or i64. A NULL `spec` loads nothing. The caller frees
// *result.
int score_options_integers(const char *option, const char *spec, int64_t count, int32_t **result);
void score_options_free(score_options *o);
#endif
