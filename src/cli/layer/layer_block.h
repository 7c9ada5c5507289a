// layer_block.h: the transformer block around a layer (--block) as a list of calls on one queue.
// Without --block the list is the layer alone. Calling order: check the options, load the tensors,
// begin (make the list), prepare, enqueue. Functions that return an int return -1, or print a line
// and return the exit status.
#ifndef CLATTN_CLI_LAYER_LAYER_BLOCK_H
#define CLATTN_CLI_LAYER_LAYER_BLOCK_H
#include "cli/layer/layer.h"

int layer_block_check(const layer_run *r);
int layer_block_load(layer_run *r);
// Afterwards params.x and params.out are the layer's own tensors; the previous params.out receives
// the block's result.
int layer_block_begin(layer_run *r, tensors *t);
// Operations of the MLP's projections, in addition to the layer's.
double layer_block_flops(const layer_run *r);
clattn_status layer_block_prepare(layer_run *r, session *s);
clattn_status layer_block_enqueue(layer_run *r, session *s);
// The block's members in the JSON report, for the caller to release. NULL: no block.
json_t *layer_block_json(const layer_run *r);
void layer_block_free(layer_block *b);
#endif
