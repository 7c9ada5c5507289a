// case_group.h: a case over several devices (clattn_group): the buffers of bound arrays as host memory, guard zones and all, and
// back, so that the case is judged as on one device. Attention and its gradients. Used by the suites and the bench.
//
//   case_bind(data, place, &arrays);
//   case_group_open(&arrays, queue, &host);
//   status = case_group_run(group, &host, deal, shares, &report, done);
//   case_group_close(&host, queue, true);
//   struct case_result got = case_collect(&arrays, queue, NULL);
#ifndef CLATTN_EVIDENCE_CASE_CASE_GROUP_H
#define CLATTN_EVIDENCE_CASE_CASE_GROUP_H

#include "verification/case/case_run.h"

#define CASE_GROUP_MOST 64

struct case_group {
    clattn_group_attention_params params;            // whose views are of the host's memory
    clattn_group_attention_backward_params backward; // of a case of gradients
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
// The call of the case's op, dealt so.
clattn_status case_group_run(clattn_group *group, struct case_group *host, clattn_deal deal,
                             const double *shares, clattn_group_report *report, clattn_group_share *done);
// keep: what stands in host memory goes to the buffers.
void case_group_close(struct case_group *host, cl_command_queue queue, bool keep);

#endif
