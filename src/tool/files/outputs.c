// outputs.c: see outputs.h.
#include "tool/files/outputs.h"

#include <string.h>

#include "tool/files/file.h"
#include "tool/files/load.h"

static bool ends_in(const char *text, const char *end) {
    const size_t all = strlen(text), length = strlen(end);
    return all >= length && !strcmp(text + all - length, end);
}

// Of a model's folder, what is read there.
static bool is_of_model(const char *path, const char *folder) {
    char name[4096];
    const char *slash = strrchr(path, '/');
    if (!ends_in(path, ".safetensors") && !ends_in(path, ".json")) return false;
    const int length = snprintf(name, sizeof name, "%s/%s", folder, slash ? slash + 1 : path);
    return length > 0 && (size_t)length < sizeof name && file_same_target(path, name);
}

static bool is_input(const char *path, const char *value, const char *input) {
    char file[4096];
    if (value && !strcmp(value, "DIR")) return is_of_model(path, input);
    if (value && !strstr(value, "FILE") && !strstr(value, "TENSOR")) return false;
    const int length = snprintf(file, sizeof file, "%.*s", (int)load_file_length(input), input);
    return length > 0 && (size_t)length < sizeof file && file_same_target(path, file);
}

static bool is_output(const char *value, const output_file *outputs, int count) {
    for (int i = 0; i < count; i++)
        if (value == outputs[i].path) return true;
    return false;
}

static int refuse_input(const output_file *output, const char *dashes, const char *name) {
    return tool_wrong("--%s %s: is the file of %s%s: an output does not replace an input", output->option,
                      output->path, dashes, name);
}

static int check_inputs(const command_line *line, const output_file *outputs, int count,
                        const output_file *output) {
    for (int g = 0, n = 0; g < line->group_count; g++)
        for (int i = 0; i < line->groups[g].count && n < OPTIONS_MOST; i++, n++) {
            const option_row *row = &line->groups[g].rows[i];
            const char *value = line->values[n];
            if (!value || !row->value || is_output(value, outputs, count)) continue;
            if (is_input(output->path, row->value, value))
                return refuse_input(output, row->name[0] == '-' ? "" : "--", row->name);
        }
    for (int i = 0; i < line->positional_count; i++)
        if (is_input(output->path, NULL, line->positional[i]))
            return refuse_input(output, "", line->positional[i]);
    return -1;
}

int outputs_check(const command_line *line, const output_file *outputs, int count) {
    char why[512];
    for (int i = 0; i < count; i++) {
        if (!outputs[i].path) continue;
        if (!file_can_write(outputs[i].path, why, sizeof why))
            return tool_wrong("--%s: %s", outputs[i].option, why);
        for (int j = 0; j < i; j++)
            if (outputs[j].path && file_same_target(outputs[i].path, outputs[j].path))
                return tool_wrong("--%s %s: is the file of --%s: each output needs its own",
                                  outputs[i].option, outputs[i].path, outputs[j].option);
        const int status = check_inputs(line, outputs, count, &outputs[i]);
        if (status >= 0) return status;
    }
    return -1;
}
