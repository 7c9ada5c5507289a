// report.h: what a run prints on stdout: one line for a person, or one JSON object; and a device as such an object.
#ifndef CLATTN_TOOL_CLI_REPORT_H
#define CLATTN_TOOL_CLI_REPORT_H
#include "cli/attend/expect.h"

// Floating-point operations of attention: 2 (D + Dv) for each pair of row and key that positions and lengths
// show.
double report_flops(const clattn_attention_params *p);

// The report of one attention or layer run; block: what JSON has of a whole block, NULL of others.
int report_run(const session *s, const clattn_plan *plan, double flops, uint64_t time_ns, uint64_t build_ns,
               const char *out_file, const expect *e, json_t *block);

// What a device and its driver call themselves, and what it can do; the caller releases it.
json_t *report_device(const clattn_capabilities *c);
#endif
