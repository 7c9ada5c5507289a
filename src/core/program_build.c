// program_build.c: a program_spec becomes a kernel, through the driver's compiler or the cache of binaries.
// The key of an entry is everything that could change the binary: source, inserted text, options, device, driver,
// platform and library version. What the cache returns was checked by digest; a binary that the driver then refuses is
// rebuilt. No lock is held here: the driver may take seconds.
#include "core/program_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sha256.h"

#define MAX_OPTIONS 1024

// Intel's GPUs make larger buffers than they say where the caller asks for it (CL_MEM_ALLOW_UNRESTRICTED_SIZE_INTEL), and their
// compiler counts what lies in a buffer in 32 bits without this option. No extension tells of it: other compilers refuse it,
// or take it for nothing.
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
    add_text(&h, c->capabilities.name);
    add_text(&h, c->capabilities.vendor);
    add_text(&h, c->capabilities.driver);
    add_text(&h, c->capabilities.version);
    add_text(&h, c->capabilities.platform);
    add_text(&h, CLATTN_VERSION_STRING);
    cla_sha256_end(&h, key);
}

// Sends the build log, which may be long, whole.
static void send_build_log(clattn_context *c, cl_program built) {
    size_t bytes = 0;
    if (!c->log.fn ||
        clGetProgramBuildInfo(built, c->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS ||
        bytes < 2)
        return;
    char *text = calloc(bytes + 1, 1);
    if (!text) return;
    if (clGetProgramBuildInfo(built, c->device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL) == CL_SUCCESS)
        c->log.fn(c->log.user, CLATTN_LOG_ERROR, text);
    free(text);
}

// The program from the cache, built; NULL on any miss.
static cl_program load_binary(clattn_context *c, const uint8_t key[32], const char *options) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    if (!cla_cache_load(c->cache, key, &bytes, &count)) return NULL;
    cl_int each = CL_SUCCESS, code = CL_SUCCESS;
    const unsigned char *binary = bytes;
    cl_program built = clCreateProgramWithBinary(c->opencl, 1, &c->device, &count, &binary, &each, &code);
    free(bytes);
    if (built && code == CL_SUCCESS && each == CL_SUCCESS &&
        clBuildProgram(built, 1, &c->device, options, NULL, NULL) == CL_SUCCESS)
        return built;
    if (built) clReleaseProgram(built);
    return NULL;
}

// Keep the binary of this context's device; a program may hold one for each device of the caller's context.
void cla_program_store(clattn_context *c, cl_program built, const uint8_t key[32]) {
    cl_uint devices = 0;
    if (!c->cache ||
        clGetProgramInfo(built, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL) != CL_SUCCESS ||
        !devices)
        return;
    cl_device_id *ids = calloc(devices, sizeof *ids);
    size_t *sizes = calloc(devices, sizeof *sizes);
    unsigned char **binaries = calloc(devices, sizeof *binaries);
    cl_uint mine = devices;
    if (ids && sizes && binaries &&
        clGetProgramInfo(built, CL_PROGRAM_DEVICES, devices * sizeof *ids, ids, NULL) == CL_SUCCESS &&
        clGetProgramInfo(built, CL_PROGRAM_BINARY_SIZES, devices * sizeof *sizes, sizes, NULL) == CL_SUCCESS)
        for (cl_uint i = 0; i < devices; i++)
            if (ids[i] == c->device) mine = i;
    // A NULL entry asks for no binary of that device.
    if (mine < devices && sizes[mine] && (binaries[mine] = malloc(sizes[mine])) &&
        clGetProgramInfo(built, CL_PROGRAM_BINARIES, devices * sizeof *binaries, binaries, NULL) ==
            CL_SUCCESS)
        cla_cache_store(c->cache, key, binaries[mine], sizes[mine]);
    if (binaries && mine < devices) free(binaries[mine]);
    free(binaries);
    free(sizes);
    free(ids);
}

static clattn_status refuse_build(clattn_context *c, const program_spec *spec, const char *options,
                                  cl_program built, cl_int code) {
    send_build_log(c, built);
    if (cla_opencl_is_of_device(code)) return cla_context_fail_opencl(c, code, "clBuildProgram");
    return cla_context_fail(
        c, CLATTN_BUILD_FAILED,
        "kernel %s: the driver's compiler refused it: OpenCL error %d (%s), options %s; its log went "
        "to the log callback",
        clattn_kernel_sources[spec->id].name, (int)code, cla_opencl_error_name(code), options);
}

static clattn_status build_source(clattn_context *c, const program_spec *spec, const char *options,
                                  cl_program *result) {
    const struct kernel_source *source = &clattn_kernel_sources[spec->id];
    const char *texts[] = {spec->inserted ? spec->inserted : "", (const char *)source->text};
    const size_t sizes[] = {strlen(texts[0]), source->bytes};
    const int first = spec->inserted ? 0 : 1;
    cl_int code = CL_SUCCESS;
    cl_program built =
        clCreateProgramWithSource(c->opencl, (cl_uint)(2 - first), texts + first, sizes + first, &code);
    if (!built) return cla_context_fail_opencl(c, code, "clCreateProgramWithSource");
    code = clBuildProgram(built, 1, &c->device, options, NULL, NULL);
    if (code == CL_SUCCESS) {
        *result = built;
        return CLATTN_OK;
    }
    const clattn_status status = refuse_build(c, spec, options, built, code);
    clReleaseProgram(built);
    return status;
}

// Whether the compiler takes the option: asked with a kernel of nothing, so that no refusal of a real one is told.
static bool takes_large(clattn_context *c) {
    static const char text[] = "__kernel void nothing(__global int *x) { x[0] = 0; }";
    const char *const texts[] = {text};
    if (atomic_load(&c->large_refused)) return false;
    cl_program built = clCreateProgramWithSource(c->opencl, 1, (const char **)texts, NULL, NULL);
    if (!built) return false;
    const cl_int code = clBuildProgram(built, 1, &c->device, PROGRAM_OPTIONS LARGE_OPTION, NULL, NULL);
    clReleaseProgram(built);
    if (code != CL_SUCCESS) atomic_store(&c->large_refused, true);
    return code == CL_SUCCESS;
}

clattn_status cla_program_build(clattn_context *c, program *p, bool *cached, uint64_t *time_ns) {
    char options[MAX_OPTIONS];
    const char *name = clattn_kernel_sources[p->spec.id].name;
    const int used =
        snprintf(options, sizeof options, "%s%s -w ", p->spec.options ? p->spec.options : PROGRAM_OPTIONS,
                 p->spec.large && takes_large(c) ? LARGE_OPTION : "");
    if (used < 0 || (size_t)used >= sizeof options ||
        !cla_knobs_print(&p->spec.knobs, options + used, sizeof options - (size_t)used))
        return cla_context_fail(c, CLATTN_BUILD_FAILED, "kernel %s: its options do not fit", name);
    cache_key(c, &p->spec, options, p->key);
    const uint64_t start = cla_os_time_ns();
    p->program = load_binary(c, p->key, options);
    *cached = p->program != NULL;
    if (!*cached) TRY(build_source(c, &p->spec, options, &p->program));
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(p->program, name, &code);
    if (!kernel) return cla_context_fail_opencl(c, code, "clCreateKernel");
    cla_program_give_kernel(p, kernel);
    code = clGetKernelWorkGroupInfo(kernel, c->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof p->group_limit,
                                    &p->group_limit, NULL);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c, code, "clGetKernelWorkGroupInfo");
    *time_ns = cla_os_time_ns() - start;
    cla_log_send(&c->log, CLATTN_LOG_INFO, "kernel %s %s in %.1f ms: %s", name, *cached ? "loaded" : "built",
                 (double)*time_ns / 1e6, options);
    return CLATTN_OK;
}
