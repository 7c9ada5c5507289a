// rope_options.h: the options of rotary embedding, which attend and layer share: layout, base, width, scaling, positions.
#ifndef CLATTN_TOOL_CALL_OPTIONS_ROPE_OPTIONS_H
#define CLATTN_TOOL_CALL_OPTIONS_ROPE_OPTIONS_H
#include "tool/call_options/tensors.h"

typedef struct rope_options {
    clattn_rope rope;
    int layout;           // index into names_ropes; -1: not given
    const char *files[2]; // of positions, and of those of the keys, as given
    array arrays[2];
} rope_options;

option_group rope_group(rope_options *o);

// What would be without effect; then the files. Returns -1, else the exit status.
int rope_options_check(const rope_options *o);
int rope_options_load(rope_options *o);
// Put positions on the device and into o->rope.
int rope_options_upload(rope_options *o, tensors *t);
void rope_options_free(rope_options *o);
#endif
