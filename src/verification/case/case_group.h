// case_group.h: run a case on several devices (clattn_group). The buffers of bound arrays are
// copied to host memory with their guard zones and back, so that the verdict is the same as on one
// device. For attention and its gradients. Used by the suites and the bench.
//
//    case_bind(data, place, &arrays);
//    case_group_open(&arrays, queue, &host);
//    status = case_group_run(group, &host, partition, shares, &report, done);
//    case_group_close(&host, queue, true);
//    struct case_result got = case_collect(&arrays, queue, NULL);
#ifndef CLATTN_VERIFICATION_CASE_CASE_GROUP_H
#define CLATTN_VERIFICATION_CASE_CASE_GROUP_H

#include "verification/case/case_run.h"

#define CASE_GROUP_MOST 64

struct case_group {
    clattn_group_attention_params params;            // with views of host memory
    clattn_group_attention_backward_params backward; // for a case of gradients
    bool gradients;
    struct case_image {
        cl_mem buffer;
        uint8_t *bytes;
        size_t count;
        struct place *place;
    } images[CASE_GROUP_MOST];
    int count;
};

void case_group_open(const struct case_arrays *arrays, cl_command_queue queue, struct case_group *to);
// Run the case's call with this partition.
clattn_status case_group_run(clattn_group *group, struct case_group *host, clattn_partition partition,
                             const double *shares, clattn_group_report *report, clattn_group_share *done);
// `keep`: copy host memory to the buffers.
void case_group_close(struct case_group *host, cl_command_queue queue, bool keep);

#endif
