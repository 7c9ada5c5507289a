// tune_rows.c: the rows that clattn tune finds: as a text for the planner, and as JSON.
#include <stdio.h>
#include <string.h>

#include "tool/cli/report.h"
#include "tool/tune/tune.h"

void tune_add_line(tune *t, const char *line) {
    const int length = (int)strcspn(line, "#"), end = length && line[length] ? length - 2 : length;
    const char *remark = line[length] ? line + length + 2 : "";
    if (t->common.json && length)
        json_array_append_new(
            t->rows, json_pack("{s:o, s:s}", "row", json_sprintf("%.*s", end, line), "remark", remark));
    const int n = snprintf(t->text + t->used, sizeof t->text - t->used, "%s\n", line);
    if (n > 0 && (size_t)n < sizeof t->text - t->used) t->used += (size_t)n;
}

// The rows' condition on the device. A CPU that reports no vectors may have some: the planner's width is probed then, and
// rows that are made here hold for it whatever it is.
const char *tune_device_condition(const clattn_capabilities *device, char text[40]) {
    const bool hint = device->is_cpu && device->float_vector_width < 4;
    snprintf(text, 40, hint ? "cpu=%d" : "cpu=%d lanes=%u", device->is_cpu,
             (unsigned)device->float_vector_width);
    return text;
}

int tune_print_json(const tune *t, bool keeps) {
    return report_json(json_pack("{s:s, s:s, s:s, s:i, s:O}", "clattn", clattn_version(), "device",
                                 t->device.name, "driver", t->device.driver, "kept",
                                 keeps ? t->kept_count : 0, "rows", t->rows));
}
