// device_group.h: --devices of attend, bench and verify: one session for each device, and a group
// of their contexts.
#ifndef CLATTN_CLI_DEVICES_DEVICE_GROUP_H
#define CLATTN_CLI_DEVICES_DEVICE_GROUP_H
#include "cli/attend/expect.h"

#define SEVERAL_MOST 16

typedef struct several_options {
    const char *devices; // from the command line; NULL: one device
    int partition;       // a clattn_partition
    bool deal_given;
} several_options;

typedef struct several {
    session sessions[SEVERAL_MOST];
    int count;
    clattn_group *group;
    clattn_group *alone[SEVERAL_MOST]; // a group of each single device, if requested
    clattn_partition partition;
    clattn_group_report report; // of the last call
    clattn_group_share shares[SEVERAL_MOST];
} several;

option_group several_group(several_options *o);

// Open all devices. The group uses the first session's messages and options. `alone`: also create a
// group of each single device. Returns -1; or prints a line and returns the exit status with
// nothing open.
int several_open(several *all, const several_options *o, const common_options *common, bool alone);
void several_close(several *all);

clattn_status several_run(several *all, const clattn_attention_params *params);
// Run backward on the group. The report remains that of the forward call.
clattn_status several_run_backward(several *all, const clattn_attention_backward_params *params);

// Print attend's report: one line and one more for each device, or a JSON object.
int several_report(const several *all, double flops, uint64_t time_ns, const char *out_file, const expect *e);
#endif
