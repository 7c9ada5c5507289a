// layer_client.c: see layer_client.h.
#define _POSIX_C_SOURCE 200809L
#include "support/layer_client.h"

#ifndef _WIN32
#include <dlfcn.h>
#endif
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32 // the layer is not built on Windows
const struct layer_control *layer_client(void) {
    return NULL;
}
#else
const struct layer_control *layer_client(void) {
    const char *path = getenv("OPENCL_LAYERS");
    // RTLD_NOLOAD: find only a library that the loader has loaded.
    void *library = path != NULL ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library != NULL ? dlsym(library, "clattn_layer") : NULL;
}
#endif

int layer_client_count(const char *name) {
    const struct layer_control *layer = layer_client();
    const struct layer_armed armed = layer->disarm();
    int count = 0;
    for (int n = 1; n <= armed.calls; n++) count += strcmp(layer->call(n), name) == 0;
    return count;
}
