// group_fixture.h: groups on the harness' device, and cases partitioned over them. Used by the
// suites of clattn_group.
#ifndef CLATTN_TESTS_GROUP_FIXTURE_H
#define CLATTN_TESTS_GROUP_FIXTURE_H

#include "support/case_assert.h"
#include "verification/case/case_group.h"
#include "support/layer_client.h"

// A context on the harness' device, like the harness' own; and one on the device of another
// platform, or NULL.
clattn_context *group_context(void);
clattn_context *group_other_platform(void);

// A group of `count` contexts, 1 to 3: the harness' context and others, on a second platform's
// device if possible. Kept until group_run ends.
clattn_group *group_of(int count);
// A group of these members, with the harness' log. Fails the Check test without one.
clattn_group *group_make(const clattn_group_member *members, size_t count);

// One call of a group: its options and its outcome.
struct group_call {
    clattn_deal deal;
    const double *shares;
    const clattn_progress *progress;
    int nth, code; // of the layer's faults (cl_layer.h); 0: none
    clattn_group_share done[3];
    clattn_group_report report;
    clattn_status status;
    struct layer_armed armed;
    char message[256];
    bool untouched; // all of the caller's memory is unchanged
    uint64_t bits;  // of all of it
    bool right;     // a successful call has the reference's results, and wrote nothing else
    char why[512];
};
void group_do(clattn_group *group, struct case_data *data, struct group_call *call);
struct case_data *group_case(const char *name);

// Run the case with every possible partition, by shares and by rates. Fails the Check test.
// Impossible partitions are skipped.
void group_assert_deals(clattn_group *group, const struct test_case *test);
// The number of calls with this partition.
long group_ways(clattn_deal deal);

// harness_run, then the groups are destroyed.
int group_run(Suite *suite);

#endif
