// group_fixture.h: groups on the harness' device, and cases partitioned over them. Used by the
// suites of clattn_group.
#ifndef CLATTN_TESTS_GROUP_FIXTURE_H
#define CLATTN_TESTS_GROUP_FIXTURE_H

#include "support/case_assert.h"
#include "verification/case/case_group.h"
#include "support/layer_client.h"

// A new context on the harness' device; and one on the device of another platform, or NULL if there
// is none.
clattn_context *group_context(void);
clattn_context *group_other_platform(void);

// A group of `count` contexts, 1 to 3, the first of them the harness'. The others use the second
// platform's device if it exists, or the same device. Kept until group_run ends.
clattn_group *group_of(int count);
// A group of these members, with the harness' log. Fails the Check test on error.
clattn_group *group_make(const clattn_group_member *members, size_t count);

// One call of a group, and its outcome.
struct group_call {
    clattn_partition partition;
    const double *shares;
    const clattn_progress *progress;
    int nth, code; // fault to inject (cl_layer.h); 0: none
    clattn_group_share done[3];
    clattn_group_report report;
    clattn_status status;
    struct layer_armed armed;
    char message[256];
    bool untouched; // none of the caller's memory changed
    uint64_t bits;  // hash of the caller's memory
    bool right;     // a successful call has the reference's results and wrote nothing else
    char why[512];
};
void group_do(clattn_group *group, struct case_data *data, struct group_call *call);
struct case_data *group_case(const char *name);

// Run the case with every way of partitioning that it supports, by shares and by rates. Fails the
// Check test.
void group_assert_partitions(clattn_group *group, const struct test_case *test);
// Returns the number of calls that were partitioned this way.
long group_ways(clattn_partition partition);

// harness_run, followed by the destruction of the groups.
int group_run(Suite *suite);

#endif
