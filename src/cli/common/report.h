// report.h: what a run prints on stdout: one line of text or one JSON object; and a device as a
// JSON object.
#ifndef CLATTN_CLI_COMMON_REPORT_H
#define CLATTN_CLI_COMMON_REPORT_H
#include "cli/attend/expect.h"

// Floating-point operations of attention: 2 (D + Dv) for each visible pair of a query row and a
// key.
double report_flops(const clattn_attention_params *p);

// Print the report of an attention or layer run. `block`: additional JSON members of a whole block,
// or NULL.
int report_run(const session *s, const clattn_plan *plan, double flops, uint64_t time_ns, uint64_t build_ns,
               const char *out_file, const expect *e, json_t *block);

// A device's and its driver's names and capabilities. The caller releases the object.
json_t *report_device(const clattn_capabilities *c);
#endif
