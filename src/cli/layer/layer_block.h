// layer_block.h: the whole transformer block around a layer, --block, as one list of calls in one queue; of a layer alone that list is
// the layer. In this order: check the options, load the tensors, make the list, prepare and enqueue it. Those that return an int return
// -1, else the exit status with a line printed.
#ifndef CLATTN_TOOL_LAYER_LAYER_BLOCK_H
#define CLATTN_TOOL_LAYER_LAYER_BLOCK_H
#include "cli/layer/layer.h"

int layer_block_check(const layer_run *r);
int layer_block_load(layer_run *r);
// From here on params.x and params.out are the layer's own, and params.out that it had is the block's.
int layer_block_begin(layer_run *r, tensors *t);
// Operations beside the layer's: those of the MLP's projections.
double layer_block_flops(const layer_run *r);
clattn_status layer_block_prepare(layer_run *r, session *s);
clattn_status layer_block_enqueue(layer_run *r, session *s);
// What is told of a block in JSON, for the caller to release; NULL: there is none.
json_t *layer_block_json(const layer_run *r);
void layer_block_free(layer_block *b);
#endif
