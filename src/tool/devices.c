// devices.c: clattn devices: every platform and device, what it can do, and which kernel the planner would
// take.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/report.h"
#include "tool/tool.h"

// The plan of a typical call; false where the device takes no context.
static bool plan_for(session *s, clattn_type type, int64_t n_q, int64_t n_kv, clattn_plan *plan) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, type, 1, 32, n_q, 128),
                                 .kv.k = clattn_tensor_bhsd(NULL, type, 1, 8, n_kv, 128)};
    p.kv.v = p.kv.k;
    p.out = p.q;
    return clattn_attention_plan(s->context, &p, plan) == CLATTN_OK;
}

static json_t *plan_json(const clattn_plan *p) {
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:s}", "kernel", p->kernel_name, "tile_q", p->tile_q,
                     "tile_kv", p->tile_kv, "splits", p->splits, "local_bytes", (json_int_t)p->local_bytes,
                     "why", p->why);
}

static json_t *device_json(size_t index, const clattn_capabilities *c, const clattn_plan *prefill,
                           const clattn_plan *decode, const clattn_plan *bf16) {
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:b, s:b, s:b, s:b, s:o, s:o, s:o}",
        "index", (json_int_t)index, "device", c->name, "type",
        c->is_gpu   ? "gpu"
        : c->is_cpu ? "cpu"
                    : "other",
        "vendor", c->vendor, "driver", c->driver, "platform", c->platform, "version", c->version,
        "memory_bytes", (json_int_t)c->global_memory_bytes, "max_allocation_bytes",
        (json_int_t)c->max_allocation_bytes, "local_bytes", (json_int_t)c->local_memory_bytes,
        "max_work_group", (json_int_t)c->max_work_group, "compute_units", (int)c->compute_units, "half",
        c->half_arithmetic, "double", c->double_arithmetic, "subgroups", c->subgroups, "matrix_instructions",
        bf16->matrix_instructions, "prefill", plan_json(prefill), "decode", plan_json(decode), "prefill_bf16",
        plan_json(bf16));
}

static void print_device(size_t index, const clattn_capabilities *c, const clattn_plan *prefill,
                         const clattn_plan *decode, const clattn_plan *bf16) {
    printf("%zu  %s\n", index, c->name);
    printf("   platform   %s\n   driver     %s, %s\n", c->platform, c->driver, c->version);
    printf("   type       %s, %u compute units, %.1f GiB, largest buffer %.1f GiB\n",
           c->is_gpu   ? "GPU"
           : c->is_cpu ? "CPU"
                       : "other",
           c->compute_units, (double)c->global_memory_bytes / 0x1p30,
           (double)c->max_allocation_bytes / 0x1p30);
    printf("   limits     %llu work-items a group, %llu KiB local memory%s\n",
           (unsigned long long)c->max_work_group, (unsigned long long)c->local_memory_bytes / 1024,
           c->local_memory_is_local ? "" : " (not apart from global)");
    printf("   can        half arithmetic %s, double %s, sub-groups %s, matrix instructions %s\n",
           c->half_arithmetic ? "yes" : "no", c->double_arithmetic ? "yes" : "no",
           c->subgroups ? "yes" : "no",
           bf16->matrix_instructions ? "bfloat16 dot product (self-tested)" : "none found");
    printf("   prefill    %s\n   in bf16    %s\n   decode     %s\n", prefill->why, bf16->why, decode->why);
}

int tool_devices(int argc, char **argv) {
    common_options o = {0};
    const option_group groups[] = {common_group(&o)};
    command_line line = {"devices",
                         "list OpenCL devices and what clattn does with them",
                         "clattn devices --json",
                         groups,
                         1,
                         0,
                         {NULL},
                         0};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    session s = {.command = "devices", .options = o};
    clattn_device *devices;
    size_t count = 0;
    status = session_devices(&s, &devices, &count);
    if (status >= 0) return status;
    json_t *all = json_array();
    bool bad = false;
    for (size_t i = 0; i < count; i++) {
        clattn_capabilities c;
        clattn_plan prefill = {0}, decode = {0}, bf16 = {0};
        if (clattn_device_describe(devices[i].device, &c) != CLATTN_OK) continue;
        if (session_open_device(&s, &devices[i], NULL) < 0) {
            plan_for(&s, CLATTN_TYPE_F32, 4096, 4096, &prefill);
            plan_for(&s, CLATTN_TYPE_F32, 1, 4096, &decode);
            plan_for(&s, CLATTN_TYPE_BF16, 4096, 4096, &bf16);
            session_close(&s);
        }
        if (o.json)
            bad |= json_array_append_new(all, device_json(i, &c, &prefill, &decode, &bf16)) != 0;
        else
            print_device(i, &c, &prefill, &decode, &bf16);
    }
    free(devices);
    status =
        o.json ? report_json(json_pack("{s:s, s:O}", "clattn", clattn_version(), "devices", all)) : EXIT_DONE;
    json_decref(all);
    if (bad) return tool_failed("devices", "a device could not be told as JSON");
    return status;
}
