// faults.c: see faults.h. After each fault the status must be one that the header promises, and the
// message must be one line with the code. No object may be left or released too often. The same use
// must succeed afterwards, or on a new context if the device was lost.
#include "faults/faults.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_GONE (-9999) // NVIDIA's code for a kernel that accessed a bad address
#define SOME_FAULTS 16      // injected into a subject that compiles, in a shortened suite

static const int codes[] = {
    CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE, LAYER_FAILED_EVENT, CL_OUT_OF_HOST_MEMORY,
    CL_INVALID_WORK_GROUP_SIZE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_BUILD_PROGRAM_FAILURE,
    CL_INVALID_WORK_ITEM_SIZE, CL_INVALID_VALUE, CL_COMPILER_NOT_AVAILABLE, CL_MAP_FAILURE, CL_INVALID_DEVICE,
    CL_INVALID_CONTEXT, CL_INVALID_MEM_OBJECT, CL_INVALID_BINARY, CL_INVALID_PROGRAM_EXECUTABLE,
    CL_INVALID_KERNEL_NAME, CL_INVALID_KERNEL, CL_INVALID_ARG_SIZE, CL_INVALID_KERNEL_ARGS,
    CL_INVALID_EVENT_WAIT_LIST, CL_INVALID_EVENT, CL_INVALID_OPERATION, CL_INVALID_BUFFER_SIZE,
    // this code and the following ones mean a lost device
    CL_DEVICE_NOT_AVAILABLE, CL_INVALID_COMMAND_QUEUE, DRIVER_GONE};
#define CODES ((int)(sizeof codes / sizeof codes[0]))
#define FIRST_LOSS (CODES - 3)

static struct fault_figures figures;

const struct fault_figures *faults_figures(void) {
    return &figures;
}

const struct layer_control *faults_layer(void) {
    static const struct layer_control *layer;
    if (layer == NULL) layer = layer_client();
    return layer;
}

END_TEST

bool faults_queue_survives(cl_command_queue queue) {
    return queue != harness()->out_of_order ||
           strstr(clattn_context_capabilities(harness()->context)->platform, "Intel(R) OpenCL") == NULL;
}

void faults_begin(const struct attempt *attempt) {
    harness_log_clear();
    faults_layer()->arm(attempt->nth, attempt->code);
}

void faults_end(struct attempt *attempt, clattn_status status) {
    attempt->armed = faults_layer()->disarm();
    attempt->status = status;
    snprintf(attempt->message, sizeof attempt->message, "%s", harness_log_text());
}

void faults_wrong(struct attempt *attempt, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    attempt->right = false;
    vsnprintf(attempt->why, sizeof attempt->why, format, arguments);
    va_end(arguments);
}

static bool is_memory(int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
           code == CL_OUT_OF_HOST_MEMORY;
}

static bool is_loss(int code) {
    return code == CL_DEVICE_NOT_AVAILABLE || code == CL_INVALID_COMMAND_QUEUE || code == DRIVER_GONE;
}

static bool is_call(const struct attempt *a, const char *call) {
    return strcmp(a->armed.hit, call) == 0;
}

// Returns true for a query of a caller's handle that the driver reports as invalid.
static bool blames_handle(const struct attempt *a) {
    const int code = a->code;
    if (is_call(a, "clGetDeviceInfo")) return code == CL_INVALID_DEVICE;
    if (is_call(a, "clGetContextInfo")) return code == CL_INVALID_CONTEXT;
    if (is_call(a, "clGetMemObjectInfo")) return code == CL_INVALID_MEM_OBJECT;
    if (is_call(a, "clGetCommandQueueInfo")) return code == CL_INVALID_COMMAND_QUEUE;
    return is_call(a, "clGetEventInfo") && code == CL_INVALID_EVENT;
}

// The status that runtime.h promises.
static clattn_status wanted(const struct subject *s, const struct attempt *a) {
    if (blames_handle(a)) return CLATTN_INVALID_ARGUMENT;
    if (is_memory(a->code)) return CLATTN_OUT_OF_MEMORY;
    if (is_loss(a->code) && !s->never_ran) return CLATTN_DEVICE_LOST;
    if (is_call(a, "clBuildProgram") && !is_loss(a->code)) return CLATTN_BUILD_FAILED;
    return CLATTN_DRIVER;
}

// clattn repeats a build that fails without an error in its log, and the repetition succeeds.
// CLBlast builds its own programs and does not repeat.
static bool is_built_again(const struct subject *s, const struct attempt *a) {
    return !s->through_clblast && is_call(a, "clBuildProgram") && a->code == CL_BUILD_PROGRAM_FAILURE;
}

// Returns true if clattn blames the failure on a kernel. The call then succeeds with another
// kernel, or with the same kernel in a second attempt. A step without an alternative fails with the
// status.
static bool may_go_on(const struct subject *s, const struct attempt *a) {
    static const char *const steps[] = {
        "clBuildProgram", "clCreateKernel",         "clCreateProgramWithSource",
        "clSetKernelArg", "clEnqueueNDRangeKernel", "clGetKernelWorkGroupInfo"};
    static const int never[] = {CL_MEM_OBJECT_ALLOCATION_FAILURE,
                                CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                CL_INVALID_CONTEXT,
                                CL_INVALID_MEM_OBJECT,
                                CL_INVALID_EVENT_WAIT_LIST,
                                CL_INVALID_EVENT,
                                LAYER_FAILED_EVENT};
    if (is_loss(a->code) && !(a->code == DRIVER_GONE && s->never_ran)) return false;
    for (size_t n = 0; n < sizeof never / sizeof never[0]; n++)
        if (a->code == never[n]) return false;
    for (size_t n = 0; n < sizeof steps / sizeof steps[0]; n++)
        if (is_call(a, steps[n]))
            return a->code == CL_OUT_OF_HOST_MEMORY ? n < 2 : a->code != CL_OUT_OF_RESOURCES || n != 2;
    return false;
}

static bool is_spared(const struct subject *s, const struct attempt *a) {
    const char *call = a->armed.hit;
    if (is_built_again(s, a)) return true;
    if (strncmp(call, "clRelease", 9) == 0) return true;
    for (int n = 0; s->spared != NULL && s->spared[n] != NULL; n++)
        if (strcmp(s->spared[n], call) == 0 || strcmp(s->spared[n], "*") == 0) return true;
    return false;
}

#define ASSERT(condition, ...)                                                                               \
    do {                                                                                                     \
        char text[2048];                                                                                     \
        snprintf(text, sizeof text, __VA_ARGS__);                                                            \
        ck_assert_msg(condition, "%s: call %d, %s, code %d: %s", s->name, a->nth,                            \
                      a->armed.hit != NULL ? a->armed.hit : "none failed", a->code, text);                   \
    } while (0)

static void judge_refusal(const struct subject *s, const struct attempt *a) {
    clattn_status want = wanted(s, a);
    char number[16];
    snprintf(number, sizeof number, "%d", a->code);
    // CLBlast returns the code without the name of the failed call, or returns another code.
    const bool replaced = s->through_clblast && strstr(a->message, "CLBlastSgemm: ") != NULL &&
                          strstr(a->message, number) == NULL;
    if (replaced || (s->through_clblast && want == CLATTN_BUILD_FAILED)) want = CLATTN_DRIVER;
    if (s->through_clblast && a->code == CL_BUILD_PROGRAM_FAILURE && a->status == CLATTN_BUILD_FAILED)
        want = CLATTN_BUILD_FAILED;
    if (s->through_clblast && a->status != want && blames_handle(a))
        want = is_loss(a->code) && !s->never_ran ? CLATTN_DEVICE_LOST : CLATTN_DRIVER;
    ASSERT(!is_built_again(s, a), "not built again: %s", a->message);
    ASSERT(a->status == want, "%s instead of %s: %s", clattn_status_name(a->status), clattn_status_name(want),
           a->message);
    ASSERT(a->message[0] != '\0' && strchr(a->message, '\n') == NULL, "message '%s'", a->message);
    ASSERT(replaced || strstr(a->message, "its own context") != NULL || want == CLATTN_INVALID_ARGUMENT ||
               want == CLATTN_BUILD_FAILED || strstr(a->message, number) != NULL,
           "no %s in: %s", number, a->message);
}

static void judge(const struct subject *s, const struct attempt *a) {
    figures.injected++;
    ASSERT(a->right, "%s", a->why);
    if (a->code == LAYER_FAILED_EVENT) {
        figures.events++;
        ASSERT(a->status == CLATTN_OK || a->status == CLATTN_DRIVER, "%s", a->message);
    } else if (a->status == CLATTN_OK) {
        figures.spared++;
        figures.went_on += may_go_on(s, a);
        ASSERT(is_spared(s, a) || may_go_on(s, a), "was not noticed");
    } else {
        figures.refused++;
        ASSERT(s->replays || s->through_clblast || !may_go_on(s, a) || !is_call(a, "clEnqueueNDRangeKernel"),
               "did not go on: %s", a->message);
        judge_refusal(s, a);
    }
}

// With gives_back, a call may have freed objects that its context kept for an earlier call.
static void judge_objects(const struct subject *s, const struct attempt *a, const struct layer_counts *before,
                          bool gives_back) {
    static const char *const plurals[] = {
#define X(name, text) text,
        LAYER_KIND_LIST(X)
#undef X
    };
    struct layer_counts now;
    faults_layer()->count(&now);
    for (int kind = 0; kind < LAYER_KINDS; kind++)
        ASSERT((kind == LAYER_EVENT && s->writes) || now.live[kind] == before->live[kind] ||
                   (gives_back && now.live[kind] < before->live[kind]),
               "%ld %s before, %ld after", before->live[kind], plurals[kind], now.live[kind]);
    ASSERT(now.misused == 0, "%s", now.first_misuse);
}

static struct attempt attempt(const struct subject *s, int nth, int code) {
    struct attempt a = {.nth = nth, .code = code, .right = true};
    s->run(s, &a);
    return a;
}

static void expect_clean(const struct subject *s, const struct attempt *failed) {
    const struct attempt clean = attempt(s, 0, 0), *a = failed != NULL ? failed : &clean;
    ASSERT(clean.status == CLATTN_OK, "afterwards: %s: %s", clattn_status_name(clean.status), clean.message);
    ASSERT(clean.right, "afterwards: %s", clean.why);
}

// After a lost device every later call must return DEVICE_LOST without calling the driver. Then the
// harness creates a new context.
static void after_loss(const struct subject *s, const struct attempt *lost) {
    const struct attempt again = attempt(s, 0, 0), *a = lost;
    figures.lost++;
    ASSERT(again.status == CLATTN_DEVICE_LOST && again.armed.calls == 0, "after a loss: %s, %d calls",
           clattn_status_name(again.status), again.armed.calls);
    harness_stop();
    judge_objects(s, lost, &(struct layer_counts){.misused = 0}, false);
    harness_start();
    expect_clean(s, lost);
}

// The context no longer uses the failed kernel, so the harness creates a new context.
static void after_way_down(const struct subject *s, const struct attempt *a) {
    expect_clean(s, a);
    harness_stop();
    judge_objects(s, a, &(struct layer_counts){.misused = 0}, false);
    harness_start();
    expect_clean(s, a);
    if (!s->compiles) expect_clean(s, a);
}

// Returns true if the context may keep one more object. A context that cannot query whether a lent
// object is free allocates another one, so objects are counted anew.
static bool keeps_another(const struct subject *s, const struct attempt *a) {
    return s->borrows && a->status == CLATTN_OK && is_spared(s, a) &&
           strncmp(a->armed.hit, "clRelease", 9) != 0;
}

static void try_one(const struct subject *s, int nth, int code) {
    struct layer_counts before;
    if (code == LAYER_FAILED_EVENT && s->out_of_order && !faults_queue_survives(harness()->out_of_order))
        return;
    faults_layer()->count(&before);
    const struct attempt made = attempt(s, nth, code), *a = &made;
    if (made.armed.hit == NULL) {
        ASSERT(code == LAYER_FAILED_EVENT || s->measures, "there was no such call");
        return;
    }
    judge(s, a);
    if (made.status == CLATTN_DEVICE_LOST) {
        after_loss(s, a);
        return;
    }
    if ((made.status == CLATTN_OK || s->replays) && may_go_on(s, a) && !s->never_ran) {
        after_way_down(s, a);
        return;
    }
    if (!keeps_another(s, a)) judge_objects(s, a, &before, s->borrows);
    if (s->compiles) return;
    expect_clean(s, a);
    if (keeps_another(s, a)) faults_layer()->count(&before);
    judge_objects(s, a, &before, s->borrows);
}

static bool seen_before(const char *const *names, int nth) {
    for (int n = 1; n < nth; n++)
        if (strcmp(names[n], names[nth]) == 0) return true;
    return false;
}

static const char **name_calls(int calls) {
    const char **names = calloc((size_t)calls + 1, sizeof *names);
    ck_assert_ptr_nonnull(names);
    for (int n = 1; n <= calls; n++) names[n] = faults_layer()->call(n);
    return names;
}

// Silence stderr, because CLBlast prints errors.
static int mute_errors(void) {
    const int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    return kept;
}

static void restore_errors(int kept) {
    dup2(kept, STDERR_FILENO);
    close(kept);
}

// Number of error codes to inject into a call, besides a lost device. A shortened suite uses a
// sixth of the codes for the first call of a name, and one code for a later call.
static int codes_of(const struct subject *s, bool first) {
    if (s->compiles) return s->most_calls > 0 ? 1 : 2;
    if (first) return harness_every() > 1 ? FIRST_LOSS / 6 : FIRST_LOSS;
    return harness_every() > 1 ? 1 : s->through_clblast ? 2 : 4;
}

// For a subject that compiles: inject every n-th fault. The number of faults does not depend on the
// machine's speed.
static int stride_of(const struct subject *s, int calls) {
    const int all = s->most_calls > 0 ? s->most_calls + 25 : calls * codes_of(s, false);
    const int some = s->most_calls > 0 && s->most_calls < SOME_FAULTS ? s->most_calls : SOME_FAULTS;
    return s->compiles ? 1 + all / (harness_every() > 1 ? some : 4 * some) : 1;
}

static void try_calls(const struct subject *s, const char **names, int calls, int stride) {
    const int step = s->most_calls > 0 && calls > s->most_calls ? calls / s->most_calls : 1;
    static int next_code; // continues over subjects, so that a shortened suite uses every code
    int nth_fault = 0;
    for (int nth = 1; nth <= calls; nth++) {
        const bool first = !seen_before(names, nth);
        const bool release = strncmp(names[nth], "clRelease", 9) == 0;
        if (!first && (nth % step != 0 || (harness_every() > 1 && nth % 4 != 0))) continue;
        if (s->most_calls > 0 && release) continue;
        const int most = codes_of(s, first);
        // After most faults of a kernel the harness needs a new context, which is slow.
        const bool kernel =
            !strcmp(names[nth], "clSetKernelArg") || !strcmp(names[nth], "clEnqueueNDRangeKernel");
        for (int n = 0; n < most; n++, next_code++)
            if (kernel && harness_every() > 1 && (n + nth) % 4 != 0)
                continue;
            else if (nth_fault++ % stride == 0)
                try_one(s, nth, codes[most == FIRST_LOSS ? n : next_code % FIRST_LOSS]);
        // A device is lost once for each function name, since a new context is slow. CLBlast
        // compiles again after a loss, so only its commands are tested.
        const bool lose =
            first && s->most_calls == 0 && (!s->through_clblast || strncmp(names[nth], "clEnqueue", 9) == 0);
        if (lose && nth_fault++ % stride == 0) try_one(s, nth, codes[FIRST_LOSS + nth % 3]);
    }
}

void faults_try(const struct subject *s) {
    fflush(stdout);
    expect_clean(s, NULL); // compiles
    // frees the events of the tables that the first run wrote
    if (!s->compiles) expect_clean(s, NULL);
    const struct attempt clean = attempt(s, 0, 0);
    const int calls = clean.armed.calls;
    ck_assert_msg(clean.status == CLATTN_OK && clean.right && calls > 0, "%s: %s, %d calls, %s", s->name,
                  clattn_status_name(clean.status), calls, clean.why);
    const char **names = name_calls(calls);
    const long injected = figures.injected;
    const int errors = mute_errors(), stride = stride_of(s, calls);
    try_calls(s, names, calls, stride);
    restore_errors(errors);
    free(names);
    ck_assert_msg(figures.injected > injected, "%s: nothing failed", s->name);
    printf("faults: %s: %d calls, %ld faults, one of %d\n", s->name, calls, figures.injected - injected,
           stride);
}
