// test_parameters.c: CLBlast's parameters in tuned rows reach CLBlast. Its compiled sources use
// them for the rest of the process, and results are right. The program's own
// clCreateProgramWithSource shadows the loader's and reads the sources. Refused rows are in
// test_plan.c. POSIX only. Needs CLBlast.
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int with_8, with_16, errors; // sources with WGD 8 and with WGD 16; error lines of the log

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                              const char **texts, const size_t *lengths,
                                                              cl_int *code) {
    static cl_program (*real)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clCreateProgramWithSource");
    for (cl_uint i = 0; i < count; i++) {
        with_8 += strstr(texts[i], "#define WGD 8\n") != NULL;
        with_16 += strstr(texts[i], "#define WGD 16\n") != NULL;
    }
    return real(context, count, texts, lengths, code);
}

static void note_error(void *user, clattn_log_level level, const char *text) {
    (void)user;
    errors += level == CLATTN_LOG_ERROR && strstr(text, "clblast_xgemm_direct") != NULL;
}

static void project(const char *rows) {
    struct test_case test;
    struct place place = *harness_place();
    struct case_arrays arrays;
    char why[512] = "";
    ck_assert(case_parse("linear-f32-b1-h1-n40-d33-m29-full-clblast", &test, why));
    place.context =
        harness_open((clattn_context_params){.context = harness()->opencl,
                                             .tuned_rows = rows,
                                             .log = {.fn = note_error, .level = CLATTN_LOG_ERROR}});
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &arrays);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(case_enqueue(place.context, place.queue, &arrays, NULL), CLATTN_OK);
    ck_assert_msg(case_holds(data, &arrays, place.queue, why, sizeof why), "%s", why);
    case_unbind(&arrays);
    case_free(data);
    clattn_context_destroy(place.context);
}

#define DIRECT(wgd, condition)                                                                               \
    "clblast_xgemm_direct " condition " : KWID=2 MDIMAD=8 MDIMCD=8 NDIMBD=8 NDIMCD=8 PADA=0 PADB=1 VWMD=1 "  \
    "VWND=1 WGD=" wgd "\n"

START_TEST(reach_clblast) {
    if (!harness_has_clblast()) return;
    project(DIRECT("16", "cpu=5") DIRECT("8", "")); // the first matching row is used
    ck_assert_int_gt(with_8, 0);
    ck_assert_int_eq(with_16 + errors, 0);
    with_8 = 0;
    project(NULL); // the process keeps the parameters
    ck_assert_int_gt(with_8, 0);
    ck_assert_int_eq(with_16, 0);
}
END_TEST

// Parameters that need more local memory than any device has: CLBlast keeps its own, and the log
// says so.
START_TEST(what_does_not_fit) {
    if (!harness_has_clblast()) return;
    with_8 = 0;
    project(DIRECT("1024", ""));
    ck_assert_int_eq(errors, 1);
    ck_assert_int_gt(with_8, 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {reach_clblast, what_does_not_fit, NULL};
    Suite *suite = suite_create("parameters");
    harness_add(suite, "clblast", tests);
    return harness_run(suite);
}
