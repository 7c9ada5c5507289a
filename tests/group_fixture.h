// group_fixture.h: groups on the harness' device, and cases dealt over them. Used by the suites of clattn_group.
#ifndef CLATTN_TESTS_GROUP_FIXTURE_H
#define CLATTN_TESTS_GROUP_FIXTURE_H

#include "case_assert.h"
#include "evidence/case_group.h"

// A group of the harness' context and another on the same device; of `count` contexts, 1 to 3. Kept until group_run ends.
clattn_group *group_two(void);
clattn_group *group_of(int count);
// A group of these members, with the harness' log; fails the Check test where there is none.
clattn_group *group_make(const clattn_group_member *members, size_t count);

// Run the case once, dealt so; the result is compared with the reference, and what lies around the outputs must be as it was. Returns
// the call's status: UNSUPPORTED is not compared.
clattn_status group_try(clattn_group *group, struct case_data *data, clattn_deal deal, const double *shares,
                        clattn_group_report *report, clattn_group_share *done);
// In every way that the case can be dealt, by shares and by rates; fails the Check test.
void group_assert_deals(clattn_group *group, const struct test_case *test);
// How many ways there were so far.
long group_ways(void);

// harness_run, and the groups are destroyed.
int group_run(Suite *suite);

#endif
