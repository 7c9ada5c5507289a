// rope_scaling.h: how RoPE's frequencies are scaled, read from an option and from a model's config.json. Used by clattn layer.
#ifndef CLATTN_TOOL_CALL_OPTIONS_ROPE_SCALING_H
#define CLATTN_TOOL_CALL_OPTIONS_ROPE_SCALING_H
#include <jansson.h>

#include "tool/cli/tool.h"

#define ROPE_SCALING_HELP                                                                                    \
    "linear, ntk, yarn, llama3 or dynamic, with its numbers: 'llama3,factor=8,original=8192,low=1,high=4'; " \
    "'yarn,factor=4,original=4096' and fast=, slow=, attention=, untruncated=1; "                            \
    "'dynamic,factor=2,original=2048,length=4096'"

// NAME[,KEY=NUMBER...] of the option; false with what would be accepted in why[256].
bool rope_scaling_parse(const char *text, clattn_rope *rope, char why[256]);

// rope_scaling or rope_parameters of a config.json, whose `longest` is max_position_embeddings, 0 where it is not said.
// NULL, or what is wrong with it.
const char *rope_scaling_read(const json_t *object, const char *name, double longest, clattn_rope *rope);
#endif
