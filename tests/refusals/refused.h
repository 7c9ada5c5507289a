// refused.h: tables of calls that must be refused without side effects. A table is an X-list of
// X(name, word that the message must contain, statement that spoils the parameters p). The suites
// make the calls. Each suite first defines REFUSED_PARAMS, the type of *p.
#ifndef CLATTN_TESTS_REFUSED_H
#define CLATTN_TESTS_REFUSED_H

#include "support/case_assert.h"
#include "support/harness.h"

#include <stdlib.h>

#include "verification/reference/reference.h"

struct refusal {
    const char *name, *word;
    void (*spoil)(REFUSED_PARAMS *params);
};

// Define `table` with a row for each X of LIST.
#define REFUSED_TABLE(table, LIST)                                                                           \
    LIST(REFUSED_SPOIL) static const struct refusal table[] = {LIST(REFUSED_ROW)};
#define REFUSED_SPOIL(name, word, wrong)                                                                     \
    static void spoil_##name(REFUSED_PARAMS *p) {                                                            \
        (void)(wrong);                                                                                       \
    }
#define REFUSED_ROW(name, word, wrong) {#name, word, spoil_##name},
#define REFUSED_COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

// Run a test once for each row. _i is the row.
#define REFUSED_LOOP(group, test, table) tcase_add_loop_test(group, test, 0, REFUSED_COUNT(table))

// Make one call, and fail the Check test unless it is refused.
#define ASSERT_REFUSED(name, call, want, word)                                                               \
    (harness_log_clear(), harness_assert_refused(name, call, want, word))
#define ASSERT_INVALID(name, call, word) ASSERT_REFUSED(name, call, CLATTN_INVALID_ARGUMENT, word)

// Fail unless the refused call left no event and did not change a byte of the output.
static inline void refused_assert_nothing(const char *name, cl_event event, const struct guarded *output) {
    ck_assert_msg(event == NULL, "%s: a refused call made an event", name);
    ck_assert_msg(guarded_intact(output, harness()->queue), "%s: a refused call wrote", name);
}

// Buffers of one call, for suites of an entry point with prepare and enqueue functions.
// `make(buffers, p)` creates the buffers and parameters of a good call. The last `outputs` of `all`
// are outputs.
struct refused_buffers {
    struct guarded all[8];
    int count, outputs;
};
// Release the buffers. If `refused` names a refused call, fail if it had side effects.
static inline void refused_buffers_end(struct refused_buffers *b, const char *refused, cl_event event) {
    for (int n = b->count - b->outputs; refused && n < b->count; n++)
        refused_assert_nothing(refused, event, &b->all[n]);
    for (int n = 0; n < b->count; n++) guarded_release(&b->all[n]);
}
// Define main, and a test for each row of the tables `invalid` and `invalid_buffers`. Prepare must
// refuse the rows of `invalid`, and accept those of `invalid_buffers`.
#define REFUSED_SUITE(suite_name, make, entry)                                                               \
    static void check_refused(const struct refusal *refusal, bool ahead) {                                   \
        struct refused_buffers b = {.count = 0};                                                             \
        REFUSED_PARAMS p;                                                                                    \
        cl_event event = NULL;                                                                               \
        make(&b, &p);                                                                                        \
        refusal->spoil(&p);                                                                                  \
        ASSERT_INVALID(refusal->name,                                                                        \
                       entry##_enqueue(harness()->context, harness()->queue, &p, 0, NULL, &event),           \
                       refusal->word);                                                                       \
        if (ahead) ASSERT_INVALID(refusal->name, entry##_prepare(harness()->context, &p), refusal->word);    \
        refused_buffers_end(&b, refusal->name, event);                                                       \
    }                                                                                                        \
    START_TEST(refusals) {                                                                                   \
        check_refused(&invalid[_i], true);                                                                   \
    }                                                                                                        \
    END_TEST                                                                                                 \
    START_TEST(refused_buffers) {                                                                            \
        check_refused(&invalid_buffers[_i], false);                                                          \
    }                                                                                                        \
    END_TEST                                                                                                 \
    int main(void) {                                                                                         \
        Suite *suite = suite_create(suite_name);                                                             \
        TCase *group = harness_add(suite, suite_name, (const TTest *const[]){NULL});                         \
        REFUSED_LOOP(group, refusals, invalid);                                                              \
        REFUSED_LOOP(group, refused_buffers, invalid_buffers);                                               \
        return harness_run(suite);                                                                           \
    }

// A view of zeros in a new buffer of the call.
static inline clattn_tensor refused_buffer(struct refused_buffers *b, bool output,
                                           struct guarded_shape shape) {
    double *zeros = reference_alloc(guarded_shape_count(&shape));
    struct guarded *to = &b->all[b->count++];
    *to = output ? guarded_output(harness_place(), &shape) : guarded_input(harness_place(), &shape, zeros);
    b->outputs += output;
    free(zeros);
    return to->view;
}

// An attention call that is valid until the test spoils it.
struct refused_case {
    struct case_data *data;
    struct case_arrays arrays;
};

static inline struct refused_case refused_case_begin(const struct test_case *good) {
    struct refused_case call = {.data = case_make(good)};
    case_bind(call.data, harness_place(), &call.arrays);
    harness_log_clear();
    return call;
}

static inline void refused_case_end(struct refused_case *call, const char *name, cl_event event) {
    refused_assert_nothing(name, event, &call->arrays.out);
    if (!case_projects(&call->data->test)) refused_assert_nothing(name, event, &call->arrays.lse);
    if (call->data->test.weights) refused_assert_nothing(name, event, &call->arrays.weights);
    for (int g = 0; g < GRADIENTS; g++)
        if (guarded_given(&call->arrays.gradient[g].view))
            refused_assert_nothing(name, event, &call->arrays.gradient[g]);
    case_unbind(&call->arrays);
    case_free(call->data);
}

// Define a test for each row of a table. The case `good`, whose parameters are arrays.PART, is
// spoiled, and ENTRY_enqueue must refuse it.
#define REFUSED_CASES(test, table, good, part, entry, want)                                                  \
    START_TEST(test) {                                                                                       \
        struct refused_case call = refused_case_begin(&(good));                                              \
        cl_event event = NULL;                                                                               \
        (table)[_i].spoil(&call.arrays.part);                                                                \
        ASSERT_REFUSED(                                                                                      \
            (table)[_i].name,                                                                                \
            entry##_enqueue(harness()->context, harness()->queue, &call.arrays.part, 0, NULL, &event), want, \
            (table)[_i].word);                                                                               \
        refused_case_end(&call, (table)[_i].name, event);                                                    \
    }                                                                                                        \
    END_TEST

#endif
