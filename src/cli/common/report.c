// report.c: see report.h.
#include "cli/common/report.h"

#include <math.h>

#include "verification/limits/model.h"
#include "cli/call_options/call_options.h"

double report_flops(const clattn_attention_params *p) {
    const double pairs = p->cu_seqlens_q
                             ? ragged_pairs(p)
                             : model_pairs(&p->score, p->q.shape[0], p->q.shape[2], kv_count(&p->kv));
    return 2.0 * pairs * (double)p->q.shape[1] * (double)(p->q.shape[3] + kv_width(&p->kv.v));
}

int report_run(const session *s, const clattn_plan *plan, double flops, uint64_t time_ns, uint64_t build_ns,
               const char *out_file, const expect *e, json_t *block) {
    const double gflops = time_ns ? flops / (double)time_ns : 0.0;
    if (s->options.quiet) return EXIT_DONE;
    if (s->options.json) {
        json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:f, s:f, s:I, s:s, s:o}", "device",
                              s->capabilities->name, "driver", s->capabilities->driver, "kernel",
                              plan->kernel_name, "tile_q", plan->tile_q, "tile_kv", plan->tile_kv, "splits",
                              plan->splits, "time_ns", (json_int_t)time_ns, "gflops", gflops, "build_ms",
                              (double)build_ns / 1e6, "workspace_bytes", (json_int_t)plan->workspace_bytes,
                              "why", plan->why, "out", report_text(out_file));
        if (block) json_object_set(j, "block", block);
        return report_json(expect_json(e, j));
    }
    printable_printf(stdout, "%s  kernel %s", s->capabilities->name, plan->kernel_name);
    if (plan->tile_q) printf(" %dx%d", plan->tile_q, plan->tile_kv);
    printable_printf(stdout, "  time %.3f ms  %.1f GFLOP/s  kernels ready in %.1f ms  -> %s\n",
                     (double)time_ns / 1e6, gflops, (double)build_ns / 1e6, out_file);
    expect_print(e);
    return EXIT_DONE;
}

json_t *report_device(const clattn_capabilities *c) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:b, s:b, s:b}", "device",
                     c->name, "type",
                     c->is_gpu   ? "gpu"
                     : c->is_cpu ? "cpu"
                                 : "other",
                     "vendor", c->vendor, "driver", c->driver, "platform", c->platform, "version", c->version,
                     "memory_bytes", (json_int_t)c->global_memory_bytes, "max_allocation_bytes",
                     (json_int_t)c->max_allocation_bytes, "local_bytes", (json_int_t)c->local_memory_bytes,
                     "max_work_group", (json_int_t)c->max_work_group, "compute_units", (int)c->compute_units,
                     "clock_mhz", (int)c->clock_mhz, "half", c->half_arithmetic, "double",
                     c->double_arithmetic, "subgroups", c->subgroups);
}
