// test_measure.c: the measurement that chooses between native projections and CLBlast. It runs only
// on request, once, and its result is stored in the cache folder. Which one is faster depends on
// the device. The choice that follows is in test_plan.c. POSIX only.
//
// Environment:
//   CLATTN_TEST_NO_CLBLAST=1  the library was built without CLBlast: nothing can be measured
#include "support/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/clattn-measure-XXXXXX";

// Count the log lines of measurements. There is one line per size. The only errors allowed are
// refusals that a test expects.
static void count_measurements(void *user, clattn_log_level level, const char *text) {
    if (level == CLATTN_LOG_ERROR && !strstr(text, "scale")) ck_abort_msg("logged as an error: %s", text);
    if (strstr(text, "measured")) __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

static clattn_context *open_context(const char *cache, const char *rows, int *measurements) {
    return harness_open((clattn_context_params){
        .cache_dir = cache,
        .tuned_rows = rows,
        .log = {.fn = count_measurements, .user = measurements, .level = CLATTN_LOG_INFO}});
}

static clattn_layer_params layer_of(clattn_type type, int64_t batch) {
    const int64_t x[] = {batch, 50, 64}, w[] = {64, 64};
    clattn_layer_params p = {.heads = 2};
    p.x = p.out = clattn_tensor_dense(NULL, type, 3, x);
    p.wq = p.wk = p.wv = p.wo = clattn_tensor_dense(NULL, type, 2, w);
    return p;
}

static void plan_layer(clattn_context *context, clattn_projection projection) {
    clattn_layer_params p = layer_of(CLATTN_TYPE_F32, 1);
    clattn_plan plan;
    p.projection = projection;
    ck_assert_int_eq(clattn_layer_plan(context, &p, &plan), CLATTN_OK);
}

static bool can_measure(void) {
    const char *without = getenv("CLATTN_TEST_NO_CLBLAST");
    return !(without && without[0] == '1');
}

static clattn_linear_choice plan_linear(clattn_context *context) {
    const int64_t x[] = {1, 256, 768}, w[] = {768, 768};
    clattn_linear_params p = {.w = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, w)};
    clattn_linear_choice choice;
    p.x = p.out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x);
    ck_assert_int_eq(clattn_linear_plan(context, &p, &choice), CLATTN_OK);
    return choice;
}

// Call every layer and projection function, on a context with a cache folder.
START_TEST(nothing_measures_unasked) {
    int measurements = 0;
    size_t bytes;
    clattn_context *context = open_context(folder, NULL, &measurements);
    clattn_layer_params p = layer_of(CLATTN_TYPE_F32, 1);
    plan_layer(context, CLATTN_PROJECTION_AUTO);
    ck_assert_int_eq(clattn_layer_workspace(context, &p, &bytes), CLATTN_OK);
    ck_assert_int_eq(clattn_layer_prepare(context, &p), CLATTN_OK);
    const clattn_linear_choice choice = plan_linear(context);
    ck_assert_msg(!can_measure() || strstr(choice.why, "nothing was measured"), "%s", choice.why);
    clattn_context_destroy(context);
    ck_assert_int_eq(measurements, 0);
}
END_TEST

// True if rounds disagreed, whatever the machine was doing. The next call then measures again.
static bool unsure;

// The log callback blocks the measuring thread at its first line, until other threads have made
// their calls.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool inside, over, timed_out;
} middle = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void hold_middle(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&middle.lock);
    middle.inside = true;
    pthread_cond_broadcast(&middle.changed);
    while (!middle.over && !middle.timed_out)
        middle.timed_out = pthread_cond_timedwait(&middle.changed, &middle.lock, &end) != 0;
    pthread_mutex_unlock(&middle.lock);
}

static void note_unsure(void *user, clattn_log_level level, const char *text) {
    if (strstr(text, "not sure")) unsure = true;
    count_measurements(user, level, text);
    if (strstr(text, "measured")) hold_middle();
}

static void *measure_in_thread(void *context) {
    return clattn_context_measure(context) == CLATTN_OK ? context : NULL;
}

// Calls that do not wait for the measurement: plans as before, and calls that compile kernels.
static void call_meanwhile(clattn_context *context) {
    clattn_layer_params p = layer_of(CLATTN_TYPE_F32, 1);
    p.projection = CLATTN_PROJECTION_NATIVE;
    pthread_mutex_lock(&middle.lock);
    while (!middle.inside) pthread_cond_wait(&middle.changed, &middle.lock);
    pthread_mutex_unlock(&middle.lock);
    const clattn_linear_choice choice = plan_linear(context);
    const clattn_status status = clattn_layer_prepare(context, &p);
    pthread_mutex_lock(&middle.lock);
    middle.over = true;
    pthread_cond_broadcast(&middle.changed);
    pthread_mutex_unlock(&middle.lock);
    ck_assert_int_eq(status, CLATTN_OK);
    ck_assert_msg(strstr(choice.why, "nothing was measured"), "%s", choice.why);
}

START_TEST(once_a_device) {
    int measurements = 0;
    char message[256];
    pthread_t threads[4];
    clattn_context *context = NULL;
    const clattn_context_params params = {
        .device = harness()->device,
        .cache_dir = folder,
        .log = {.fn = note_unsure, .user = &measurements, .level = CLATTN_LOG_INFO}};
    if (!can_measure()) return;
    ck_assert_int_eq(clattn_context_create(&params, &context), CLATTN_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, measure_in_thread, context), 0);
    call_meanwhile(context);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        ck_assert_ptr_nonnull(result);
    }
    ck_assert_msg(!middle.timed_out, "calls of another thread waited for the measurement");
    ck_assert_int_ge(measurements, 2); // few rows and many
    ck_assert_msg(unsure || measurements == 2, "%d measurements, and all were sure", measurements);
    const clattn_linear_choice choice = plan_linear(context);
    ck_assert_msg(strstr(choice.why, "measured as the faster"), "%s", choice.why);
    clattn_context_last_error(context, message, sizeof message);
    ck_assert_str_eq(message, "");
    clattn_context_destroy(context);

    // Another context reads the result from the folder.
    int more = 0;
    context = open_context(folder, NULL, &more);
    const clattn_linear_choice again = plan_linear(context);
    ck_assert_str_eq(again.why, choice.why);
    if (!unsure) ck_assert_int_eq(clattn_context_measure(context), CLATTN_OK);
    clattn_context_destroy(context);
    ck_assert_int_eq(more, 0);
}
END_TEST

START_TEST(without_a_folder_it_holds_for_the_context) {
    int measurements = 0;
    clattn_context *context = open_context(NULL, NULL, &measurements);
    ck_assert_int_eq(clattn_context_measure(context), CLATTN_OK);
    ck_assert_int_eq(measurements, can_measure() ? 2 : 0);
    const clattn_linear_choice choice = plan_linear(context);
    ck_assert_int_eq(strstr(choice.why, "measured as the faster") != NULL, can_measure());
    clattn_context_destroy(context);
}
END_TEST

START_TEST(switched_off) {
    clattn_context *context = NULL;
    char message[256];
    const clattn_context_params params = {
        .device = harness()->device, .cache_dir = folder, .no_measurements = true};
    ck_assert_int_eq(clattn_context_create(&params, &context), CLATTN_OK);
    ck_assert_int_eq(clattn_context_measure(context), CLATTN_INVALID_ARGUMENT);
    clattn_context_last_error(context, message, sizeof message);
    ck_assert_ptr_nonnull(strstr(message, "no_measurements"));
    const clattn_linear_choice choice = plan_linear(context); // the folder has a result
    ck_assert_ptr_null(strstr(choice.why, "measured as the faster"));
    clattn_context_destroy(context);
    ck_assert_int_eq(clattn_context_measure(NULL), CLATTN_INVALID_ARGUMENT);
}
END_TEST

static clattn_projection choice_of(const char *cache) {
    int measurements = 0;
    clattn_context *context = open_context(cache, NULL, &measurements);
    const clattn_linear_choice choice = plan_linear(context);
    ck_assert_ptr_nonnull(strstr(choice.why, "measured as the faster"));
    clattn_context_destroy(context);
    return choice.projection;
}

// Tuned rows of the caller that force another kernel, or a slow one, must not change the stored
// measurement.
START_TEST(own_rows_stay_out) {
    static const char *const rows[] = {
        "clblast type=f32 :", "linear_lanes type=f32 : LANES=4 ROW_VECTORS=1 COLUMN_BLOCK=2 ROW_PANELS=1"};
    for (int i = 0; can_measure() && i < 2; i++) {
        char other[] = "/tmp/clattn-measure-own-XXXXXX", command[80];
        int measurements = 0;
        ck_assert(mkdtemp(other) != NULL);
        clattn_context *context = open_context(other, rows[i], &measurements);
        ck_assert_int_eq(clattn_context_measure(context), CLATTN_OK);
        ck_assert_int_eq(measurements, 2);
        clattn_context_destroy(context);
        ck_assert_int_eq(choice_of(other), choice_of(folder));
        snprintf(command, sizeof command, "rm -r %s", other);
        ck_assert_int_eq(system(command), 0);
    }
}
END_TEST

int main(void) {
    const TTest *const all[] = {
        nothing_measures_unasked, once_a_device, switched_off, without_a_folder_it_holds_for_the_context,
        own_rows_stay_out,        NULL};
    char command[64];
    if (!mkdtemp(folder)) return EXIT_FAILURE;
    Suite *suite = suite_create("measure");
    harness_add(suite, "all", all);
    const int status = harness_run(suite);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? status : EXIT_FAILURE;
}
