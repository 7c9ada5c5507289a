// group_fixture.c: see group_fixture.h.
#include "group/group_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 3

static clattn_context *contexts[MOST];
static clattn_group *groups[MOST];
static long ways[CLATTN_PARTITION_COUNT];

clattn_group *group_make(const clattn_group_member *members, size_t count) {
    const clattn_group_params params = {.members = members, .count = count, .log = harness_log()};
    clattn_group *group = NULL;
    const clattn_status status = clattn_group_create(&params, &group);
    ck_assert_msg(status == CLATTN_OK && group != NULL, "clattn_group_create: %s", harness_log_text());
    return group;
}

static clattn_context_params context_params(void) {
    return (clattn_context_params){.log = harness_log(),
                                   .cache_dir = getenv("CLATTN_TEST_CACHE"),
                                   .tuned_rows = getenv("CLATTN_TEST_ROWS"),
                                   .engines = CLATTN_ENGINES_ALL};
}

clattn_context *group_context(void) {
    return harness_open(context_params());
}

clattn_context *group_other_platform(void) {
    clattn_device devices[64];
    clattn_capabilities own, facts;
    size_t count = 0;
    clattn_context *context = NULL;
    clattn_context_params params = context_params();
    ck_assert_int_eq(clattn_device_describe(harness()->device, &own), CLATTN_OK);
    ck_assert_int_eq(clattn_device_list(devices, 64, &count, NULL), CLATTN_OK);
    for (size_t n = 0; n < count && n < 64 && context == NULL; n++) {
        params.device = devices[n].device;
        if (clattn_device_describe(params.device, &facts) != CLATTN_OK ||
            !strcmp(facts.platform, own.platform))
            continue;
        const clattn_status status = clattn_context_create(&params, &context);
        ck_assert_msg(status == CLATTN_OK, "%s: %s", facts.platform, harness_log_text());
    }
    return context;
}

static clattn_context *context_of(int n) {
    if (n == 0) return harness()->context;
    if (contexts[n] == NULL && n == 1) contexts[n] = group_other_platform();
    if (contexts[n] == NULL) contexts[n] = group_context();
    return contexts[n];
}

clattn_group *group_of(int count) {
    clattn_group_member members[MOST] = {{.max_bytes = 0}};
    for (int n = 0; n < count; n++) members[n].context = context_of(n);
    if (groups[count - 1] == NULL) groups[count - 1] = group_make(members, (size_t)count);
    return groups[count - 1];
}

long group_ways(clattn_partition partition) {
    return ways[partition];
}

struct case_data *group_case(const char *name) {
    struct test_case test;
    char why[256];
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    return case_make(&test);
}

static uint8_t **copy_images(const struct case_group *host) {
    uint8_t **copies = calloc((size_t)host->count + 1, sizeof *copies);
    for (int n = 0; n < host->count; n++) {
        copies[n] = malloc(host->images[n].count);
        memcpy(copies[n], host->images[n].bytes, host->images[n].count);
    }
    return copies;
}

static void compare_images(const struct case_group *host, uint8_t **copies, struct group_call *call) {
    call->untouched = true;
    call->bits = 14695981039346656037u;
    for (int n = 0; n < host->count; n++) {
        const struct case_image *x = &host->images[n];
        if (memcmp(copies[n], x->bytes, x->count) != 0) call->untouched = false;
        for (size_t i = 0; i < x->count; i++) call->bits = (call->bits ^ x->bytes[i]) * 1099511628211u;
        free(copies[n]);
    }
    free(copies);
}

static void run(clattn_group *group, struct case_group *host, struct group_call *call) {
    const struct layer_control *layer = call->code != 0 ? layer_client() : NULL;
    uint8_t **copies = copy_images(host);
    host->params.attention.progress = host->backward.backward.progress = call->progress;
    harness_log_clear();
    if (layer != NULL) layer->hold_events(true), layer->arm(call->nth, call->code);
    call->status = case_group_run(group, host, call->partition, call->shares, &call->report, call->done);
    if (layer != NULL) call->armed = layer->disarm(), layer->hold_events(false);
    if (call->status != CLATTN_OK) clattn_group_last_error(group, call->message, sizeof call->message);
    compare_images(host, copies, call);
}

void group_do(clattn_group *group, struct case_data *data, struct group_call *call) {
    struct case_arrays arrays;
    struct case_group host;
    case_bind(data, harness_place(), &arrays);
    case_group_open(&arrays, harness()->queue, &host);
    run(group, &host, call);
    case_group_close(&host, harness()->queue, true);
    call->right = call->untouched;
    if (call->status == CLATTN_OK) {
        struct case_result got = case_collect(&arrays, harness()->queue, NULL);
        call->right = case_agrees(data, &got, call->why, sizeof call->why);
        case_result_free(&got);
        ways[call->report.partition]++;
    }
    case_unbind(&arrays);
}

static void assert_dealt(clattn_group *group, struct case_data *data, clattn_partition partition) {
    static const double uneven[] = {1.0, 2.0, 0.5};
    char name[CASE_NAME_SIZE];
    struct group_call call = {.partition = partition,
                              .shares = partition == CLATTN_PARTITION_AUTO ? NULL : uneven};
    const bool may_refuse = partition != CLATTN_PARTITION_AUTO && partition != CLATTN_PARTITION_WHOLE;
    group_do(group, data, &call);
    ck_assert_msg(call.status == CLATTN_OK || (call.status == CLATTN_UNSUPPORTED && may_refuse),
                  "%s, dealt by %s: %s", case_name(&data->test, name), clattn_partition_name(partition),
                  call.message);
    // With scores of 1e7, a log-sum-exp no longer shows the number of keys (clattn_merge_params).
    const bool huge = data->test.contents == CASE_HUGE || data->test.contents == CASE_HUGE_NEGATIVE;
    if (huge && call.report.partition == CLATTN_PARTITION_KEYS) return;
    ck_assert_msg(call.right, "%s, dealt by %s: %s", case_name(&data->test, name),
                  clattn_partition_name(partition), call.why);
    ck_assert_int_eq(call.report.handed, 0);
}

void group_assert_partitions(clattn_group *group, const struct test_case *test) {
    struct case_data *data = case_make(test);
    for (int partition = 0; partition < CLATTN_PARTITION_COUNT; partition++)
        assert_dealt(group, data, (clattn_partition)partition);
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
