// layer_backward.h: the gradients of `clattn layer`, in calling order: check the options and load
// the file; upload beside forward's tensors; run; write. Without --grad-out each function does
// nothing. Each returns -1, or prints a line and returns the exit status.
#ifndef CLATTN_CLI_LAYER_LAYER_BACKWARD_H
#define CLATTN_CLI_LAYER_LAYER_BACKWARD_H
#include "cli/layer/layer.h"

option_group layer_gradients_group(layer_gradients *g);
int layer_gradients_load(layer_run *r);
int layer_gradients_begin(layer_run *r, tensors *t);
int layer_gradients_run(layer_run *r, session *s);
int layer_gradients_save(layer_run *r, tensors *t);
void layer_gradients_free(layer_gradients *g);
#endif
