// group_fixture.c: see group_fixture.h.
#include "group_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST 3

static clattn_context *contexts[MOST];
static clattn_group *groups[MOST];
static long ways;

clattn_group *group_make(const clattn_group_member *members, size_t count) {
    const clattn_group_params params = {.members = members, .count = count, .log = harness_log()};
    clattn_group *group = NULL;
    const clattn_status status = clattn_group_create(&params, &group);
    ck_assert_msg(status == CLATTN_OK && group != NULL, "clattn_group_create: %s", harness_log_text());
    return group;
}

clattn_group *group_of(int count) {
    clattn_group_member members[MOST] = {{.max_bytes = 0}};
    for (int n = 0; n < count; n++) {
        if (contexts[n] == NULL && n > 0)
            contexts[n] = harness_open((clattn_context_params){.log = harness_log(),
                                                               .cache_dir = getenv("CLATTN_TEST_CACHE"),
                                                               .tuned_rows = getenv("CLATTN_TEST_ROWS"),
                                                               .engines = CLATTN_ENGINES_ALL});
        members[n].context = n > 0 ? contexts[n] : harness()->context;
    }
    if (groups[count - 1] == NULL) groups[count - 1] = group_make(members, (size_t)count);
    return groups[count - 1];
}

clattn_group *group_two(void) {
    return group_of(2);
}

long group_ways(void) {
    return ways;
}

clattn_status group_try(clattn_group *group, struct case_data *data, clattn_deal deal, const double *shares,
                        clattn_group_report *report, clattn_group_share *done) {
    struct case_arrays arrays;
    struct case_group host;
    char why[512] = "", name[CASE_NAME_SIZE], message[256] = "";
    case_bind(data, harness_place(), &arrays);
    case_group_open(&arrays, harness()->queue, &host);
    host.params.deal = deal, host.params.shares = shares;
    const clattn_status status = clattn_group_attention(group, &host.params, report, done);
    if (status != CLATTN_OK) clattn_group_last_error(group, message, sizeof message);
    case_group_close(&host, harness()->queue, true);
    struct case_result got = case_collect(&arrays, harness()->queue, NULL);
    got.status = status;
    snprintf(got.message, sizeof got.message, "%s", message);
    const bool good = status == CLATTN_UNSUPPORTED || case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_unbind(&arrays);
    ck_assert_msg(good, "%s, dealt by %s: %s", case_name(&data->test, name), clattn_deal_name(deal), why);
    ways += status == CLATTN_OK;
    return status;
}

void group_assert_deals(clattn_group *group, const struct test_case *test) {
    static const double uneven[] = {1.0, 2.0, 0.5};
    struct case_data *data = case_make(test);
    char name[CASE_NAME_SIZE];
    // With scores of 1e7 nothing of the number of keys is left in a log-sum-exp (clattn_merge_params).
    const bool huge = test->contents == CASE_HUGE || test->contents == CASE_HUGE_NEGATIVE;
    for (int deal = 0; deal < CLATTN_DEAL_COUNT; deal++) {
        clattn_group_report report;
        if (huge && deal == CLATTN_DEAL_KEYS) continue;
        const clattn_status status = group_try(group, data, (clattn_deal)deal,
                                               deal == CLATTN_DEAL_AUTO ? NULL : uneven, &report, NULL);
        ck_assert_msg(status == CLATTN_OK || (deal != CLATTN_DEAL_AUTO && deal != CLATTN_DEAL_WHOLE),
                      "%s: %s: %s", case_name(test, name), clattn_deal_name((clattn_deal)deal),
                      harness_log_text());
        ck_assert_int_eq(report.handed, 0);
    }
    case_free(data);
}

int group_run(Suite *suite) {
    harness_start();
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    for (int n = 0; n < MOST; n++) {
        clattn_group_destroy(groups[n]);
        clattn_context_destroy(contexts[n]);
    }
    harness_stop();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
