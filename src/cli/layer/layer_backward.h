// layer_backward.h: the gradients of a call of clattn layer, in this order: check the options and load the file, put all on the device
// beside forward's, run, write. Each does nothing where there is no --grad-out, and returns -1, else the exit status with a line printed.
#ifndef CLATTN_TOOL_LAYER_LAYER_BACKWARD_H
#define CLATTN_TOOL_LAYER_LAYER_BACKWARD_H
#include "cli/layer/layer.h"

option_group layer_gradients_group(layer_gradients *g);
int layer_gradients_load(layer_run *r);
int layer_gradients_begin(layer_run *r, tensors *t);
int layer_gradients_run(layer_run *r, session *s);
int layer_gradients_save(layer_run *r, tensors *t);
void layer_gradients_free(layer_gradients *g);
#endif
