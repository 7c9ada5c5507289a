// commands.c: see commands.h.
#include "tool/cli/commands.h"

#include <string.h>

#include "tool/cli/tool.h"

const tool_command tool_commands[] = {
    {"devices", tool_devices, "what OpenCL devices there are, and which kernels they take"},
    {"attend", tool_attend, "scaled dot-product attention on files"},
    {"layer", tool_layer, "multi-head attention with a model's weights"},
    {"heatmap", tool_heatmap, "draw attention weights, or a mask"},
    {"verify", tool_verify, "is this device right? every kernel on hard cases"},
    {"bench", tool_bench, "measure attention, verified first, against what the device can do"},
    {"tune", tool_tune, "find the fastest variants of this device, as rows for the planner"},
    {"compare", tool_compare, "which differences of two benches are real"},
    {"report", tool_report, "benches as one page: devices, rooflines, cases, ratios, heads"},
    {"completion", tool_completion, "what a shell needs to complete these commands and their options"},
    {"manual", tool_manual, "manual pages of the program and its commands"},
};
const size_t tool_command_count = sizeof tool_commands / sizeof tool_commands[0];

const tool_command *tool_command_named(const char *name) {
    for (size_t i = 0; i < tool_command_count; i++)
        if (!strcmp(name, tool_commands[i].name)) return &tool_commands[i];
    return NULL;
}
