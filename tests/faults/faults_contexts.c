// faults_contexts.c: the subjects that create their own context: device descriptions, context
// creation, compilation with and without a cache folder, probes, the measurement, CLBlast's first
// product. See faults.h.
#include "faults/faults.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A context on its own cl_context, and the place where its cases run.
struct own {
    clattn_context *context;
    struct place place;
    char folder[64]; // "": no cache
};

static void empty_folder(const char *folder) {
    char path[512];
    DIR *open = opendir(folder);
    for (const struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path); // fails for "." and ".."
    }
    if (open != NULL) closedir(open);
}

static void make_folder(struct own *own) {
    const char *parent = getenv("TMPDIR");
    snprintf(own->folder, sizeof own->folder, "%s/clattn-faults-XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(own->folder) == NULL) harness_expect(CL_OUT_OF_HOST_MEMORY, "mkdtemp");
}

static void remove_folder(struct own *own) {
    if (own->folder[0] == '\0') return;
    empty_folder(own->folder);
    rmdir(own->folder);
}

static clattn_status create(struct own *own, cl_context opencl) {
    clattn_context_params params = {.device = harness()->device, .context = opencl, .log = harness_log()};
    params.cache_dir = own->folder[0] != '\0' ? own->folder : NULL;
    return clattn_context_create(&params, &own->context);
}

static void place_own(struct own *own) {
    cl_int code = CL_SUCCESS;
    own->place = *harness_place();
    own->place.context = own->context;
    own->place.opencl = clattn_context_opencl(own->context);
    own->place.queue = clCreateCommandQueue(own->place.opencl, harness()->device, 0, &code);
    harness_expect(code, "clCreateCommandQueue");
}

static void end_own(struct own *own) {
    clReleaseCommandQueue(own->place.queue);
    clattn_context_destroy(own->context);
    remove_folder(own);
}

static bool same_capabilities(const clattn_capabilities *a) {
    const clattn_capabilities *b = clattn_context_capabilities(harness()->context);
    clattn_capabilities copy = *a;
    copy.subgroups = b->subgroups; // older drivers do not know these queries
    copy.subgroup_ways = b->subgroup_ways, copy.subgroup_sizes = b->subgroup_sizes;
    copy.compute_capability = b->compute_capability, copy.wavefront_width = b->wavefront_width;
    copy.unified_memory = b->unified_memory;
    return memcmp(&copy, b, sizeof copy) == 0;
}

static void run_devices(const struct subject *s, struct attempt *a) {
    clattn_device devices[16];
    clattn_capabilities facts;
    const clattn_log log = harness_log();
    size_t count = 0;
    (void)s;
    faults_begin(a);
    clattn_status status = clattn_device_list(devices, 16, &count, &log);
    const bool listed = status == CLATTN_OK;
    if (listed) status = clattn_device_describe(harness()->device, &facts);
    faults_end(a, status);
    if (listed && status != CLATTN_OK) snprintf(a->message, sizeof a->message, "no message: %d", a->code);
    if ((count > 0) != listed) faults_wrong(a, "%zu devices", count);
    if (status == CLATTN_OK && !same_capabilities(&facts)) faults_wrong(a, "another description");
}

static void judge_created(struct attempt *a, clattn_status status, const clattn_context *context) {
    if ((context != NULL) != (status == CLATTN_OK)) faults_wrong(a, "context %p", (const void *)context);
    if (context != NULL && !same_capabilities(clattn_context_capabilities(context)))
        faults_wrong(a, "another description");
}

static void run_create(const struct subject *s, struct attempt *a) {
    struct own own = {.folder = ""};
    faults_begin(a);
    const clattn_status status = create(&own, s->test != NULL ? harness()->opencl : NULL);
    judge_created(a, status, own.context);
    clattn_context_destroy(own.context);
    faults_end(a, status);
}

// After the fault, the case must run on the same context with the right result.
static void expect_case(struct attempt *a, const struct own *own, struct case_data *data,
                        const struct case_arrays *arrays) {
    const clattn_status status = case_enqueue(own->context, own->place.queue, arrays, NULL);
    harness_finish(own->place.queue);
    if (status != CLATTN_OK)
        faults_wrong(a, "then %s: %s", clattn_status_name(status), harness_log_text());
    else if (!case_holds(data, arrays, own->place.queue, a->why, sizeof a->why))
        a->right = false;
}

static clattn_status prepare(const struct own *own, const struct case_arrays *arrays) {
    if (arrays->op == CASE_LAYER) return clattn_layer_prepare(own->context, &arrays->layer);
    if (arrays->op == CASE_LINEAR) return clattn_linear_prepare(own->context, &arrays->linear);
    return clattn_attention_prepare(own->context, &arrays->params);
}

static clattn_status plan(const struct own *own, const struct case_arrays *arrays) {
    clattn_plan plan;
    clattn_linear_choice choice;
    if (arrays->op == CASE_LAYER) return clattn_layer_plan(own->context, &arrays->layer, &plan);
    if (arrays->op == CASE_LINEAR) return clattn_linear_plan(own->context, &arrays->linear, &choice);
    return clattn_attention_plan(own->context, &arrays->params, &plan);
}

enum part { PART_PREPARE, PART_PLAN, PART_MEASURE, PART_ENQUEUE };

static clattn_status use(const struct own *own, const struct case_arrays *arrays, enum part part) {
    switch (part) {
    case PART_PREPARE:
        return prepare(own, arrays);
    case PART_PLAN:
        return plan(own, arrays);
    case PART_MEASURE:
        return clattn_context_measure(own->context);
    default:
        return case_enqueue(own->context, own->place.queue, arrays, NULL);
    }
}

// Prepare, plan, measure or enqueue with a fault, and destroy the context, which saves its kernels,
// with the fault as well. Everything before and after runs without faults.
static void use_own(const struct subject *s, struct attempt *a, struct own *own, enum part part) {
    struct case_data *data = case_make(s->test);
    struct case_arrays arrays;
    harness_expect(create(own, NULL) == CLATTN_OK ? CL_SUCCESS : CL_INVALID_CONTEXT, "context");
    place_own(own);
    case_bind(data, &own->place, &arrays);
    if (part == PART_PREPARE) plan(own, &arrays); // runs the probes
    faults_begin(a);
    const clattn_status status = use(own, &arrays, part);
    if (status == CLATTN_OK && part == PART_PREPARE) clattn_context_save_kernels(own->context);
    faults_end(a, status);
    harness_finish(own->place.queue);
    expect_case(a, own, data, &arrays);
    case_unbind(&arrays);
    case_free(data);
}

static void run_prepare(const struct subject *s, struct attempt *a) {
    struct own own = {.folder = ""};
    use_own(s, a, &own, PART_PREPARE);
    end_own(&own);
}

static void run_save(const struct subject *s, struct attempt *a) {
    struct own own = {.folder = ""};
    make_folder(&own);
    use_own(s, a, &own, PART_PREPARE);
    end_own(&own);
}

// The cache folder is filled once. A kernel that cannot be loaded from the folder is built and
// replaced.
static void run_load(const struct subject *s, struct attempt *a) {
    static struct own filled;
    struct own own = {.folder = ""};
    if (filled.folder[0] == '\0') {
        struct attempt first = {.right = true};
        make_folder(&filled);
        use_own(s, &first, &filled, PART_PREPARE);
        clReleaseCommandQueue(filled.place.queue);
        clattn_context_destroy(filled.context);
        if (!first.right) faults_wrong(a, "before: %s", first.why);
    }
    own = filled;
    use_own(s, a, &own, PART_PREPARE);
    clReleaseCommandQueue(own.place.queue);
    clattn_context_destroy(own.context);
}

static void run_probes(const struct subject *s, struct attempt *a) {
    struct own own = {.folder = ""};
    use_own(s, a, &own, PART_PLAN);
    end_own(&own);
}

static void run_measurement(const struct subject *s, struct attempt *a) {
    struct own own = {.folder = ""};
    make_folder(&own);
    use_own(s, a, &own, PART_MEASURE);
    end_own(&own);
}

static void run_first_product(const struct subject *s, struct attempt *a) {
    struct own own = {.folder = ""};
    use_own(s, a, &own, PART_ENQUEUE);
    end_own(&own);
}

static const struct test_case fused = {.name = "fused", .heads = 2, .n_q = 5, .n_kv = 9, .head_dim = 16};
static const struct test_case bfloat = {.name = "bfloat16",
                                        .heads = 2,
                                        .n_q = 64,
                                        .n_kv = 64,
                                        .head_dim = 64,
                                        .q_type = CLATTN_TYPE_BF16,
                                        .kv_type = CLATTN_TYPE_BF16};
static const struct test_case native = {.name = "linear",
                                        .op = CASE_LINEAR,
                                        .n_q = 5,
                                        .width = 12,
                                        .heads = 2,
                                        .head_dim = 8,
                                        .projection = CLATTN_PROJECTION_NATIVE};
static const struct test_case linear = {
    .name = "linear", .op = CASE_LINEAR, .n_q = 5, .width = 12, .heads = 2, .head_dim = 8};
static const struct test_case product = {.name = "product",
                                         .op = CASE_LINEAR,
                                         .n_q = 5,
                                         .width = 12,
                                         .heads = 2,
                                         .head_dim = 8,
                                         .projection = CLATTN_PROJECTION_CLBLAST};

static const char *const describing[] =
    {"clGetDeviceInfo", "clGetDeviceIDs",
     "clGetExtensionFunctionAddressForPlatform", // an extension without functions counts as missing
     NULL},
                         // An unreadable or unwritable binary only costs a rebuild.
    *const compiling[] = {"clGetProgramInfo", "clGetProgramBuildInfo", NULL},
                         *const loading[] = {"clCreateProgramWithBinary",
                                             "clBuildProgram",
                                             "clCreateKernel",
                                             "clGetProgramInfo",
                                             "clGetProgramBuildInfo",
                                             NULL},
                         // A feature that cannot be probed or measured is not used.
                             *const trying[] = {"*", NULL},
                         *const queueing[] = {"clGetCommandQueueInfo", "clGetProgramBuildInfo", NULL};

const struct subject faults_contexts[] = {
    {.name = "devices", .run = run_devices, .spared = describing, .never_ran = true},
    {.name = "create, destroy", .run = run_create, .spared = describing, .never_ran = true},
    {.name = "create on the caller's, destroy",
     .run = run_create,
     .test = &fused,
     .spared = describing,
     .never_ran = true},
    {.name = "prepare",
     .run = run_prepare,
     .test = &native,
     .spared = compiling,
     .never_ran = true,
     .compiles = true},
    {.name = "prepare, save",
     .run = run_save,
     .test = &fused,
     .spared = compiling,
     .never_ran = true,
     .compiles = true},
    {.name = "load",
     .run = run_load,
     .test = &native,
     .spared = loading,
     .never_ran = true,
     .compiles = true},
    {.name = "probes",
     .run = run_probes,
     .test = &bfloat,
     .spared = trying,
     .measures = true,
     .never_ran = true,
     .compiles = true,
     .most_calls = 6},
    {.name = "CLBlast's first product",
     .run = run_first_product,
     .test = &product,
     .through_clblast = true,
     .spared = queueing,
     .compiles = true,
     .never_ran = true,
     .most_calls = 40},
    {.name = "measurement",
     .run = run_measurement,
     .test = &linear,
     .through_clblast = true,
     .spared = trying,
     .measures = true,
     .never_ran = true,
     .compiles = true,
     .most_calls = 4},
    {.name = NULL}};
