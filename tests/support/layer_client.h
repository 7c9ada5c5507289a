// layer_client.h: access to the OpenCL layer under this program, if it is loaded.
#ifndef CLATTN_TESTS_LAYER_CLIENT_H
#define CLATTN_TESTS_LAYER_CLIENT_H

#include "cl_layer/cl_layer.h"

// NULL if OPENCL_LAYERS names no layer, or the loader supports none. Call it after the first OpenCL
// call.
const struct layer_control *layer_client(void);

// Disarm the layer, and return how often this function was called since it was armed.
int layer_client_count(const char *name);

#endif
