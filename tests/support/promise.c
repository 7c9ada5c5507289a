// promise.c: see promise.h.
#include "support/promise.h"

#include <string.h>

#define BYTES ((size_t)32 << 20)

static cl_mem input, outputs[PROMISE_OUTPUTS];

static cl_mem make_buffer(size_t bytes) {
    cl_int code;
    const cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    return buffer;
}

void promise_open(void) {
    const cl_uint zero = 0;
    input = make_buffer(BYTES);
    harness_expect(clEnqueueFillBuffer(harness()->queue, input, &zero, sizeof zero, 0, BYTES, 0, NULL, NULL),
                   "fill");
    for (int i = 0; i < PROMISE_OUTPUTS; i++) outputs[i] = make_buffer(BYTES);
    harness_finish(harness()->queue);
}

void promise_close(void) {
    clReleaseMemObject(input);
    for (int i = 0; i < PROMISE_OUTPUTS; i++) clReleaseMemObject(outputs[i]);
}

clattn_tensor promise_input(clattn_type type, int rank, const int64_t *shape) {
    return clattn_tensor_dense(input, type, rank, shape);
}
clattn_tensor promise_output(int output, clattn_type type, int rank, const int64_t *shape) {
    return clattn_tensor_dense(outputs[output], type, rank, shape);
}

int64_t promise_pick(struct random *random, const int64_t *from, int count) {
    return from[(int)random_uniform(random, 0, count)];
}
bool promise_chance(struct random *random, int of) {
    return random_uniform(random, 0, of) < 1;
}

// The message of a refusal, which must be the same each time.
static void same_refusal(const struct promise *p, const char *what, clattn_status got, clattn_status want,
                         char said[512]) {
    char text[512];
    clattn_context_last_error(harness()->context, text, sizeof text);
    ck_assert_msg(got == want, "%s: %s: %s instead of %s (last error: %s)", p->name, what,
                  clattn_status_name(got), clattn_status_name(want), text);
    if (want == CLATTN_OK) return;
    if (!said[0]) memcpy(said, text, sizeof text);
    ck_assert_msg(strcmp(text, said) == 0, "%s: %s says '%s', the plan '%s'", p->name, what, text, said);
}

static void enqueue_refused(const struct promise_kind *kind, const struct promise *p, clattn_status want,
                            char said[512]) {
    cl_event event = NULL;
    const clattn_status got = kind->enqueue(p->whole, &event);
    same_refusal(p, "enqueue", got, want, said);
    ck_assert_msg(event == NULL, "%s: a refused call made an event", p->name);
}

static void enqueue_done(const struct promise_kind *kind, const struct promise *p) {
    cl_event event = NULL;
    char said[512] = "";
    same_refusal(p, "enqueue", kind->enqueue(p->whole, &event), CLATTN_OK, said);
    ck_assert_msg(event != NULL, "%s: no event", p->name);
    harness_expect(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
}

// Enqueue with the caller's workspace: one byte too small, then of the planned size.
static void enqueue_in_workspace(const struct promise_kind *kind, const struct promise *p, size_t bytes) {
    char said[512] = "";
    if (!p->does_nothing && bytes > 1) {
        *p->workspace = make_buffer(bytes - 1);
        enqueue_refused(kind, p, CLATTN_INVALID_ARGUMENT, said);
        ck_assert_msg(strstr(said, "workspace: "), "%s: %s", p->name, said);
        clReleaseMemObject(*p->workspace);
    }
    *p->workspace = make_buffer(bytes);
    enqueue_done(kind, p);
    clReleaseMemObject(*p->workspace);
    *p->workspace = NULL;
}

bool promise_kept(const struct promise_kind *kind, const struct promise *p, bool run) {
    size_t planned = 0, bytes = 0;
    char said[512] = "";
    const clattn_status status = kind->plan(p->bare, &planned);
    same_refusal(p, "plan", status, status, said);
    if (p->spoilt != CLATTN_OK) {
        ck_assert_msg(status == p->spoilt, "%s: %s (%s)", p->name, clattn_status_name(status), said);
        ck_assert_msg(strstr(said, p->word), "%s: no '%s' in: %s", p->name, p->word, said);
    } else
        ck_assert_msg(status == CLATTN_OK || status == CLATTN_UNSUPPORTED, "%s: %s (%s)", p->name,
                      clattn_status_name(status), said);
    same_refusal(p, "workspace", kind->workspace(p->bare, &bytes), status, said);
    if (status != CLATTN_OK) {
        same_refusal(p, "prepare", kind->prepare(p->bare), status, said);
        enqueue_refused(kind, p, status, said);
        return false;
    }
    ck_assert_msg(planned == bytes, "%s: the plan has %zu bytes, workspace %zu", p->name, planned, bytes);
    if (p->does_nothing) enqueue_done(kind, p);
    if (!run) return true;
    same_refusal(p, "prepare", kind->prepare(p->bare), CLATTN_OK, said);
    enqueue_done(kind, p);
    if (p->workspace && bytes) enqueue_in_workspace(kind, p, bytes);
    return true;
}
