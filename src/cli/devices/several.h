// several.h: --devices of attend, bench and verify: a session on each device, and the group of their contexts.
#ifndef CLATTN_TOOL_DEVICES_SEVERAL_H
#define CLATTN_TOOL_DEVICES_SEVERAL_H
#include "cli/attend/expect.h"

#define SEVERAL_MOST 16

typedef struct several_options {
    const char *devices; // as given; NULL: one device, as ever
    int deal;            // a clattn_deal
    bool deal_given;
} several_options;

typedef struct several {
    session sessions[SEVERAL_MOST];
    int count;
    clattn_group *group;
    clattn_group *alone[SEVERAL_MOST]; // of each one, where they were asked for
    clattn_deal deal;
    clattn_group_report report; // of the last call
    clattn_group_share shares[SEVERAL_MOST];
} several;

option_group several_group(several_options *o);

// Open all: the first one's message and options are those of the group. `alone`: a group of each one, too. Returns -1, else the exit
// status with its line, and nothing is open.
int several_open(several *all, const several_options *o, const common_options *common, bool alone);
void several_close(several *all);

clattn_status several_run(several *all, const clattn_attention_params *params);
// The gradients of what was run; the report stays that of the run.
clattn_status several_run_backward(several *all, const clattn_attention_backward_params *params);

// The report of attend: one line, and one for each device; or a JSON object.
int several_report(const several *all, double flops, uint64_t time_ns, const char *out_file, const expect *e);
#endif
