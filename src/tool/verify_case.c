// verify_case.c: see verify_case.h. Inputs, reference and error budget are those of the test suites.
#include "tool/verify_case.h"

#include <stdio.h>

#include "evidence/case_check.h"
#include "tool/place.h"

static verify_result judge(const struct case_data *data, session *s, struct place *place, char why[256]) {
    struct case_arrays arrays;
    struct case_verdict verdict = {0};
    case_bind(data, place, &arrays);
    verify_result result = VERIFY_FAIL;
    if (place->error[0] != '\0') {
        snprintf(why, 256, "%s", place->error);
    } else {
        const clattn_status status = case_enqueue(s->context, s->queue, &arrays, NULL);
        if (status == CLATTN_OK) case_judge(data, &arrays, s->queue, &verdict);
        if (status == CLATTN_OK) snprintf(why, 256, "%s", verdict.why);
        if (status != CLATTN_OK) snprintf(why, 256, "%.255s", s->message);
        result = status == CLATTN_UNSUPPORTED ? VERIFY_UNSUPPORTED : verdict.good ? VERIFY_PASS : VERIFY_FAIL;
    }
    clFinish(s->queue);
    case_unbind(&arrays);
    return result;
}

verify_result verify_run(session *s, const struct test_case *test, clattn_kernel kernel, char why[256]) {
    struct place place = session_place(s);
    if (test->composed) {
        snprintf(why, 256, "clblast: the composition of CLBlast's products is a baseline of bench alone");
        return VERIFY_UNSUPPORTED;
    }
    struct case_data *data = case_make(test);
    why[0] = '\0';
    if (kernel != CLATTN_KERNEL_AUTO) data->test.kernel = kernel;
    const verify_result result = judge(data, s, &place, why);
    case_free(data);
    return result;
}
