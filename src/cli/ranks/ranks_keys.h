// ranks_keys.h: keys and values of attend --mpi. A rank reads its rows from --k and --v, with rows
// of --past-k before them or in pages of --block-table. Rows beyond the lengths are not read.
#ifndef CLATTN_CLI_RANKS_RANKS_KEYS_H
#define CLATTN_CLI_RANKS_RANKS_KEYS_H
#include "cli/ranks/ranks.h"

typedef struct ranks_keys {
    load_place now[2], past[2]; // keys and values; `past` is valid if `has_past`
    bool has_past, paged, bshd;
    const char *past_options[2];
    // table: [B, blocks]; past_lengths: [B], NULL: all past rows
    const int32_t *table, *past_lengths;
    int64_t blocks;
    const int32_t *cu; // starts of packed sequences; NULL: a batch
} ranks_keys;

// Find the files and check that they fit together. `batch` is the call's batch size. Returns -1,
// else the exit status.
int ranks_keys_find(ranks_keys *k, const char *files[2], kv_options *o, int64_t batch);
// Number of KV heads, of past rows of an item, of new rows of an item, and of all keys of an item
// (the key axis of a mask).
int64_t ranks_keys_heads(const ranks_keys *k);
int64_t ranks_keys_past(const ranks_keys *k, int64_t item);
int64_t ranks_keys_new(const ranks_keys *k, int64_t item);
int64_t ranks_keys_count(const ranks_keys *k, int64_t item);
// Read this rank's rows of items [item, item + items): keys (which = 0) or values (1). `lengths`
// has [B] key counts; NULL: all keys.
int ranks_keys_read(const ranks_keys *k, ranks *r, int which, int64_t item, int64_t items,
                    const ranks_rows *rows, const int32_t *lengths, array *a);
void ranks_keys_free(ranks_keys *k);
#endif
