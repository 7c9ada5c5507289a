// group_fixture.h: groups on the harness' device, and cases dealt over them. Used by the suites of
// clattn_group.
#ifndef CLATTN_TESTS_GROUP_FIXTURE_H
#define CLATTN_TESTS_GROUP_FIXTURE_H

#include "support/case_assert.h"
#include "verification/case/case_group.h"
#include "support/layer_client.h"

// A context on the harness' device, as the harness' own; and one on the device of another platform,
// NULL where there is none.
clattn_context *group_context(void);
clattn_context *group_other_platform(void);

// A group of the harness' context and others: on the second platform's device where there is one,
// else on the same. Of `count` contexts, 1 to 3. Kept until group_run ends.
clattn_group *group_of(int count);
// A group of these members, with the harness' log; fails the Check test where there is none.
clattn_group *group_make(const clattn_group_member *members, size_t count);

// One call of a group: how, and what came of it.
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
    bool untouched; // all of the caller's memory is as it was
    uint64_t bits;  // of all of it
    bool right;     // a call that succeeded: as the reference says, and nothing else is written
    char why[512];
};
void group_do(clattn_group *group, struct case_data *data, struct group_call *call);
struct case_data *group_case(const char *name);

// In every way that the case can be dealt, by shares and by rates; fails the Check test. What
// cannot be dealt so is passed over.
void group_assert_deals(clattn_group *group, const struct test_case *test);
// How many calls were dealt so.
long group_ways(clattn_deal deal);

// harness_run, and the groups are destroyed.
int group_run(Suite *suite);

#endif
