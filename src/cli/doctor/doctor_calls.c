// doctor_calls.c: tiny calls, each compared with the double-precision reference. See
// doctor_child.h.
#include <jansson.h>

#include "verification/case/case_check.h"
#include "verification/device/measure.h"
#include "verification/device/opencl.h"
#include "cli/common/child.h"
#include "cli/common/session.h"
#include "cli/doctor/doctor_child.h"

enum { FAMILIES = 64 };

typedef struct call {
    const doctor_kernel *kernel;
    const char *outcome; // right, wrong, failed or absent
    char family[40], why[256];
    double nmse; // negative: nothing was compared
    uint64_t time_ns;
} call;

void doctor_answer(json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (text) child_answer(text);
    free(text);
    json_decref(object);
}

// The kernel name that plans use for the row; "": any name.
static void wanted_name(const doctor_kernel *k, char name[40]) {
    if (k->path == CLATTN_KERNEL_UNFUSED)
        snprintf(name, 40, "unfused");
    else if (k->path == CLATTN_KERNEL_DECODE && !strncmp(k->row, "flash ", 6))
        snprintf(name, 40, "decode_portable");
    else
        snprintf(name, 40, "%.*s", (int)strcspn(k->row, " "), k->row);
}

static void note_family(call *c, const char *name, const char *why) {
    snprintf(c->family, sizeof c->family, "%.39s", name);
    snprintf(c->why, sizeof c->why, "%.255s", why);
}

// True if the planner selects the wanted family. If not, `why` is the reason that the wanted family
// was rejected.
static bool ask_attention(session *s, const clattn_attention_params *p, const char *wanted, call *c) {
    clattn_family all[FAMILIES];
    size_t count = 0;
    bool taken = false;
    if (clattn_attention_families(s->context, p, all, FAMILIES, &count) != CLATTN_OK) {
        note_family(c, wanted, s->message);
        return false;
    }
    for (size_t i = 0; i < count && i < FAMILIES && !taken; i++) {
        const bool is_wanted = !strncmp(all[i].name, wanted, strlen(wanted));
        taken = is_wanted && all[i].taken;
        if (is_wanted) note_family(c, all[i].name, all[i].why);
    }
    return taken;
}

static bool ask_plan(session *s, const struct case_arrays *a, const char *wanted, call *c) {
    clattn_linear_choice choice = {.why = ""};
    clattn_plan plan = {.why = ""};
    s->message[0] = '\0';
    if (a->op == CASE_ATTEND) return ask_attention(s, &a->params, wanted, c);
    const clattn_status status = a->op == CASE_LINEAR
                                     ? clattn_linear_plan(s->context, &a->linear, &choice)
                                     : clattn_attention_backward_plan(s->context, &a->backward, &plan);
    const char *name = a->op == CASE_LINEAR ? choice.kernel_name : plan.kernel_name;
    if (status != CLATTN_OK)
        note_family(c, wanted, s->message);
    else
        note_family(c, name, a->op == CASE_LINEAR ? choice.why : plan.why);
    return status == CLATTN_OK && !strncmp(name, wanted, strlen(wanted));
}

static void run_case(session *s, struct place *place, struct case_data *data, call *c) {
    struct case_arrays arrays;
    struct case_verdict verdict = {.nmse = -1.0};
    char wanted[40];
    wanted_name(c->kernel, wanted);
    case_bind(data, place, &arrays);
    if (place->error[0]) {
        snprintf(c->why, sizeof c->why, "%s", place->error);
    } else if (!ask_plan(s, &arrays, wanted, c)) {
        c->outcome = "absent";
    } else {
        const clattn_status status = case_enqueue(s->context, s->queue, &arrays, NULL);
        if (status == CLATTN_OK) case_judge(data, &arrays, s->queue, &verdict);
        c->nmse = verdict.nmse;
        if (status != CLATTN_OK || !verdict.good)
            snprintf(c->why, sizeof c->why, "%.255s", status == CLATTN_OK ? verdict.why : s->message);
        if (status == CLATTN_OK) c->outcome = verdict.good ? "right" : "wrong";
        if (status == CLATTN_UNSUPPORTED) c->outcome = "absent";
        // If the kernel fails, the library uses another kernel. A right result then counts as a
        // failure of the first kernel.
        if (status == CLATTN_OK && verdict.good && !ask_plan(s, &arrays, wanted, c)) c->outcome = "failed";
    }
    clFinish(s->queue);
    case_unbind(&arrays);
}

static void run_kernel(const common_options *o, call *c) {
    session s = {.message = ""};
    char name[160], why[256];
    struct test_case test;
    const uint64_t start = measure_clock_ns();
    c->outcome = "failed";
    c->nmse = -1.0;
    const int status = session_open_rows(&s, o, c->kernel->row);
    if (status >= 0) {
        snprintf(c->why, sizeof c->why, "%.255s", s.message[0] ? s.message : "the device cannot be used");
        if (status == EXIT_WRONG) c->outcome = "absent";
        return;
    }
    if (case_parse(doctor_case(c->kernel, name), &test, why)) {
        struct place place = session_place(&s);
        struct case_data *data = case_make(&test);
        if (c->kernel->path != CLATTN_KERNEL_AUTO) data->test.kernel = c->kernel->path;
        run_case(&s, &place, data, c);
        case_free(data);
    } else
        snprintf(c->why, sizeof c->why, "%.90s: %.160s", name, why);
    session_close(&s);
    c->time_ns = measure_clock_ns() - start;
}

static bool is_listed(const char *list, const char *name) {
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strlen(name) == strcspn(at, ",") && !strncmp(at, name, strlen(name))) return true;
    return false;
}

// Arguments: DEVICE CACHE FIRST ONLY
int doctor_calls(int argc, char **argv) {
    int64_t first = 0;
    char why[256];
    if (argc < 6 || !option_integer(argv[4], 0, 1000, &first, why)) return EXIT_WRONG;
    const common_options o = {.device = argv[2], .cache_dir = argv[3], .tuned = "off", .quiet = true};
    for (int n = (int)first; n < doctor_kernel_count(); n++) {
        call c = {.kernel = doctor_kernel_at(n)};
        char name[160];
        if (argv[5][0] && !is_listed(argv[5], c.kernel->name)) continue;
        doctor_answer(json_pack("{s:i, s:s}", "begin", n, "kernel", c.kernel->name));
        run_kernel(&o, &c);
        doctor_answer(json_pack("{s:i, s:{s:s, s:s, s:s, s:s, s:s, s:o, s:f}}", "end", n, "call", "kernel",
                                c.kernel->name, "case", doctor_case(c.kernel, name), "family", c.family,
                                "outcome", c.outcome, "why", c.why, "error_nmse",
                                c.nmse >= 0.0 ? report_real(c.nmse) : json_null(), "seconds",
                                (double)c.time_ns / 1e9));
    }
    return EXIT_DONE;
}
