// verify_case.c: see verify_case.h. Inputs, reference and error budget are those of the test
// suites.
#include "cli/verify/verify_case.h"

#include "verification/case/case_check.h"
#include "verification/case/case_group.h"
#include "verification/device/opencl.h"

enum { MOST_FAMILIES = 64 };

// The family that the plan selects, before the case runs.
static verify_family plan_family(session *s, const struct case_arrays *a) {
    clattn_family all[MOST_FAMILIES];
    clattn_linear_choice choice;
    verify_family f = {.nmse = -1.0};
    size_t count = 0;
    if (a->op == CASE_LAYER) return f;
    if (a->op == CASE_BACKWARD) {
        clattn_plan plan;
        if (clattn_attention_backward_plan(s->context, &a->backward, &plan) == CLATTN_OK)
            snprintf(f.name, sizeof f.name, "%s", plan.kernel_name);
        return f;
    }
    if (a->op == CASE_LINEAR) {
        if (clattn_linear_plan(s->context, &a->linear, &choice) == CLATTN_OK)
            snprintf(f.name, sizeof f.name, "%s", choice.kernel_name);
        return f;
    }
    if (clattn_attention_families(s->context, &a->params, all, MOST_FAMILIES, &count) != CLATTN_OK) return f;
    for (size_t i = 0; i < count && i < MOST_FAMILIES; i++)
        if (all[i].taken) snprintf(f.name, sizeof f.name, "%.31s", all[i].name);
    return f;
}

static verify_result judge(const struct case_data *data, session *s, struct place *place, const char *family,
                           verify_family *ran, char why[256]) {
    struct case_arrays arrays;
    struct case_verdict verdict = {0};
    case_bind(data, place, &arrays);
    verify_result result = VERIFY_FAIL;
    *ran = plan_family(s, &arrays);
    ran->nmse = -1.0;
    if (place->error[0] != '\0') {
        snprintf(why, 256, "%s", place->error);
    } else if (family && strcmp(family, ran->name)) {
        snprintf(why, 256, "%s runs it", ran->name[0] ? ran->name : "no single family");
        result = VERIFY_UNSUPPORTED;
    } else {
        const clattn_status status = case_enqueue(s->context, s->queue, &arrays, NULL);
        if (status == CLATTN_OK) case_judge(data, &arrays, s->queue, &verdict);
        if (status == CLATTN_OK) snprintf(why, 256, "%s", verdict.why), ran->nmse = verdict.nmse;
        if (status != CLATTN_OK) snprintf(why, 256, "%.255s", s->message);
        result = status == CLATTN_UNSUPPORTED ? VERIFY_UNSUPPORTED : verdict.good ? VERIFY_PASS : VERIFY_FAIL;
    }
    clFinish(s->queue);
    case_unbind(&arrays);
    return result;
}

verify_result verify_run(session *s, const struct test_case *test, clattn_kernel kernel, const char *family,
                         verify_family *ran, char why[256]) {
    *ran = (verify_family){.nmse = -1.0};
    struct place place = session_place(s);
    if (test->composed) {
        snprintf(why, 256, "clblast: the composition of CLBlast's products is a baseline of bench alone");
        return VERIFY_UNSUPPORTED;
    }
    struct case_data *data = case_make(test);
    why[0] = '\0';
    if (kernel != CLATTN_KERNEL_AUTO) data->test.kernel = kernel;
    const verify_result result = judge(data, s, &place, family, ran, why);
    case_free(data);
    return result;
}

verify_result verify_run_several(several *all, const struct test_case *test, verify_family *ran,
                                 char why[256]) {
    session *s = &all->sessions[0];
    struct place place = session_place(s);
    struct case_arrays arrays;
    struct case_group host;
    struct case_verdict verdict = {.nmse = -1.0};
    struct case_data *data = case_make(test);
    *ran = (verify_family){.nmse = -1.0};
    why[0] = s->message[0] = '\0';
    case_bind(data, &place, &arrays);
    case_group_open(&arrays, s->queue, &host);
    clattn_status status = CLATTN_DRIVER;
    if (place.error[0] == '\0')
        status = case_group_run(all->group, &host, all->partition, NULL, &all->report, all->shares);
    case_group_close(&host, s->queue, status == CLATTN_OK);
    if (status == CLATTN_OK) {
        case_judge(data, &arrays, s->queue, &verdict);
        ran->nmse = verdict.nmse;
        snprintf(ran->name, sizeof ran->name, "%s", clattn_partition_name(all->report.partition));
    }
    snprintf(why, 256, "%.255s",
             status == CLATTN_OK ? verdict.why
             : place.error[0]    ? place.error
                                 : s->message);
    case_unbind(&arrays);
    case_free(data);
    // With scores of 1e7, a float32 log-sum-exp cannot represent the number of keys
    // (clattn_merge_params).
    const bool huge = test->contents == CASE_HUGE || test->contents == CASE_HUGE_NEGATIVE;
    const bool lost = status == CLATTN_OK && huge && all->report.partition == CLATTN_PARTITION_KEYS;
    if (lost) snprintf(why, 256, "its scores are too large to merge results over some of the keys");
    if (status == CLATTN_UNSUPPORTED || lost) return VERIFY_UNSUPPORTED;
    return verdict.good ? VERIFY_PASS : VERIFY_FAIL;
}
