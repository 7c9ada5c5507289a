// heatmap.h: what the two kinds of picture of clattn heatmap share: what was asked for. Used by heatmap*.c.
#ifndef CLATTN_TOOL_HEATMAP_HEATMAP_H
#define CLATTN_TOOL_HEATMAP_HEATMAP_H
#include "tool/call_options/score_options.h"

// Queries, keys or heads of a picture: far beyond what can be read, far below where pixel counts overflow.
#define HEATMAP_MOST_SIZE 65536

typedef struct heatmap_request {
    const char *weights; // the file; NULL: a mask is drawn
    const char *tokens, *y_tokens, *out, *head_list, *dtype;
    int64_t batch, n, n_kv;
    bool by_head;
    int scale, colour; // of their words
    float most;
    score_options score;
    common_options common;
} heatmap_request;

// Returns the exit status, after its line.
int heatmap_weights(const heatmap_request *r);
int heatmap_mask(heatmap_request *r);
#endif
