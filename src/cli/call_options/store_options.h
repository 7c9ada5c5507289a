// store_options.h: options for how numbers of files are stored on the device: attend's K and V and
// layer's matrices, unquantised or quantised to 8 or 4 bits.
#ifndef CLATTN_CLI_CALL_OPTIONS_STORE_OPTIONS_H
#define CLATTN_CLI_CALL_OPTIONS_STORE_OPTIONS_H
#include "cli/call_options/tensors.h"

// How one tensor is stored. CLATTN_TYPE_F32 keeps the array's own float type.
typedef struct store {
    const char *option; // "kv" or "weight": the prefix of --kv-type, --kv-group and so on
    clattn_type type;
    int64_t group;          // numbers that share a scale; 0: a whole row
    clattn_type scale_type; // f32, f16 or bf16
    bool zeros;             // with zero points
    int32_t rotation;       // columns of a Hadamard block, transformed before quantising; 0: none
} store;
// The options as parsed.
typedef struct store_options {
    const char *option;
    int type, scales; // indices into store_names and names_types; -1: not given
    int64_t group;
    bool zeros;
} store_options;
extern const char *const store_names[];
#define STORE_TYPES_HELP                                                                                     \
    "f32, f16, bf16; with scales: q8 (int8), f8e4m3, f8e5m2, i4 or u4 (which needs zero points); in ggml's " \
    "blocks of 32 numbers: q8_0, q4_0 (also q4) or q4_1"
// store_choose sets `s` from a word of store_names. store_check rejects options without effect.
// Both functions return -1, or EXIT_WRONG after printing a line.
int store_choose(const store_options *o, int word, store *s);
int store_check(const store_options *o, const store *stores, int count);
// Upload an array and set the views of its numbers, scales and zero points. An array to be
// quantised must be float32. Returns -1, else the exit status.
int store_upload(tensors *t, const array *x, const store *s, clattn_tensor *const views[3]);
#endif
