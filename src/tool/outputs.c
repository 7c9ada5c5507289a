// outputs.c: see outputs.h.
#include "tool/outputs.h"

#include "tool/file.h"
#include "tool/tool.h"

int outputs_check(const char *command, const output_file *outputs, int count) {
    char why[512];
    for (int i = 0; i < count; i++) {
        if (!outputs[i].path) continue;
        if (!file_can_write(outputs[i].path, why, sizeof why))
            return tool_wrong(command, "--%s: %s", outputs[i].option, why);
        for (int j = 0; j < i; j++)
            if (outputs[j].path && file_same_target(outputs[i].path, outputs[j].path))
                return tool_wrong(command, "--%s %s: is the file of --%s: each output needs its own",
                                  outputs[i].option, outputs[i].path, outputs[j].option);
    }
    return -1;
}
