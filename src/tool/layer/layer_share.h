// layer_share.h: layer --mpi-way heads: which heads are a rank's, and what of the weights' files is theirs.
#ifndef CLATTN_TOOL_LAYER_LAYER_SHARE_H
#define CLATTN_TOOL_LAYER_LAYER_SHARE_H
#include "tool/files/formats.h"
#include "tool/cli/tool.h"

// Query heads [first, first + count) of `all`, and the key/value heads that they read.
typedef struct layer_share {
    bool wanted;
    int64_t first, count, all, kv_first, kv_count, kv_all;
} layer_share;

// Key/value heads in blocks; where there are more ranks than those, each has a part of the query heads of one. Returns -1, else
// EXIT_WRONG with a line: there are fewer heads than ranks.
int layer_share_heads(layer_share *s, int rank, int ranks, int64_t heads, int64_t kv_heads);
// Read what is theirs of a layer's tensor, LAYER_WQ and so on. `packed`: it holds q, k and v; `turned`: it is [in, out].
int layer_share_load(const layer_share *s, const char *option, int tensor, bool packed, bool turned,
                     const load_place *place, array *a);
#endif
