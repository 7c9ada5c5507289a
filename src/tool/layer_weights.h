// layer_weights.h: the four projections of a layer by the names that models use.
#ifndef CLATTN_TOOL_LAYER_WEIGHTS_H
#define CLATTN_TOOL_LAYER_WEIGHTS_H
#include <jansson.h>

#include "tool/tensors.h"

enum { LAYER_WQ, LAYER_WK, LAYER_WV, LAYER_WO, LAYER_BQ, LAYER_BK, LAYER_BV, LAYER_BO, LAYER_TENSORS };
extern const char *const layer_tensor_options[LAYER_TENSORS]; // "wq", ...

typedef struct layer_weights {
    const char *file, *names; // --weights, --names
    const json_t *shards;     // in place of `file`: of each tensor the name of its file, in `folder`
    const char *folder;
    const char *given[LAYER_TENSORS]; // --wq ..., a tensor's name in `file`, or a file of its own
    array arrays[LAYER_TENSORS];      // rank 0 with NULL data: absent
    bool present[LAYER_TENSORS];
    bool packed; // in_proj: wq and bq hold q, k and v one after another
} layer_weights;

// Which of the schemes `names` begins with, such as "llama:".
bool layer_weights_named(const layer_weights *w, const char *scheme);
// Find and load. Returns -1, else the exit status with a line printed.
int layer_weights_load(const char *command, layer_weights *w);
int layer_weights_upload(layer_weights *w, tensors *t, clattn_layer_params *p);
void layer_weights_free(layer_weights *w);
#endif
