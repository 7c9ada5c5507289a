// program.c: a context's programs, found by their spec. The first thread that needs a program
// builds it, from the cache of binaries or with the driver's compiler. A cache key covers
// everything that could change the binary: source, inserted text, options, device, CPU model,
// driver, platform and library version. The cache verifies its entries by digest. If the driver
// rejects a cached binary, the program is built from source. No lock is held during a build, which
// may last seconds.
#include "program/program.h"

#include "program/behind.h"
#include "program/binary.h"
#include "program/promises.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "base/cache.h"
#include "base/sha256.h"
#include "device/driver_quirks.h"
#include "program/unfit.h"

// Intel's GPUs allocate buffers above their limit with CL_MEM_ALLOW_UNRESTRICTED_SIZE_INTEL. Their
// compiler uses 32-bit buffer offsets without this option. No extension reports the option: other
// compilers reject or ignore it.
#define LARGE_OPTION " -cl-intel-greater-than-4GB-buffer-required"

static void add_text(sha256_state *h, const char *text) {
    cla_sha256_add(h, text, strlen(text) + 1);
}

static void cache_key(const clattn_context *c, const program_spec *spec, const char *options,
                      uint8_t key[32]) {
    const struct kernel_source *source = &clattn_kernel_sources[spec->id];
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, source->text, source->bytes);
    add_text(&h, source->name);
    add_text(&h, spec->inserted ? spec->inserted : "");
    add_text(&h, options);
    if (spec->placed) add_text(&h, "placed");
    cla_identity_add(&h, &c->capabilities, c->cpu_model, CLATTN_VERSION_STRING);
    cla_sha256_end(&h, key);
}

// Find the first message about the inserted text, whose #line sets its own name: "name:1:9: ...".
// NULL: none.
static const char *log_of_inserted(const char *log, const char *inserted) {
    static const char mark[] = "#line 1 \"";
    for (const char *at = strstr(inserted, mark); at; at = strstr(at, mark)) {
        at += sizeof mark - 1;
        const int length = (int)strcspn(at, "\"");
        for (const char *line = strstr(log, ":"); line; line = strstr(line + 1, ":"))
            if (line - log >= length && !strncmp(line - length, at, (size_t)length) && line[1] >= '0' &&
                line[1] <= '9')
                return line - length;
    }
    return NULL;
}

// A rejected fused program (launch/fuse.c) is not an error, because its kernels also run
// separately.
static clattn_status refuse_linked(clattn_context *c, cl_int code, const char *log) {
    if (log) cla_log_send(&c->log, CLATTN_LOG_INFO, "%s", log);
    return cla_opencl_is_of_device(code) ? cla_context_fail_opencl(c, code, "clCompileProgram")
                                         : CLATTN_BUILD_FAILED;
}

static clattn_status refuse_source(clattn_context *c, const program_spec *spec, cl_program built, cl_int code,
                                   const char *options) {
    char text[sizeof c->last_error] = "";
    char *log = cla_binary_log(c, built);
    const char *line = log && spec->inserted ? log_of_inserted(log, spec->inserted) : NULL;
    clReleaseProgram(built);
    if (line)
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
    else
        snprintf(text, sizeof text,
                 "kernel %s: the driver's compiler refused it: OpenCL error %d (%s), options %s; its log "
                 "went to the log callback",
                 clattn_kernel_sources[spec->id].name, (int)code, cla_opencl_error_name(code), options);
    const unfit_failure failure = {.spec = spec,
                                   .step = UNFIT_BUILD,
                                   .code = code,
                                   .log = log,
                                   .text = cla_opencl_is_of_device(code) ? NULL : text};
    const clattn_status status =
        spec->linked_count > 0 ? refuse_linked(c, code, log) : cla_unfit_failed(c, &failure);
    cla_host_release(&c->host, log);
    return status;
}

// Report a failure in a step after compilation.
static clattn_status refuse_kernel(clattn_context *c, const program_spec *spec, unfit_step step,
                                   cl_int code) {
    const unfit_failure failure = {.spec = spec, .step = step, .code = code};
    if (spec->linked_count > 0 && !cla_opencl_is_of_device(code)) return CLATTN_BUILD_FAILED;
    return cla_unfit_failed(c, &failure);
}

// Build the program from the cached binary. NULL on a miss or an error.
static cl_program load_binary(clattn_context *c, const uint8_t key[32], const char *options) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    if (!cla_cache_load(c->cache, key, &bytes, &count)) return NULL;
    cl_int each = CL_SUCCESS, code = CL_SUCCESS;
    const unsigned char *binary = bytes;
    cl_program built = clCreateProgramWithBinary(c->opencl, 1, &c->device, &count, &binary, &each, &code);
    cla_host_release(&c->host, bytes);
    if (built && code == CL_SUCCESS && each == CL_SUCCESS &&
        cla_binary_build(c, built, options) == CL_SUCCESS)
        return built;
    if (built) clReleaseProgram(built);
    return NULL;
}

// Some drivers crash or waste time when a binary is requested (driver_quirks.c). Logged once per
// context.
static bool may_ask(clattn_context *c) {
    const char *why = cla_defect(DEFECT_OF_BINARIES, &c->capabilities);
    if (why && !atomic_exchange(&c->binaries_told, true))
        cla_log_send(&c->log, CLATTN_LOG_INFO, "cache: compiled kernels are not kept: %s", why);
    return !why;
}

// Store the binary of this context's device in the cache.
static void store(clattn_context *c, cl_program built, const uint8_t key[32]) {
    size_t bytes = 0;
    unsigned char *binary = c->cache && may_ask(c) ? cla_binary_of(c, built, &bytes) : NULL;
    if (binary) cla_cache_store(c->cache, key, binary, bytes);
    cla_host_release(&c->host, binary);
}

// Number of source bytes before PROGRAM_INSERTED. 0 if the source has no such mark: inserted text
// is then prepended.
static size_t bytes_before_mark(const struct kernel_source *source) {
    const size_t length = strlen(PROGRAM_INSERTED);
    for (size_t at = 0; at + length <= source->bytes; at++)
        if (source->text[at] == PROGRAM_INSERTED[0] && !memcmp(source->text + at, PROGRAM_INSERTED, length))
            return at;
    return 0;
}

// Write the text in front of a kernel whose driver does not apply global offsets exactly once. The
// kernel gets the offset as an extra argument and adds it itself. The macros may use their own
// names: C does not expand a macro recursively.
#define PLACED_BYTES 512
static size_t write_placed(const char *name, char text[PLACED_BYTES]) {
    snprintf(text, PLACED_BYTES,
             "typedef struct grid_offset { long at[3]; } grid_offset;\n"
             "#define %s(...) %s(__VA_ARGS__, const grid_offset offset_of_grid)\n"
             "#define get_global_id(d) (get_global_id(d) + (size_t)offset_of_grid.at[d])\n"
             "#define get_global_offset(d) ((size_t)offset_of_grid.at[d])\n#line 1\n",
             name, name);
    return strlen(text);
}

// Compile the source. *built is NULL if no cl_program could be created.
static cl_int compile(clattn_context *c, const program_spec *spec, const char *options, cl_program *built) {
    if (spec->linked_count > 0) return cla_program_link(c, spec, options, built);
    const struct kernel_source *source = &clattn_kernel_sources[spec->id];
    const char *text = (const char *)source->text;
    const size_t before = spec->inserted ? bytes_before_mark(source) : 0;
    char placed[PLACED_BYTES];
    const char *const all[] = {cla_promises_halves, placed, text, spec->inserted ? spec->inserted : "",
                               text + before};
    const size_t bytes[] = {strstr(options, PROMISE_HALVES_OPTION) ? strlen(all[0]) : 0,
                            spec->placed ? write_placed(source->name, placed) : 0, before, strlen(all[3]),
                            source->bytes - before};
    const char *texts[5];
    size_t sizes[5];
    cl_uint count = 0;
    cl_int code = CL_SUCCESS;
    // OpenCL reads a length of 0 as "NUL-terminated", so empty texts are left out.
    for (int i = 0; i < 5; i++)
        if (bytes[i] > 0) texts[count] = all[i], sizes[count++] = bytes[i];
    *built = clCreateProgramWithSource(c->opencl, count, texts, sizes, &code);
    if (*built) code = cla_binary_build(c, *built, options);
    return *built && code == CL_SUCCESS ? cla_ptx_enable_wgmma(c, options, built) : code;
}

static clattn_status build_source(clattn_context *c, const program_spec *spec, const char *options,
                                  cl_program *result) {
    char plain[PROGRAM_MOST_OPTIONS + sizeof PROGRAM_PLAIN + 8];
    cl_program built = NULL;
    cl_int code = compile(c, spec, options, &built);
    if (built && code != CL_SUCCESS && !cla_opencl_is_of_device(code) && spec->inserted &&
        strstr(spec->inserted, PROGRAM_PLAIN)) {
        clReleaseProgram(built);
        cla_log_send(&c->log, CLATTN_LOG_INFO,
                     "kernel %s: the compiler refuses vectors of an expression: lane by lane",
                     clattn_kernel_sources[spec->id].name);
        snprintf(plain, sizeof plain, "%s -D" PROGRAM_PLAIN "=1", options);
        code = compile(c, spec, plain, &built);
    }
    if (!built && spec->linked_count > 0 && !cla_opencl_is_of_device(code)) return CLATTN_BUILD_FAILED;
    if (!built) return refuse_kernel(c, spec, UNFIT_SOURCE, code);
    if (code == CL_SUCCESS) {
        *result = built;
        return CLATTN_OK;
    }
    return refuse_source(c, spec, built, code, options);
}

// True if the compiler accepts the option. Tested with an empty kernel, so that a rejection is not
// logged as a kernel's failure.
static bool takes_large(clattn_context *c) {
    static const char text[] = "__kernel void nothing(__global int *x) { x[0] = 0; }";
    const char *const texts[] = {text};
    if (atomic_load(&c->large_refused)) return false;
    cl_program built = clCreateProgramWithSource(c->opencl, 1, (const char **)texts, NULL, NULL);
    if (!built) return false;
    const cl_int code = cla_binary_build(c, built, PROGRAM_OPTIONS LARGE_OPTION);
    clReleaseProgram(built);
    if (code != CL_SUCCESS) atomic_store(&c->large_refused, true);
    return code == CL_SUCCESS;
}

// Query the compiled kernel's largest work-group, and its local and private memory.
static clattn_status ask_compiled(clattn_context *c, program *p, cl_kernel kernel) {
    cl_int code = clGetKernelWorkGroupInfo(kernel, c->device, CL_KERNEL_WORK_GROUP_SIZE,
                                           sizeof p->group_limit, &p->group_limit, NULL);
    if (code == CL_SUCCESS)
        code = clGetKernelWorkGroupInfo(kernel, c->device, CL_KERNEL_PRIVATE_MEM_SIZE,
                                        sizeof p->private_bytes, &p->private_bytes, NULL);
    if (code == CL_SUCCESS)
        code = clGetKernelWorkGroupInfo(kernel, c->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof p->local_bytes,
                                        &p->local_bytes, NULL);
    return code == CL_SUCCESS ? CLATTN_OK : refuse_kernel(c, &p->spec, UNFIT_INFO, code);
}

// Create the first kernel object. If a cached binary lacks the kernel, build from source.
static clattn_status make_kernel(clattn_context *c, program *p, bool *cached, cl_kernel *kernel) {
    const char *name = clattn_kernel_sources[p->spec.id].name;
    cl_int code = CL_SUCCESS;
    *kernel = clCreateKernel(p->program, name, &code);
    if (!*kernel && *cached && !cla_opencl_is_of_device(code)) {
        clReleaseProgram(p->program);
        p->program = NULL, *cached = false;
        TRY(build_source(c, &p->spec, p->options, &p->program));
        *kernel = clCreateKernel(p->program, name, &code);
    }
    return *kernel ? CLATTN_OK : refuse_kernel(c, &p->spec, UNFIT_CREATE, code);
}

const char *cla_program_device_options(const clattn_context *c) {
    const clattn_capabilities *of = &c->capabilities;
    return of->is_cpu && !(of->assembly & CLATTN_ASSEMBLY_X86) ? " -DNO_ASSEMBLY" : "";
}

static bool print_options(clattn_context *c, const program_spec *spec, unsigned broken, char *text,
                          size_t bytes) {
    const int used =
        snprintf(text, bytes, "%s%s%s%s -w ", spec->options ? spec->options : PROGRAM_OPTIONS,
                 spec->large && takes_large(c) ? LARGE_OPTION : "", cla_program_device_options(c),
                 broken & PROMISE_HALVES && cla_promises_matter(&spec->knobs) ? PROMISE_HALVES_OPTION : "");
    return used >= 0 && (size_t)used < bytes &&
           cla_knobs_print(&spec->knobs, text + used, bytes - (size_t)used);
}

// Earlier processes ended during this build. Report it like a compile error, so that other kernels
// replace this one.
static clattn_status refuse_fatal(clattn_context *c, const program_spec *spec) {
    static const char log[] = "error: earlier processes ended while the driver compiled this kernel";
    char text[200];
    snprintf(text, sizeof text,
             "kernel %s: earlier processes ended while the driver compiled it; it is not tried again",
             clattn_kernel_sources[spec->id].name);
    const unfit_failure failure = {
        .spec = spec, .step = UNFIT_BUILD, .code = CL_BUILD_PROGRAM_FAILURE, .log = log, .text = text};
    return spec->linked_count > 0 ? CLATTN_BUILD_FAILED : cla_unfit_failed(c, &failure);
}

// Build from source, under a cache mark (base/cache.h), because the driver may end the process.
static clattn_status build_marked(clattn_context *c, program *p, cl_kernel *kernel) {
    cache_mark mark;
    bool cached = false;
    const int weight = c->surveys ? CACHE_DANGEROUS : CACHE_PLAIN;
    if (!cla_cache_begin(c->cache, p->key, weight, c->tries_again, &mark)) return refuse_fatal(c, &p->spec);
    clattn_status status = build_source(c, &p->spec, p->options, &p->program);
    if (status == CLATTN_OK) status = make_kernel(c, p, &cached, kernel);
    cla_cache_end(c->cache, &mark);
    return status;
}

// Builds longer than this are logged while they run. Rusticl's and NVIDIA's compilers have needed
// minutes for some kernels.
#define LONG_SECONDS 10

typedef struct long_build {
    const clattn_context *context;
    const char *name, *options;
} long_build;

static void tell_of_long(void *user) {
    const long_build *b = user;
    cla_log_send(&b->context->log, CLATTN_LOG_INFO,
                 "kernel %s: the driver's compiler has worked for %d seconds, and goes on: %s", b->name,
                 LONG_SECONDS, b->options);
}

static os_watch *watch_build(const clattn_context *c, long_build *b) {
    if (!c->log.fn || c->log.level < CLATTN_LOG_INFO) return NULL;
    return cla_os_watch_begin(&c->host, LONG_SECONDS, tell_of_long, b);
}

// A driver may compile in clBuildProgram, of a binary too, or in clCreateKernel.
static clattn_status load_or_build(clattn_context *c, program *p, bool *cached, cl_kernel *kernel) {
    long_build about = {c, clattn_kernel_sources[p->spec.id].name, p->options};
    os_watch *watch = watch_build(c, &about);
    p->program = load_binary(c, p->key, p->options);
    *cached = p->program != NULL;
    const clattn_status status = *cached ? make_kernel(c, p, cached, kernel) : build_marked(c, p, kernel);
    cla_os_watch_end(watch);
    return status;
}

static clattn_status build(clattn_context *c, program *p, bool *cached, uint64_t *time_ns) {
    char options[PROGRAM_MOST_OPTIONS];
    const char *name = clattn_kernel_sources[p->spec.id].name;
    const unsigned broken =
        !c->capabilities.is_cpu || cla_promises_matter(&p->spec.knobs) ? cla_promises_broken(c) : 0;
    bool copied = true;
    if (broken & PROMISE_STRUCTS)
        return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                "kernel %s: the driver passes structs of 528 bytes to kernels wrong", name);
    if (!print_options(c, &p->spec, broken, options, sizeof options))
        return cla_context_fail(c, CLATTN_BUILD_FAILED, "kernel %s: its options do not fit", name);
    p->options = cla_text_copy(&c->host, options, &copied);
    if (!copied) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "kernel %s: no host memory", name);
    cache_key(c, &p->spec, options, p->key);
    const uint64_t start = cla_os_time_ns();
    cl_kernel kernel;
    TRY(load_or_build(c, p, cached, &kernel));
    cla_program_give_kernel(p, kernel);
    TRY(ask_compiled(c, p, kernel));
    *time_ns = p->build_ns = cla_os_time_ns() - start;
    cla_log_send(&c->log, CLATTN_LOG_INFO, "kernel %s %s in %.1f ms: %s", name, *cached ? "loaded" : "built",
                 (double)*time_ns / 1e6, options);
    return CLATTN_OK;
}

static void program_release(const clattn_context *c, program *p) {
    while (p->idle_count > 0) clReleaseKernel(p->idle[--p->idle_count]);
    if (p->program) clReleaseProgram(p->program);
    cla_os_mutex_destroy(&p->lock);
    cla_host_release(&c->host, p->options);
    cla_host_release(&c->host, (char *)p->spec.options);
    cla_host_release(&c->host, (char *)p->spec.inserted);
    cla_host_release(&c->host, p);
}

static program *program_create(const clattn_context *c, const program_spec *spec) {
    program *p = cla_host_take_zeroed(&c->host, 1, sizeof *p);
    bool ok = true;
    if (!p || !cla_os_mutex_init(&p->lock)) {
        cla_host_release(&c->host, p);
        return NULL;
    }
    p->spec = *spec;
    p->spec.options = cla_text_copy(&c->host, spec->options, &ok);
    p->spec.inserted = cla_text_copy(&c->host, spec->inserted, &ok);
    if (ok) return p;
    program_release(c, p);
    return NULL;
}

// The caller holds program_lock.
static void take_off_list(clattn_context *c, const program *gone) {
    program **at = &c->programs;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
}

// Build the program that this thread has just added to the list. Other threads wait only if they
// need the same program. `status`: a failure before its build.
static clattn_status build_listed(clattn_context *c, program *p, clattn_status status, bool *passed) {
    bool cached = false;
    uint64_t time_ns = 0;
    if (status == CLATTN_OK) status = build(c, p, &cached, &time_ns);
    p->spec.linked = NULL;
    cla_os_mutex_lock(&c->program_lock);
    p->building = false;
    p->unsaved = status == CLATTN_OK && !cached;
    if (status == CLATTN_OK) {
        c->stats.build_time_ns += time_ns;
        c->stats.programs_cached += cached;
        c->stats.programs_built += !cached;
    } else {
        take_off_list(c, p);
    }
    *passed = cla_behind_over(c, p, status);
    cla_os_condition_wake_all(&c->program_built);
    cla_os_mutex_unlock(&c->program_lock);
    if (status != CLATTN_OK) program_release(c, p);
    return status;
}

// Build the program that this thread has just listed, or start its build behind the call.
static clattn_status build_new(clattn_context *c, program *p, const program_spec *spec, bool waited) {
    bool passed;
    clattn_status status = cla_unfit_check(c, spec, waited);
    if (status == CLATTN_OK && cla_behind_applies(c, spec) &&
        cla_behind_build(c, p, spec, build_listed, &status))
        return status;
    return build_listed(c, p, status, &passed);
}

// The first thread builds, without holding the lock. If that fails, a waiting thread tries its own
// build, which may find the missing memory or file, and then reports its own reason. A kernel that
// the driver rejected is not tried again.
clattn_status cla_program_get_spec(clattn_context *context, const program_spec *asked, program **result) {
    program_spec own = *asked;
    const program_spec *const spec = &own;
    own.large = atomic_load(&context->large_buffers) && !atomic_load(&context->large_refused);
    *result = NULL;
    cla_os_mutex_lock(&context->program_lock);
    clattn_status status = CLATTN_OK;
    program *p = cla_program_find(context, spec);
    const bool waited = p && p->building;
    while (status == CLATTN_OK && p && p->building) {
        status = cla_behind_wait(context, spec);
        p = cla_program_find(context, spec);
    }
    program *mine = p || status != CLATTN_OK ? NULL : program_create(context, spec);
    if (mine) {
        mine->building = true;
        mine->next = context->programs;
        context->programs = mine;
    }
    cla_os_mutex_unlock(&context->program_lock);
    TRY(status);
    if (!p && !mine)
        return cla_context_fail(context, CLATTN_OUT_OF_MEMORY, "kernel %s: no host memory",
                                clattn_kernel_sources[spec->id].name);
    if (mine) TRY(build_new(context, mine, spec, waited));
    *result = p ? p : mine;
    return CLATTN_OK;
}

clattn_status cla_program_get(clattn_context *context, enum kernel_id id, const knobs *k, program **result) {
    const program_spec spec = {.id = id, .knobs = *k};
    return cla_program_get_spec(context, &spec, result);
}

clattn_status cla_program_get_group(clattn_context *context, enum kernel_id id, knobs *k, int most,
                                    program **result) {
    const clattn_capabilities *of = &context->capabilities;
    const uint64_t allowed =
        of->max_work_item[0] < of->max_work_group ? of->max_work_item[0] : of->max_work_group;
    k->work_group = 1;
    while (!of->is_cpu && k->work_group * 2 <= most && (uint64_t)k->work_group * 2 <= allowed)
        k->work_group *= 2;
    TRY(cla_program_get(context, id, k, result));
    while (k->work_group > 1 && (size_t)k->work_group > cla_program_group(context, *result)) {
        k->work_group /= 2;
        TRY(cla_program_get(context, id, k, result));
    }
    return CLATTN_OK;
}

size_t cla_program_group(const clattn_context *context, const program *p) {
    const uint32_t shown = cla_unfit_group(context, p->spec.id);
    return shown && shown < p->group_limit ? shown : p->group_limit;
}

cl_int cla_program_object(program *p, cl_kernel *kernel) {
    cl_int code = CL_SUCCESS;
    cla_os_mutex_lock(&p->lock);
    *kernel = p->idle_count > 0 ? p->idle[--p->idle_count] : NULL;
    cla_os_mutex_unlock(&p->lock);
    if (!*kernel) *kernel = clCreateKernel(p->program, clattn_kernel_sources[p->spec.id].name, &code);
    return *kernel ? CL_SUCCESS : code != CL_SUCCESS ? code : CL_INVALID_KERNEL;
}

clattn_status cla_program_take_kernel(clattn_context *context, program *p, cl_kernel *kernel) {
    const cl_int code = cla_program_object(p, kernel);
    return code == CL_SUCCESS ? CLATTN_OK : cla_context_fail_opencl(context, code, "clCreateKernel");
}

void cla_program_give_kernel(program *p, cl_kernel kernel) {
    cla_os_mutex_lock(&p->lock);
    const bool kept = p->idle_count < PROGRAM_MOST_IDLE;
    if (kept) p->idle[p->idle_count++] = kernel;
    cla_os_mutex_unlock(&p->lock);
    if (!kept) clReleaseKernel(kernel);
}

// Find a built program that is not in the cache yet. Its `unsaved` is cleared, so the caller must
// store it.
static program *take_unsaved(clattn_context *c) {
    cla_os_mutex_lock(&c->program_lock);
    program *p = c->programs;
    while (p && !p->unsaved) p = p->next;
    if (p) p->unsaved = false;
    cla_os_mutex_unlock(&c->program_lock);
    return p;
}

unsigned cla_mods_begin(clattn_context *c) {
    for (;;) {
        const unsigned epoch = atomic_load(&c->mods_epoch);
        atomic_fetch_add(&c->mods_calls[epoch & 1u], 1);
        if (atomic_load(&c->mods_epoch) == epoch) return epoch;
        atomic_fetch_sub(&c->mods_calls[epoch & 1u], 1);
    }
}

void cla_mods_end(clattn_context *c, unsigned epoch) {
    atomic_fetch_sub(&c->mods_calls[epoch & 1u], 1);
}

// No lock is held while binaries are read and written. cla_mods_begin keeps the programs alive
// until cla_mods_end.
void clattn_context_save_kernels(clattn_context *context) {
    if (!context) return;
    const unsigned begun = cla_mods_begin(context);
    for (program *p = take_unsaved(context); p; p = take_unsaved(context)) store(context, p->program, p->key);
    cla_mods_end(context, begun);
}

bool cla_programs_take(clattn_context *context, const char *inserted, program **taken) {
    for (const program *p = context->programs; p; p = p->next)
        if (p->building && cla_text_equal(p->spec.inserted, inserted)) return false;
    for (program **at = &context->programs; *at;) {
        program *p = *at;
        if (cla_text_equal(p->spec.inserted, inserted)) {
            *at = p->next;
            p->next = *taken;
            *taken = p;
        } else {
            at = &p->next;
        }
    }
    return true;
}

void cla_programs_release_taken(clattn_context *context, program *taken) {
    while (taken) {
        program *p = taken;
        taken = p->next;
        if (p->unsaved) store(context, p->program, p->key);
        cla_pace_forget(context, &p->rate);
        program_release(context, p);
    }
}

void cla_programs_release(clattn_context *context) {
    while (context->programs) {
        program *p = context->programs;
        context->programs = p->next;
        program_release(context, p);
    }
}
