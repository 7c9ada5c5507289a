// store_options.h: how numbers of files are stored on the device: as they are, or quantised in 8 or 4 bits; of attend's K and V, and of
// layer's matrices.
#ifndef CLATTN_TOOL_CALL_OPTIONS_STORE_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_STORE_OPTIONS_H
#include "cli/call_options/tensors.h"

// How numbers are quantised here: to a type, f32 leaving them as the arrays are, and with what scales.
typedef struct store {
    const char *option; // "kv" or "weight", of --kv-type and the like
    clattn_type type;
    int64_t group;          // numbers that share a scale; 0: all of a row
    clattn_type scale_type; // f32, f16 or bf16
    bool zeros;             // with zero points
    int32_t rotation;       // columns of a block in which rows are rotated before; 0: none
} store;
// What is said of them.
typedef struct store_options {
    const char *option;
    int type, scales; // indices into store_names and names_types; -1: not given
    int64_t group;
    bool zeros;
} store_options;
extern const char *const store_names[];
#define STORE_TYPES_HELP                                                                                     \
    "f32, f16, bf16, with scales as q8 (int8), f8e4m3, f8e5m2, i4 or u4 (which needs zero points), or in "   \
    "blocks of 32 numbers as ggml's q8_0, q4_0 (also q4) or q4_1"
// What a word of store_names makes of them; whether all that is said has an effect. Return -1, else EXIT_WRONG with a line.
int store_choose(const store_options *o, int word, store *s);
int store_check(const store_options *o, const store *stores, int count);
// An array on the device, of float32 where it is to be quantised, its scales and its zero points. Returns -1, else the exit status.
int store_upload(tensors *t, const array *x, const store *s, clattn_tensor *const views[3]);
#endif
