// layer_client.h: the layer under this program, if there is one.
#ifndef CLATTN_TESTS_LAYER_CLIENT_H
#define CLATTN_TESTS_LAYER_CLIENT_H

#include "cl_layer/cl_layer.h"

// NULL where OPENCL_LAYERS names none, or the loader takes none. After the first OpenCL call.
const struct layer_control *layer_client(void);

// Disarm it, and count the calls of this function since it was armed.
int layer_client_count(const char *name);

#endif
