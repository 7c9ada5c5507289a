// bench_submit.c: see bench_table.h.
#include <time.h>

#include "cli/bench/bench_table.h"
#include "cli/files/seal.h"

// Prefill with small and large heads, decode of one and of eight batch items, gradients, and a
// layer with its projections.
const char bench_submit_cases[] =
    "attend-f32-b1-h12-n1024-d64-full,attend-f16-b1-h12-n1024-d64-full,attend-bf16-b1-h12-n1024-d64-full,"
    "attend-f32-b1-h12-n2048-d64-causal,attend-bf16-b1-h12-n2048-d64-causal,"
    "attend-f32-b1-h16-n4096-d128-full,attend-f16-b1-h16-n4096-d128-full,attend-bf16-b1-h16-n4096-d128-full,"
    "decode-f32-b1-h32-hkv8-n1-nkv4096-d128-full,decode-f16-b1-h32-hkv8-n1-nkv4096-d128-full,"
    "decode-bf16-b1-h32-hkv8-n1-nkv4096-d128-full,decode-bf16-b8-h32-hkv8-n1-nkv4096-d128-full,"
    "backward-f32-b1-h12-n1024-d64-full,backward-bf16-b1-h12-n1024-d64-full,"
    "layer-f32-b1-h12-n512-d64-m768-full,layer-bf16-b1-h12-n512-d64-m768-full";

int bench_submit_check(const command_line *line) {
    static const char *const accepted[] = {"submit",    "save", "max-ms", "-o",      "device",
                                           "cache-dir", "json", "quiet",  "verbose", NULL};
    EACH_OPTION(line, group, row, n) {
        int known = 0;
        while (accepted[known] && strcmp(accepted[known], row->name)) known++;
        if (line->values[n] && !accepted[known])
            return tool_wrong(
                "--submit: measures the same cases in the same way everywhere: no %s%s with it; --max-ms, "
                "--device, --cache-dir, --save, -o, --json, --quiet and --verbose are accepted",
                option_dashes(row), row->name);
    }
    return -1;
}

char *bench_submit_text(const json_t *table, double max_ms, size_t *bytes) {
    char date[32] = "", hash[SEAL_LETTERS + 1];
    const time_t now = time(NULL);
    const struct tm *parts = gmtime(&now);
    if (parts) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", parts);
    json_t *whole = json_copy((json_t *)table);
    json_object_set_new(whole, "submission",
                        json_pack("{s:s, s:i, s:s, s:f}", "set", BENCH_SUBMIT_SET, "set_version",
                                  BENCH_SUBMIT_VERSION, "date", date, "max_ms", max_ms));
    char *text = bench_table_text(whole, BENCH_JSON, bytes);
    json_decref(whole);
    // Hash the text as a reader will parse it.
    json_t *file = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    text = NULL;
    if (file && seal_of(file, hash)) {
        json_object_set_new(file, "sha256", json_string(hash));
        text = bench_table_text(file, BENCH_JSON, bytes);
    }
    json_decref(file);
    return text;
}
